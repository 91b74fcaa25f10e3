//! Trajectories as the analysts read them.
//!
//! A trajectory is a block of lines: what is known of the task and its score, then the conversation. What stands
//! above it already is not repeated: a system turn that is the skill is left out, or the skill in it is replaced
//! by a note, and so is a lone reply that is the agent's answer to the letter. Long texts lose their middle, with
//! a line that says how many characters are missing.

use super::text::{clip, escape_attribute, escape_in_trajectory, score_text};
use skill_core::{ComparisonPair, PairCategory, Role, RolloutResult, SkillDoc, TrajectoryMessage};
use std::borrow::Cow;

/// The most characters of one field, such as the question.
pub const MAX_FIELD_CHARS: usize = 2_000;

/// The most characters of one turn: enough for a question with the ten paragraphs it is asked about.
pub const MAX_TURN_CHARS: usize = 8_000;

/// The most characters of one trajectory; fields are kept, the conversation gives way.
pub const MAX_TRAJECTORY_CHARS: usize = 24_000;

/// The most characters of one trajectory where a task stands there under two skills.
pub const MAX_PAIR_TRAJECTORY_CHARS: usize = 6_000;

/// A skill shorter than this is not looked for inside longer system prompts: it could stand there by chance.
const MIN_EMBEDDED_SKILL_CHARS: usize = 40;

/// Stands for the skill inside a longer system prompt.
const SKILL_NOTE: &str = "(here stands the skill, as shown above)";

/// Renders trajectories in the order given, numbered from 1, with a blank line between them.
///
/// `skill` is the skill that the agent had; it is taken to be shown above.
pub fn render_trajectories(skill: &SkillDoc, results: &[&RolloutResult]) -> String {
    let blocks: Vec<String> = results
        .iter()
        .zip(1_usize..)
        .map(|(result, index)| render_one(skill, result, index, MAX_TRAJECTORY_CHARS))
        .collect();
    blocks.join("\n\n")
}

/// Renders tasks under two skills, those that need a remedy first; within a category they keep their order.
///
/// Of a task that both skills solved only what was asked is shown.
pub fn render_pairs(previous: &SkillDoc, current: &SkillDoc, pairs: &[ComparisonPair]) -> String {
    let mut pairs: Vec<&ComparisonPair> = pairs.iter().collect();
    pairs.sort_by_key(|pair| pair.category);
    let blocks: Vec<String> = pairs.into_iter().map(|pair| render_pair(previous, current, pair)).collect();
    blocks.join("\n\n")
}

fn render_pair(previous: &SkillDoc, current: &SkillDoc, pair: &ComparisonPair) -> String {
    let id = escape_attribute(&clip(pair.id().as_str(), MAX_FIELD_CHARS));
    let body = match pair.category {
        PairCategory::StableSuccess => {
            escape_in_trajectory(&format!("Task: {}", clip(pair.task(), MAX_FIELD_CHARS))).into_owned()
        }
        PairCategory::Regressed | PairCategory::PersistentFail | PairCategory::Improved => {
            let sides = [(previous, &pair.previous, 1), (current, &pair.current, 2)];
            sides
                .map(|(skill, result, index)| render_one(skill, result, index, MAX_PAIR_TRAJECTORY_CHARS))
                .join("\n")
        }
    };
    format!("<pair id=\"{id}\" category=\"{}\">\n{body}\n</pair>", pair.category.as_str())
}

fn render_one(skill: &SkillDoc, result: &RolloutResult, index: usize, limit: usize) -> String {
    let mut lines = fields(result);
    let turns = conversation(skill, result);
    if !turns.is_empty() {
        lines.push("Conversation:".to_owned());
        let n_used: usize = lines.iter().map(|line| line.chars().count() + 1).sum();
        let room = limit.saturating_sub(n_used);
        lines.push(clip(&turns.join("\n"), room).into_owned());
    }
    let id = escape_attribute(&clip(result.id.as_str(), MAX_FIELD_CHARS));
    let (hard, soft) = (score_text(result.hard), score_text(result.soft));
    let mut block = format!("<trajectory index=\"{index}\" id=\"{id}\" hard=\"{hard}\" soft=\"{soft}\">\n");
    if !lines.is_empty() {
        block.push_str(&escape_in_trajectory(&lines.join("\n")));
        block.push('\n');
    }
    block.push_str("</trajectory>");
    block
}

/// One line, or more if the text has more, for each thing that is known.
fn fields(result: &RolloutResult) -> Vec<String> {
    [
        ("Task type", &result.task_type),
        ("Task", &result.task_description),
        ("Question", &result.question),
        ("Reference answer", &result.reference_text),
        ("Agent's answer", &result.predicted_answer),
        ("Why it failed", &result.fail_reason),
    ]
    .into_iter()
    .filter(|(_, text)| !text.trim().is_empty())
    .map(|(label, text)| format!("{label}: {}", clip(text.trim(), MAX_FIELD_CHARS)))
    .collect()
}

/// The turns that say something new, one text each.
fn conversation(skill: &SkillDoc, result: &RolloutResult) -> Vec<String> {
    let prompts;
    let mut said: Vec<&TrajectoryMessage> = result.trajectory.conversation().collect();
    if said.is_empty() {
        prompts = first_prompts(result);
        said.extend(&prompts);
    }
    let is_answer_shown = answer_is_the_only_reply(result);
    said.into_iter()
        .filter(|message| !(is_answer_shown && message.role == Role::Assistant))
        .filter_map(|message| {
            let text = message.as_text();
            let content = match message.role {
                Role::System => system_content(skill, &text)?,
                Role::User | Role::Assistant | Role::Tool => Cow::Borrowed(text.trim()),
            };
            let content = if content.is_empty() { Cow::Borrowed("(empty)") } else { content };
            Some(format!("[{}] {}", message.role.as_str(), clip(&content, MAX_TURN_CHARS)))
        })
        .collect()
}

/// What the agent was told, for an environment that keeps no conversation.
fn first_prompts(result: &RolloutResult) -> Vec<TrajectoryMessage> {
    [(Role::System, &result.target_system_prompt), (Role::User, &result.target_user_prompt)]
        .into_iter()
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(role, text)| TrajectoryMessage::new(role, text.as_str()))
        .collect()
}

/// A system turn without the skill; `None` if there is nothing else in it.
fn system_content<'a>(skill: &SkillDoc, content: &'a str) -> Option<Cow<'a, str>> {
    let shown = skill.agent_view();
    let (content, skill_text) = (content.trim(), shown.trim());
    if content.is_empty() || content == skill_text {
        return None;
    }
    if skill_text.chars().count() < MIN_EMBEDDED_SKILL_CHARS || !content.contains(skill_text) {
        return Some(Cow::Borrowed(content));
    }
    Some(Cow::Owned(content.replacen(skill_text, SKILL_NOTE, 1)))
}

/// Whether the agent spoke once and its answer, which has a line of its own, is all that it said.
fn answer_is_the_only_reply(result: &RolloutResult) -> bool {
    let mut replies = result.trajectory.conversation().filter(|message| message.role == Role::Assistant);
    let (Some(reply), None) = (replies.next(), replies.next()) else { return false };
    let answer = &result.predicted_answer;
    reply.as_text().trim() == *answer
        && !answer.trim().is_empty()
        && answer.chars().count() <= MAX_FIELD_CHARS
}
