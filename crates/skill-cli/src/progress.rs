//! Readers of events that show a run to a person or to a program.

use crate::progress_bar::StageBar;
use crate::table::harmless;
use crate::wrap::{stderr_width, wrapped};
use parking_lot::Mutex;
use skillrl::pipeline::kind::trains_bank;
use skillrl::pipeline::run_dir::bank_progress::BankProgress;
use skillrl::pipeline::{Event, EventSink, Stage};
use skillrl::reports::lines::{EventLine, EventLines, Tone, progress};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

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

impl Show {
    /// The output that `--json` and `--quiet` request.
    pub(crate) fn of(is_json: bool, is_quiet: bool) -> Self {
        match (is_json, is_quiet) {
            (true, _) => Self::Json,
            (false, true) => Self::Quiet,
            (false, false) => Self::Progress,
        }
    }
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
    lines: EventLines,
    /// Where the training of a bank is, for a run that trains one.
    bank: Option<BankProgress>,
    is_stdout_closed: bool,
}

impl Progress {
    pub(crate) fn new(show: Show) -> Self {
        let state = Mutex::new(State::default());
        Self { show, is_terminal: std::io::stderr().is_terminal() && !crate::log::is_json(), state }
    }
}

impl EventSink for Progress {
    fn emit(&self, event: &Event) {
        let mut state = self.state.lock();
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

/// True for events after which the bar that is there has to go, before a line or a new bar is drawn.
fn ends_bar(event: &Event) -> bool {
    match event {
        Event::StageStarted { stage: Stage::Trial, .. }
        | Event::StageFinished { stage: Stage::Trial, .. } => false,
        Event::StageStarted { .. }
        | Event::StageFinished { .. }
        | Event::RunStopped { .. }
        | Event::TrialStarted { .. }
        | Event::FreshStarted { .. }
        | Event::TrialFinished { .. } => true,
        _ => false,
    }
}

/// The line for the terminal, with its decision in colour; a stream without colours takes them out.
fn coloured(event: &Event, line: &EventLine) -> String {
    let text = harmless(&line.text);
    if matches!(event, Event::Warning { .. }) {
        return format!("warning: {text}");
    }
    let Some(decision) = line.decision else { return text };
    let styled = console::style(decision).force_styling(true);
    let styled = match line.tone {
        Tone::Good => styled.green(),
        Tone::Bad => styled.red(),
        Tone::Warning => styled.yellow(),
        Tone::Plain | Tone::Faint => return text,
    };
    text.replacen(decision, &styled.to_string(), 1)
}

impl State {
    fn show(&mut self, event: &Event, is_terminal: bool) {
        if let Some(bank) = &mut self.bank {
            bank.apply(event);
            if let Some(bar) = &self.bar {
                bar.set_bank(bank);
            }
        }
        if let Event::RunStarted { dir, .. } = event {
            self.run_dir = Some(dir.clone());
            self.bank = trains_bank(dir).then(BankProgress::default);
            if let Some(bank) = &mut self.bank {
                bank.apply(event);
            }
            self.lines.is_bank = self.bank.is_some();
        }
        if ends_bar(event) {
            self.bar = None;
        }
        if let Some(line) = self.lines.line(event).filter(|line| !line.is_detail) {
            self.line(&coloured(event, &line));
        }
        match event {
            // A trial has one bar, from its first pass over its tasks to its last.
            Event::StageStarted { stage: Stage::Trial, .. }
            | Event::StageProgress { stage: Stage::Trial, .. } => {}
            Event::StageStarted { step, stage, total } if is_terminal && *total > 0 => {
                let place = match &self.bank {
                    Some(bank) => progress::place(bank, stage.as_str()),
                    None => {
                        let total = self.lines.total();
                        let place = step
                            .map(|step| format!("step {} ", total.place(step.0).trim()))
                            .unwrap_or_default();
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
            Event::TrialStarted { .. } | Event::FreshStarted { .. } if is_terminal => self.start_trial_bar(),
            _ => {}
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
        let place = format!("{}{again}", progress::place(bank, Stage::Trial.as_str()));
        self.start_bar(place, usize::try_from(trial.max_rollouts).unwrap_or(usize::MAX));
    }

    fn show_warning(&mut self, event: &Event) {
        if let Event::Warning { .. } = event
            && let Some(line) = self.lines.line(event)
        {
            self.line(&coloured(event, &line));
        }
    }

    /// Writes a line above the bar; a standard error that nobody reads is no reason to stop a paid run.
    fn line(&mut self, text: &str) {
        if crate::log::is_json() {
            return crate::log::tell(&console::strip_ansi_codes(text));
        }
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
        let line = serde_json::to_string(event).expect("the keys of its maps are texts");
        let mut stdout = std::io::stdout().lock();
        // A reader that went away ends the output, not the run.
        self.is_stdout_closed = writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err();
    }
}
