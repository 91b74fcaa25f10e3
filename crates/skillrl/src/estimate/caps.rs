//! Caps that cannot be exact: those on tokens and money, where a model's replies have no limit.

use crate::config::{Config, ModelConfig, ModelRole};
use serde::Serialize;

/// A model whose replies have no limit, under a cap that counts their tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ApproximateCap {
    /// `target`, `optimizer`, `judge` or `teacher`.
    pub role: &'static str,
    /// The key that limits its replies; `None` for a program that takes no limit.
    pub set: Option<&'static str>,
}

impl ApproximateCap {
    /// The fact and the way out, as one sentence.
    pub fn message(&self) -> String {
        let role = self.role;
        match self.set {
            Some(key) => format!(
                "replies of the {role} have no limit, so caps on tokens and money are approximate: set `{key}`"
            ),
            None => format!(
                "the {role} is a program that takes no limit on replies, so caps on tokens and money are approximate: set `budget.calls`"
            ),
        }
    }
}

/// The models that make the caps on tokens and money approximate; none where there is no such cap.
pub fn approximate_caps(config: &Config) -> Vec<ApproximateCap> {
    if config.budget.tokens.is_none() && config.budget.money.is_none() {
        return Vec::new();
    }
    let judge = ModelRole::of_judge(config);
    let mut roles = ModelRole::of_training(config).to_vec();
    roles.extend(judge.filter(|role| *role == ModelRole::Judge));
    let approximate = |role: ModelRole| {
        let model = role.config(config)?;
        // Grades are requested without a limit of their own.
        let is_judge = judge == Some(role);
        let set = match role {
            ModelRole::Target => "models.target.max_tokens",
            ModelRole::Optimizer => "models.optimizer.max_tokens",
            ModelRole::Judge => "models.judge.max_tokens",
            ModelRole::Teacher => "models.teacher.max_tokens",
        };
        let has_limit = match model {
            // The context of a local model limits its replies.
            ModelConfig::Local(_) | ModelConfig::Scripted(_) | ModelConfig::Simulated(_) => true,
            ModelConfig::Agent(_) => return Some(ApproximateCap { role: role.as_str(), set: None }),
            ModelConfig::Served { dialect, config: served } => {
                dialect.default_max_tokens().is_some()
                    || served.max_tokens.is_some()
                    || !is_judge
                        && match role {
                            ModelRole::Target => config.env.max_tokens().is_some(),
                            // Its requests carry `limits.max_reply_tokens`.
                            ModelRole::Optimizer | ModelRole::Teacher => true,
                            ModelRole::Judge => false,
                        }
            }
        };
        (!has_limit).then_some(ApproximateCap { role: role.as_str(), set: Some(set) })
    };
    roles.into_iter().filter_map(approximate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(&str, Option<&str>)]) {
        let config = Config::parse(text, "test", &[]).unwrap().config;
        let found = approximate_caps(&config);
        let found: Vec<_> = found.iter().map(|cap| (cap.role, cap.set)).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn caps_are_approximate_where_a_model_has_no_limit() {
        let config = |budget: &str, env: &str, target: &str| {
            format!(
                "[budget]\n{budget}\n[models]\noptimizer = {{ kind = \"openai\", model = \"o\", price_input = 1.0 }}\n\
                 target = {{ {target} }}\n[env]\nkind = \"qa\"\ndata = \"d\"\n{env}\n"
            )
        };
        let open = "kind = \"openai\", model = \"m\", price_input = 1.0";
        let expect = [("target", Some("models.target.max_tokens"))];
        check(&config("tokens = 1000", "", open), &expect);
        check(&config("money = 1.0", "", open), &expect);
        check(&config("calls = 10", "", open), &[]);
        check(&config("tokens = 1000", "max_tokens = 100", open), &[]);
        check(&config("tokens = 1000", "", &format!("{open}, max_tokens = 100")), &[]);
        check(&config("tokens = 1000", "", "kind = \"anthropic\", model = \"m\""), &[]);
        check(&config("tokens = 1000", "", "kind = \"simulated\""), &[]);
        check(
            &config("tokens = 1000", "", "kind = \"agent\", agent = \"codex\", model = \"m\""),
            &[("target", None)],
        );
    }
}
