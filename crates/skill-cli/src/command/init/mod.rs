//! `skillrl init`: a configuration to start from, by answers where a person can be asked.

mod exec;
mod interview;
mod local;
mod questions;

use crate::args::InitArgs;
use crate::data_start::PLANNED;
use questions::Questions;
use skillrl::config::EnvKind;
use std::io::{BufRead, IsTerminal as _, Write};
use std::path::Path;

/// What a file of few settings says of the others.
const HEAD: &str = "The configuration of a skillrl run.\nEvery other setting: `skillrl config show`, `skillrl init --full other.toml`.";

pub(crate) fn run(args: &InitArgs) -> crate::Result {
    if let Some(dir) = &args.demo {
        crate::files::write_demo(dir, args.world(), args.force)?;
        let config = dir.join(skillrl::demo::CONFIG_FILE);
        return super::print(&format!(
            "wrote the demo to {}\nnext: skillrl train {}\n",
            dir.display(),
            config.display()
        ));
    }
    let parent = args.path.parent().unwrap_or(Path::new(""));
    let Some(name) = args.path.file_name().and_then(|name| name.to_str()) else {
        let message = format!("{} is not the path of a file", args.path.display());
        return Err(super::CommandError::new(message).into());
    };
    if args.kind.is_none()
        && args.local.is_none()
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
    {
        let mut questions = Questions { input: std::io::stdin().lock(), output: anstream::stdout() };
        return interviewed(&mut questions, args, parent, name);
    }
    let mut settings = match args.kind.as_deref() {
        None | Some("qa") => Vec::new(),
        Some(kind) => vec![format!("env.kind={kind}")],
    };
    let is_program = args.kind.as_deref().and_then(EnvKind::parse) == Some(EnvKind::Exec);
    if is_program {
        settings.push(exec::PROGRAM_SETTING.to_owned());
        settings.extend(exec::AROUND.map(str::to_owned));
    }
    settings.push(PLANNED.to_owned());
    if let Some(model) = &args.local {
        settings.extend(local::settings(model, parent)?);
    }
    let text = text(&settings, args.full)?;
    super::write_files(parent, [(name, text.as_str())], args.force)?;
    let path = args.path.display();
    if is_program {
        let written = exec::write(parent)?;
        return super::print(&format!(
            "wrote {path}{written}\nnext: put your agent and its tasks into env.py, then: skillrl doctor {path}\n"
        ));
    }
    super::print(&match &args.local {
        Some(_) => format!("wrote {path}\nnext: say in it where your data is, then: skillrl doctor {path}\n"),
        None if args.kind.as_deref().and_then(EnvKind::parse).is_some_and(EnvKind::is_built_in_world) => {
            format!("wrote {path}\nnext: skillrl doctor {path}\n")
        }
        None => format!(
            "wrote {path}\nnext: say in it where your data is and which models to use, then: skillrl doctor {path}\n"
        ),
    })
}

/// The file: these settings and those that have no default, or every setting.
fn text(settings: &[String], is_full: bool) -> crate::Result<String> {
    let text = match is_full {
        true => skillrl::config::default_file(settings),
        false => skillrl::config::short_file(&whole(settings), HEAD),
    };
    Ok(text?)
}

/// The settings, with an example of each that has no default.
fn whole(settings: &[String]) -> Vec<String> {
    let sets = |start: &str| settings.iter().any(|setting| setting.starts_with(start));
    let kind = settings.iter().rev().find_map(|setting| setting.strip_prefix("env.kind=")).unwrap_or("qa");
    let kind = EnvKind::parse(kind.trim_matches('"')).unwrap_or(EnvKind::Qa);
    let mut all = Vec::new();
    let mut add = |start: &str, examples: &[&str]| {
        if !sets(start) {
            all.extend(examples.iter().map(|example| (*example).to_owned()));
        }
    };
    add("run.dir=", &["run.dir=runs/my-task"]);
    for role in ["target", "optimizer"] {
        let [provider, model] =
            [format!("models.{role}.provider=openai"), format!("models.{role}.model=gpt-5-mini")];
        add(&format!("models.{role}."), &[&provider, &model]);
    }
    add("env.kind=", &["env.kind=qa"]);
    match kind {
        EnvKind::Qa | EnvKind::Tasks | EnvKind::Spreadsheet => add("env.data=", &["env.data=data"]),
        EnvKind::Exec => add("env.program=", &["env.program=[\"python3\", \"env.py\"]"]),
        EnvKind::Evals => add("env.cases=", &["env.cases=my-skill/evals/evals.json"]),
        EnvKind::Alfworld | EnvKind::Webshop | EnvKind::SearchAgent => {}
    }
    all.into_iter().chain(settings.iter().cloned()).collect()
}

/// Asks, shows what was chosen, and writes the file if that is wanted.
fn interviewed<R: BufRead, W: Write>(
    questions: &mut Questions<R, W>,
    args: &InitArgs,
    parent: &Path,
    name: &str,
) -> crate::Result {
    // Before anybody has answered anything in vain.
    super::check_absent(&args.path, args.force)?;
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut settings = interview::ask(questions, parent, &is_set)?;
    let is_example = settings.iter().any(|setting| setting == exec::PROGRAM_SETTING);
    if is_example {
        settings.extend(exec::AROUND.map(str::to_owned));
    }
    settings.push(PLANNED.to_owned());
    let text = text(&settings, args.full)?;
    let path = args.path.display();
    questions.say(&format!("\n{path} will say, beside the defaults and what each setting means:\n"))?;
    for setting in &settings {
        questions.say(&format!("  {}", setting.replacen('=', " = ", 1)))?;
    }
    if !questions.agrees("\nWrite it?")? {
        return questions.say("nothing was written");
    }
    super::write_files(parent, [(name, text.as_str())], args.force)?;
    let written = if is_example { exec::write(parent)? } else { String::new() };
    questions.say(&format!("wrote {path}{written}\nnext: skillrl doctor {path}"))
}
