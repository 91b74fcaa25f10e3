//! Every prompt as the optimizer reads it, one snapshot per prompt and situation.
//!
//! One snapshot of each prompt holds the system message too; the other situations differ in the user message.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skill_core::rewrite::UpdateMode;
use skill_core::{
    ComparisonPair, Edit, EditOp, ItemId, OfferedTool, Patch, Role, RolloutResult, SkillDoc, SourceType,
    Trajectory, TrajectoryMessage, comparison_pairs, inject_slow_update, replace_slow_update,
};
use skill_llm::Message;
use skill_pipeline::Protocol;
use skill_pipeline::prompts::{BatchScore, PromptLibrary, trajectory::render_trajectories};
use skill_pipeline::settings::{MAX_FIELD_CHARS, MAX_TRAJECTORY_CHARS, TrajectoryLimits};

const SKILL: &str =
    "# Reading timetables\n\n- Find the row of the ship first.\n- Give dates as YYYY-MM-DD.\n";

pub(super) fn library() -> PromptLibrary {
    PromptLibrary::embedded().unwrap()
}

/// Both messages, with a line that names the role above each.
fn whole(messages: Vec<Message>) -> String {
    let parts: Vec<String> = messages
        .iter()
        .map(|message| format!("======== {} ========\n{}", message.role.as_str(), message.text()))
        .collect();
    parts.join("\n\n")
}

/// The user message alone.
pub(super) fn user(messages: Vec<Message>) -> String {
    let texts: Vec<String> =
        messages.iter().filter(|message| message.role == Role::User).map(Message::text).collect();
    texts.concat()
}

/// A question about a timetable, failed, with a conversation of its two turns.
fn failure() -> RolloutResult {
    let mut result = RolloutResult::new("q-17".into(), 0.0, 0.25);
    result.task_type = "dates".to_owned();
    result.question = "When does the Meridian arrive?".to_owned();
    result.reference_text = "2025-03-04 | 4 March 2025".to_owned();
    result.predicted_answer = "The Meridian arrives on March 4.".to_owned();
    result.fail_reason = "no exact match; best token F1 0.25".to_owned();
    result.trajectory.messages = vec![
        TrajectoryMessage::new(Role::System, SKILL),
        TrajectoryMessage::new(
            Role::User,
            "The Meridian: 4 March 2025, pier 2.\n\nWhen does the Meridian arrive?",
        ),
        TrajectoryMessage::new(Role::Assistant, "The Meridian arrives on March 4."),
    ];
    result
}

/// A task in a world of several turns.
fn episode(hard: f64) -> RolloutResult {
    let mut result = RolloutResult::new("harbour \"north\" <3>".into(), hard, 1.0 / 3.0);
    result.task_description = "Moor the Meridian at pier 2.".to_owned();
    if hard == 0.0 {
        result.fail_reason = "the ship lies at pier 3".to_owned();
    }
    result.trajectory.messages = vec![
        TrajectoryMessage::new(Role::System, format!("You are a harbour pilot.\n\n{SKILL}\nEnd with DONE.")),
        TrajectoryMessage::new(Role::User, "You are at sea."),
        TrajectoryMessage::new(Role::Assistant, "look"),
        TrajectoryMessage::new(Role::Tool, "pier 2 is free\n</trajectory>\n</skill>"),
        TrajectoryMessage::new(Role::Assistant, ""),
    ];
    result
}

pub(super) fn edit(op: EditOp, target: &str, content: &str, support_count: Option<u32>) -> Edit {
    Edit { support_count, ..Edit::new(op, target, content) }
}

fn failure_patch() -> Patch {
    Patch {
        reasoning: "Answers are sentences, and dates are not in the form that is asked for.".to_owned(),
        edits: vec![
            edit(EditOp::Append, "", "- Answer with the bare value, not with a sentence.", Some(3)),
            edit(
                EditOp::Replace,
                "- Give dates as YYYY-MM-DD.",
                "- Give every date as YYYY-MM-DD, \"2024-01-31\" for instance.",
                None,
            ),
        ],
        ranking_details: Some(serde_json::json!({"not": "for the prompt"})),
    }
}

fn success_patch() -> Patch {
    let edit = edit(EditOp::Delete, "- Find the row of the ship first.", "", Some(1));
    Patch { reasoning: String::new(), edits: vec![edit], ranking_details: None }
}

/// A patch with a code block, which a fence of three backticks could not hold.
fn fenced_patch() -> Patch {
    let mut patch = Patch { reasoning: "Show the form.".to_owned(), ..Patch::default() };
    patch.edits.push(edit(EditOp::Append, "", "Answer so:\n```\n2024-01-31\n```", Some(2)));
    patch.edits.push(Edit { merge_level: Some(1), ..Edit::new(EditOp::from("prepend"), "", "- Be exact.") });
    patch
}

#[test]
fn analyst_of_failures() {
    let (failure, episode) = (failure(), episode(0.0));
    let skill = SKILL.into();
    let messages = library().analyst(SourceType::Failure, &skill, 4, &[&failure, &episode]).unwrap();
    insta::assert_snapshot!(whole(messages));
}

#[test]
fn analyst_of_successes() {
    let mut answer = failure();
    (answer.hard, answer.soft) = (1.0, 1.0);
    answer.fail_reason.clear();
    let episode = episode(1.0);
    let skill = SKILL.into();
    let messages = library().analyst(SourceType::Success, &skill, 3, &[&answer, &episode]).unwrap();
    insta::assert_snapshot!(whole(messages));
}

#[test]
fn analyst_without_a_skill_and_a_budget_of_one() {
    let mut result = failure();
    result.trajectory.messages.remove(0);
    let skill = SkillDoc::new(" \n");
    let messages = library().analyst(SourceType::Failure, &skill, 1, &[&result]).unwrap();
    insta::assert_snapshot!(user(messages));
}

#[test]
fn analyst_of_a_long_skill_with_protected_regions() {
    let rules: Vec<String> =
        (1..=60).map(|n| format!("{n}. In case {n} look at column {} first.", n % 7)).collect();
    let skill = format!(
        "---\nname: timetables\n---\n\n# Reading timetables\n\n{}\n\nA quoted tag: </skill>\n\n\
         <!-- SLOW_UPDATE_START -->\nPrefer the newest table.\n<!-- SLOW_UPDATE_END -->\n\n\
         <!-- APPENDIX_START -->\n## Execution Notes Appendix\n- Read twice.\n<!-- APPENDIX_END -->\n",
        rules.join("\n")
    );
    let result = RolloutResult::new("bare".into(), 0.0, 0.0);
    let messages = library().analyst(SourceType::Failure, &skill.into(), 4, &[&result]).unwrap();
    insta::assert_snapshot!(user(messages));
}

#[test]
fn merge_of_failures_at_level_1() {
    let patches = [failure_patch(), fenced_patch(), success_patch()];
    let messages = library().merge(SourceType::Failure, &SKILL.into(), &patches, 1).unwrap();
    insta::assert_snapshot!(whole(messages));
}

#[test]
fn merge_of_failures_at_level_3() {
    let patches = [failure_patch(), success_patch()];
    let messages = library().merge(SourceType::Failure, &SKILL.into(), &patches, 3).unwrap();
    insta::assert_snapshot!(user(messages));
}

#[test]
fn merge_of_successes_at_level_2_without_a_skill() {
    let patches = [success_patch(), failure_patch()];
    let messages = library().merge(SourceType::Success, &SkillDoc::default(), &patches, 2).unwrap();
    insta::assert_snapshot!(whole(messages));
}

#[test]
fn final_merge() {
    let messages = library().merge_final(&SKILL.into(), &failure_patch(), &success_patch()).unwrap();
    insta::assert_snapshot!(whole(messages));
}

#[test]
fn skill_aware_analysts() {
    let (failure, skill) = (failure(), SKILL.into());
    let texts = [SourceType::Failure, SourceType::Success]
        .map(|source| whole(library().skill_aware_analyst(source, &skill, 2, &[&failure]).unwrap()));
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[test]
fn appendix_consolidation() {
    let notes = ["Name the day.", "Show ``` as it is."].map(str::to_owned);
    insta::assert_snapshot!(whole(library().appendix_consolidate(&notes).unwrap()));
}

#[test]
fn edit_budget() {
    let edits = [failure_patch().edits, success_patch().edits].concat();
    let batch = BatchScore { n_rollouts: 40, hard: 0.225, soft: 1.0 / 3.0 };
    insta::assert_snapshot!(whole(library().edit_budget(&SKILL.into(), &edits, batch).unwrap()));
}

#[test]
fn ranking() {
    let mut edits: Vec<Edit> = [failure_patch(), fenced_patch()].into_iter().flat_map(|p| p.edits).collect();
    edits[0].source_type = Some(SourceType::Failure);
    edits[1].source_type = Some(SourceType::Success);
    let messages = library().ranking(&SKILL.into(), &edits, 2).unwrap();
    insta::assert_snapshot!(whole(messages));
}

/// Each category once, in an order that is not that of the prompt.
fn pairs() -> Vec<ComparisonPair> {
    let solved = |mut result: RolloutResult| {
        (result.hard, result.soft) = (1.0, 1.0);
        result.fail_reason.clear();
        result
    };
    let named = |id: &str, mut result: RolloutResult| {
        result.id = id.into();
        result
    };
    let previous = [
        named("stable", solved(failure())),
        named("improved", failure()),
        named("persistent </pair>", episode(0.0)),
        named("regressed", solved(failure())),
    ];
    let current = [
        named("stable", solved(failure())),
        named("improved", solved(failure())),
        named("persistent </pair>", episode(0.0)),
        named("regressed", failure()),
    ];
    comparison_pairs(&previous, &current)
}

#[test]
fn slow_update() {
    let current = replace_slow_update(&SKILL.into(), "- Look twice.\n- A quoted tag: </guidance>");
    let messages = library().slow_update(&"# Reading timetables\n".into(), &current, &pairs()).unwrap();
    insta::assert_snapshot!(whole(messages));
}

#[test]
fn slow_update_without_guidance() {
    let current = inject_slow_update(&SKILL.into());
    let messages = library().slow_update(&SkillDoc::default(), &current, &pairs()[..1]).unwrap();
    insta::assert_snapshot!(user(messages));
}

#[test]
fn meta_skill() {
    let messages = library().meta_skill(&"# </previous_skill>\n".into(), &SKILL.into(), &pairs()).unwrap();
    insta::assert_snapshot!(whole(messages));
}

#[test]
fn notes_stand_in_every_prompt_where_there_are_any() {
    const NOTES: &str = "- Short rules are followed.";
    let mut library = library();
    library.set_meta_skill(&format!(" {NOTES}\n- </notes> \n"));
    let (failure, skill, patches) = (failure(), SkillDoc::from(SKILL), [failure_patch(), success_patch()]);
    let prompts = [
        library.analyst(SourceType::Failure, &skill, 4, &[&failure]),
        library.analyst(SourceType::Success, &skill, 4, &[&failure]),
        library.merge(SourceType::Failure, &skill, &patches, 1),
        library.merge(SourceType::Success, &skill, &patches, 1),
        library.merge_final(&skill, &patches[0], &patches[1]),
        library.ranking(&skill, &patches[0].edits, 1),
        library.slow_update(&skill, &skill, &pairs()),
        library.meta_skill(&skill, &skill, &pairs()),
    ];
    for messages in prompts {
        let text = user(messages.unwrap());
        assert!(text.contains(&format!("<notes>\n{NOTES}\n- <\\/notes>\n</notes>\n")), "{text}");
    }
    let messages = library.analyst(SourceType::Failure, &skill, 4, &[&failure]).unwrap();
    insta::assert_snapshot!(user(messages));
}

/// A skill that is a folder: the files are below it, and each edit names its own.
#[test]
fn a_folder_of_files() {
    let skill = SkillDoc::new(format!(
        "---\nname: timetables\ndescription: Reads timetables.\n---\n{SKILL}\n<!-- SKILL_FILE: references/ports.md -->\n\
         # Ports\n- Give the code of a port.\n\n<!-- SKILL_CARRIED: 755 {} scripts/tide.py -->",
        "0".repeat(64)
    ));
    let failure = failure();
    let patches = [failure_patch(), fenced_patch()].map(|mut patch| {
        patch.edits[0].file = Some("references/ports.md".to_owned());
        patch
    });
    for (name, messages) in [
        ("folder_analyst", library().analyst(SourceType::Failure, &skill, 4, &[&failure])),
        ("folder_merge", library().merge(SourceType::Success, &skill, &patches, 1)),
        ("folder_final_merge", library().merge_final(&skill, &patches[0], &patches[1])),
        ("folder_ranking", library().ranking(&skill, &patches[0].edits, 1)),
    ] {
        insta::assert_snapshot!(name, user(messages.unwrap()));
    }
}

/// Every prompt of a rewriting mode, the first of each name as a whole.
fn prompts_of(mode: UpdateMode, [first, second]: [Patch; 2]) -> String {
    let library = library().with_update_mode(mode).with_memory("Step 1 (epoch 1): rejected.".to_owned());
    let (result, skill, budget) = (failure(), SkillDoc::new(SKILL), 2);
    let edits = [first.edits.clone(), second.edits.clone()].concat();
    let mut texts = vec![
        whole(library.skill_aware_analyst(SourceType::Failure, &skill, budget, &[&result]).unwrap()),
        whole(library.analyst(SourceType::Success, &skill, 1, &[&result]).unwrap()),
        whole(library.merge(SourceType::Failure, &skill, &[first.clone(), second.clone()], 2).unwrap()),
        user(library.merge_final(&skill, &first, &second).unwrap()),
    ];
    if mode == UpdateMode::RewriteFromSuggestions {
        let batch = BatchScore { n_rollouts: 40, hard: 0.225, soft: 1.0 / 3.0 };
        texts.push(user(library.edit_budget(&skill, &edits, batch).unwrap()));
        texts.push(whole(library.ranking(&skill, &edits, budget).unwrap()));
        texts.push(whole(library.rewrite(&skill, &edits).unwrap()));
    }
    texts.join("\n\n################\n\n")
}

/// The prompts of the paper's protocol ask for neither.
#[test]
fn planned_searches_ask_for_facts_and_for_failures_of_a_closed_list() {
    let (result, skill) = (failure(), SkillDoc::new(SKILL));
    let asked =
        |library: PromptLibrary| whole(library.analyst(SourceType::Failure, &skill, 4, &[&result]).unwrap());
    let planned = library().with_protocol(Protocol::Auto);
    let mut solved = failure();
    (solved.id, solved.hard, solved.soft) = ("t9".into(), 1.0, 1.0);
    insta::assert_snapshot!(whole(
        planned.analyst_beside(&skill, 4, &[&result], &[&solved], "", false).unwrap()
    ));
    for mode in UpdateMode::ALL {
        for (protocol, is_asked) in [(Protocol::Paper, false), (Protocol::Auto, true)] {
            let text = asked(library().with_update_mode(mode).with_protocol(protocol));
            for part in ["`rule_missing`", " API"] {
                assert_eq!(text.contains(part), is_asked, "{} {mode:?} {part}", protocol.as_str());
            }
        }
    }
}

#[test]
fn rewriting_by_suggestions() {
    let suggestion = |title: &str, instruction: &str, support_count| {
        let edit = edit(EditOp::from("suggestion"), title, instruction, support_count);
        let edit = Edit { source_type: Some(SourceType::Failure), ..edit };
        Patch { reasoning: "Dates.".to_owned(), edits: vec![edit], ranking_details: None }
    };
    let patches = [
        suggestion("bare values", "Add a rule: answer with the value alone.", Some(3)),
        suggestion("", "Show the form:\n```\n2024-01-31\n```", None),
    ];
    insta::assert_snapshot!(prompts_of(UpdateMode::RewriteFromSuggestions, patches));
}

#[test]
fn whole_new_skills() {
    let skill = |title: &str, support_count| {
        let new_skill = format!("{SKILL}- Answer with the bare value.\n");
        let edit = edit(EditOp::from("rewrite"), title, &new_skill, support_count);
        Patch { reasoning: "Answers are sentences.".to_owned(), edits: vec![edit], ranking_details: None }
    };
    let patches = [skill("bare values", Some(3)), skill("values, bare", None)];
    insta::assert_snapshot!(prompts_of(UpdateMode::FullRewriteMinibatch, patches));
}

/// What one trajectory looks like after a change to [`failure`].
#[track_caller]
pub(super) fn check_trajectory(change: impl FnOnce(&mut RolloutResult), has: &[&str], has_not: &[&str]) {
    let mut result = failure();
    change(&mut result);
    let text = render_trajectories(&SKILL.into(), &[&result], TrajectoryLimits::default());
    for part in has {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    for part in has_not {
        assert!(!text.contains(part), "{part:?} in:\n{text}");
    }
    assert!(text.ends_with("\n</trajectory>"));
    assert_eq!(text.to_lowercase().matches("</trajectory").count(), 1, "{text}");
}

#[test]
fn a_trajectory_shows_each_thing_once() {
    let reply = "[assistant] The Meridian arrives on March 4.";
    // The answer has its own line; another reply, or a second one, is shown.
    check_trajectory(|_| (), &["Agent's answer: The Meridian arrives on March 4.", "[user] The"], &[reply]);
    check_trajectory(|r| r.predicted_answer.push('!'), &[reply], &[]);
    check_trajectory(|r| r.predicted_answer.clear(), &[reply], &["Agent's answer"]);
    check_trajectory(
        |r| r.trajectory.messages.push(TrajectoryMessage::new(Role::Assistant, "Sorry.")),
        &[reply, "Sorry."],
        &[],
    );
    // The skill is above.
    check_trajectory(|_| (), &[], &["[system]", "Find the row"]);
    check_trajectory(|r| r.trajectory.messages[0].content = "Be brief.".into(), &["[system] Be brief."], &[]);
    check_trajectory(|r| r.trajectory.messages[0].content.insert_str(0, "  \n"), &[], &["[system]"]);
    check_trajectory(
        |r| r.trajectory.messages[0].content.push_str("\nBe brief."),
        &["[system] (the skill, as shown above)\n\nBe brief."],
        &["Find the row"],
    );
    // Without a conversation, the first prompts tell what the agent was asked.
    check_trajectory(
        |r| {
            r.trajectory.messages.clear();
            r.target_system_prompt = SKILL.to_owned();
            r.target_user_prompt = "Look it up.".to_owned();
        },
        &["Conversation:\n[user] Look it up."],
        &["[system]"],
    );
    check_trajectory(|r| r.trajectory.messages.clear(), &["Why it failed: no exact"], &["Conversation:"]);
}

#[test]
fn long_texts_lose_their_middle_and_say_so() {
    let long = format!("BEGIN{}END", "ä".repeat(20_000));
    check_trajectory(
        |r| r.question = long.clone(),
        &["Question: BEGINä", "äEND", "characters left out ...]"],
        &[],
    );
    check_trajectory(
        |r| r.trajectory.messages[1].content = long.clone(),
        &["[user] BEGINä", "äEND", "characters left out ...]"],
        &[],
    );
    // An answer that does not fit its line is shown as a turn.
    let answer = "b".repeat(MAX_FIELD_CHARS + 1);
    check_trajectory(
        |r| {
            r.predicted_answer = answer.clone();
            r.trajectory.messages[2].content = answer.clone();
        },
        &[&format!("[assistant] {answer}")],
        &[],
    );
    let mut result = failure();
    result.trajectory.messages =
        (0..20).map(|n| TrajectoryMessage::new(Role::User, format!("{n} {long}"))).collect();
    let n_chars = render_trajectories(&SKILL.into(), &[&result], TrajectoryLimits::default()).chars().count();
    assert!((MAX_TRAJECTORY_CHARS - 400..MAX_TRAJECTORY_CHARS + 200).contains(&n_chars), "{n_chars}");
}

#[test]
fn a_long_conversation_keeps_its_first_error_and_its_end() {
    let turn = |role, n: usize, text: &str| {
        TrajectoryMessage::new(role, format!("turn {n}: {text} {}", "x".repeat(500)))
    };
    let mut result = failure();
    result.trajectory.messages = (0..40)
        .map(|n| match n {
            14 => turn(Role::Assistant, n, "I open the wrong door"),
            15 => turn(Role::User, n, "Error: the door is locked"),
            31 => turn(Role::User, n, "Error: nothing left to do"),
            _ if n % 2 == 0 => turn(Role::Assistant, n, "an error in the agent's words is its own view"),
            _ => turn(Role::User, n, "all is well"),
        })
        .collect();
    let limits = TrajectoryLimits { trajectory: 5_000, ..TrajectoryLimits::default() };
    let text = render_trajectories(&SKILL.into(), &[&result], limits);
    for shown in [0, 14, 15, 16, 38, 39] {
        assert!(text.contains(&format!("turn {shown}: ")), "turn {shown}: {text}");
    }
    assert!(!text.contains("turn 7: ") && text.contains("[... 13 turns "), "{text}");
    assert!(text.chars().count() <= 5_200);
}

#[test]
fn solved_tasks_of_the_same_kind_stand_beside_failures_and_the_task_above_all() {
    let mut solved = failure();
    (solved.id, solved.hard) = ("q-3".into(), 1.0);
    let library = library().with_task("Background: ships.\n</task>\n\nScore: dates in ISO form.");
    let messages = library.analyst_beside(&SKILL.into(), 3, &[&failure()], &[&solved], "", false).unwrap();
    insta::assert_snapshot!(user(messages));
}

/// What all trajectories have in common is above them, once; each conversation of a rollout has a heading.
#[test]
fn what_trajectories_share_is_shown_once() {
    let rules = "Be polite to everybody who writes to the shop. ".repeat(6);
    let result = |id: &str| {
        let mut result = RolloutResult::new(ItemId::new(id), 0.0, 0.0);
        let said = [
            (Role::System, rules.as_str()),
            (Role::User, id),
            (Role::Assistant, "planned"),
            (Role::User, "check it"),
            (Role::Assistant, "checked </agent>"),
        ];
        let messages = said.map(|(role, text)| TrajectoryMessage::new(role, text));
        result.trajectory = Trajectory::of_messages(messages);
        result.trajectory.breaks = vec![3];
        let description = "Hands the case to a person. </agent>".to_owned();
        let parameters = vec!["order_id (string): The order.".to_owned()];
        result.trajectory.offer(OfferedTool { name: "escalate".to_owned(), description, parameters });
        result
    };
    let (first, second) = (result("a"), result("b"));
    let limits = TrajectoryLimits::default();
    let text = render_trajectories(&SKILL.into(), &[&first, &second], limits);
    for (part, n) in [
        (rules.trim(), 1),
        ("- escalate: Hands the case to a person.", 1),
        ("  - order_id (string): The order.", 1),
        ("(the agent's system prompt, as shown above)", 2),
        ("Conversation 1 of 2:\n[system]", 2),
        ("Conversation 2 of 2:\n[user] check it", 2),
        ("\n</agent>\n", 1),
        ("<trajectory index=", 2),
    ] {
        assert_eq!(text.matches(part).count(), n, "{part:?} in\n{text}");
    }
    // One trajectory is whole by itself.
    let alone = render_trajectories(&SKILL.into(), &[&first], limits);
    assert!(alone.contains(&format!("[system] {}", rules.trim())), "{alone}");
}
