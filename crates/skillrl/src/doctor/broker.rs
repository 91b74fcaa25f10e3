//! The broker between a run and its workers, where rollouts are made by workers.

use super::{Check, Finding, Network};
use crate::config::{LoadedConfig, Runner, TrainMode};
use crate::error::Error;

/// Looks at the broker, if the run has one.
pub(super) async fn examine(loaded: &LoadedConfig, network: Network, findings: &mut Vec<Finding>) {
    match loaded.config.run.runner {
        Runner::Local => {}
        Runner::Nats if loaded.config.train.mode == TrainMode::Weights => {
            let error = Error::NoWorkers { what: "`train.mode = \"weights\"`" };
            findings.push(Finding::of_error(Check::Broker, &error));
        }
        Runner::Nats => findings.extend(of_nats(loaded, network).await),
    }
}

#[cfg(not(feature = "nats"))]
async fn of_nats(_: &LoadedConfig, _: Network) -> Vec<Finding> {
    let error = Error::LeftOut { what: "`run.runner = \"nats\"`".to_owned(), feature: "nats" };
    vec![Finding::of_error(Check::Broker, &error)]
}

#[cfg(feature = "nats")]
async fn of_nats(loaded: &LoadedConfig, network: Network) -> Vec<Finding> {
    use crate::nats;
    /// A stage has as many jobs as items, of a few hundred bytes each.
    const ENOUGH_BYTES: u64 = 16 * 1024 * 1024;

    let asked = nats::asked(loaded);
    let address = match nats::address(&asked) {
        Ok(address) => address,
        Err(error) => return vec![Finding::of_error(Check::Broker, &error)],
    };
    let shown = address.shown();
    if network == Network::Offline {
        let message = format!("the broker at {shown} is not asked offline");
        return vec![Finding::skipped(Check::Broker, message, "leave out --offline")];
    }
    let found = async {
        let broker = nats::connect(&asked, "skillrl doctor")?.connect().await.map_err(Error::Broker)?;
        broker.facts().await.map_err(Error::Broker)
    };
    let facts = match found.await {
        Ok(facts) => facts,
        Err(error) => return vec![Finding::of_error(Check::Broker, &error)],
    };
    let tls = if facts.has_tls { "with TLS" } else { "without TLS" };
    let message = format!("nats-server {} at {shown} has JetStream, {tls}", facts.version);
    let mut findings = vec![Finding::ok(Check::Broker, message)];
    let left = facts.max_storage.map(|most| most.saturating_sub(facts.storage));
    if let Some(left) = left.filter(|left| *left < ENOUGH_BYTES) {
        let message = format!("JetStream has {left} bytes left in files");
        let hint = "give it more room (`max_file_store`), or delete unused streams";
        findings.push(Finding::warning(Check::Broker, message, hint));
    }
    findings
}
