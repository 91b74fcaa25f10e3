//! The pages of the documentation that are made from the program: every command, every key, every variable, the
//! schema, tables within other pages, and a picture.

mod picture;
mod tables;

use crate::args::{Shown, grouped};
use clap::Command;
use skillrl::config::reference::{json_schema, pages::pages};
use std::fmt::Write as _;
use std::path::Path;

/// The width of the commands' help on the page.
const WIDTH: usize = 100;

/// The options of every command, by their names in the program.
const GLOBAL: [&str; 4] = ["verbose", "log_format", "help", "version"];

/// Writes the schema into a directory, and the pages into the directory `reference` there; what is there is replaced.
/// So are the tables in the pages that are there.
pub(crate) fn write(dir: &Path) -> crate::Result {
    let schema = schema_text();
    super::write_files(dir, [("skillrl.schema.json", schema.as_str())], true)?;
    let (cli, environment) = (commands(), skillrl::env_vars::markdown());
    let configuration = pages();
    let files = [("cli.md", cli.as_str()), ("environment-variables.md", environment.as_str())]
        .into_iter()
        .chain(configuration.iter().map(|page| (page.path.as_str(), page.text.as_str())));
    super::write_files(&dir.join("reference"), files, true)?;
    super::write_with_parents(&dir.join(picture::PATH), picture::svg()?.as_bytes())?;
    for table in tables::tables() {
        let path = dir.join(table.page);
        // Elsewhere than in the repository there are no pages written by hand.
        let Ok(page) = std::fs::read_to_string(&path) else { continue };
        super::write_files(dir, [(table.page, table.put(&page)?.as_str())], true)?;
    }
    Ok(())
}

/// Prints the JSON schema of the configuration.
pub(crate) fn schema() -> crate::Result {
    super::print(&schema_text())
}

fn schema_text() -> String {
    super::pretty_json(&json_schema()) + "\n"
}

/// The help of every command as a page of Markdown.
fn commands() -> String {
    let mut text = String::from(
        "# Commands\n\n\
         This page is made from the program's own help by `cargo xtask gen`.\n\
         `skillrl man DIR` writes it as man pages, `skillrl completions SHELL` writes completions.\n\n\
         The options of `skillrl` itself, `--verbose`, `--log-format` and `--help`, are options of every command, and \
         are shown once.\n",
    );
    // The page is the same for every build: what this one leaves out is shown too.
    let shown = |init: Command| init.mut_arg("local", |arg| arg.hide(false));
    let mut root = grouped(Shown::Everywhere).mut_subcommand("init", shown).term_width(WIDTH);
    root.build();
    append(&mut text, &mut root, &[]);
    text
}

fn append(text: &mut String, command: &mut Command, parents: &[String]) {
    let name = [parents, &[command.get_name().to_owned()]].concat();
    let _ = write!(text, "\n## `{}`\n\n```text\n", name.join(" "));
    let mut shown = command.clone();
    if !parents.is_empty() {
        shown = shown.mut_args(|arg| {
            let is_global = GLOBAL.contains(&arg.get_id().as_str());
            if is_global { arg.hide(true) } else { arg }
        });
    }
    for line in shown.render_long_help().to_string().lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str("```\n");
    // Other names of a command work, and are found here by those who type them.
    let is_shown = |child: &&mut Command| !["help", "reference"].contains(&child.get_name());
    for child in command.get_subcommands_mut().filter(is_shown) {
        append(text, child, &name);
    }
}
