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
    use crate::run_text::fact_lines;
    use crate::run_text::summary::verdict_text;
    use skillrl::config::OptimizerUse;
    use skillrl::pipeline::kind::RunKind;
    use skillrl::pipeline::records::rl::RlSummary;
    use skillrl::pipeline::{PipelineError, StopSignal};
    use skillrl::policy::{trainable, with_policy};
    use skillrl::reports::Fact;
    use skillrl::rl::{RlRequest, prepare};
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
        let run = skillrl::report::overview(&out).map_err(skillrl::Error::Pipeline)?;
        let policy = out.join("policy");
        let policy = policy.display();
        let verdict = skillrl::report::verdict(&out)?;
        let facts: Vec<Fact> = run.facts().into_iter().filter(|fact| fact.name != "verdict").collect();
        let iterations = summary.iterations;
        let next = format!(
            "`skillrl eval --policy {policy}` measures the policy after {iterations} iterations, which is {policy}"
        );
        print_wrapped(&format!("{}{}", fact_lines(&facts, ""), verdict_text(&verdict, None, &next)))
    }
}
