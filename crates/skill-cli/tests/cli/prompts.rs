//! `skillrl config prompts`, and prompts of a person's own.

use crate::context::{TestContext, assert_same_files, code};

#[test]
fn exported_prompts_are_those_that_are_built_in() {
    let context = TestContext::with_demo();
    let config = "demo/skillrl.toml";
    let text = context.succeed(&["config", "prompts", "mine"]);
    insta::assert_snapshot!("prompts_export", text);
    let exported = context.files("mine");
    assert_eq!(exported.len(), text.matches("wrote ").count());
    assert!(exported.keys().any(|path| path.ends_with("sft_reason.md")));

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
            !["config.json", "summary.json", "files.jsonl"]
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
