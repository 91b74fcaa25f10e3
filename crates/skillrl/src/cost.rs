//! What a run cost, by the prices of the configuration.

use crate::config::{Config, ModelConfig, ModelRole};
#[cfg(feature = "report")]
use indexmap::IndexMap;
use skill_core::Usage;
use skill_llm::Prices;
use skill_llm::journal::{JournalError, StageCalls};
use skill_pipeline::Stage;
use skill_pipeline::records::{StageTokens, TokensByStage};
use skill_pipeline::run_dir::{JOURNAL_FILE, journal_if_there};
use std::path::Path;

/// The money that these calls cost, in the currency of the prices; `None` if the configuration names no price, or replies
/// came without token counts.
///
/// Cached tokens of the prompt cost `price_cached`, or as much as others where that is not given; tokens that the provider
/// wrote to its cache cost `price_cache_write`, or what the provider asks for the time that it keeps them.
/// Where a judge with prices of its own grades answers, nothing is said: its tokens are counted with the agent's, and
/// [`run_cost`] tells them apart.
pub(crate) fn cost(config: &Config, tokens: &TokensByStage) -> Option<f64> {
    if shares_stages_at_other_prices(config) || !tokens.values().all(StageTokens::has_counts) {
        return None;
    }
    let costs = tokens.iter().filter_map(|(stage, used)| usage_cost(config, stage, usage(*used)));
    costs.reduce(|sum, cost| sum + cost)
}

/// The money that a run cost; `None` if the configuration names no price, nothing was sent, or its journal cannot be read.
///
/// Where a judge with prices of its own grades answers, the journal says whose calls are whose; where replies were
/// copied from a recording, it says what was sent.
pub fn run_cost(config: &Config, tokens: &TokensByStage, run: &Path) -> Option<f64> {
    match told_by_journal(config, run) {
        Ok(None) => cost(config, tokens),
        Ok(Some(rows)) if rows.iter().all(has_counts) => {
            rows.iter().filter_map(|row| calls_cost(config, row)).reduce(|sum, cost| sum + cost)
        }
        Ok(Some(_)) | Err(_) => None,
    }
}

/// The money that each stage cost, by its name; stages without a price, and those that sent nothing, are left out, and
/// all of them if the journal cannot be read.
#[cfg(feature = "report")]
pub(crate) fn costs_by_stage(config: &Config, tokens: &TokensByStage, run: &Path) -> IndexMap<String, f64> {
    let mut costs = IndexMap::new();
    match told_by_journal(config, run) {
        Ok(Some(rows)) => {
            for row in rows {
                if let Some(cost) = calls_cost(config, &row).filter(|_| has_counts(&row)) {
                    *costs.entry(row.stage).or_insert(0.0) += cost;
                }
            }
        }
        Ok(None) => {
            let priced = |(stage, used): (&String, &StageTokens)| {
                let cost = usage_cost(config, stage, usage(*used)).filter(|_| used.has_counts());
                cost.map(|cost| (stage.clone(), cost))
            };
            costs.extend(tokens.iter().filter_map(priced));
        }
        // The verdict has a caution about the journal.
        Err(_) => {}
    }
    costs
}

/// The money that calls of one model at one stage cost; `None` if nobody knows.
pub fn calls_cost(config: &Config, calls: &StageCalls) -> Option<f64> {
    let Some(judge) = judge_at_other_prices(config).filter(|_| role_at(&calls.stage) == ModelRole::Target)
    else {
        return usage_cost(config, &calls.stage, calls.usage);
    };
    let target = &config.models.target;
    let model = match (name_of(target), name_of(judge)) {
        // Two models of one name, served at two prices, cannot be told apart by it.
        (Some(target), Some(judge)) if target == judge => return None,
        (_, Some(name)) => {
            if calls.model == name {
                judge
            } else {
                target
            }
        }
        (Some(name), None) => {
            if calls.model == name {
                target
            } else {
                judge
            }
        }
        (None, None) => return None,
    };
    price(model, calls.usage)
}

/// The calls for which something was sent, if the tokens of stages do not tell what was paid; `None` if they do.
///
/// # Errors
///
/// A journal that cannot be read: whether the tokens of stages tell what was paid is not known.
fn told_by_journal(config: &Config, run: &Path) -> Result<Option<Vec<StageCalls>>, JournalError> {
    let is_shared = shares_stages_at_other_prices(config);
    let Some(journal) = journal_if_there(&run.join(JOURNAL_FILE))? else {
        return Ok(is_shared.then(Vec::new));
    };
    if !is_shared && !journal.has_copies()? {
        return Ok(None);
    }
    let rows = journal.by_stage()?;
    Ok(Some(rows.into_iter().filter(|row| row.requests > 0).collect()))
}

/// True unless these calls were answered without token counts.
fn has_counts(calls: &StageCalls) -> bool {
    calls.replies == 0 || calls.usage.tokens() > 0
}

fn name_of(model: &ModelConfig) -> Option<&str> {
    model.served().map(|served| served.model.as_str())
}

fn usage(used: StageTokens) -> Usage {
    Usage {
        input: used.prompt_tokens,
        cached: used.cached_tokens,
        cache_written: used.cache_written_tokens,
        output: used.completion_tokens,
        reasoning: 0,
    }
}

/// The money that these tokens cost at one stage; `None` if its model has no price.
pub(crate) fn usage_cost(config: &Config, stage: &str, usage: Usage) -> Option<f64> {
    let model = match role_at(stage) {
        ModelRole::Target | ModelRole::Judge if shares_stages_at_other_prices(config) => return None,
        ModelRole::Target | ModelRole::Judge => &config.models.target,
        ModelRole::Optimizer => &config.models.optimizer,
        ModelRole::Teacher => config.models.teacher.as_ref().unwrap_or(&config.models.optimizer),
    };
    price(model, usage)
}

fn price(model: &ModelConfig, usage: Usage) -> Option<f64> {
    has_prices(model).then(|| prices(model).cost(usage))
}

/// Whether the calls of rollouts are of two models that do not cost the same.
fn shares_stages_at_other_prices(config: &Config) -> bool {
    judge_at_other_prices(config).is_some()
}

/// The judge, where it does not cost what the target costs.
fn judge_at_other_prices(config: &Config) -> Option<&ModelConfig> {
    let judge = match ModelRole::of_judge(config) {
        Some(ModelRole::Judge) => config.models.judge.as_ref(),
        Some(ModelRole::Optimizer) => Some(&config.models.optimizer),
        Some(ModelRole::Target | ModelRole::Teacher) | None => None,
    };
    judge.filter(|judge| prices(judge) != prices(&config.models.target))
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
        Stage::OneShot,
    ]
    .map(Stage::as_str);
    let of_teacher = [Stage::Distill, Stage::Evolve].map(Stage::as_str);
    if of_optimizer.contains(&stage) {
        ModelRole::Optimizer
    } else if of_teacher.contains(&stage) {
        ModelRole::Teacher
    } else {
        ModelRole::Target
    }
}

/// Whether the configuration says what the tokens of a model cost.
pub fn has_prices(model: &ModelConfig) -> bool {
    model.prices().is_some_and(|asked| asked.input.is_some() || asked.output.is_some())
}

/// What the tokens of a model cost; nothing where the configuration does not say.
pub fn prices(model: &ModelConfig) -> Prices {
    let asked = model.prices().unwrap_or_default();
    let input = asked.input.unwrap_or(0.0);
    Prices {
        input,
        cached: asked.cached.unwrap_or(input),
        cache_write: asked.cache_write.unwrap_or_else(|| input * model.cache_write_factor()),
        output: asked.output.unwrap_or(0.0),
    }
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
        let mut tokens = StageTokens::default();
        (tokens.calls, tokens.completion_tokens) = (1, 100_000);
        (tokens.prompt_tokens, tokens.cached_tokens) = (1_000_000, 400_000);
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

    /// Whose calls were copied from a recording only the journal knows.
    #[test]
    fn a_run_whose_journal_cannot_be_read_has_no_known_cost() {
        let config = config(TARGET);
        for (journal, expect) in [(None, Some(2.0)), (Some(0), Some(2.0)), (Some(4096), None)] {
            let run = tempfile::tempdir().unwrap();
            if let Some(n_bytes) = journal {
                std::fs::write(run.path().join(JOURNAL_FILE), vec![b'x'; n_bytes]).unwrap();
            }
            assert_eq!(run_cost(&config, &used(), run.path()), expect, "{journal:?}");
            #[cfg(feature = "report")]
            assert_eq!(costs_by_stage(&config, &used(), run.path()).get("rollout").copied(), expect);
        }
    }

    #[test]
    fn what_is_written_to_the_cache_costs_what_the_provider_asks() {
        let written = |kind: &str, more: &str| {
            let text = format!(
                "[env]\nkind = \"qa\"\ndata = \"d\"\n[models]\noptimizer = {{ kind = \"simulated\" }}\n\
                 target = {{ kind = \"{kind}\", model = \"m\", price_input = 2.0{more} }}\n"
            );
            prices(&Config::parse(&text, "test", &[]).unwrap().config.models.target).cache_write
        };
        assert_eq!(written("anthropic", ""), 2.5, "five minutes by default");
        assert_eq!(written("anthropic", ", prompt_cache = \"1h\""), 4.0);
        assert_eq!(written("anthropic", ", prompt_cache = \"off\""), 2.0);
        assert_eq!(written("anthropic", ", price_cache_write = 3.0"), 3.0);
        assert_eq!(written("openai", ""), 2.0);
    }

    const TARGET: &str = ", price_input = 2.0";
    const JUDGE: &str = "scorer = \"rubric\"\nrubric = \"r\"\njudge = \"judge\"\n[models.judge]\nkind = \"openai\"\nmodel = \"j\"\nprice_input = 8.0\n";

    #[test]
    fn a_judge_has_its_own_price() {
        let text = format!(
            "[models]\noptimizer = {{ kind = \"simulated\" }}\n\
             target = {{ kind = \"openai\", model = \"m\"{TARGET} }}\n[env]\nkind = \"tasks\"\ndata = \"d\"\n{JUDGE}"
        );
        let config = Config::parse(&text, "test", &[]).unwrap().config;
        // By stages alone nobody can say.
        assert_eq!(cost(&config, &used()), None);
        let calls = |stage: &str, model: &str| StageCalls {
            stage: stage.to_owned(),
            model: model.to_owned(),
            usage: Usage { input: 1_000_000, ..Usage::default() },
            ..StageCalls::default()
        };
        for (stage, model, expect) in [
            ("rollout", "m", Some(2.0)),
            ("rollout", "j", Some(8.0)),
            ("evaluate", "j", Some(8.0)),
            ("reflect", "simulated-optimizer", None),
        ] {
            assert_eq!(calls_cost(&config, &calls(stage, model)), expect, "{stage} {model}");
        }
        let same = Config::parse(&text.replace("\"j\"", "\"m\""), "test", &[]).unwrap().config;
        assert_eq!(calls_cost(&same, &calls("rollout", "m")), None);
    }
}
