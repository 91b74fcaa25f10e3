//! `skillrl rl`: a local policy learns from its own episodes, by GRPO.

#[cfg(feature = "weights")]
pub(crate) use built_in::run;

#[cfg(not(feature = "weights"))]
pub(crate) fn run(_: &crate::args::RlArgs) -> crate::Result {
    Err(super::not_built_in("local models"))
}

#[cfg(feature = "weights")]
mod built_in {
    use crate::args::RlArgs;
    use crate::command::{block_on, print_json, print_wrapped, say};
    use crate::phase;
    use crate::progress::{Progress, Show};
    use crate::run_report::write_after;
    use crate::run_text::summary::weights_lines;
    use skillrl::pipeline::kind::RunKind;
    use skillrl::pipeline::records::rl::RlSummary;
    use skillrl::pipeline::{PipelineError, StopSignal};
    use skillrl::policy::{trainable, with_policy};
    use skillrl::reports::words::counted;
    use skillrl::rl::{RlRequest, prepare};
    use skillrl::weights::rl::{RlCost, RlTrainer};
    use std::sync::Arc;

    pub(crate) fn run(args: &RlArgs) -> crate::Result {
        let named = (args.out.as_deref(), args.skill_bank.as_deref());
        let how = (args.resume, args.quiet || args.json);
        let (started, out, skill_bank) = phase::begin(RunKind::Rl, args.start(), named, how)?;
        let loaded = match args.policy.clone().or_else(|| started.fine_tuned()) {
            Some(policy) => {
                if !args.quiet && !args.json {
                    say(&format!("begins with the policy {}", policy.display()));
                }
                with_policy(&started.loaded, &policy)?
            }
            None => trainable(&started.loaded, &out)?,
        };
        let mut request = RlRequest::of_config(&loaded.config, &out);
        request.bank = skill_bank;
        let show = Show::of(args.json, args.quiet);
        let stop = StopSignal::default();
        let trainer = prepare(&loaded, &request, Arc::new(Progress::new(show)), stop.clone())?;
        if args.dry_run {
            return measure(&trainer, stop, args.json);
        }
        let summary: Result<RlSummary, PipelineError> = block_on(
            stop,
            "stopping after the iteration under way; press Ctrl-C again to stop at once",
            trainer.train(&out),
        )?;
        write_after(&out, &summary);
        let summary = summary?;
        if args.json {
            return Ok(());
        }
        let n_iterations = counted(summary.iterations, "iteration");
        let measured = format!("the policy after {n_iterations}, which is");
        print_wrapped(&weights_lines(&out, &measured)?)
    }

    /// A longer run is worth a warning.
    const DAY_S: f64 = 86_400.0;

    /// Measures some episodes and a step on them, and says what the run will take.
    fn measure(trainer: &RlTrainer, stop: StopSignal, is_json: bool) -> crate::Result {
        let cost = block_on(stop, "stopping", trainer.measured())??;
        if is_json {
            print_json(&cost)?;
        } else {
            print_wrapped(&cost_text(&cost))?;
        }
        if cost.seconds > DAY_S {
            let larger = "a GPU, a smaller model, or fewer of --iterations, --tasks and --group-size";
            say(&format!("warning: the run takes more than a day here; {larger} makes it shorter"));
        }
        Ok(())
    }

    fn cost_text(cost: &RlCost) -> String {
        let seconds = crate::table::seconds;
        let memory =
            cost.peak_memory.map_or("unknown".to_owned(), |bytes| format!("{:.2} GB", bytes as f64 / 1e9));
        format!(
            "measured  {} episodes of one task in {}, a step on their {} tokens in {}\n\
             one iteration, {} episodes: at most about {}\n\
             time      {} at most about {}\n\
             memory    {memory} at its peak\n",
            cost.measured_episodes,
            seconds(cost.play_seconds),
            cost.step_tokens,
            seconds(cost.step_seconds),
            cost.episodes,
            seconds(cost.iteration_seconds),
            counted(cost.iterations, "iteration"),
            seconds(cost.seconds),
        )
    }
}
