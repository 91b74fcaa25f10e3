//! The limit on the size of a skill: what the optimizer is told of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skill_core::constraints::EditConstraints;
use skill_core::{Edit, EditOp, Patch, Role, RolloutResult, SkillDoc, SourceType};
use skill_llm::Message;
use skill_pipeline::prompts::PromptLibrary;
use skill_pipeline::settings::DEFAULT_MAX_SKILL_TOKENS;
use skill_pipeline::stage::update::update;
use skill_pipeline::{PipelineError, TrainSettings};

const SKILL: &str = "# Reading timetables\n\n- Find the row of the ship first.\n";

/// The user message of every prompt that shows the skill.
fn prompts(limit: Option<u64>) -> Vec<String> {
    let skill = SkillDoc::new(SKILL);
    let library = PromptLibrary::embedded().unwrap().with_size_of(&skill, limit);
    let result = RolloutResult::new("q".into(), 0.0, 0.0);
    let edits = [Edit::append("- a"), Edit::new(EditOp::Delete, "# Reading timetables", "")];
    let patch = Patch { edits: edits.to_vec(), ..Patch::default() };
    let sources = [SourceType::Failure, SourceType::Success];
    let mut messages = Vec::new();
    for source in sources {
        messages.push(library.analyst(source, &skill, 2, &[&result]).unwrap());
        messages.push(library.merge(source, &skill, &[patch.clone(), patch.clone()], 1).unwrap());
    }
    messages.push(library.merge_final(&skill, &patch, &patch).unwrap());
    messages.push(library.ranking(&skill, &edits, 1).unwrap());
    let user = |messages: Vec<Message>| -> String {
        messages.iter().filter(|message| message.role == Role::User).map(Message::text).collect()
    };
    messages.into_iter().map(user).collect()
}

/// The numbers below the heading of the skill's size: its tokens, the limit, and what is left, if anything is.
fn numbers_of_size(prompt: &str) -> Vec<u64> {
    let (_, section) = prompt.split_once("</skill>\n\n# Size of the skill\n\n").unwrap();
    let (section, _) = section.split_once("\n\n#").unwrap();
    let words = section.split(|character: char| !character.is_ascii_alphanumeric());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn every_prompt_says_how_large_the_skill_may_become() {
    for prompt in prompts(Some(100)) {
        assert_eq!(numbers_of_size(&prompt), [14, 100, 86], "{prompt}");
    }
    for prompt in prompts(None) {
        assert!(!prompt.contains("Size of the skill"), "{prompt}");
    }
}

#[test]
fn a_skill_that_is_too_long_is_said_to_be() {
    for prompt in prompts(Some(10)) {
        assert_eq!(numbers_of_size(&prompt), [14, 10], "{prompt}");
    }
    insta::assert_snapshot!(prompts(Some(10)).first().unwrap());
}

#[test]
fn the_stage_holds_the_limit_of_the_settings() {
    let settings = TrainSettings::default();
    assert_eq!(settings.edit_rules.max_tokens, Some(DEFAULT_MAX_SKILL_TOKENS));
    let filler = Edit::append("- x".repeat(20_000));
    let patch = Patch { edits: vec![filler, Edit::append("- short")], ..Patch::default() };
    let candidate = update(
        &SkillDoc::new(SKILL),
        &patch,
        settings.front_matter,
        &settings.edit_rules,
        &EditConstraints::default(),
    );
    let statuses: Vec<&str> = candidate.report.iter().map(|row| row.status.as_str()).collect();
    assert_eq!(statuses, ["skipped_over_size_limit", "applied_append"]);
    assert_eq!(settings.validate().map_err(|error: PipelineError| error.to_string()), Ok(()));
}
