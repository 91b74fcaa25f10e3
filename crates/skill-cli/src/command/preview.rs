//! What a run will take, said before its first call, and a question where that is much.

use super::UsageError;
use crate::table::grouped;
use skillrl::config::{EnvKind, LoadedConfig, ModelConfig, ModelRole, Origin, TrainMode, nearest_name};
use skillrl::core::usage::dollars;
use skillrl::cost::has_prices;
use skillrl::estimate::{Estimate, Prepared, Span};
use skillrl::llm::price_table::{PRICES_AS_OF, priced_models};
use skillrl::pipeline::run_dir::{RunStatus, run_status};
use std::io::{BufRead as _, IsTerminal as _};

/// Above so many US dollars, a person at a terminal is asked first, unless the run has a cap.
const ASK_ABOVE: f64 = 5.0;

/// Says the models, the calls, the cost and the cap of a run that begins; asks where it may cost much.
///
/// Nothing is said of runs that go on, of models that cost nothing, and of environments that would have to be started.
pub(super) fn before(loaded: &LoadedConfig, agrees: bool, quiet: bool) -> anyhow::Result<()> {
    let config = &loaded.config;
    let is_resumed = run_status(&loaded.run_dir()) != RunStatus::Absent;
    let roles = ModelRole::of_training(config);
    let is_paid = roles.iter().any(|role| served_name(loaded, *role).is_some());
    let starts_program = config.env.env_kind() == EnvKind::Exec;
    if is_resumed || !is_paid || starts_program || config.train.mode != TrainMode::Document {
        return Ok(());
    }
    let prepared = Prepared::new(loaded)?;
    let estimate = super::estimate::of(&prepared)?;
    if !quiet {
        super::say(&sentence(loaded, &roles, &estimate));
    }
    let most = estimate.total.cost.map_or(0.0, |[_, most]| most);
    let is_asked = most > ASK_ABOVE && config.budget.money.is_none() && !agrees;
    if !is_asked || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(());
    }
    super::say(&format!("It may cost up to {}. Continue? [y/N]", dollars(most)));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(UsageError::new("nothing was sent")
            .with_hint("cap the run with `--set budget.money=DOLLARS`, or agree with `--yes`")
            .into()),
    }
}

fn sentence(loaded: &LoadedConfig, roles: &[ModelRole], estimate: &Estimate) -> String {
    let mut models: Vec<String> = Vec::new();
    for role in roles {
        if let Some(name) = served_name(loaded, *role) {
            models.push(format!("{} {name}", role.as_str()));
        }
    }
    let Span { low, high } = estimate.total.calls;
    let cost = match estimate.total.cost {
        Some([low, high]) => format!("{} to {}", dollars(low), dollars(high)),
        None => format!("cost unknown without prices of the models{}", similar_priced_model(loaded, roles)),
    };
    let prices = if uses_list_prices(loaded, roles) {
        format!(" at the list prices of {PRICES_AS_OF}")
    } else {
        String::new()
    };
    let cap = match loaded.config.budget.money {
        Some(cap) => format!("; it stops at {}", dollars(cap)),
        None => String::new(),
    };
    format!("{}: {} to {} calls, {cost}{prices}{cap}", models.join(", "), grouped(low), grouped(high))
}

/// A hint with the model that has a list price and the name most similar to that of a model without one.
fn similar_priced_model(loaded: &LoadedConfig, roles: &[ModelRole]) -> String {
    let similar = roles.iter().find_map(|role| {
        let model = role.config(&loaded.config).filter(|model| !has_prices(model))?;
        let ModelConfig::Served { config, .. } = model else { return None };
        nearest_name(&config.model, priced_models(&config.base_url))
    });
    similar.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}

/// The name of a model that a server answers for.
fn served_name(loaded: &LoadedConfig, role: ModelRole) -> Option<&str> {
    match role.config(&loaded.config)? {
        ModelConfig::Served { config, .. } => Some(config.model.as_str()),
        _ => None,
    }
}

/// True if the prices of a model are those that are built in.
fn uses_list_prices(loaded: &LoadedConfig, roles: &[ModelRole]) -> bool {
    roles.iter().any(|role| {
        let key = format!("models.{}.price_input", role.as_str());
        loaded.origins.get(&key).is_some_and(|origin| matches!(origin, Origin::Preset))
    })
}
