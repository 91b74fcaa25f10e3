//! What a run cost, by the prices of the configuration.

use crate::assemble::ModelRole;
use crate::config::{Config, ModelConfig};
use crate::engine::judge_role;
use skill_core::Usage;
use skill_llm::Prices;
use skill_pipeline::Stage;
use skill_pipeline::run_dir::format::{StageTokens, TokensByStage};

/// The money that these calls cost, in the currency of the prices; `None` if the configuration names no price.
///
/// Cached tokens of the prompt cost `price_cached`, or as much as others where that is not given.
/// Where a judge with prices of its own grades answers, nothing is said: its tokens are counted with the agent's.
pub fn cost(config: &Config, tokens: &TokensByStage) -> Option<f64> {
    if shares_stages_at_other_prices(config) {
        return None;
    }
    let costs = tokens.iter().filter_map(|(stage, used)| usage_cost(config, stage, usage(*used)));
    costs.reduce(|sum, cost| sum + cost)
}

fn usage(used: StageTokens) -> Usage {
    Usage {
        input: used.prompt_tokens,
        cached: used.cached_tokens,
        output: used.completion_tokens,
        reasoning: 0,
    }
}

/// The money that the calls of one stage cost; `None` if its model has no price.
pub fn stage_cost(config: &Config, stage: &str, used: StageTokens) -> Option<f64> {
    usage_cost(config, stage, usage(used))
}

/// The money that these tokens cost at one stage; `None` if its model has no price.
pub fn usage_cost(config: &Config, stage: &str, usage: Usage) -> Option<f64> {
    let model = match role_at(stage) {
        ModelRole::Target | ModelRole::Judge if shares_stages_at_other_prices(config) => return None,
        ModelRole::Target | ModelRole::Judge => &config.models.target,
        ModelRole::Optimizer => &config.models.optimizer,
    };
    has_prices(model).then(|| prices(model).cost(usage))
}

/// Whether the calls of rollouts are of two models that do not cost the same.
fn shares_stages_at_other_prices(config: &Config) -> bool {
    let judge = match judge_role(config) {
        Some(ModelRole::Judge) => config.models.judge.as_ref(),
        Some(ModelRole::Optimizer) => Some(&config.models.optimizer),
        Some(ModelRole::Target) | None => None,
    };
    judge.is_some_and(|judge| prices(judge) != prices(&config.models.target))
}

/// Whose calls the calls of a stage are.
fn role_at(stage: &str) -> ModelRole {
    let of_optimizer = [
        Stage::Reflect,
        Stage::Aggregate,
        Stage::Select,
        Stage::Update,
        Stage::Appendix,
        Stage::SlowUpdate,
        Stage::MetaSkill,
    ]
    .map(Stage::as_str);
    if of_optimizer.contains(&stage) { ModelRole::Optimizer } else { ModelRole::Target }
}

/// Whether the configuration says what the tokens of a model cost.
pub fn has_prices(model: &ModelConfig) -> bool {
    model.prices().is_some_and(|asked| asked.input.is_some() || asked.output.is_some())
}

/// What the tokens of a model cost; nothing where the configuration does not say.
pub fn prices(model: &ModelConfig) -> Prices {
    let asked = model.prices().unwrap_or_default();
    let input = asked.input.unwrap_or(0.0);
    Prices { input, cached: asked.cached.unwrap_or(input), output: asked.output.unwrap_or(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(prices: &str) -> Config {
        let text = format!(
            "[env]\nkind = \"qa\"\ndata = \"d\"\n[models]\noptimizer = {{ kind = \"simulated\" }}\n\
             target = {{ kind = \"openai\", model = \"m\"{prices} }}\n"
        );
        Config::parse(&text, "test", &[]).unwrap().config
    }

    fn used() -> TokensByStage {
        let tokens = StageTokens {
            calls: 1,
            prompt_tokens: 1_000_000,
            cached_tokens: 400_000,
            completion_tokens: 100_000,
        };
        ["rollout", "reflect"].map(|stage| (stage.to_owned(), tokens)).into_iter().collect()
    }

    #[track_caller]
    fn check(prices: &str, expect: Option<f64>) {
        assert_eq!(cost(&config(prices), &used()), expect);
    }

    #[test]
    fn tokens_cost_what_the_configuration_says() {
        check("", None);
        check(", price_cached = 1.0", None);
        check(", price_input = 2.0", Some(2.0));
        check(", price_input = 2.0, price_cached = 0.5", Some(1.4));
        check(", price_input = 2.0, price_cached = 0.5, price_output = 10.0", Some(2.4));
    }
}
