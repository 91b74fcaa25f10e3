//! What a run may spend and what its calls cost, read from its own directory: for those who watch it.

use crate::config::recorded::recorded_overrides;
use crate::config::{BudgetConfig, Config, LoadedConfig};
use crate::engine::Engine;
use crate::{Error, cost};
use skill_llm::journal::ModelSpent;
use skill_llm::{ModelId, Prices};
use skill_pipeline::RunReader;
use skill_pipeline::run_dir::{Sent, read_text};

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
    /// Reads them; `None` if the run keeps no configuration.
    ///
    /// # Errors
    ///
    /// A configuration that cannot be read, or that this version does not read.
    pub fn of(run: &RunReader) -> Result<Option<Self>, Error> {
        Ok(configuration(run)?.map(Self::from))
    }

    /// The caps.
    pub fn caps(&self) -> BudgetConfig {
        self.loaded.config.budget
    }

    /// What a run has paid for what it sent; `None` if no model has a price, nothing was sent, or not all of it is known.
    pub fn money(&self, sent: &Sent) -> Option<f64> {
        match sent {
            _ if sent.requests() == 0 => None,
            Sent::Journal { by_model, .. } => self.of_requests(by_model),
            Sent::Files(stages) => cost::cost(&self.loaded.config, stages),
            Sent::Partial { .. } => None,
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

/// The configuration of a run; `None` if the run keeps none.
///
/// # Errors
///
/// One that cannot be read, or that this version does not read.
pub(crate) fn configuration(run: &RunReader) -> Result<Option<LoadedConfig>, Error> {
    let path = run.path().join("config.toml");
    let Some(text) = read_text(&path)? else { return Ok(None) };
    let overrides = recorded_overrides(&text, &run.config().config);
    Ok(Some(Config::parse(&text, &path.to_string_lossy(), &overrides)?))
}

/// That the prices and the caps of a run are not known, as a sentence.
#[cfg(feature = "report")]
pub(crate) fn unpriced(error: &Error) -> String {
    let cause = skill_report::words::one_line(&skill_llm::error::with_causes(error));
    format!("Prices and caps are not known, since the configuration of the run cannot be read: {cause}.")
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
pub fn terms_of(run: &RunReader) -> skill_report::watch::TermsRead {
    let terms = Spending::of(run).map_err(|error| unpriced(&error))?;
    Ok(terms.map(|terms| Box::new(terms) as Box<dyn skill_report::watch::Terms>))
}
