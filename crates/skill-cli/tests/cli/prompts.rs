//! `skillrl config prompts`, and prompts of a person's own.

use crate::context::{Files, TestContext, assert_same_files, code};
use std::path::Path;

/// The folder where prompts are edited.
fn prompts_of_the_source_tree() -> Files {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../prompts");
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.file_name().unwrap().into(), std::fs::read(&path).unwrap())).collect()
}

/// The lines of a prompt that no variable changes.
fn fixed_lines(prompt: &str) -> impl Iterator<Item = &str> {
    let lines = prompt.lines().map(str::trim);
    lines.filter(|line| line.len() > 20 && !line.contains(['{', '}', '#', '"', '`']))
}

/// Each prompt is rendered in a snapshot, so that what a model sees changes in a diff.
#[test]
fn every_prompt_is_in_a_snapshot() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut dirs, mut snapshots) = (vec![crates], String::new());
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().is_some_and(|ending| ending == "snap") {
                true => snapshots.push_str(&std::fs::read_to_string(path).unwrap()),
                false if path.is_dir() && !path.ends_with("target") => dirs.push(path),
                false => {}
            }
        }
    }
    let prompts = prompts_of_the_source_tree();
    let texts: Vec<&str> = prompts.values().map(|text| std::str::from_utf8(text).unwrap()).collect();
    for (name, text) in prompts.keys().zip(&texts) {
        let is_own = |line: &&str| texts.iter().filter(|other| other.contains(line)).count() == 1;
        let own: Vec<&str> = fixed_lines(text).filter(is_own).collect();
        assert!(own.iter().any(|line| snapshots.contains(line)), "{}: {own:?}", name.display());
    }
}

#[test]
fn exported_prompts_are_those_that_are_built_in() {
    let context = TestContext::with_demo();
    let config = "demo/skillrl.toml";
    let text = context.succeed(&["config", "prompts", "mine"]);
    insta::assert_snapshot!("prompts_export", text);
    let exported = context.files("mine");
    assert_eq!(exported.len(), text.matches("wrote ").count());
    assert_same_files(&exported, &prompts_of_the_source_tree());

    context.write("mine/ranking.md", "changed by a person");
    context.run(&["config", "prompts", "mine"]).fails(code::USAGE, &["mine/", "--force"]);
    assert_eq!(context.read("mine/ranking.md"), "changed by a person");
    context.succeed(&["config", "prompts", "mine", "--force"]);
    assert_same_files(&context.files("mine"), &exported);

    // A run with them is the run without them, but for the configuration that says so.
    context.succeed(&["train", config, "--quiet"]);
    context.succeed(&["train", config, "--quiet", "--set", "prompts.dir=mine", "--set", "run.dir=other"]);
    let [built_in, mine] = ["demo/run", "other"].map(|dir| {
        let mut files = context.untimed_files(dir);
        files.retain(|path, _| {
            !["config.json", "config.toml", "summary.json", "files.jsonl"]
                .iter()
                .any(|name| path.ends_with(name) && path.components().count() == 1)
        });
        files
    });
    assert_same_files(&built_in, &mine);
    let best = |dir: &str| context.json(&format!("{dir}/summary.json"))["best_skill_hash"].clone();
    assert_eq!(best("demo/run"), best("other"));
}

/// What is in no block would be left out without a word, in the optimizer's prompts and in those of environments.
#[test]
fn text_that_no_block_takes_up_is_named_with_its_line() {
    let context = TestContext::with_demo();
    context.succeed(&["config", "prompts", "mine"]);
    let analyst = context.read("mine/analyst_error.md");
    context.write("mine/analyst_error.md", &format!("{analyst}\nThink twice.\n"));
    let agent = context.read("mine/rollout_qa.md");
    context.write("mine/rollout_qa.md", &format!("{{# mine #}}\n{{{{ skill }}}}\n{agent}"));
    let args =
        ["train", "demo/skillrl.toml", "--quiet", "--set", "prompts.dir=mine", "--set", "train.epochs=1"];
    let outcome = context.run(&args);
    outcome.assert_code(code::SUCCESS);
    let last = analyst.lines().count() + 2;
    for place in [format!("mine/analyst_error.md, line {last}: "), "mine/rollout_qa.md, line 2: ".to_owned()]
    {
        let n_times = outcome.stderr.matches(&place).count();
        assert_eq!(n_times, 1, "{place}{}", outcome.stderr);
    }
    assert_eq!(outcome.stderr.matches("is not used").count(), 2, "{}", outcome.stderr);
}
