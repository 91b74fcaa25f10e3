//! Runs that train weights and a bank, phase by phase.

use crate::args::TrainArgs;
use crate::progress::Show;
use skillrl::config::LoadedConfig;

#[cfg(not(feature = "weights"))]
pub(super) fn run(_: &LoadedConfig, _: &TrainArgs, _: Show, _: &str) -> crate::Result {
    Err(crate::error::not_built_in("local models"))
}

#[cfg(feature = "weights")]
pub(super) fn run(loaded: &LoadedConfig, args: &TrainArgs, show: Show, simulated: &str) -> crate::Result {
    use crate::output::print_wrapped;
    use crate::progress::Progress;
    use crate::run_report::{verdict_of, write_after_phases};
    use crate::run_text::fact_lines;
    use crate::run_text::summary::verdict_text;
    use crate::runtime::block_on;
    use skillrl::phased::PhasedTrainer;
    use skillrl::pipeline::StopSignal;
    use skillrl::pipeline::records::phases::Phase;
    use skillrl::reports::RunOverview;
    use std::sync::Arc;

    let (out, stop) = (loaded.run_dir(), StopSignal::default());
    let trainer = PhasedTrainer::new(loaded.clone(), &out, Arc::new(Progress::new(show)), stop.clone())
        .with_reuse(args.reuse.clone());
    let stopping = "stopping after the step under way; press Ctrl-C again to stop at once";
    let outcome = block_on(stop, stopping, trainer.train())?;
    write_after_phases(&out);
    outcome?;
    if args.json {
        return Ok(());
    }
    let found = skillrl::report::overview(&out).ok();
    let phases = found.as_ref().and_then(RunOverview::phases);
    let mut text = phases.map(|phases| fact_lines(&phases.results(), "")).unwrap_or_default();
    let verdict = verdict_of(&out);
    let rl = Phase::Rl.dir(&out);
    let (policy, bank) = (rl.join("policy"), rl.join("bank"));
    let (policy, bank) = (policy.display(), bank.display());
    text.push_str(&format!("the policy is {policy}, its bank {bank}\n{simulated}"));
    let next = format!("`skillrl eval --policy {policy} --bank {bank}` measures both");
    text.push_str(
        &verdict.map_or_else(|| format!("next: {next}\n"), |verdict| verdict_text(&verdict, None, &next)),
    );
    print_wrapped(&text)
}
