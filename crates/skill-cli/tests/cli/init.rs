//! `skillrl init` on a terminal.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::terminal::{Screen, on_terminal};

/// Enough for three splits.
fn tickets() -> String {
    let ticket = |number: u32| {
        let (text, label) = if number.is_multiple_of(2) {
            ("My parcel is late.", "shipping")
        } else {
            ("Charged twice.", "billing")
        };
        format!("{{\"number\": {number}, \"ticket text\": \"{text} {number}\", \"team\": \"{label}\"}}\n")
    };
    (1..=20).map(ticket).collect()
}

fn init(context: &TestContext, typed: &str) -> Screen {
    on_terminal(context, &["init"], 100, typed)
}

#[test]
fn a_person_is_asked_and_the_fields_of_the_data_are_proposed() {
    let context = TestContext::new();
    context.write("tickets.jsonl", &tickets());
    // Data, where it is (first a path that is wrong), its answer, the proposed scorer and prompt, no skill; then the models and the caps.
    let typed = "tasks\nticket.jsonl\ntickets.jsonl\nnothing\nteam\n\n\n\nanthropic\nsk-ant-secret-key\nMY_KEY\nsmall\nlarge\n300\n1.5\n1\n5\n3\n15\n\n";
    let screen = init(&context, typed);
    assert_eq!(screen.code, Some(code::SUCCESS), "{}", screen.text);
    let names = [
        "the items have the fields number, ticket text, team",
        "the items have no such field",
        "Prompt [{{ item[\"ticket text\"] }}\\n\\nAnswer with one of these",
        "the key itself is asked for nowhere",
        "MY_KEY is not set yet",
        "next: skillrl doctor skillrl.toml",
    ];
    assert_names(&screen.text, &names);
    let file = context.read("skillrl.toml");
    for line in [
        "kind = \"tasks\"",
        "data = \"tickets.jsonl\"",
        "scorer = \"exact\"",
        "group_equal_inputs = true",
        "answer_field = \"team\"",
        "provider = \"anthropic\"",
        "api_key_env = \"MY_KEY\"",
        "model = \"small\"",
        "model = \"large\"",
        "price_input = 1.0",
        "price_output = 15.0",
        "calls = 300",
        "money = 1.5",
    ] {
        assert!(file.lines().any(|found| found == line), "{line}");
    }
    assert!(!file.contains("sk-ant"), "no key is written");
    let shown = context.succeed(&["env", "check", "skillrl.toml"]);
    assert!(shown.contains("My parcel is late.") || shown.contains("Charged twice."), "{shown}");
}

#[test]
fn a_path_that_is_kept_can_be_filled_in_later() {
    let context = TestContext::new();
    let screen = init(&context, "tasks\nlater.csv\n\n\nollama\nqwen\n\n\n\n\n");
    assert_eq!(screen.code, Some(code::SUCCESS), "{}", screen.text);
    assert!(
        context.read("skillrl.toml").lines().any(|line| line == "data = \"later.csv\""),
        "{}",
        screen.text
    );
}

#[test]
fn enter_takes_what_is_proposed() {
    let context = TestContext::new();
    context.write("data/train.jsonl", "{\"question\": \"1 + 1?\", \"answer\": \"2\"}\n");
    context.write("data/val.jsonl", "{\"question\": \"1 + 2?\", \"answer\": \"3\"}\n");
    context.write("data/test.jsonl", "{\"question\": \"2 + 2?\", \"answer\": \"4\"}\n");
    let screen = init(&context, &"\n".repeat(20));
    assert_eq!(screen.code, Some(code::SUCCESS), "{}", screen.text);
    let file = context.read("skillrl.toml");
    for line in [
        "kind = \"tasks\"",
        "data = \"data\"",
        "scorer = \"numeric\"",
        "provider = \"openai\"",
        "calls = 5000",
    ] {
        assert!(file.lines().any(|found| found == line), "{line}");
    }
    assert!(file.lines().any(|line| line.starts_with("user_prompt") && line.contains("the number")));
    context.succeed(&["env", "check", "skillrl.toml"]);
}

#[test]
fn a_program_a_world_and_a_no() {
    let context = TestContext::new();
    let screen = init(
        &context,
        "exec\n./play --fast\nskill.md\nazure\nwhat\nhttps://me.openai.azure.com/openai/v1\n\nmine\n\n0\n0\n\n",
    );
    assert_eq!(screen.code, Some(code::SUCCESS), "{}", screen.text);
    let file = context.read("skillrl.toml");
    for line in [
        "kind = \"exec\"",
        "program = [\"./play\", \"--fast\"]",
        "initial = \"skill.md\"",
        "provider = \"azure\"",
    ] {
        assert!(file.lines().any(|found| found == line), "{line}:\n{}", screen.text);
    }
    assert!(!file.lines().any(|line| line.starts_with("calls =")), "no cap was wanted");
    // A file that is there is not asked about in vain.
    let again = init(&context, "");
    assert_eq!(again.code, Some(code::USAGE));
    assert!(again.text.contains("is there already") && !again.text.contains("questions"), "{}", again.text);
    context.remove("skillrl.toml");
    let screen = init(&context, "webshop\n\nollama\nqwen\n\n\n\nno\n");
    assert_eq!(screen.code, Some(code::SUCCESS), "{}", screen.text);
    assert_names(&screen.text, &["env.kind = webshop", "nothing was written"]);
    assert!(!context.path("skillrl.toml").exists());
}

#[test]
fn a_program_comes_with_an_agent_that_runs() {
    let context = TestContext::new();
    let said = context.succeed(&["init", "a.toml", "--kind", "exec"]);
    assert!(said.contains("env.py") && said.contains("skillrl_env.py"), "{said}");
    let file = context.read("a.toml");
    for line in ["program = [\"python3\", \"env.py\"]", "endpoint = true", "skill_delivery = \"inline\""] {
        assert!(file.lines().any(|found| found == line), "{line}:\n{file}");
    }
    // What a person has made of it stays.
    context.write("env.py", "mine");
    context.remove("skillrl_env.py");
    context.succeed(&["init", "b.toml", "--kind", "exec"]);
    assert_eq!(context.read("env.py"), "mine");
    assert!(context.read("skillrl_env.py").contains("def serve("));
}

#[test]
fn flags_and_pipes_are_not_asked() {
    let context = TestContext::new();
    let screen = on_terminal(&context, &["init", "a.toml", "--kind", "tasks"], 80, "");
    assert_eq!(screen.code, Some(code::SUCCESS), "{}", screen.text);
    assert!(!screen.text.contains("questions"), "{}", screen.text);
    assert!(context.succeed(&["init", "b.toml"]).starts_with("wrote b.toml\n"));
    assert!(context.read("b.toml").contains("kind = \"qa\""));
    for file in ["a.toml", "b.toml"] {
        assert!(context.read(file).contains("\nprotocol = \"auto\"\n"), "{file}");
    }
}
