//! What models are asked: for a first set of queries, and for a better description.

use super::{MAX_DESCRIPTION_CHARS, Step};
use crate::measure::Setup;
use crate::query::Query;
use crate::skill::Skill;
use crate::table::Agent;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Failures that the optimizer is shown.
const MAX_SHOWN: usize = 12;
/// Earlier proposals that it is shown.
const MAX_STEPS: usize = 6;
/// Characters of the skill's body that it is shown.
const MAX_BODY_CHARS: usize = 1500;

/// Asks for `n` queries: half of them need a skill, and of the others the larger half are near misses.
pub fn draft_prompt(agent: &Agent, skills: &[Skill], n: usize) -> String {
    let n_should = n.div_ceil(2);
    let n_near = n.saturating_sub(n_should).div_ceil(2);
    let n_far = n.saturating_sub(n_should).saturating_sub(n_near);
    let mut text = format!(
        "Write test requests for the coding agent {}. They measure whether the agent loads the right skill.\n\n# Skills\n\n",
        agent.title
    );
    for skill in skills {
        let _ = writeln!(text, "{}: {}\n", skill.listed_name(agent), skill.listed_text(agent));
    }
    let _ = write!(text, "# Requests\n\nWrite {n} requests:\n- {n_should} that need one of these skills\n");
    let others = [
        (n_near, "near misses, which share words with a skill and need something else"),
        (n_far, "about unrelated work"),
    ];
    for (n, what) in others.into_iter().filter(|(n, _)| *n > 0) {
        let _ = writeln!(text, "- {n} {what}");
    }
    text.push_str(
        "\nPhrase them as people would type them: concrete, with file names and details, some short and some long. \
         Neither name a skill nor copy words from its description.\n\n\
         Reply with one JSON object per line and nothing else:\n\
         {\"query\": \"the request\", \"should\": \"name of the skill that it needs, or false\", \"near_miss\": true or false}\n",
    );
    text
}

/// A query that came out wrong.
#[derive(Debug, Clone)]
pub(super) struct Failure<'a> {
    pub(super) query: &'a Query,
    /// The share of its runs that came out right.
    pub(super) value: f64,
    /// The skills that were loaded in any of its runs.
    pub(super) loaded: BTreeSet<String>,
}

/// What the optimizer works from.
pub(super) struct Improvement<'a> {
    pub(super) setup: &'a Setup,
    /// The skill with its current description.
    pub(super) skill: &'a Skill,
    /// Its place among the skills of the setup.
    pub(super) skill_idx: usize,
    pub(super) failures: Vec<Failure<'a>>,
    pub(super) steps: &'a [Step],
}

impl Improvement<'_> {
    /// Asks for a better description.
    pub(super) fn prompt(&self) -> String {
        let (agent, skill) = (self.setup.agent, self.skill);
        let texts = skill.texts(agent);
        let mut text = format!(
            "Improve the description of a skill of the coding agent {}. Before a task, the agent's model sees only the \
             name and the description of each skill, and decides from them which skills to load.\n\n# Skill\n\n\
             Name: {}\n\nDescription:\n{}\n\n",
            agent.title,
            skill.listed_name(agent),
            texts.description,
        );
        if let Some(when) = &texts.when_to_use {
            let _ = write!(text, "Field when_to_use, shown after the description:\n{when}\n\n");
        }
        let body: String = skill.package.body().chars().take(MAX_BODY_CHARS).collect();
        let _ = write!(text, "The beginning of its text:\n{}\n\n", body.trim_end());
        let others = self.setup.skills.iter().enumerate().filter(|(idx, _)| *idx != self.skill_idx);
        let others: Vec<&Skill> = others.map(|(_, other)| other).chain(&self.setup.competitors).collect();
        if !others.is_empty() {
            text.push_str("# Other skills that the model sees\n\n");
            for other in others {
                let _ = writeln!(text, "- {}: {}", other.listed_name(agent), other.listed_text(agent));
            }
            text.push('\n');
        }
        text.push_str("# Requests with a wrong result\n\n");
        for failure in self.failures.iter().take(MAX_SHOWN) {
            let wanted = failure.query.skill.as_deref().unwrap_or("no skill");
            let loaded: Vec<&str> = failure.loaded.iter().map(String::as_str).collect();
            let loaded = if loaded.is_empty() { "no skill".to_owned() } else { loaded.join(", ") };
            let share = failure.value * 100.0;
            let query = &failure.query.query;
            let _ = writeln!(
                text,
                "- {query:?}: needs {wanted}, loaded {loaded}; right in {share:.0} % of its runs"
            );
        }
        if !self.steps.is_empty() {
            text.push_str("\n# Earlier proposals, with their share of right results\n\n");
        }
        for step in self.steps.iter().rev().take(MAX_STEPS) {
            let share = match (&step.why, step.train) {
                (Some(why), _) => format!("not measured, {why}"),
                (None, Some(train)) => format!("{:.0} %", train * 100.0),
                (None, None) => "repeated, not measured".to_owned(),
            };
            let when = step.texts.when_to_use.as_ref().map(|when| format!(" / {when}")).unwrap_or_default();
            let _ = writeln!(text, "- {share}: {}{when}", step.texts.description);
        }
        let _ = write!(
            text,
            "\n# Task\n\nWrite one better description. Say what the skill does and when to use it, in words that people \
             use for such requests, without copying the requests above. Use one paragraph of at most \
             {MAX_DESCRIPTION_CHARS} characters without angle brackets.\n\nReply with nothing but:\n\
             <description>the description</description>\n"
        );
        if texts.when_to_use.is_some() {
            text.push_str("<when_to_use>the text after it</when_to_use>\n");
        }
        text
    }
}
