//! `skillrl rl`: a local policy learns from its own episodes, by GRPO.

use crate::args::RlArgs;

#[cfg(feature = "weights")]
pub(crate) fn run(args: &RlArgs) -> anyhow::Result<()> {
    built_in::run(args)
}

#[cfg(not(feature = "weights"))]
pub(crate) fn run(_: &RlArgs) -> anyhow::Result<()> {
    let hint = "build it in: `cargo install --path crates/skill-cli --features weights`";
    Err(super::UsageError::new("this program was built without local models").with_hint(hint).into())
}

#[cfg(feature = "weights")]
mod built_in {
    use crate::args::RlArgs;
    use crate::command::report::write_after_rl;
    use crate::command::{block_on, load_to_run, print_wrapped};
    use crate::progress::{Progress, Show};
    use crate::rl_now;
    use skillrl::assemble;
    use skillrl::pipeline::rl::record::{RlSummary, is_rl_run};
    use skillrl::pipeline::{PipelineError, StopSignal};
    use skillrl::rl::{RlRequest, prepare};
    use skillrl::sft::with_policy;
    use std::fmt::Write as _;
    use std::path::Path;
    use std::sync::Arc;

    pub(super) fn run(args: &RlArgs) -> anyhow::Result<()> {
        let mut loaded = load_to_run(&args.config())?;
        let out = args.out.clone().unwrap_or_else(|| assemble::run_dir(&loaded));
        if args.resume && !is_rl_run(&out) {
            return Err(skillrl::Error::Pipeline(PipelineError::NoRun { path: out }).into());
        }
        if let Some(policy) = &args.policy {
            loaded = with_policy(&loaded, policy)?;
        }
        let mut request = RlRequest::of_config(&loaded.config, &out);
        request.bank.clone_from(&args.skill_bank);
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
        let signs = found.map(|rl| rl_now::signs(&rl)).unwrap_or_default();
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
