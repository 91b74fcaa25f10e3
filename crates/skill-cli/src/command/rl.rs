//! `skillrl rl`: a local policy learns from its own episodes, by GRPO.

use crate::args::RlArgs;

#[cfg(feature = "weights")]
pub(crate) fn run(args: &RlArgs) -> anyhow::Result<()> {
    built_in::run(args)
}

#[cfg(not(feature = "weights"))]
pub(crate) fn run(_: &RlArgs) -> anyhow::Result<()> {
    Err(super::not_built_in("local models"))
}

#[cfg(feature = "weights")]
mod built_in {
    use crate::args::{RlArgs, Start};
    use crate::command::report::write_after_rl;
    use crate::command::start::load_started;
    use crate::command::{block_on, print_wrapped};
    use crate::progress::{Progress, Show};
    use crate::run_text::rl;
    use skillrl::config::OptimizerUse;
    use skillrl::pipeline::kind::RunKind;
    use skillrl::pipeline::records::rl::RlSummary;
    use skillrl::pipeline::{PipelineError, StopSignal};
    use skillrl::policy::trainable;
    use skillrl::policy::with_policy;
    use skillrl::rl::{RlRequest, prepare};
    use std::fmt::Write as _;
    use std::path::Path;
    use std::sync::Arc;

    pub(super) fn run(args: &RlArgs) -> anyhow::Result<()> {
        let start =
            Start { is_phase: true, trains_weights: true, optimizer: OptimizerUse::Teaching, ..args.start() };
        let started = load_started(&start, args.quiet || args.json)?;
        let out = started.out(args.out.as_deref(), "rl");
        let skill_bank = started.skill_bank(args.skill_bank.as_deref());
        if args.resume && !RunKind::Rl.is_at(&out) {
            return Err(skillrl::Error::Pipeline(PipelineError::NoRun { path: out }).into());
        }
        let loaded = match args.policy.clone().or_else(|| started.fine_tuned()) {
            Some(policy) => with_policy(&started.loaded, &policy)?,
            None => trainable(&started.loaded, &out)?,
        };
        let mut request = RlRequest::of_config(&loaded.config, &out);
        request.bank = skill_bank;
        let show = match (args.json, args.quiet) {
            (true, _) => Show::Json,
            (false, true) => Show::Quiet,
            (false, false) => Show::Progress,
        };
        let stop = StopSignal::default();
        let trainer = prepare(&loaded, &request, Arc::new(Progress::new(show)), stop.clone())?;
        let summary: Result<RlSummary, PipelineError> = block_on(
            stop,
            "stopping after the iteration under way; press Ctrl-C again to stop at once",
            trainer.train(&out),
        )?;
        write_after_rl(&out, &summary);
        let summary = summary.map_err(skillrl::Error::Pipeline)?;
        if args.json {
            return Ok(());
        }
        let found = skillrl::report::overview(&out).ok().and_then(|run| run.rl);
        let signs = found.map(|rl| rl::signs(&rl)).unwrap_or_default();
        let signs: String = signs.iter().map(|(name, words)| format!("{name}: {words}\n")).collect();
        print_wrapped(&(summary_text(&summary, &out) + &signs))
    }

    fn summary_text(summary: &RlSummary, out: &Path) -> String {
        let mut text = format!("{} iterations on {} tokens\n", summary.iterations, summary.tokens);
        for (when, iteration) in [("first", &summary.first), ("last", &summary.last)] {
            let Some(iteration) = iteration else { continue };
            let _ = writeln!(
                text,
                "{when} iteration: {} of {} episodes won, mean return {:.3}",
                iteration.won, iteration.episodes, iteration.reward
            );
        }
        for (when, games) in [("before", summary.before), ("after", summary.after)] {
            let Some(games) = games else { continue };
            let [low, high] = games.interval;
            let _ = writeln!(
                text,
                "{when}: {} of {} games won (95 % interval {low:.2} to {high:.2})",
                games.won, games.played
            );
        }
        let policy = out.join("policy");
        let policy = policy.display();
        let _ = writeln!(text, "the policy is {policy}; `skillrl eval --policy {policy}` measures it");
        text
    }
}
