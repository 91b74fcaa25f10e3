//! A run of several phases, as data: which are finished, what each came to, and what the policies win.
//!
//! The files are read as they are, with no part of the program that trains: every build shows every run.

use super::bank::MAX_TITLE_CHARACTERS;
use super::conversation::clip;
use super::games::of_games;
use super::overview::RunOverview;
use super::setup::Setup;
use super::standing::{RunPhase, Standing};
use super::{SentRow, name_of, simulated, uncounted, unfinished};
use crate::verdict::{Outcome, Verdict};
use crate::words::results;
use crate::{ReportError, ReportOptions};
use indexmap::IndexMap;
use serde::Serialize;
use skill_bank::State;
use skill_core::stats::shares_interval;
use skill_pipeline::bank_dir::{is_bank, read_bank};
use skill_pipeline::phases::{PHASE_JOURNALS, Phases, phase_times, test_games};
use skill_pipeline::records::bank::BANK_DIR;
use skill_pipeline::records::phases::{Phase, TestGames};
use skill_pipeline::records::sft::SftGames;
use skill_pipeline::run_dir::{JOURNAL_FILE, Sent};
use skill_pipeline::{PipelineError, RunReader};
use std::path::{Path, PathBuf};

/// Where a run of several phases stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhasesBrief {
    /// The phases, in order.
    pub phases: Vec<PhaseBrief>,
    /// True if none is left.
    pub is_finished: bool,
    /// Games of the test split, once they are played.
    pub test: Vec<TestGames>,
}

/// What a phase has changed of the share of test games that are won.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseGain {
    /// The phase.
    pub phase: Phase,
    /// The share after it less that before it.
    pub difference: f64,
    /// 95 % interval of the difference, as if the two had played other games.
    pub interval: [f64; 2],
    /// What that shows.
    pub verdict: GainVerdict,
}

/// What the games before and after a phase show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GainVerdict {
    /// The policy is better after the phase.
    Better,
    /// It is worse.
    Worse,
    /// The interval holds 0.
    CannotTell,
}

impl PhaseGain {
    fn of(phase: Phase, before: &TestGames, after: &TestGames) -> Self {
        let (before, after) = (before.games, after.games);
        let share = |games: SftGames| games.won as f64 / games.played.max(1) as f64;
        let interval = shares_interval([before.won, after.won], [before.played, after.played], 0.95);
        let verdict = match interval {
            [low, _] if low > 0.0 => GainVerdict::Better,
            [_, high] if high < 0.0 => GainVerdict::Worse,
            _ => GainVerdict::CannotTell,
        };
        Self { phase, difference: share(after) - share(before), interval, verdict }
    }

    /// The phase and its gain in points, for a headline: `fine-tuning +50.0`, `GRPO no gain`.
    pub fn in_short(&self) -> String {
        let what = match self.phase {
            Phase::Sft => "fine-tuning",
            _ => "GRPO",
        };
        match self.verdict {
            GainVerdict::Better | GainVerdict::Worse => format!("{what} {:+.1}", 100.0 * self.difference),
            GainVerdict::CannotTell => format!("{what} no gain"),
        }
    }

    /// A sentence for people.
    pub fn sentence(&self) -> String {
        let what = match self.phase {
            Phase::Sft => "Fine-tuning",
            _ => "GRPO",
        };
        let points = |share: f64| format!("{:+.1}", 100.0 * share);
        let [low, high] = self.interval.map(points);
        let numbers = format!("{} points, 95 % interval {low} to {high}", points(self.difference));
        match self.verdict {
            GainVerdict::Better => format!("{what} made the policy better ({numbers})."),
            GainVerdict::Worse => format!("{what} made the policy worse ({numbers})."),
            GainVerdict::CannotTell => format!("{what} shows no gain ({numbers})."),
        }
    }
}

/// Where a phase is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseBrief {
    /// The phase.
    pub phase: Phase,
    /// Its directory.
    pub dir: PathBuf,
    /// Where it is.
    pub state: PhaseState,
    /// What it came to, by name.
    pub figures: IndexMap<String, f64>,
    /// Seconds that it has taken, where it is finished.
    pub seconds: Option<f64>,
    /// The key under which other runs find its result.
    pub key: Option<String>,
}

/// What became of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseState {
    /// This run has finished it.
    Finished,
    /// Its result is that of another run.
    Reused,
    /// It has begun.
    Begun,
    /// It is still to come.
    Waiting,
}

impl PhaseState {
    /// The name in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Reused => "taken over",
            Self::Begun => "begun",
            Self::Waiting => "waiting",
        }
    }
}

impl PhasesBrief {
    /// Reads where a run is.
    ///
    /// # Errors
    ///
    /// Files that cannot be read.
    pub fn read(run: &RunReader) -> Result<Self, PipelineError> {
        let path = run.path();
        let (finished, times) =
            (Phases::read(path)?.unwrap_or_default(), phase_times(path).unwrap_or_default());
        let has_test =
            run.config().config.pointer("/eval/test").and_then(serde_json::Value::as_bool) != Some(false);
        let brief = |phase: Phase| {
            let (dir, record) = (phase.dir(path), finished.get(phase));
            let state = match record {
                Some(record) if record.is_reused => PhaseState::Reused,
                Some(_) => PhaseState::Finished,
                None if dir.is_dir() => PhaseState::Begun,
                None => PhaseState::Waiting,
            };
            PhaseBrief {
                phase,
                dir,
                state,
                figures: record.map(|record| record.figures.clone()).unwrap_or_default(),
                seconds: times.get(phase.as_str()).copied().filter(|_| state == PhaseState::Finished),
                key: record.map(|record| record.key()),
            }
        };
        let phases = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Test || has_test);
        let phases: Vec<PhaseBrief> = phases.map(brief).collect();
        let is_over = |brief: &PhaseBrief| matches!(brief.state, PhaseState::Finished | PhaseState::Reused);
        Ok(Self { is_finished: phases.iter().all(is_over), phases, test: test_games(path)? })
    }

    /// What fine-tuning and reinforcement learning have changed, where the test split was played before and after.
    pub fn gains(&self) -> Vec<PhaseGain> {
        let of = |policy: Option<Phase>| self.test.iter().find(|found| found.policy == policy);
        let steps = [(Phase::Sft, None), (Phase::Rl, Some(Phase::Sft))];
        let gain = |(phase, before)| Some(PhaseGain::of(phase, of(before)?, of(Some(phase))?));
        steps.into_iter().filter_map(gain).collect()
    }

    /// The games of the test split before training, and those of the last policy with its skills.
    pub(crate) fn first_and_last(&self) -> Option<[&TestGames; 2]> {
        let first = self.test.iter().find(|found| found.policy.is_none())?;
        Some([first, self.test.iter().rfind(|found| found.policy.is_some() && found.has_skills)?])
    }

    /// The phase that has begun and is not finished.
    pub fn current(&self) -> Option<&PhaseBrief> {
        self.phases.iter().find(|brief| brief.state == PhaseState::Begun)
    }

    /// Phases that are finished.
    pub fn n_finished(&self) -> usize {
        let is_over = |brief: &&PhaseBrief| matches!(brief.state, PhaseState::Finished | PhaseState::Reused);
        self.phases.iter().filter(is_over).count()
    }
}

/// Everything that a page shows of a run of several phases.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhasesReport {
    /// The name of its directory.
    pub name: String,
    /// The environment, if it is known.
    pub env: String,
    /// What it is doing.
    pub phase: RunPhase,
    /// What stopped or interrupted it.
    pub reason: Option<String>,
    /// What can be done about it.
    pub hint: Option<String>,
    /// Where it is.
    pub brief: PhasesBrief,
    /// When it began, and what it was asked to do.
    pub setup: Setup,
    /// What all phases have sent.
    pub sent: SentRow,
    /// What the run came to, with what to know before the numbers are trusted.
    pub verdict: Verdict,
    /// What each phase has changed, with its sentence.
    pub gains: Vec<(PhaseGain, String)>,
    /// What each phase came to, in the order of the phases.
    pub results: Vec<String>,
    /// The titles of the skills that agents are shown in the end, each with its tier.
    pub skills: Vec<(String, String)>,
    /// The runs of fine-tuning and of reinforcement learning, as far as they have begun, each with its name.
    pub runs: Vec<(String, RunOverview)>,
}

impl PhasesReport {
    /// Reads a run, also one in progress.
    ///
    /// # Errors
    ///
    /// Files that cannot be read.
    pub fn read(run: &RunReader) -> Result<Self, ReportError> {
        let brief = PhasesBrief::read(run)?;
        let Standing { phase, reason, hint } = Standing::of(run.path(), brief.is_finished);
        let runs = [Phase::Sft, Phase::Rl].into_iter().filter_map(|phase| {
            let found = RunOverview::read(&phase.dir(run.path())).ok()?;
            Some((phase.as_str().to_owned(), found))
        });
        let env = run.config().config.pointer("/env/kind").and_then(|kind| kind.as_str());
        let sent = sent(run)?;
        let seconds =
            brief.phases.iter().filter_map(|found| found.seconds).reduce(|sum, seconds| sum + seconds);
        Ok(Self {
            name: name_of(run.path()),
            env: env.unwrap_or_default().to_owned(),
            phase,
            reason,
            hint,
            runs: runs.collect(),
            setup: Setup::read(run, seconds)?,
            verdict: verdict(&brief)
                .with_cautions(unfinished(phase).into_iter().chain(simulated(run)).chain(uncounted(&sent))),
            sent: sent.into(),
            gains: brief.gains().into_iter().map(|gain| (gain, gain.sentence())).collect(),
            skills: last_skills(run.path())?,
            results: brief.phases.iter().map(|found| results(found.phase, &found.figures)).collect(),
            brief,
        })
    }
}

/// What the run and its phases have sent, by their journals.
fn sent(run: &RunReader) -> Result<Sent, PipelineError> {
    let own = Sent::of(run)?;
    let of_runs = [Phase::Sft, Phase::Rl].map(|phase| phase.dir(run.path()).join(JOURNAL_FILE));
    let of_phases = PHASE_JOURNALS.iter().map(|journal| run.path().join(journal)).chain(of_runs);
    let (mut all, mut time, mut unread) = (Vec::new(), 0.0, Vec::new());
    if let Sent::Journal { by_model, seconds } = &own {
        all.extend(by_model.iter().cloned());
        time += seconds;
    }
    for path in of_phases {
        match Sent::at(&path) {
            Ok(Some(Sent::Journal { by_model, seconds })) => {
                all.extend(by_model);
                time += seconds;
            }
            // A phase that sends nothing has no journal.
            Ok(_) => {}
            Err(error) => unread.push(error),
        }
    }
    let is_by_files = all.is_empty();
    let journals = Sent::Journal { by_model: all, seconds: time };
    let counted = match own {
        own if is_by_files => own,
        Sent::Partial { problem, .. } => Sent::Partial { counted: Box::new(journals), problem },
        Sent::Journal { .. } | Sent::Files(_) => journals,
    };
    Ok(unread.iter().fold(counted, Sent::without_journal))
}

/// The active skills of the bank that the last phase left; none if no phase has a bank.
///
/// # Errors
///
/// A bank that cannot be read: that of the phase before has other skills.
fn last_skills(run: &Path) -> Result<Vec<(String, String)>, PipelineError> {
    let banks = [Phase::Rl, Phase::Distill].map(|phase| phase.dir(run).join(BANK_DIR));
    let Some(path) = banks.iter().find(|path| is_bank(path)) else { return Ok(Vec::new()) };
    let bank = read_bank(path)?;
    let active = bank.bank.skills().filter(|skill| skill.state() == State::Active);
    let shown = active.filter_map(|skill| {
        let title = clip(skill.current()?.content.title(), MAX_TITLE_CHARACTERS);
        Some((title, skill.tier.to_string()))
    });
    Ok(shown.take(ReportOptions::default().max_skills).collect())
}

/// The test games of the trained policy against those before training.
pub(super) fn verdict(brief: &PhasesBrief) -> Verdict {
    match brief.first_and_last() {
        Some([first, last]) => {
            let games = of_games(first.games, last.games);
            let by_phase: Vec<String> = brief.gains().iter().map(PhaseGain::in_short).collect();
            match by_phase.is_empty() {
                true => games,
                false => Verdict { words: format!("{}: {}", games.words, by_phase.join(", ")), ..games },
            }
        }
        None if brief.is_finished => Verdict::new(Outcome::Untested, "the test split was not played"),
        None => Verdict::new(
            Outcome::Unfinished,
            format!("{} of {} phases", brief.n_finished(), brief.phases.len()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use skill_pipeline::bank_dir::BankDir;
    use skill_pipeline::records::bank::LOG_FILE;
    use skill_pipeline::records::{ConfigFile, RunIdentity};
    use skill_pipeline::run_dir::RunDir;

    #[test]
    fn a_journal_of_a_phase_that_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let config = ConfigFile::new(Value::Null, RunIdentity::default());
        RunDir::open(dir.path()).unwrap().write_config(&config, None).unwrap();
        let of_run = Phase::Rl.dir(dir.path()).join(JOURNAL_FILE);
        let [first, ..] = PHASE_JOURNALS.map(|journal| dir.path().join(journal));
        for (n, path) in [of_run, first, dir.path().join(JOURNAL_FILE)].into_iter().enumerate() {
            let n_named =
                |sent: &Sent| sent.problem().map_or(0, |problem| problem.matches(JOURNAL_FILE).count());
            let run = RunReader::open(dir.path()).unwrap();
            assert_eq!(n_named(&sent(&run).unwrap()), n);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, [b'x'; 4096]).unwrap();
            assert_eq!(n_named(&sent(&run).unwrap()), n + 1);
        }
    }

    #[test]
    fn a_bank_that_cannot_be_read_is_not_replaced_by_the_one_before() {
        const PAPER: &str =
            r#"{"general_skills": [{"skill_id": "gen_001", "title": "Look", "principle": "Look first."}]}"#;
        let dir = tempfile::tempdir().unwrap();
        let n_skills = || last_skills(dir.path()).map(|skills| skills.len()).ok();
        let [distilled, trained] =
            [Phase::Distill, Phase::Rl].map(|phase| phase.dir(dir.path()).join(BANK_DIR));
        assert_eq!(n_skills(), Some(0));
        let bank = skill_bank::format::read(PAPER).unwrap().bank;
        drop(BankDir::create(&distilled, bank, None).unwrap());
        assert_eq!(n_skills(), Some(1));
        drop(BankDir::create(&trained, skill_bank::Bank::new(), None).unwrap());
        assert_eq!(n_skills(), Some(0));
        std::fs::write(trained.join(LOG_FILE), "{").unwrap();
        assert_eq!(n_skills(), None);
    }

    #[track_caller]
    fn check(phase: Phase, [before, after]: [usize; 2], expect: &str) {
        let games = |won| {
            let games = SftGames { won, played: 20, score: won as f64 / 20.0, interval: [0.0, 1.0] };
            TestGames::new(Some(phase), false, games)
        };
        assert_eq!(PhaseGain::of(phase, &games(before), &games(after)).in_short(), expect);
    }

    #[test]
    fn a_headline_names_each_phase_with_its_gain() {
        check(Phase::Sft, [4, 14], "fine-tuning +50.0");
        check(Phase::Rl, [14, 4], "GRPO -50.0");
        check(Phase::Rl, [14, 15], "GRPO no gain");
    }
}
