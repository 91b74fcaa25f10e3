//! `skillrl watch`: a run on the whole terminal, as it goes on.

mod screen;

use super::CommandError;
use crate::args::WatchArgs;
use crate::error::OfFile as _;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input, KeyCode, KeyEventKind, KeyModifiers};
use screen::Screen;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::kind::shown_files;
use skillrl::pipeline::run_dir::is_run;
use skillrl::reports::watch::NewRollouts;
use skillrl::reports::{Brief, RunView};
use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often the run is looked at.
const PERIOD: Duration = Duration::from_millis(400);

pub(crate) fn run(args: &WatchArgs) -> crate::Result {
    if !std::io::stdout().is_terminal() {
        let hint = format!("`skillrl status {}` says the same in lines", args.run.display());
        return Err(CommandError::new("watch needs a terminal to draw on").with_hint(hint).into());
    }
    let mut watched = Watched::open(&under_way(&args.run))?;
    let mut terminal = ratatui::try_init().trying_to("use the terminal")?;
    let outcome = watch(&mut terminal, &mut watched);
    ratatui::try_restore().trying_to("use the terminal")?;
    outcome
}

fn watch(terminal: &mut DefaultTerminal, watched: &mut Watched) -> crate::Result {
    let (mut scrolled, mut shows_skills) = (0, false);
    loop {
        watched.refresh()?;
        let screen = Screen { view: &watched.view, failures: &watched.failures, shows_skills, scrolled };
        terminal.draw(|frame| screen.draw(frame)).trying_to("use the terminal")?;
        if !event::poll(PERIOD).trying_to("use the terminal")? {
            continue;
        }
        if let Input::Key(key) = event::read().trying_to("use the terminal")?
            && key.kind == KeyEventKind::Press
        {
            let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
            let n_lines = screen.n_lines();
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if is_control => return Ok(()),
                KeyCode::Up | KeyCode::Char('k') => scrolled += 1,
                KeyCode::Down | KeyCode::Char('j') => scrolled = scrolled.saturating_sub(1),
                KeyCode::PageUp => scrolled += 10,
                KeyCode::PageDown => scrolled = scrolled.saturating_sub(10),
                KeyCode::End => scrolled = 0,
                KeyCode::Home => scrolled = n_lines,
                KeyCode::Char('s') | KeyCode::Tab if !watched.view.skills.is_empty() => {
                    (shows_skills, scrolled) = (!shows_skills, 0);
                }
                _ => {}
            }
            scrolled = scrolled.min(n_lines.saturating_sub(1));
        }
    }
}

/// What is known of a run; read again only where its files have changed.
struct Watched {
    run: RunReader,
    view: RunView,
    state_changed: Option<SystemTime>,
    rollouts: NewRollouts,
    /// The rollouts that failed last, each in a line, the latest first.
    failures: VecDeque<String>,
}

/// The most failed rollouts that are kept.
const MAX_FAILURES: usize = 20;

/// The run to watch: of a run of several phases the one that is under way, else the last one that there is.
fn under_way(run: &Path) -> PathBuf {
    let overview = skillrl::report::overview(run).ok();
    let Some(Brief::Phases(phases)) = overview.and_then(|overview| overview.brief) else {
        return run.to_owned();
    };
    let runs: Vec<PathBuf> =
        phases.phases.into_iter().map(|phase| phase.dir).filter(|dir| is_run(dir)).collect();
    runs.last().cloned().unwrap_or_else(|| run.to_owned())
}

impl Watched {
    fn open(path: &Path) -> Result<Self, skillrl::Error> {
        let overview = skillrl::report::overview(path)?;
        let run = RunReader::open(path)?;
        let view = RunView::of_document(overview, &[]);
        let (rollouts, failures) = (NewRollouts::default(), VecDeque::new());
        Ok(Self { run, view, state_changed: None, rollouts, failures })
    }

    fn refresh(&mut self) -> Result<(), skillrl::Error> {
        let changed = shown_files()
            .filter_map(|name| self.run.path().join(name).metadata().ok()?.modified().ok())
            .max();
        let live = self.run.live();
        // A process that came or went changes what the run is doing.
        if changed != self.state_changed || live.is_some() != self.view.overview.live.is_some() {
            let overview = skillrl::report::overview(self.run.path())?;
            // What is damaged is said by the overview; a file that is being replaced is there the next time.
            match RunView::read(&self.run, overview.clone()) {
                Ok(view) => self.view = view,
                Err(_) => self.view.overview = overview,
            }
            self.state_changed = changed;
        }
        self.view.overview.live = live;
        for failed in self.rollouts.read(self.run.path()).iter().filter(|rollout| rollout.hard < 1.0) {
            self.failures.push_front(format!("{} ({}): {}", failed.item, failed.place, failed.reason));
        }
        self.failures.truncate(MAX_FAILURES);
        Ok(())
    }
}
