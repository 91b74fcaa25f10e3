//! Episodes as a teacher reads them.

use super::{Episode, EpisodeStep};
use skill_core::estimate_tokens;

/// The most characters of one field, such as an observation: a field is cut at this, a step never is.
pub const MAX_FIELD_CHARS: usize = 1_500;

/// The most tokens of an episode in a bank, about; of a longer one the first steps are left out.
const MAX_RECORDED_TOKENS: u64 = 10_000;

/// Tags that text from outside must not end or begin.
const TAGS: [&str; 8] =
    ["</episode", "<episode", "</skill", "<skill", "</proposal", "<proposal", "</reply", "<reply"];

/// An episode as a block of lines, of about `max_tokens` at most.
///
/// The task, its outcome and what memories say are always shown. Of a long episode the last whole steps are shown, after
/// a line that says how many are missing; the last step is always shown.
pub fn render_episode(episode: &Episode, number: usize, max_tokens: u64) -> String {
    let outcome = if episode.success { "success" } else { "failure" };
    let id = escape(&one_line(&episode.id)).replace('"', "'");
    let head = format!(
        "<episode number=\"{number}\" id=\"{id}\" outcome=\"{outcome}\" score=\"{:.2}\">\n",
        episode.soft
    );
    let mut lines = fields(episode);
    let used = estimate_tokens(&head) + lines.iter().map(|line| estimate_tokens(line) + 1).sum::<u64>();
    lines.extend(last_steps(episode, max_tokens.saturating_sub(used)));
    format!("{head}{}\n</episode>", escape(&lines.join("\n")))
}

/// All steps of an episode, of a very long one the last whole ones; without steps its summary or its answer.
pub(crate) fn steps_text(episode: &Episode) -> String {
    if episode.steps.is_empty() {
        let told = [&episode.description, &episode.answer].into_iter().find(|text| !text.trim().is_empty());
        return told.map(|text| escape(&clip(text))).unwrap_or_default();
    }
    escape(&last_steps(episode, MAX_RECORDED_TOKENS).join("\n"))
}

fn fields(episode: &Episode) -> Vec<String> {
    let pattern = episode.planning_pattern.as_deref().unwrap_or_default();
    let mut lines: Vec<String> = [
        ("Task type", episode.task_type.as_str()),
        ("Task", &episode.goal),
        ("Data source", &episode.data_source),
        ("Reference answer", &episode.reference),
        ("Agent's answer", &episode.answer),
        ("Reason of the failure", &episode.fail_reason),
        ("Plan that worked", pattern),
    ]
    .into_iter()
    .filter(|(_, text)| !text.trim().is_empty())
    .map(|(label, text)| format!("{label}: {}", clip(text)))
    .collect();
    let mistakes = episode.mistakes.iter();
    lines.extend(mistakes.map(|mistake| {
        format!("Mistake: {} (when: {})", clip(&mistake.bad_action), clip(&mistake.trigger_condition))
    }));
    // A summary says what steps would show.
    if episode.steps.is_empty() && !episode.description.trim().is_empty() {
        lines.push(format!("Summary: {}", clip(&episode.description)));
    }
    lines
}

fn last_steps(episode: &Episode, max_tokens: u64) -> Vec<String> {
    let last = episode.last_observation.trim();
    let end = (!last.is_empty()).then(|| format!("At the end: {}", clip(last)));
    let mut left = max_tokens.saturating_sub(end.as_deref().map_or(0, estimate_tokens));
    let mut shown = Vec::new();
    for (step_idx, step) in episode.steps.iter().enumerate().rev() {
        let text = step_text(step, step_idx + 1);
        let cost = estimate_tokens(&text) + 1;
        if cost > left && !shown.is_empty() {
            break;
        }
        left = left.saturating_sub(cost);
        shown.push(text);
    }
    let n_missing = episode.steps.len().saturating_sub(shown.len());
    let missing = (n_missing > 0).then(|| format!("[{n_missing} earlier steps left out]"));
    missing.into_iter().chain(shown.into_iter().rev()).chain(end).collect()
}

fn step_text(step: &EpisodeStep, number: usize) -> String {
    let mut parts = vec![format!("Step {number}")];
    let labelled = [("Saw", &step.observation), ("Thought", &step.reasoning), ("Did", &step.action)];
    for (label, text) in labelled {
        if !text.trim().is_empty() {
            parts.push(format!("{label}: {}", clip(text)));
        }
    }
    if let Some(reward) = step.reward.filter(|reward| *reward != 0.0) {
        parts.push(format!("Reward: {reward}"));
    }
    parts.join("\n  ")
}

/// At most [`MAX_FIELD_CHARS`] characters of a text, with a note where more are missing.
fn clip(text: &str) -> String {
    let text = text.trim();
    let n_chars = text.chars().count();
    if n_chars <= MAX_FIELD_CHARS {
        return text.to_owned();
    }
    let head: String = text.chars().take(MAX_FIELD_CHARS).collect();
    format!("{head} [... {} characters left out]", n_chars - MAX_FIELD_CHARS)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text that cannot end a block of a teacher's prompt, nor begin another: a backslash is put behind the `<` of a tag.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        escaped.push_str(before);
        escaped.push('<');
        let begins_tag = |tag: &&str| {
            let tag = tag.trim_start_matches('<');
            after.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag))
        };
        if TAGS.iter().any(begins_tag) {
            escaped.push('\\');
        }
        rest = after;
    }
    escaped.push_str(rest);
    escaped
}
