//! Exit codes: whatever the command, one fault has the code that `docs/running.md` documents.

use crate::context::{TestContext, code};

/// Command lines that name an input that does not exist.
const MISSING: &[(&str, i32)] = &[
    // A configuration, data, a skill or a bank is a mistake of usage.
    ("train nothere.toml", code::USAGE),
    ("train nothere --agent pi", code::USAGE),
    ("sft nothere.toml", code::USAGE),
    ("rl nothere.toml", code::USAGE),
    ("train-server nothere", code::USAGE),
    ("eval nothere.toml", code::USAGE),
    ("eval task/skillrl.toml --skill nothere", code::USAGE),
    ("eval task/skillrl.toml --bank nothere", code::USAGE),
    ("eval task/skillrl.toml --against nothere", code::USAGE),
    ("eval task/skillrl.toml --policy nothere", code::USAGE),
    ("collect nothere.toml", code::USAGE),
    ("distill nothere.jsonl", code::USAGE),
    ("try item --config nothere.toml", code::USAGE),
    ("estimate nothere.toml", code::USAGE),
    ("config show nothere.toml", code::USAGE),
    ("env check nothere.toml", code::USAGE),
    ("env play nothere.toml", code::USAGE),
    ("env export nothere.toml --out x", code::USAGE),
    ("env serve nothere.toml", code::USAGE),
    ("export nothere --out x", code::USAGE),
    ("import nothere", code::USAGE),
    ("inspect nothere", code::USAGE),
    ("lint nothere", code::USAGE),
    ("prune nothere.toml", code::USAGE),
    ("serve nothere", code::USAGE),
    ("skill check nothere", code::USAGE),
    ("skill eval nothere --agent pi", code::USAGE),
    ("skill triggers nothere --agent pi", code::USAGE),
    ("skill train nothere --agent pi", code::USAGE),
    ("skill plugin nothere --to p", code::USAGE),
    ("skill loads --agent pi nothere", code::USAGE),
    ("skill loads --agent pi task/skill.md --home nothere", code::USAGE),
    ("bank show nothere", code::USAGE),
    ("bank log nothere", code::USAGE),
    ("bank diff nothere nothere", code::USAGE),
    ("bank blame nothere", code::USAGE),
    ("bank pin nothere gen_001", code::USAGE),
    ("bank unpin nothere gen_001", code::USAGE),
    ("bank retire nothere gen_001", code::USAGE),
    ("bank restore nothere gen_001", code::USAGE),
    ("bank import nothere --out x", code::USAGE),
    ("bank export nothere x", code::USAGE),
    // A run, or its journal.
    ("journal list nothere", code::RUN_DIR),
    ("journal show nothere 1", code::RUN_DIR),
    ("journal export nothere", code::RUN_DIR),
    ("journal prune nothere --place x", code::RUN_DIR),
    ("journal stats nothere", code::RUN_DIR),
    ("replay nothere", code::RUN_DIR),
    ("report nothere", code::RUN_DIR),
    ("note nothere text", code::RUN_DIR),
    ("stop nothere", code::RUN_DIR),
    ("blame nothere", code::RUN_DIR),
    ("status nothere", code::RUN_DIR),
    ("skill cases nothere", code::USAGE),
    ("check nothere", code::RUN_DIR),
    ("show nothere", code::RUN_DIR),
    ("diff nothere", code::RUN_DIR),
    ("compare nothere nothere", code::RUN_DIR),
    // Its findings are its output, and a problem among them has no code of its own.
    ("doctor nothere.toml", code::OTHER),
];

/// Command lines whose output cannot be written: a file above it is no directory.
#[cfg(unix)]
const NOT_WRITTEN: &[(&str, i32)] = &[
    ("man task/skill.md/x", code::OTHER),
    ("config prompts task/skill.md/x", code::OTHER),
    ("init --demo task/skill.md/x", code::OTHER),
    ("demo --out task/skill.md/x", code::OTHER),
    ("journal export run --out task/skill.md/x", code::OTHER),
    ("report run --output task/skill.md/x", code::OTHER),
    ("report run --doubtful task/skill.md/x", code::OTHER),
    ("compare run run --html task/skill.md/x", code::OTHER),
    ("collect world.toml --episodes 1 --out task/skill.md/x", code::OTHER),
    ("collect world.toml --expert --episodes 1 --out task/skill.md/x", code::OTHER),
    ("distill collected.jsonl --config world.toml --out task/skill.md/x", code::OTHER),
    ("skill plugin my-skill --to task/skill.md/x", code::OTHER),
    // A directory in which a command keeps its calls is that of a run.
    ("train task/skillrl.toml --set run.dir=task/skill.md/x", code::RUN_DIR),
    ("eval task/skillrl.toml --skill task/skill.md --out task/skill.md/x", code::RUN_DIR),
    ("replay run --into task/skill.md/x", code::RUN_DIR),
];

#[track_caller]
fn check(context: &TestContext, lines: &[(&str, i32)]) {
    for (line, expect) in lines {
        let outcome = context.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(outcome.code, Some(*expect), "{line}: {}", outcome.stderr);
    }
}

#[test]
fn an_input_that_is_missing_has_one_code_in_every_command() {
    check(&TestContext::with_scripted_task(), MISSING);
}

#[cfg(unix)]
#[test]
fn an_output_that_cannot_be_written_has_one_code_in_every_command() {
    let context = TestContext::with_scripted_task();
    context.copy_from(&crate::earlier_runs::root());
    context.copy_dir("document-paper", "run");
    context.copy_dir("agent/my-skill", "my-skill");
    context.write("world.toml", &context.read("household.toml"));
    check(&context, NOT_WRITTEN);
}

/// A command without a row above takes no input that could be missing.
#[test]
fn every_command_that_takes_an_input_is_in_the_table() {
    const WITHOUT: &[&str] =
        &["demo", "config schema", "config prompts", "completions", "man", "init", "mcp", "worker", "watch"];
    let page = include_str!("../../../../docs/reference/cli.md");
    let names: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("## `skillrl ")?.strip_suffix('`')).collect();
    assert!(names.len() > 50, "{names:?}");
    let is_group = |name: &str| names.iter().any(|other| other.starts_with(&format!("{name} ")));
    let is_alias = |name: &str| ["bank collect", "bank distill"].contains(&name);
    let missing: Vec<&&str> = names
        .iter()
        .filter(|name| !is_group(name) && !is_alias(name) && !WITHOUT.contains(name))
        .filter(|name| !MISSING.iter().any(|(line, _)| line.starts_with(&format!("{name} "))))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
