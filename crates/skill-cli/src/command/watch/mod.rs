//! `skillrl watch`: a run on the whole terminal, as it goes on.

mod bank;
mod rl;
mod screen;
mod sft;

use super::UsageError;
use crate::args::WatchArgs;
use bank::BankWatched;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input, KeyCode, KeyEventKind, KeyModifiers};
use screen::View;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::kind::RunKind;
use skillrl::pipeline::records::document::StepRecord;
use skillrl::pipeline::run_dir::is_run;
use skillrl::reports::{RlReport, RunOverview, SftReport, fine_tunes, has_phases, reinforces};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often the run is looked at.
const PERIOD: Duration = Duration::from_millis(400);

/// Warnings that are kept.
const MAX_WARNINGS: usize = 100;

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        let hint = format!("`skillrl status {}` says the same in lines", args.run.display());
        return Err(UsageError::new("watch needs a terminal to draw on").with_hint(hint).into());
    }
    let mut watched = Watched::open(&under_way(&args.run))?;
    let mut terminal = ratatui::try_init()?;
    let outcome = watch(&mut terminal, &mut watched);
    ratatui::try_restore()?;
    outcome
}

fn watch(terminal: &mut DefaultTerminal, watched: &mut Watched) -> anyhow::Result<()> {
    let mut scrolled = 0;
    loop {
        watched.refresh()?;
        terminal.draw(|frame| match (watched.bank(), &watched.sft, &watched.rl) {
            (Some(view), ..) => bank::draw(frame, &view, scrolled),
            (None, Some(report), _) => {
                sft::draw(frame, &sft::View { overview: &watched.overview, report, scrolled });
            }
            (None, None, Some(report)) => {
                rl::draw(frame, &rl::View { overview: &watched.overview, report, scrolled });
            }
            (None, None, None) => screen::draw(frame, &watched.view(scrolled)),
        })?;
        if !event::poll(PERIOD)? {
            continue;
        }
        if let Input::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if is_control => return Ok(()),
                KeyCode::Up | KeyCode::Char('k') => scrolled += 1,
                KeyCode::Down | KeyCode::Char('j') => scrolled = scrolled.saturating_sub(1),
                KeyCode::PageUp => scrolled += 10,
                KeyCode::PageDown => scrolled = scrolled.saturating_sub(10),
                KeyCode::End => scrolled = 0,
                KeyCode::Home => scrolled = watched.n_lines(),
                KeyCode::Char('s') | KeyCode::Tab => {
                    watched.toggle_skills();
                    scrolled = 0;
                }
                _ => {}
            }
            scrolled = scrolled.min(watched.n_lines().saturating_sub(1));
        }
    }
}

/// What is known of a run; read again only where its files have changed.
struct Watched {
    run: RunReader,
    overview: RunOverview,
    history: Vec<StepRecord>,
    warnings: Vec<String>,
    /// For a run that trains a bank.
    bank: Option<BankWatched>,
    /// For a run that fine-tunes.
    sft: Option<SftReport>,
    /// For a run of reinforcement learning.
    rl: Option<RlReport>,
    state_changed: Option<SystemTime>,
}

/// The files that change when what is shown does.
const FILES: [&str; 10] = [
    "runtime_state.json",
    "summary.json",
    "timings.jsonl",
    "bank_summary.json",
    "bank/log.jsonl",
    "steps.jsonl",
    "validation.jsonl",
    "sft_summary.json",
    "iterations.jsonl",
    "rl_summary.json",
];

/// The run to watch: of a run of several phases the one that is under way, else the last one that there is.
fn under_way(run: &Path) -> PathBuf {
    let Some(brief) =
        skillrl::report::phases(run).ok().map(|report| report.brief).filter(|_| has_phases(run))
    else {
        return run.to_owned();
    };
    let runs: Vec<PathBuf> =
        brief.phases.into_iter().map(|phase| phase.dir).filter(|dir| is_run(dir)).collect();
    runs.last().cloned().unwrap_or_else(|| run.to_owned())
}

impl Watched {
    fn open(path: &Path) -> Result<Self, skillrl::Error> {
        let overview = skillrl::report::overview(path).map_err(skillrl::Error::Pipeline)?;
        let run = RunReader::open(path).map_err(skillrl::Error::Pipeline)?;
        let bank = RunKind::Bank.is_at(path).then(BankWatched::default);
        let (history, warnings) = (Vec::new(), Vec::new());
        Ok(Self { run, overview, history, warnings, bank, sft: None, rl: None, state_changed: None })
    }

    fn refresh(&mut self) -> Result<(), skillrl::Error> {
        let changed =
            FILES.iter().filter_map(|name| self.run.path().join(name).metadata().ok()?.modified().ok()).max();
        let live = self.run.live();
        // A process that came or went changes what the run is doing.
        if changed != self.state_changed || live.is_some() != self.overview.live.is_some() {
            self.overview = skillrl::report::overview(self.run.path()).map_err(skillrl::Error::Pipeline)?;
            // A history of many steps need not be in memory twice.
            self.history = Vec::new();
            // What is damaged is said by the overview; a file that is being replaced is there the next time.
            self.history = self.run.history().unwrap_or_default();
            self.warnings = warnings(&self.history);
            if let Some(bank) = &mut self.bank {
                bank.read(self.run.path());
            }
            if fine_tunes(self.run.path()) {
                // A file that is being replaced is there the next time.
                self.sft = SftReport::read(&self.run).ok().or_else(|| self.sft.take());
            }
            if reinforces(self.run.path()) {
                self.rl = RlReport::read(&self.run).ok().or_else(|| self.rl.take());
            }
            self.state_changed = changed;
        }
        self.overview.live = live;
        Ok(())
    }

    /// What there is to draw of a run that trains a bank.
    fn bank(&self) -> Option<bank::View<'_>> {
        self.bank.as_ref().map(|bank| bank::View { overview: &self.overview, bank })
    }

    /// Lines that can be scrolled through.
    fn n_lines(&self) -> usize {
        match (self.bank(), &self.sft, &self.rl) {
            (Some(view), ..) => view.n_lines(),
            (None, Some(report), _) => report.steps.len(),
            (None, None, Some(report)) => report.iterations.len(),
            (None, None, None) => self.history.len(),
        }
    }

    fn toggle_skills(&mut self) {
        if let Some(bank) = &mut self.bank {
            bank.toggle();
        }
    }

    fn view(&self, scrolled: usize) -> View<'_> {
        View { overview: &self.overview, history: &self.history, warnings: &self.warnings, scrolled }
    }
}

fn warnings(history: &[StepRecord]) -> Vec<String> {
    let all = history
        .iter()
        .rev()
        .flat_map(|record| record.notes.iter().map(move |note| format!("step {}: {note}", record.step)));
    all.take(MAX_WARNINGS).collect()
}
