//! Rules that an answer has to keep.

use super::{
    Answer, MAX_ANSWERS, References, Scored, ScorerSpec, TaskScorer, Verdict, reference_text, wrong,
};
use crate::error::EnvError;
use crate::score::{Rule, apply_rules};
use crate::tasks::task::Task;
use serde_json::Value;

/// Nobody knows a reply to a rule.
pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["rules", "rules_field"],
    needs: &["rules", "rules_field"],
    ..ScorerSpec::new(References::NoAnswers, &[], "The answer has to keep every rule of the task.")
};

/// The rules of all items.
#[derive(Debug)]
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    pub(super) fn new(rules: &[Value]) -> Result<Self, EnvError> {
        let rules = rules.iter().enumerate().map(|(rule_idx, rule)| {
            Rule::parse(rule).map_err(|error| wrong(format!("rule {} of `rules`: {error}", rule_idx + 1)))
        });
        Ok(Self(rules.collect::<Result<_, _>>()?))
    }
}

impl TaskScorer for Rules {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        let rules: Vec<Rule> = self.0.iter().chain(&answer.task.rules).cloned().collect();
        let called: Vec<&str> = answer.reply.tool_calls.iter().map(|call| call.name.as_str()).collect();
        let verdict = apply_rules(&rules, answer.text, &called);
        let n_more = verdict.broken.len().saturating_sub(MAX_ANSWERS);
        let mut broken: Vec<String> = verdict.broken.into_iter().take(MAX_ANSWERS).collect();
        if n_more > 0 {
            broken.push(format!("{n_more} more rules are broken"));
        }
        let reason = format!("of the {}: {}", answer.noun, broken.join("; "));
        Scored::Known(Verdict::new(verdict.score, reason))
    }

    fn expects(&self) -> Option<&'static str> {
        None
    }

    /// Rules need something to hold answers against, and tools that can be called.
    fn fault(&self, task: &Task, offers_tools: bool) -> Option<&'static str> {
        if self.0.is_empty() && task.rules.is_empty() {
            return Some(
                "has no rules; the scorer `rules` needs `rules` in the configuration or a field with them",
            );
        }
        (!offers_tools && self.0.iter().chain(&task.rules).any(Rule::needs_tools)).then_some(
            "has the rule `tool_called`, but the agent is offered no tools; name them with `tools`",
        )
    }

    fn reference_text(&self, task: &Task) -> String {
        reference_text(task, &self.0)
    }
}
