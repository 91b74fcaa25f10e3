//! `skillrl prompts export`.

use crate::context::{TestContext, assert_same_files, code};

#[test]
fn exported_prompts_are_those_that_are_built_in() {
    let context = TestContext::with_demo();
    let config = "demo/skillrl.toml";
    let text = context.succeed(&["prompts", "export", "mine"]);
    insta::assert_snapshot!("prompts_export", text);
    let exported = context.files("mine");
    assert_eq!(exported.len(), text.matches("wrote ").count());

    context.write("mine/ranking.md", "changed by a person");
    let refused = context.run(&["prompts", "export", "mine"]);
    refused.assert_code(code::USAGE);
    assert!(refused.stderr.ends_with(" is there already; --force replaces it\n"), "{}", refused.stderr);
    assert_eq!(context.read("mine/ranking.md"), "changed by a person");
    context.succeed(&["prompts", "export", "mine", "--force"]);
    assert_same_files(&context.files("mine"), &exported);

    // A run with them is the run without them, but for the configuration that says so.
    context.succeed(&["train", config, "--quiet"]);
    context.succeed(&["train", config, "--quiet", "--set", "prompts.dir=mine", "--set", "run.dir=other"]);
    let [built_in, mine] = ["demo/run", "other"].map(|dir| {
        let mut files = context.untimed_files(dir);
        files.retain(|path, _| {
            !["config.json", "summary.json"]
                .iter()
                .any(|name| path.ends_with(name) && path.components().count() == 1)
        });
        files
    });
    assert_same_files(&built_in, &mine);
    let best = |dir: &str| context.json(&format!("{dir}/summary.json"))["best_skill_hash"].clone();
    assert_eq!(best("demo/run"), best("other"));
}
