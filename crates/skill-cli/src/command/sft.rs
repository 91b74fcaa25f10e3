//! `skillrl sft`: a local model learns from demonstrations.

#[cfg(feature = "weights")]
pub(crate) use built_in::run;

#[cfg(not(feature = "weights"))]
pub(crate) fn run(_: &crate::args::SftArgs) -> crate::Result {
    Err(super::not_built_in("local models"))
}

#[cfg(feature = "weights")]
mod built_in {
    use crate::args::SftArgs;
    use crate::command::{CommandError, block_on, print_json, print_wrapped, say};
    use crate::phase;
    use crate::progress::{Progress, Show};
    use crate::run_report::write_after;
    use crate::run_text::summary::weights_lines;
    use skillrl::bank::{Episode, read_episodes};
    use skillrl::config::LoadedConfig;
    use skillrl::engine::Engine;
    use skillrl::llm::text_file;
    use skillrl::pipeline::StopSignal;
    use skillrl::pipeline::kind::RunKind;
    use skillrl::pipeline::records::sft::SftSummary;
    use skillrl::policy::{trainable, with_policy};
    use skillrl::reports::words::counted;
    use skillrl::sft::{SftRequest, prepare, teacher};
    use skillrl::weights::sft::demos::Demonstrator;
    use skillrl::weights::sft::{StepCost, measured_step};
    use std::path::Path;
    use std::sync::Arc;

    pub(crate) fn run(args: &SftArgs) -> crate::Result {
        let named = (args.out.as_deref(), args.skill_bank.as_deref());
        let how = (args.resume, args.quiet || args.json);
        let (started, out, skill_bank) = phase::begin(RunKind::Sft, args.start(), named, how)?;
        let loaded = match &args.policy {
            Some(policy) => with_policy(&started.loaded, policy)?,
            None => trainable(&started.loaded, &out)?,
        };
        let demonstrator = match &args.demos {
            Some(path) => Demonstrator::Episodes(episodes(path)?),
            None => expert(&loaded)?,
        };
        let mut request = SftRequest::of_config(&loaded.config, demonstrator, &out);
        request.bank = skill_bank;
        // The calls are held until the run has ended.
        let (reasoner, _kept) = teacher(&loaded, &out, &[])?.unzip();
        request.reasoner = reasoner;
        let show = Show::of(args.json, args.quiet);
        let stop = StopSignal::default();
        let events = Arc::new(Progress::new(show));
        let work = async {
            let prepared = prepare(&loaded, &request, events, stop.clone()).await?;
            if !args.quiet {
                say(&prepared.data.counts.describe());
                for note in &prepared.notes {
                    say(&format!("left out: {note}"));
                }
            }
            if !args.quiet {
                say(&format!("predicted: {}", prepared.forecast.describe()));
            }
            if args.estimate {
                let cost = measured_step(&prepared.backend, &prepared.data, &request.settings).await?;
                return Ok(Outcome::Estimate(cost));
            }
            let trained = prepared.trainer.train(&out).await;
            write_after(&out, &trained);
            Ok(Outcome::Trained(Box::new(trained?)))
        };
        let outcome: Result<Outcome, skillrl::Error> = block_on(
            stop.clone(),
            "stopping after the step under way; press Ctrl-C again to stop at once",
            work,
        )?;
        match outcome? {
            Outcome::Estimate(cost) if args.json => print_json(&cost),
            Outcome::Estimate(cost) => print_wrapped(&estimate_text(&cost)),
            Outcome::Trained(_) if args.json => Ok(()),
            Outcome::Trained(summary) => print_wrapped(&summary_text(&summary, &out)?),
        }
    }

    enum Outcome {
        Estimate(StepCost),
        Trained(Box<SftSummary>),
    }

    /// The expert of the world, which plays the training split.
    fn expert(loaded: &LoadedConfig) -> crate::Result<Demonstrator> {
        match Engine::new(loaded).expert() {
            Ok(expert) => Ok(Demonstrator::Expert(expert)),
            Err(skillrl::Error::NoExpert { env }) => {
                let message =
                    format!("no demonstrations are named, and the environment \"{env}\" has no expert");
                let hint = "name a file that `skillrl collect` has written as --demos";
                Err(CommandError::new(message).with_hint(hint).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn episodes(path: &Path) -> crate::Result<Vec<Episode>> {
        let text = text_file::read(path)
            .map_err(|error| CommandError::new(format!("cannot read {}: {error}", path.display())))?;
        let read = read_episodes(&text).map_err(|error| {
            CommandError::new(format!("{}: {error}", path.display()))
                .with_hint("demonstrations come from `skillrl collect`")
        })?;
        for skipped in &read.skipped {
            say(&format!("warning: {}: {skipped}", path.display()));
        }
        Ok(read.episodes)
    }

    fn estimate_text(cost: &StepCost) -> String {
        let memory =
            cost.peak_memory.map_or("unknown".to_owned(), |bytes| format!("{:.2} GB", bytes as f64 / 1e9));
        format!(
            "steps    {}\ntokens   {}\none step {:.2} s for {} tokens\ntime     about {}\nmemory   {memory} at its peak\n",
            cost.steps,
            cost.tokens,
            cost.step_seconds,
            cost.step_tokens,
            crate::table::seconds(cost.seconds)
        )
    }

    fn summary_text(summary: &SftSummary, out: &Path) -> crate::Result<String> {
        let measured = format!("the weights after step {}, which are in", summary.policy_step);
        let lines = weights_lines(out, &measured)?;
        let done = [(summary.steps, "step"), (summary.train_examples as u64, "example")];
        let [steps, examples] = done.map(|(count, noun)| counted(count, noun));
        Ok(format!("{steps} on {examples}\n{lines}"))
    }
}
