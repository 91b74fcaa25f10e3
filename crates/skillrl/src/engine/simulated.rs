//! Simulated models, where the build has them.

use crate::config::{EnvConfig, ModelRole, SimulatedConfig};
use crate::error::Error;
use skill_llm::ChatModel;
use std::sync::Arc;

/// The simulated model for a role; a target knows its way about the environment.
#[cfg(feature = "sim")]
pub(super) fn model(
    role: ModelRole,
    env: &EnvConfig,
    asked: &SimulatedConfig,
) -> Result<Arc<dyn ChatModel>, Error> {
    use skill_sim::{
        SimulatedAgent, SimulatedHousehold, SimulatedOptimizer, SimulatedSearcher, SimulatedShopper,
        SimulatedTarget, SimulatedTeacher,
    };
    let seed = asked.sim_seed;
    Ok(match role {
        ModelRole::Target => match env {
            EnvConfig::Alfworld(_) => Arc::new(SimulatedAgent::new(SimulatedHousehold::default(), seed)),
            EnvConfig::Webshop(_) => Arc::new(SimulatedAgent::new(SimulatedShopper::default(), seed)),
            EnvConfig::SearchAgent(_) => Arc::new(SimulatedAgent::new(SimulatedSearcher::default(), seed)),
            EnvConfig::Qa(_)
            | EnvConfig::Tasks(_)
            | EnvConfig::Exec(_)
            | EnvConfig::Spreadsheet(_)
            | EnvConfig::Evals(_) => Arc::new(SimulatedTarget::new(seed)),
        },
        ModelRole::Judge => Arc::new(SimulatedTarget::new(seed)),
        ModelRole::Teacher => {
            let teacher = SimulatedTeacher::new(seed);
            Arc::new(match asked.flaw_rate {
                Some(rate) => teacher.with_flaw_rate(rate),
                None => teacher,
            })
        }
        ModelRole::Optimizer => {
            let optimizer = SimulatedOptimizer::new(seed);
            Arc::new(match asked.flaw_rate {
                Some(rate) => optimizer.with_flaw_rate(rate),
                None => optimizer,
            })
        }
    })
}

/// The expert of a world, which needs no model and no skill; `None` for an environment without one.
#[cfg(feature = "sim")]
pub(super) fn expert(env: &EnvConfig, seed: u64, mistakes: f64) -> Result<Option<Arc<dyn ChatModel>>, Error> {
    use skill_sim::{HouseholdExpert, SearchExpert, ShopExpert, SimulatedAgent};
    Ok(match env {
        EnvConfig::Alfworld(asked) => {
            let expert = HouseholdExpert::default().with_mistakes(mistakes);
            Some(Arc::new(SimulatedAgent::new(expert, seed).with_memory().with_thoughts(asked.think)))
        }
        EnvConfig::Webshop(_) => {
            Some(Arc::new(SimulatedAgent::new(ShopExpert::default(), seed).with_memory()))
        }
        EnvConfig::SearchAgent(_) => Some(Arc::new(SimulatedAgent::new(SearchExpert, seed).with_memory())),
        EnvConfig::Qa(_)
        | EnvConfig::Tasks(_)
        | EnvConfig::Exec(_)
        | EnvConfig::Spreadsheet(_)
        | EnvConfig::Evals(_) => None,
    })
}

/// Refuses the expert: this build has none.
#[cfg(not(feature = "sim"))]
pub(super) fn expert(_: &EnvConfig, _: u64, _: f64) -> Result<Option<Arc<dyn ChatModel>>, Error> {
    Err(Error::LeftOut { what: "the expert of a world".to_owned(), feature: "sim" })
}

/// Refuses the model: this build has no simulated ones.
#[cfg(not(feature = "sim"))]
pub(super) fn model(
    role: ModelRole,
    _: &EnvConfig,
    _: &SimulatedConfig,
) -> Result<Arc<dyn ChatModel>, Error> {
    let what = format!("`models.{}.kind = \"simulated\"`", role.as_str());
    Err(Error::LeftOut { what, feature: "sim" })
}

#[cfg(all(test, not(feature = "sim")))]
mod tests {
    use crate::config::{Config, ModelRole};
    use crate::engine::Engine;
    use crate::error::Error;

    #[test]
    fn left_out_models_name_their_feature() {
        let text = "[models]\ntarget = { kind = \"simulated\" }\noptimizer = { kind = \"simulated\" }\n\
                    [env]\nkind = \"qa\"\ndata = \"d\"\n";
        let loaded = Config::parse(text, "skillrl.toml", &[]).unwrap();
        let Err(error) = Engine::new(&loaded).model(ModelRole::Target) else { panic!("a model was made") };
        let Error::LeftOut { what, feature } = &error else { panic!("{error:?}") };
        assert_eq!((what.as_str(), *feature), ("`models.target.kind = \"simulated\"`", "sim"));
        assert_eq!(error.hint(), "build with this feature, or change the setting");
    }
}
