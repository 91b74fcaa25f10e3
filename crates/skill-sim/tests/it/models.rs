//! The simulated models on the demo's data: what the target's success depends on, and a small training loop over
//! prompts of the layout that the pipeline renders.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::Value;
use skill_core::{Edit, EditOp};
use skill_llm::{CallCtx, ChatModel, ChatRequest, LlmError, Message, ModelId, Usage};
use skill_sim::{SimulatedAgent, SimulatedHousehold, SimulatedOptimizer, SimulatedTarget};
use std::collections::BTreeSet;
use std::path::Path;

const SEED: u64 = 42;

const HOUSE_RULES: &str = "# Harbour desk\n\n\
    - Reply with the value only, no sentence around it.\n\
    - Dates as YYYY-MM-DD; times in 24-hour form.\n\
    - Weights in kilograms, draughts in metres with one decimal.\n\
    - People as `Surname, Given`.\n\
    - Lists in alphabetical order, separated by semicolons.\n\
    - Berths as the quay's initial and two digits, such as `N07`.\n\
    - Status codes: `alongside` is `AL`, `at anchor` is `AN`, `waiting for the tide` is `WT`, `gone to sea` is `GS`.\n\
    - If the record does not say, answer `unknown`.\n";

#[derive(Debug, Clone)]
struct Item {
    id: String,
    question: String,
    context: String,
    answer: String,
}

fn demo_file(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../skillrl/demo");
    std::fs::read_to_string(directory.join(name)).unwrap()
}

fn items(split: &str) -> Vec<Item> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let parse = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        Item {
            id: text(&value, "id"),
            question: text(&value, "question"),
            context: text(&value, "context"),
            answer: value["answers"][0].as_str().unwrap().to_owned(),
        }
    };
    demo_file(&format!("data/{split}.jsonl")).lines().map(parse).collect()
}

fn ask(model: &dyn ChatModel, system: &str, user: &str) -> String {
    let request = ChatRequest::new(vec![Message::system(system), Message::user(user)]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(model.chat(&request, &CallCtx::default())).unwrap().text
}

fn answer(target: &SimulatedTarget, skill: &str, item: &Item) -> String {
    ask(target, skill, &format!("Context:\n{}\n\nQuestion: {}", item.context, item.question))
}

/// SQuAD's normalisation.
fn normalised(text: &str) -> String {
    let text = text.to_lowercase();
    let plain: String = text.chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let words = plain.split_whitespace().filter(|word| !["a", "an", "the"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

fn is_right(answer: &str, item: &Item) -> bool {
    normalised(answer) == normalised(&item.answer)
}

fn score(target: &SimulatedTarget, skill: &str, items: &[Item]) -> f64 {
    let right = items.iter().filter(|item| is_right(&answer(target, skill, item), item)).count();
    f64::from(u32::try_from(right).unwrap()) / f64::from(u32::try_from(items.len()).unwrap())
}

#[test]
fn the_data_is_whole() {
    let mut ids = BTreeSet::new();
    let mut pages = BTreeSet::new();
    for split in ["train", "val", "test"] {
        let items = items(split);
        assert_eq!(items.len(), 40, "{split}");
        for item in items {
            assert!(ids.insert(item.id.clone()), "{item:?}");
            assert!(pages.insert(item.context.clone()), "{item:?}");
            assert!(!item.question.is_empty() && !item.answer.is_empty(), "{item:?}");
        }
    }
}

#[test]
fn success_depends_on_the_skill() {
    let target = SimulatedTarget::new(SEED);
    let test = items("test");
    let weak = score(&target, &demo_file("initial_skill.md"), &test);
    assert!((0.05..=0.25).contains(&weak), "weak: {weak}");
    let taught = score(&target, HOUSE_RULES, &test);
    assert!((0.9..=1.0).contains(&taught), "taught: {taught}");
    for harmful in [
        "Explain your reasoning step by step in the answer.",
        "If in any doubt, answer unknown.",
        "Use the date as written.",
        "Copy every value exactly as it stands in the record.",
    ] {
        let harmed = score(&target, &format!("{HOUSE_RULES}- {harmful}\n"), &test);
        assert!(harmed <= taught - 0.05, "{harmful}: {harmed}");
    }
    for (index, rule) in HOUSE_RULES.lines().enumerate().skip(2) {
        let lines = HOUSE_RULES.lines().enumerate().filter(|(at, _)| *at != index).map(|(_, line)| line);
        let without = score(&target, &lines.collect::<Vec<_>>().join("\n"), &test);
        assert!(without < taught, "without {rule}: {without}");
    }
}

#[test]
fn a_question_without_a_record_is_not_answered() {
    let reply = ask(&SimulatedTarget::new(SEED), HOUSE_RULES, "Question: What is the capital of Belgium?");
    assert!(reply.contains("do not know"), "{reply}");
}

fn trajectory(index: usize, item: &Item, answer: &str, right: bool) -> String {
    format!(
        "<trajectory index=\"{index}\" id=\"{}\" hard=\"{}\" soft=\"0\">\nQuestion: {}\nReference answer: {}\n\
         Agent's answer: {answer}\nConversation:\n[user] Context:\n{}\n\nQuestion: {}\n[assistant] {answer}\n</trajectory>\n",
        item.id,
        u8::from(right),
        item.question,
        item.answer,
        item.context,
        item.question,
    )
}

fn analyst_prompt(skill: &str, budget: usize, kind: &str, trajectories: &[String]) -> String {
    format!(
        "# Current skill\n\n<skill>\n{skill}\n</skill>\n\n# Edit budget\n\nAt most {budget} edits.\n\n\
         # {kind} trajectories ({})\n\n{}",
        trajectories.len(),
        trajectories.join("\n")
    )
}

fn edits_in(value: &Value) -> Vec<Edit> {
    serde_json::from_value(value["edits"].clone()).unwrap()
}

/// The editor in small: an edit whose anchor is not in the skill is skipped.
fn apply(skill: &str, edits: &[Edit]) -> String {
    let mut text = skill.to_owned();
    for edit in edits {
        let anchored = !edit.target.is_empty() && text.contains(&edit.target);
        text = match &edit.op {
            EditOp::Append => format!("{}\n{}\n", text.trim_end(), edit.content),
            EditOp::InsertAfter if anchored => {
                text.replacen(&edit.target, &format!("{}\n{}", edit.target, edit.content), 1)
            }
            EditOp::Replace if anchored => text.replacen(&edit.target, &edit.content, 1),
            EditOp::Delete if anchored => text.replacen(&edit.target, "", 1),
            _ => text,
        };
    }
    text
}

#[derive(Debug, PartialEq)]
enum Step {
    Accepted,
    Rejected,
    NoOp,
    Unreadable,
}

/// One step: roll out a batch, reflect on failures and successes, merge, rank, apply, evaluate.
fn step(
    optimizer: &SimulatedOptimizer,
    target: &SimulatedTarget,
    skill: &mut String,
    batch: &[Item],
    budget: usize,
) -> Step {
    let mut sides = [Vec::new(), Vec::new()];
    for (index, item) in batch.iter().enumerate() {
        let reply = answer(target, skill, item);
        let right = is_right(&reply, item);
        sides[usize::from(right)].push(trajectory(index + 1, item, &reply, right));
    }
    let mut patches = Vec::new();
    for (kind, trajectories) in ["Failed", "Successful"].into_iter().zip(&sides) {
        for minibatch in trajectories.chunks(8) {
            let reply = ask(optimizer, "", &analyst_prompt(skill, budget, kind, minibatch));
            let Ok(value) = serde_json::from_str::<Value>(&reply) else { continue };
            patches.push(value["patch"].clone());
        }
    }
    let merge = format!(
        "# Current skill\n\n<skill>\n{skill}\n</skill>\n\n# Patches to merge ({}, merge level 1)\n\n```json\n{}\n```\n",
        patches.len(),
        serde_json::to_string_pretty(&patches).unwrap()
    );
    let Ok(merged) = serde_json::from_str::<Value>(&ask(optimizer, "", &merge)) else {
        return Step::Unreadable;
    };
    let edits = edits_in(&merged);
    let lines: Vec<String> = edits
        .iter()
        .enumerate()
        .map(|(i, e)| format!("[{i}] {}", serde_json::to_string(e).unwrap()))
        .collect();
    let rank = format!(
        "# Current skill\n\n<skill>\n{skill}\n</skill>\n\n# Edit budget\n\nChoose the {budget} most important of \
         these {} edits.\n\n# Edits\n\n{}\n",
        edits.len(),
        lines.join("\n")
    );
    let Ok(ranked) = serde_json::from_str::<Value>(&ask(optimizer, "", &rank)) else {
        return Step::Unreadable;
    };
    let selected: Vec<usize> = serde_json::from_value(ranked["selected_indices"].clone()).unwrap();
    assert!(selected.len() <= budget);
    let chosen: Vec<Edit> = selected.iter().map(|index| edits[*index].clone()).collect();
    let candidate = apply(skill, &chosen);
    if candidate == *skill {
        return Step::NoOp;
    }
    let val = items("val");
    if score(target, &candidate, &val) > score(target, skill, &val) {
        *skill = candidate;
        Step::Accepted
    } else {
        Step::Rejected
    }
}

fn train(optimizer: &SimulatedOptimizer, epochs: usize) -> (String, Vec<Step>) {
    let target = SimulatedTarget::new(SEED);
    let mut skill = demo_file("initial_skill.md");
    let mut steps = Vec::new();
    for epoch in 0..epochs {
        for batch in items("train").chunks(10) {
            let budget = if epoch < 2 { 4 } else { 2 };
            steps.push(step(optimizer, &target, &mut skill, batch, budget));
        }
    }
    (skill, steps)
}

#[test]
fn training_teaches_the_house_form() {
    let (skill, steps) = train(&SimulatedOptimizer::new(SEED).with_flaw_rate(0.0), 3);
    let test = score(&SimulatedTarget::new(SEED), &skill, &items("test"));
    assert!(test >= 0.9, "{test}: {skill}\n{steps:?}");
    assert!(!steps.contains(&Step::Unreadable), "{steps:?}");
}

#[test]
fn a_flawed_optimizer_gets_there_with_accepts_rejects_and_no_ops() {
    let mut good = 0;
    let mut whole = 0;
    for seed in 0..4 {
        let (skill, steps) = train(&SimulatedOptimizer::new(seed), 4);
        good += usize::from(score(&SimulatedTarget::new(SEED), &skill, &items("test")) >= 0.8);
        whole +=
            usize::from([Step::Accepted, Step::Rejected, Step::NoOp].iter().all(|kind| steps.contains(kind)));
    }
    assert!(good >= 3, "{good} of 4 runs learned the house form");
    assert!(whole >= 2, "{whole} of 4 runs had steps of every kind");
}

/// The failures of a real small model: sentences around short answers.
#[test]
fn wordy_answers_to_short_questions_are_mended() {
    let item = |question: &str, context: &str, answer: &str| Item {
        id: question.to_owned(),
        question: question.to_owned(),
        context: context.to_owned(),
        answer: answer.to_owned(),
    };
    let failures = [
        trajectory(1, &item("Who wrote Emma?", "", "Jane Austen"), "Emma was written by Jane Austen.", false),
        trajectory(2, &item("What is two and two?", "", "4"), "Two and two is 4.", false),
    ];
    let optimizer = SimulatedOptimizer::new(SEED).with_flaw_rate(0.0);
    let mut skill = "You are a helpful assistant. Answer the question concisely.".to_owned();
    let mut shown = String::new();
    for _ in 0..5 {
        let reply = ask(&optimizer, "", &analyst_prompt(&skill, 4, "Failed", &failures));
        let value: Value = serde_json::from_str(&reply).unwrap();
        skill = apply(&skill, &edits_in(&value["patch"]));
        shown.push_str(&format!("{skill}\n===\n"));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_needless_abstention_takes_the_timid_rule_away() {
    let item = items("train").into_iter().find(|item| item.answer != "unknown").unwrap();
    let failures = [trajectory(1, &item, "unknown", false)];
    let timid = "- If in any doubt, answer `unknown`.";
    let skill = format!("{HOUSE_RULES}{timid}\n");
    let optimizer = SimulatedOptimizer::new(SEED).with_flaw_rate(0.0);
    let reply = ask(&optimizer, "", &analyst_prompt(&skill, 4, "Failed", &failures));
    let edits = edits_in(&serde_json::from_str::<Value>(&reply).unwrap()["patch"]);
    assert_eq!(edits.len(), 1, "{reply}");
    assert_eq!((&edits[0].op, edits[0].target.as_str()), (&EditOp::Delete, timid));
}

#[test]
fn duplicates_are_merged_and_failures_stay_first() {
    let group = |content: &str, support: u32| serde_json::json!({"reasoning": "", "edits": [{"op": "append", "content": content, "support_count": support}]});
    let groups = [
        group("- Write dates as YYYY-MM-DD.", 2),
        group("- Give the status by its house code: `at anchor` is `AN`.", 1),
        group("- Give every date in ISO form (YYYY-MM-DD).", 3),
        group("- House codes for the status: `gone to sea` -> `GS`.", 1),
    ];
    let prompt = format!(
        "# Current skill\n\n<skill>\nx\n</skill>\n\n# Patch groups to combine\n\n\
         Group 1 (from failures, high priority): 1 edits\nGroup 2 (from successes, lower priority): 3 edits\n\n\
         ```json\n{}\n```\n",
        serde_json::to_string(&groups).unwrap()
    );
    insta::assert_snapshot!(ask(&SimulatedOptimizer::new(SEED).with_flaw_rate(0.0), "", &prompt));
}

#[test]
fn other_requests_are_not_understood() {
    insta::assert_snapshot!(
        ask(&SimulatedOptimizer::new(SEED), "", "What is the capital of Belgium?"),
        @"I do not understand what I am asked to do here."
    );
}

#[tokio::test]
async fn ids_usage_and_cancellation() {
    let models: [&dyn ChatModel; 2] = [&SimulatedTarget::new(1), &SimulatedOptimizer::new(1)];
    for (model, name) in models.into_iter().zip(["simulated-target", "simulated-optimizer"]) {
        assert_eq!(model.id(), &ModelId::new("simulated", name));
        let request = ChatRequest::new(vec![Message::system("12345"), Message::user("678")]);
        let reply = model.chat(&request, &CallCtx::default()).await.unwrap();
        let output = u64::try_from(reply.text.chars().count()).unwrap().div_ceil(4);
        assert_eq!(reply.usage, Usage { input: 2, output, ..Usage::default() });
        let call = CallCtx::default();
        call.cancel.cancel();
        assert!(matches!(model.chat(&request, &call).await, Err(LlmError::Cancelled)));
    }
}

#[tokio::test]
async fn log_probabilities_are_refused() {
    let agent = SimulatedAgent::new(SimulatedHousehold::default(), 1);
    let models: [&dyn ChatModel; 3] = [&SimulatedTarget::new(1), &SimulatedOptimizer::new(1), &agent];
    for model in models {
        let mut request = ChatRequest::new(vec![Message::user("x")]);
        request.sampling.logprobs = Some(0);
        let refused = model.chat(&request, &CallCtx::default()).await.unwrap_err();
        assert!(refused.to_string().contains("log-probabilities"), "{refused}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the prompt says, both models answer, and twice the same.
    #[test]
    fn no_prompt_panics(
        skill in r"(?s)([-#`a-zA-Z0-9.,;:'’é° \n]|unknown|date|surname| not |YYYY-MM-DD|`AN`|in kg){0,40}",
        user in r"(?s)(.|Context:\n|Question: |Arrived: |4 March 2025|2:35pm|unknown|\n){0,60}",
    ) {
        let analyst = analyst_prompt(&skill, 3, "Failed", &[format!(
            "<trajectory index=\"1\">\nQuestion: {user}\nReference answer: {skill}\nAgent's answer: {user}\nConversation:\n{user}"
        )]);
        let rank = format!("# Edit budget\n\nChoose the 2 most\n\n# Edits\n\n[0] {user}\n[1] {skill}");
        let merge = format!("<skill>\n{user}\n# Patches to merge\n```json\n{skill}```");
        for seed in 0..3 {
            let optimizer = SimulatedOptimizer::new(seed).with_flaw_rate(1.0);
            for prompt in [&analyst, &rank, &merge, &user] {
                prop_assert_eq!(ask(&optimizer, &skill, prompt), ask(&optimizer, &skill, prompt));
            }
            prop_assert!(!ask(&SimulatedTarget::new(seed), &skill, &user).is_empty());
        }
    }
}
