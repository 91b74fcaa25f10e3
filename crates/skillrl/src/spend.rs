//! What a run may spend and what its calls cost, read from its own directory: for those who watch it.

use crate::config::recorded::recorded_overrides;
use crate::config::{BudgetConfig, Config, LoadedConfig};
use crate::engine::Engine;
use crate::{cost, trainer};
use skill_core::Gate;
use skill_llm::journal::ModelSpent;
use skill_llm::regular_file;
use skill_llm::{ModelId, Prices};
use skill_pipeline::RunReader;
use skill_pipeline::run_dir::Sent;

/// The caps and the prices of a run, as its `config.toml` has them.
///
/// Caps that were given on the command line are not recorded in the run, and so are not known here.
#[derive(Debug, Clone)]
pub struct Spending {
    loaded: LoadedConfig,
    prices: Vec<(ModelId, Prices)>,
}

impl From<LoadedConfig> for Spending {
    fn from(loaded: LoadedConfig) -> Self {
        let prices = Engine::without_keys(&loaded).prices();
        let prices = prices.into_iter().filter(|(_, prices)| *prices != Prices::default()).collect();
        Self { loaded, prices }
    }
}

impl Spending {
    /// Reads them; `None` where the run keeps no configuration, or one that this version does not read.
    pub fn of(run: &RunReader) -> Option<Self> {
        configuration(run).map(Self::from)
    }

    /// The caps.
    pub fn caps(&self) -> BudgetConfig {
        self.loaded.config.budget
    }

    /// The gate.
    pub fn gate(&self) -> Gate {
        trainer::settings(&self.loaded.config).map_or_else(|_| Gate::default(), |settings| settings.gate)
    }

    /// What a run has paid for what it sent; `None` if no model has a price, or nothing was sent.
    pub fn money(&self, sent: &Sent) -> Option<f64> {
        match sent {
            _ if sent.requests() == 0 => None,
            Sent::Journal { by_model, .. } => self.of_requests(by_model),
            Sent::Files(stages) => cost::cost(&self.loaded.config, stages),
        }
    }

    fn of_requests(&self, spent: &[ModelSpent]) -> Option<f64> {
        let has_counts = spent.iter().all(|spent| spent.requests == 0 || spent.usage.tokens() > 0);
        if self.prices.is_empty() || !has_counts {
            return None;
        }
        let costs = spent.iter().filter_map(|spent| {
            let is_model =
                |(id, _): &&(ModelId, Prices)| id.provider == spent.provider && id.model == spent.model;
            self.prices.iter().find(is_model).map(|(_, prices)| prices.cost(spent.usage))
        });
        // The sum of nothing is -0.
        Some(costs.fold(0.0, |sum, cost| sum + cost))
    }
}

/// The configuration of a run; `None` where the run keeps none, or one that this version does not read.
pub(crate) fn configuration(run: &RunReader) -> Option<LoadedConfig> {
    let path = run.path().join("config.toml");
    let text = regular_file::read_to_string(&path).ok()?;
    let overrides = recorded_overrides(&text, &run.config().config);
    Config::parse(&text, &path.to_string_lossy(), &overrides).ok()
}

#[cfg(feature = "report")]
impl skill_report::watch::Terms for Spending {
    fn caps(&self) -> skill_report::watch::Caps {
        let BudgetConfig { calls, tokens, money, time_s } = self.caps();
        skill_report::watch::Caps { calls, tokens, money, time_s }
    }

    fn money(&self, sent: &Sent) -> Option<f64> {
        self.money(sent)
    }
}

/// The terms of a run by its own configuration, for [`skill_report::watch::Runs::open`].
#[cfg(feature = "report")]
pub fn terms_of(run: &RunReader) -> Option<Box<dyn skill_report::watch::Terms>> {
    Some(Box::new(Spending::of(run)?))
}
