//! Local models, as a person configures them.

use crate::context::{TestContext, code};

#[cfg(not(feature = "weights"))]
#[test]
fn a_program_without_local_models_says_how_to_get_one_with_them() {
    let context =
        TestContext::with_task("{ kind = \"local\", path = \"m.gguf\" }", "{ kind = \"simulated\" }");
    context.write("task/m.gguf", "not read");
    for args in [&["init", "--local", "m.gguf"][..], &["eval", "task/skillrl.toml", "--split", "test"]] {
        context.run(args).fails(code::USAGE, &["--features full"]);
    }
}

#[cfg(feature = "weights")]
mod built_in {
    use super::{TestContext, code};
    use crate::context::{CHAT_TINY, local_model};
    use crate::said::assert_names;

    fn task() -> TestContext {
        TestContext::with_task(&local_model(""), &local_model(""))
    }

    #[test]
    fn a_local_model_is_measured_and_its_memory_is_told_first() {
        let context = task();
        let eval = || {
            let args = ["eval", "task/skillrl.toml", "--split", "test", "--json"];
            let outcome = context.run(&args);
            outcome.assert_code(code::SUCCESS);
            outcome
        };
        let first = eval();
        assert!(first.stderr.contains("chat-tiny") && first.stderr.contains("of memory"), "{}", first.stderr);
        let summary: serde_json::Value = serde_json::from_str(&first.stdout).unwrap();
        assert_eq!(summary["n"].as_u64(), Some(2), "{summary}");
        // Replies are decided by seed, place and prompt.
        assert_eq!(first.stdout, eval().stdout);
    }

    #[test]
    fn an_agent_on_this_machine_is_trained_to_the_end() {
        let context = TestContext::with_task(&local_model(""), "{ kind = \"simulated\" }");
        context.succeed(&["train", "task/skillrl.toml"]);
        let calls = context.succeed(&["journal", "list", "task/run"]);
        assert!(calls.contains("chat-tiny"), "{calls}");
    }

    #[test]
    fn doctor_names_the_model_its_memory_and_its_price() {
        let context = task();
        let outcome = context.run(&["doctor", "task/skillrl.toml"]);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_names(&said, &["chat-tiny", "F32", "512 tokens", "of memory", "cost nothing", "instructions"]);
    }

    #[test]
    fn init_writes_a_configuration_of_local_models() {
        let context = TestContext::new();
        context.succeed(&["init", "--local", CHAT_TINY, "here.toml"]);
        let text = context.read("here.toml");
        let path = format!("path = \"{CHAT_TINY}\"");
        assert_eq!(text.matches("\nkind = \"local\"").count(), 2, "{text}");
        assert_eq!(text.matches(path.as_str()).count(), 2, "{text}");
        context.run(&["init", "--local", "absent.gguf", "other.toml"]).assert_code(code::USAGE);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let context = task();
        context.write("task/broken.gguf", "GGUF and nothing else");
        let eval =
            ["eval", "task/skillrl.toml", "--split", "test", "--set", "models.target.path=broken.gguf"];
        let outcome = context.run(&eval);
        assert!(outcome.stderr.contains("broken.gguf"), "{}", outcome.stderr);
        assert_ne!(outcome.code, Some(code::SUCCESS));
    }
}
