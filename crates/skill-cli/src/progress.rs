//! Readers of events that show a run to a person or to a program.

use crate::progress_bar::StageBar;
use crate::run_text::bank;
use crate::run_text::bank_record::{round_line, trial_line};
use crate::run_text::phases;
use crate::run_text::step::{coloured_step_line, slow_update_line};
use crate::table::counted;
use crate::wrap::{stderr_width, wrapped};
use skillrl::pipeline::kind::RunKind;
use skillrl::pipeline::run_dir::bank_progress::BankProgress;
use skillrl::pipeline::{Event, EventSink, Stage};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Mutex;

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// Bars and lines on standard error, or lines alone if that is not a terminal.
    Progress,
    /// Warnings alone, on standard error.
    Quiet,
    /// Events as JSON lines on standard output, warnings on standard error.
    Json,
}

/// Shows events as they come.
pub(crate) struct Progress {
    show: Show,
    is_terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bar: Option<StageBar>,
    /// The directory of the run, where there is one.
    run_dir: Option<PathBuf>,
    total_steps: u32,
    /// Items of the selection split.
    n_val: usize,
    /// Where the training of a bank is, for a run that trains one.
    bank: Option<BankProgress>,
    /// True once the plan of a search was shown.
    is_plan_told: bool,
    is_stdout_closed: bool,
}

impl Progress {
    pub(crate) fn new(show: Show) -> Self {
        let state = Mutex::new(State::default());
        Self { show, is_terminal: std::io::stderr().is_terminal(), state }
    }
}

impl EventSink for Progress {
    fn emit(&self, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match self.show {
            Show::Progress => state.show(event, self.is_terminal),
            Show::Quiet => state.show_warning(event),
            Show::Json => {
                state.write_json(event);
                state.show_warning(event);
            }
        }
    }
}

impl State {
    fn show(&mut self, event: &Event, is_terminal: bool) {
        if let Some(bank) = &mut self.bank {
            bank.apply(event);
            if let Some(bar) = &self.bar {
                bar.set_bank(bank);
            }
        }
        match event {
            Event::RunStarted { dir, env, n_items, total_steps, finished_steps, workers, .. } => {
                (self.total_steps, self.run_dir) = (*total_steps, Some(dir.clone()));
                let [n_train, n_val, n_test] = n_items;
                self.n_val = *n_val;
                let unit = if RunKind::Bank.is_at(dir) { "round" } else { "step" };
                self.bank = RunKind::Bank.is_at(dir).then(BankProgress::default);
                if let Some(bank) = &mut self.bank {
                    bank.apply(event);
                }
                let resumed = match finished_steps {
                    0 => String::new(),
                    step => format!(", resumed after {unit} {step}"),
                };
                self.line(&format!(
                    "{}: {env}, {n_train} train / {n_val} val / {n_test} test items, {}, {workers} at once{resumed}",
                    dir.display(),
                    counted(u64::from(*total_steps), unit)
                ));
            }
            Event::BaselineMeasured { score, .. } if self.bank.is_some() => {
                let words = bank::validation(None, *score, self.n_val);
                self.line(&format!("without a bank: validation {words}"));
            }
            Event::BaselineMeasured { score, gate_score } => self.line(&format!(
                "baseline: selection {gate_score:.4} (hard {:.4}, soft {:.4})",
                score.hard, score.soft
            )),
            // A trial has one bar, from its first pass over its tasks to its last.
            Event::StageStarted { stage: Stage::Trial, .. }
            | Event::StageFinished { stage: Stage::Trial, .. } => {}
            Event::StageProgress { stage: Stage::Trial, .. } => {}
            Event::StageStarted { step, stage, total } if is_terminal && *total > 0 => {
                // The old one has to be gone before the new one is drawn.
                self.bar = None;
                let total_steps = self.total_steps;
                let place = match &self.bank {
                    Some(bank) => bank::place(bank, stage.as_str()),
                    None => {
                        let place =
                            step.map(|step| format!("step {step}/{total_steps} ")).unwrap_or_default();
                        format!("{place}{}", stage.as_str().replace('_', " "))
                    }
                };
                self.start_bar(place, *total);
            }
            Event::StageProgress { done, .. } => {
                if let Some(bar) = &self.bar {
                    bar.set_done(*done);
                }
            }
            Event::StageFinished { .. } | Event::RunStopped { .. } => self.bar = None,
            // Each step has a plan; the events hold all of them.
            Event::SearchPlanned { sentence, .. } if !self.is_plan_told => {
                self.is_plan_told = true;
                self.line(&format!("plan: {sentence}"));
            }
            Event::StepFinished { record } => self.line(&coloured_step_line(record, self.total_steps)),
            Event::TrialStarted { .. } => {
                self.bar = None;
                self.tell(event);
                if is_terminal {
                    self.start_trial_bar();
                }
            }
            Event::FreshStarted { .. } if is_terminal => {
                self.bar = None;
                self.start_trial_bar();
            }
            Event::TrialFinished { round, record } => {
                self.bar = None;
                self.line(&trial_line(*round, record));
            }
            Event::SkillsProposed { .. } | Event::SkillRetired { .. } => self.tell(event),
            Event::RoundStarted { .. }
            | Event::TrialMeasured { .. }
            | Event::FreshStarted { .. }
            | Event::SkillAdmitted { .. }
            | Event::StandingChecked { .. }
            | Event::BankValidated { .. } => {}
            Event::RoundFinished { record } => self.line(&round_line(record)),
            Event::BankFinished { .. } | Event::SftFinished { .. } => {}
            Event::PhaseStarted { phase } => self.line(&format!("phase {}", phases::place(*phase))),
            Event::PhaseFinished { record } => self.line(&phases::line(record)),
            Event::SftStepFinished { record, seconds, peak_memory } => {
                let speed = record.tokens as f64 / seconds.max(1e-9);
                let memory =
                    peak_memory.map(|bytes| format!(", {:.2} GB", bytes as f64 / 1e9)).unwrap_or_default();
                self.line(&format!(
                    "step {}/{}: loss {:.4}, rate {:.2e}, gradient norm {:.3}, {speed:.0} tokens/s{memory}",
                    record.step, self.total_steps, record.loss, record.learning_rate, record.grad_norm
                ));
            }
            Event::RlIterationFinished { record, seconds } => self.line(&format!(
                "iteration {}/{}: {} of {} won, return {:.3}, {:.0} % of groups without signal, KL {:.4}, entropy {:.2}, clipped {:.1} %, gradient norm {:.3}, {seconds:.1} s",
                record.iteration,
                self.total_steps,
                record.won,
                record.episodes,
                record.reward,
                100.0 * record.groups_without_signal,
                record.kl,
                record.entropy,
                100.0 * record.clipped,
                record.grad_norm
            )),
            Event::RlValidated { record } => self.line(&format!(
                "games after iteration {}: {} of {} won",
                record.iteration, record.games.won, record.games.played
            )),
            Event::SftValidated { record } => {
                let loss = record.loss.map(|loss| format!(" loss {loss:.4}")).unwrap_or_default();
                let games =
                    record.games.map(|games| format!(", {} of {} games won", games.won, games.played));
                self.line(&format!(
                    "validation after step {}:{loss}{}",
                    record.step,
                    games.unwrap_or_default()
                ));
            }
            Event::EpochEnded { epoch, slow_update, .. } => {
                if let Some(record) = slow_update {
                    self.line(&slow_update_line(*epoch, record));
                }
            }
            Event::TestMeasured { stage, score } => {
                self.line(&format!("{}: hard {:.4}, soft {:.4}", stage.as_str(), score.hard, score.soft));
            }
            Event::Warning { .. } => self.show_warning(event),
            // A planned search learns how many steps there are.
            Event::StepStarted { total_steps, .. } => self.total_steps = *total_steps,
            Event::StageStarted { .. } | Event::RunFinished { .. } => {}
            other => tracing::debug!(event = ?other, "an event that has no line"),
        }
    }

    fn start_bar(&mut self, place: String, total: usize) {
        let bar = StageBar::start(place, total, self.run_dir.as_deref());
        if let Some(bank) = &self.bank {
            bar.set_bank(bank);
        }
        self.bar = Some(bar);
    }

    fn start_trial_bar(&mut self) {
        let Some((bank, trial)) = self.bank.as_ref().and_then(|bank| Some((bank, bank.trial.as_ref()?)))
        else {
            return;
        };
        let again = if trial.is_fresh { " once more" } else { "" };
        let place = format!("{}{again}", bank::place(bank, Stage::Trial.as_str()));
        self.start_bar(place, usize::try_from(trial.max_rollouts).unwrap_or(usize::MAX));
    }

    /// Writes the line of an event of a bank's training, if it has one.
    fn tell(&mut self, event: &Event) {
        if let Some(line) = bank::event_line(event) {
            self.line(&line);
        }
    }

    fn show_warning(&mut self, event: &Event) {
        if let Event::Warning { step, message, .. } = event {
            let place = step.map(|step| format!("step {step}: ")).unwrap_or_default();
            self.line(&format!("warning: {place}{message}"));
        }
    }

    /// Writes a line above the bar; a standard error that nobody reads is no reason to stop a paid run.
    fn line(&mut self, text: &str) {
        let text = wrapped(text, stderr_width());
        match &self.bar {
            Some(bar) => bar.suspend(|| writeln!(anstream::stderr(), "{text}")),
            None => writeln!(anstream::stderr(), "{text}"),
        }
        .unwrap_or_default();
    }

    fn write_json(&mut self, event: &Event) {
        if self.is_stdout_closed {
            return;
        }
        let Ok(line) = serde_json::to_string(event) else { return };
        let mut stdout = std::io::stdout().lock();
        // A reader that went away ends the output, not the run.
        self.is_stdout_closed = writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err();
    }
}
