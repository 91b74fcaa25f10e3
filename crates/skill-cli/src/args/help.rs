//! Help: the commands in groups, those that have another name today, and the help of one command.

use super::Cli;
use crate::exit_code;
use clap::{Args, Command, CommandFactory as _};
use std::fmt::Write as _;

const LOG_VARIABLE: &str = "Environment: SKILLRL_LOG is a filter for the log, such as skill_llm=debug.";

/// The codes of [`exit_code::TABLE`], for people.
fn exit_codes() -> String {
    let rows = exit_code::TABLE.map(|(code, meaning)| format!("  {code:<4} {meaning}\n"));
    format!("Exit codes:\n{}\n{LOG_VARIABLE}", rows.concat())
}

/// The groups of `skillrl --help`; `-h` shows the first [`SHORT_GROUPS`] of them.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start", &["train", "demo", "init", "doctor", "try"]),
    ("Inspect", &["status", "show", "watch", "serve", "report", "diff", "blame", "compare"]),
    ("Evaluate and release", &["eval", "prune", "lint", "export", "skill"]),
    ("Control", &["stop", "note", "replay", "check"]),
    ("Banks", &["bank"]),
    ("Weights", &["sft", "rl"]),
    ("Environments", &["env"]),
];
const SHORT_GROUPS: usize = 3;
/// A longer sentence does not fit beside its command.
const MAX_SENTENCE: usize = 64;

/// What `skillrl help all` shows besides.
const MORE: [(&str, &[&str]); 2] = [
    ("More", &["import", "mcp", "worker", "config", "journal", "train-server", "completions", "man"]),
    ("Also as a command of their own", &["estimate", "collect", "distill", "inspect"]),
];

/// Names that commands had, or have elsewhere, and what to type instead.
const RENAMED: [(&str, &str); 10] = [
    ("noise", "skillrl doctor --measure"),
    ("transfer", "skillrl eval RUN --targets"),
    ("prompts", "skillrl config prompts DIR"),
    ("verify", "skillrl check"),
    ("run", "skillrl train"),
    ("optimize", "skillrl train"),
    ("compile", "skillrl train"),
    ("view", "skillrl serve"),
    ("ui", "skillrl serve"),
    ("evaluate", "skillrl eval"),
];

/// Commands that take data in the place of a configuration.
const OF_DATA: [&str; 4] = ["train", "doctor", "eval", "estimate"];

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// `all`, or the words of a command.
    #[arg(value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

/// What to type instead of a command that is not there.
pub(crate) fn renamed(name: &str) -> Option<&'static str> {
    RENAMED.into_iter().find_map(|(old, new)| (old == name).then_some(new))
}

/// Which commands help has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Those that are built in.
    BuiltIn,
    /// Those of every build, for pages that are the same for all of them.
    Everywhere,
}

/// The command line with the commands in groups.
pub(crate) fn grouped(shown: Shown) -> Command {
    let root = naming_data(Cli::command());
    let more = "More commands: `skillrl help all`. Exit codes: `skillrl --help`.";
    let short = format!("{}\n{more}", described(&root, &GROUPS, SHORT_GROUPS, shown));
    let long = format!(
        "{}\nEvery command: `skillrl help all`; one: `skillrl help COMMAND`.\n\n{}",
        described(&root, &GROUPS, GROUPS.len(), shown),
        exit_codes()
    );
    let template = "{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}\n";
    root.help_template(template).after_help(short).after_long_help(long)
}

/// The first argument of commands that take data says so.
fn naming_data(root: Command) -> Command {
    let named = |command: Command| {
        command.mut_arg("config_file", |arg| {
            arg.value_name("DATA|CONFIG|RUN").help(
                "A data file, a configuration file, or a run; without it and without `--env`, skillrl.toml",
            )
        })
    };
    // In their order, which `mut_subcommand` would change.
    root.mut_subcommands(|command| match command.get_name() {
        name if OF_DATA.contains(&name) => named(command),
        "env" => command.mut_subcommands(|of_env| match of_env.get_name() {
            "check" => named(of_env),
            _ => of_env,
        }),
        _ => command,
    })
}

/// Every command with its sentence, in groups.
pub(crate) fn all_commands() -> String {
    let root = Cli::command();
    let all: Vec<(&str, &[&str])> = GROUPS.into_iter().chain(MORE).collect();
    format!(
        "{}\n`skillrl help COMMAND` shows the help of one.\n",
        described(&root, &all, all.len(), Shown::BuiltIn)
    )
}

/// The command of these words, as `bank show`; the word that is none otherwise.
pub(crate) fn subcommand(words: &[String]) -> Result<Command, String> {
    let mut root = grouped(Shown::BuiltIn);
    root.build();
    words
        .iter()
        .try_fold(root, |command, word| command.find_subcommand(word).cloned().ok_or_else(|| word.clone()))
}

fn described(root: &Command, groups: &[(&str, &[&str])], n_groups: usize, which: Shown) -> String {
    let mut text = String::new();
    for (title, names) in groups.iter().take(n_groups) {
        let is_more = !GROUPS.iter().any(|(shown, _)| shown == title);
        let shown: Vec<&Command> = names
            .iter()
            .filter_map(|name| root.find_subcommand(name))
            .filter(|command| is_more || which == Shown::Everywhere || !command.is_hide_set())
            .collect();
        if shown.is_empty() {
            continue;
        }
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{title}:");
        for command in shown {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<12} {}", command.get_name(), in_one_line(&about));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// A sentence, or where it is too long for a line its beginning.
fn in_one_line(about: &str) -> &str {
    if about.chars().count() <= MAX_SENTENCE {
        return about;
    }
    let before = |signs: &[char]| about.split_once(signs).map(|(beginning, _)| beginning);
    let whole = before(&[':', ';']).filter(|beginning| beginning.chars().count() <= MAX_SENTENCE);
    whole.or_else(|| before(&[':', ',', ';'])).unwrap_or(about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_not_hidden_is_in_one_group_and_there_are_few() {
        let root = Cli::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let more: Vec<&str> = MORE.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
        for command in shown {
            let name = command.get_name();
            let places = grouped.iter().chain(&more).filter(|other| **other == name).count();
            assert_eq!(places, 1, "{name}");
        }
        let n_visible = grouped
            .iter()
            .filter(|name| root.find_subcommand(name).is_some_and(|command| !command.is_hide_set()))
            .count();
        assert!(n_visible <= 26, "{n_visible}");
        for (old, new) in RENAMED {
            assert!(root.find_subcommand(old).is_none(), "{old}");
            let word = new.split(' ').nth(1).unwrap();
            assert!(root.find_subcommand(word).is_some(), "{new}");
        }
    }
    /// Plural nouns with which an entry may begin; what else ends alike is taken for a verb.
    const NOUNS: [&str; 20] = [
        "Skills",
        "Totals",
        "Weights",
        "Calls",
        "Cases",
        "Certificates",
        "Directories",
        "Episodes",
        "Examples",
        "Games",
        "Ids",
        "Iterations",
        "Passes",
        "Queries",
        "Rollouts",
        "Runs",
        "Samples",
        "Seconds",
        "Steps",
        "Tasks",
    ];

    #[test]
    fn entries_are_short_and_begin_with_an_imperative_or_a_noun() {
        fn entries(command: &Command, found: &mut Vec<String>) {
            found.extend(command.get_about().map(ToString::to_string));
            found.extend(command.get_arguments().filter_map(|arg| Some(arg.get_help()?.to_string())));
            command.get_subcommands().for_each(|child| entries(child, found));
        }
        let mut found = Vec::new();
        entries(&grouped(Shown::Everywhere), &mut found);
        let is_verb = |word: &str| {
            word.ends_with('s') && !word.ends_with("ss") && !NOUNS.contains(&word) && word != "As"
        };
        let first =
            |entry: &String| entry.split(|letter: char| !letter.is_alphanumeric()).next().map(str::to_owned);
        let wrong: Vec<&String> = found
            .iter()
            .filter(|entry| entry.chars().count() > 100 || first(entry).is_some_and(|word| is_verb(&word)))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(found.len() > 300, "{}", found.len());
    }
}
