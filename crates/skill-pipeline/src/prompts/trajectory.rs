//! Trajectories as the analysts read them.
//!
//! A trajectory is a block of lines: what is known of the task and its score, then the conversation. What stands
//! above it already is not repeated: a system turn that is the skill is left out, or the skill in it is replaced
//! by a note, and so is a lone reply that is the agent's answer to the letter. Long texts lose their middle, with
//! a line that says how many characters are missing. A long conversation keeps the turns that tell most: what was asked,
//! the first error with what led to it, and the end.

use crate::settings::{MAX_FIELD_CHARS, TrajectoryLimits};
use crate::text::{clip, escape_attribute, escape_closing, escape_in_trajectory, score_text};
use skill_core::{
    ComparisonPair, OfferedTool, PairCategory, Role, RolloutResult, SkillDoc, TrajectoryMessage,
};
use std::borrow::Cow;

/// The most characters of one trajectory where a task is there under two skills.
pub(crate) const MAX_PAIR_TRAJECTORY_CHARS: usize = 6_000;

/// A skill shorter than this is not looked for inside longer system prompts: it could be there by chance.
const MIN_EMBEDDED_SKILL_CHARS: usize = 40;

/// Stands for the skill inside a longer system prompt.
const SKILL_NOTE: &str = "(the skill, as shown above)";

/// Stands for the system prompt that all trajectories share.
const SYSTEM_NOTE: &str = "(the agent's system prompt, as shown above)";

/// A system prompt shorter than this is shown where it is.
const MIN_SHARED_CHARS: usize = 200;

/// Words by which an environment says that something went wrong.
const ERROR_WORDS: [&str; 9] = [
    "error",
    "exception",
    "traceback",
    "invalid",
    "failed",
    "not found",
    "cannot",
    "denied",
    "nothing happens",
];

/// The fewest turns that are worth choosing from: of fewer the text loses its middle.
const LEAST_TURNS: usize = 4;

/// The fewest characters of a turn that are worth a place.
const LEAST_PART_CHARS: usize = 300;

/// Room for the line that says how many turns are missing.
const GAP_CHARS: usize = 32;

/// Renders trajectories in the order given, numbered from 1, with a blank line between them.
///
/// `skill` is the skill that the agent had; it is taken to be shown above.
pub fn render_trajectories(skill: &SkillDoc, results: &[&RolloutResult], limits: TrajectoryLimits) -> String {
    let about = About::of(skill, results);
    let numbered = results.iter().zip(1_usize..);
    let blocks = numbered.map(|(result, index)| render_one(skill, &about, result, index, limits));
    about.block(limits).into_iter().chain(blocks).collect::<Vec<_>>().join("\n\n")
}

/// What all trajectories of a prompt have in common, which is shown once.
#[derive(Default)]
struct About<'a> {
    /// The agent's own system prompt, where it is the same in all of them and long.
    system: Option<String>,
    /// The tools that its model was offered.
    tools: Vec<&'a OfferedTool>,
}

impl<'a> About<'a> {
    fn of(skill: &SkillDoc, results: &[&'a RolloutResult]) -> Self {
        let mut tools: Vec<&OfferedTool> = Vec::new();
        for tool in results.iter().flat_map(|result| &result.trajectory.tools) {
            if tools.iter().all(|known| known.name != tool.name) {
                tools.push(tool);
            }
        }
        let systems = results.iter().map(|result| {
            let mut said = result.trajectory.conversation();
            let system = said.find(|message| message.role == Role::System)?;
            system_content(skill, &system.as_text()).map(Cow::into_owned)
        });
        let mut systems = systems.collect::<Option<Vec<String>>>().unwrap_or_default();
        systems.dedup();
        let system = systems.pop().filter(|text| {
            // An agent with tools brings its own prompt; those of environments are short and say what is special.
            let is_long = text.chars().count() >= MIN_SHARED_CHARS;
            systems.is_empty() && !tools.is_empty() && results.len() > 1 && is_long
        });
        Self { system, tools }
    }

    /// The block above the trajectories; `None` where there is nothing to tell.
    fn block(&self, limits: TrajectoryLimits) -> Option<String> {
        let mut lines = Vec::new();
        if let Some(system) = &self.system {
            lines.push("The agent's system prompt, the same in every trajectory:".to_owned());
            lines.push(clip(system, limits.turn).into_owned());
        }
        if !self.tools.is_empty() {
            lines.push("The agent's tools:".to_owned());
        }
        for tool in &self.tools {
            lines.push(format!("- {}: {}", tool.name, clip(tool.description.trim(), limits.field)));
            let parameters = tool.parameters.iter();
            lines.extend(parameters.map(|parameter| format!("  - {}", clip(parameter, limits.field))));
        }
        let text = clip(&lines.join("\n"), limits.trajectory).into_owned();
        let text = escape_closing(&escape_in_trajectory(&text), "</agent").into_owned();
        (!lines.is_empty()).then(|| format!("<agent>\n{text}\n</agent>"))
    }
}

/// Renders tasks under two skills, those that need a remedy first; within a category they keep their order.
///
/// Of a task that both skills solved only what was asked is shown.
pub(crate) fn render_pairs(previous: &SkillDoc, current: &SkillDoc, pairs: &[ComparisonPair]) -> String {
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
            let limits =
                TrajectoryLimits { trajectory: MAX_PAIR_TRAJECTORY_CHARS, ..TrajectoryLimits::default() };
            let sides = [(previous, &pair.previous, 1), (current, &pair.current, 2)];
            let about = About::default();
            sides.map(|(skill, result, index)| render_one(skill, &about, result, index, limits)).join("\n")
        }
    };
    format!("<pair id=\"{id}\" category=\"{}\">\n{body}\n</pair>", pair.category.as_str())
}

fn render_one(
    skill: &SkillDoc,
    about: &About<'_>,
    result: &RolloutResult,
    index: usize,
    limits: TrajectoryLimits,
) -> String {
    let mut lines = fields(result, limits.field);
    let turns = conversation(skill, about, result, limits);
    if !turns.is_empty() {
        lines.push("Conversation:".to_owned());
        let n_used: usize = lines.iter().map(|line| line.chars().count() + 1).sum();
        let room = limits.trajectory.saturating_sub(n_used);
        lines.push(told(&turns, room));
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

/// The turns as one text of about this length at most.
fn told(turns: &[Turn], room: usize) -> String {
    let n_chars: usize = turns.iter().map(|turn| turn.text.chars().count() + 1).sum();
    if n_chars <= room + 1 || turns.len() < LEAST_TURNS {
        let texts: Vec<&str> = turns.iter().map(|turn| turn.text.as_str()).collect();
        return clip(&texts.join("\n"), room).into_owned();
    }
    let mut kept: Vec<Option<Cow<'_, str>>> = vec![None; turns.len()];
    let mut left = room;
    for at in by_relevance(turns) {
        let (Some(turn), Some(place @ None)) = (turns.get(at), kept.get_mut(at)) else { continue };
        let text = clip(&turn.text, left.saturating_sub(1 + GAP_CHARS));
        let is_whole = matches!(text, Cow::Borrowed(_));
        if is_whole || left > LEAST_PART_CHARS {
            left = left.saturating_sub(text.chars().count() + 1 + GAP_CHARS);
            *place = Some(text);
        }
        if !is_whole {
            // What comes later says less.
            break;
        }
    }
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    for group in kept.chunk_by(|one, next| one.is_some() == next.is_some()) {
        match group.first() {
            Some(Some(_)) => lines.extend(group.iter().flatten().cloned()),
            _ => lines.push(format!("[... {} turns left out ...]", group.len()).into()),
        }
    }
    lines.join("\n")
}

/// Places of turns, those first that tell most: what was asked, the last turn, the first error with the turn that led to
/// it and the one after it, and then from the end back to the beginning.
fn by_relevance(turns: &[Turn]) -> Vec<usize> {
    let last = turns.len().saturating_sub(1);
    // What the agent says of errors is its own view; what it is told counts.
    let is_error = |turn: &Turn| {
        let text = turn.text.to_lowercase();
        turn.role != Role::Assistant && ERROR_WORDS.iter().any(|word| text.contains(word))
    };
    let first_error = turns.iter().skip(1).position(is_error).map(|at| at + 1);
    let around = first_error.into_iter().flat_map(|at| [at, at - 1, (at + 1).min(last)]);
    [0, last].into_iter().chain(around).chain((0..=last).rev()).collect()
}

/// A turn as an analyst reads it.
struct Turn {
    role: Role,
    text: String,
}

/// One line, or more if the text has more, for each thing that is known.
fn fields(result: &RolloutResult, limit: usize) -> Vec<String> {
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
    .map(|(label, text)| format!("{label}: {}", clip(text.trim(), limit)))
    .collect()
}

/// The turns that say something new, one text each.
fn conversation(
    skill: &SkillDoc,
    about: &About<'_>,
    result: &RolloutResult,
    limits: TrajectoryLimits,
) -> Vec<Turn> {
    let prompts;
    let mut said: Vec<&TrajectoryMessage> = result.trajectory.conversation().collect();
    if said.is_empty() {
        prompts = first_prompts(result);
        said.extend(&prompts);
    }
    let is_answer_shown = answer_is_the_only_reply(result, limits.field);
    let breaks = &result.trajectory.breaks;
    let heading = |at: usize| {
        let began =
            breaks.iter().position(|place| usize::try_from(*place) == Ok(at)).map(|number| number + 2);
        let number = if at == 0 && !breaks.is_empty() { Some(1) } else { began };
        number.map(|number| format!("Conversation {number} of {}:\n", breaks.len() + 1)).unwrap_or_default()
    };
    // The heading of a conversation whose first turns are not shown.
    let mut pending = String::new();
    said.into_iter()
        .enumerate()
        .filter_map(|(at, message)| {
            pending.push_str(&heading(at));
            if is_answer_shown && message.role == Role::Assistant {
                return None;
            }
            let text = message.as_text();
            let content = match message.role {
                Role::System => match system_content(skill, &text)? {
                    content if Some(content.as_ref()) == about.system.as_deref() => {
                        Cow::Borrowed(SYSTEM_NOTE)
                    }
                    content => content,
                },
                Role::User | Role::Assistant | Role::Tool => Cow::Borrowed(text.trim()),
            };
            let content = if content.is_empty() { Cow::Borrowed("(empty)") } else { content };
            let heading = std::mem::take(&mut pending);
            let text = format!("{heading}[{}] {}", message.role.as_str(), clip(&content, limits.turn));
            Some(Turn { role: message.role, text })
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
fn answer_is_the_only_reply(result: &RolloutResult, limit: usize) -> bool {
    let mut replies = result.trajectory.conversation().filter(|message| message.role == Role::Assistant);
    let (Some(reply), None) = (replies.next(), replies.next()) else { return false };
    let answer = &result.predicted_answer;
    reply.as_text().trim() == *answer && !answer.trim().is_empty() && answer.chars().count() <= limit
}
