//! `skillrl help`: every command, or one.

use super::CommandError;
use crate::args::{HelpArgs, Shown, all_commands, grouped, renamed, subcommand};

pub(crate) fn run(args: &HelpArgs) -> crate::Result {
    match args.words.as_slice() {
        [] => super::print(&grouped(Shown::BuiltIn).render_long_help().ansi().to_string()),
        [all] if all == "all" => super::print_wrapped(&all_commands()),
        words => {
            let found = subcommand(words).map_err(|word| {
                let error = CommandError::new(format!("`{word}` is not a command"));
                match renamed(&word) {
                    Some(today) => error.with_hint(format!("it is `{today}`")),
                    None => error.with_hint("`skillrl help all` lists them"),
                }
            });
            super::print(&found?.render_long_help().ansi().to_string())
        }
    }
}
