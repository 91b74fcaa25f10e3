//! A bank whose rollouts are made by other trainers: what each episode is shown, what it came to, and trials on both.
//!
//! A trainer says of each episode what it was worth. Episodes that ask for the trial under way are split by chance, in
//! groups by task, before any of them is made; their results decide as in runs of this program. What failed is read by a
//! teacher, whose proposals become candidates.
//!
//! Nothing here waits: who asks models does so between two calls, see [`OutsideBank::begin_evolution`] and
//! [`OutsideBank::next_trial`].

mod episodes;
mod error;
mod file;
mod groups;
mod teach;
mod trial;

pub use episodes::{EpisodeEnd, EpisodeStart, Recorded};
pub use error::OutsideError;
pub use file::RESULTS_FILE;
pub use teach::{EvolutionDraft, Proposed};
pub use trial::{TrialDraft, TrialPlace, TrialReport};

use super::forbid_items;
use super::sets::item_sets;
use super::settings::BankSettings;
use crate::error::PipelineError;
use crate::records::bank::LOG_FILE;
use crate::run_dir::bank_dir::{BankDir, is_bank, read_bank};
use episodes::Episodes;
use file::ResultsFile;
use indexmap::IndexMap;
use skill_bank::episode::ItemSets;
use skill_bank::lint::Forbidden;
use skill_bank::trial::{TaskRates, TrialOutcome, with_skill};
use skill_bank::{Author, Bank, BankEvent, BankView, SkillRef, State};
use skill_core::{ItemId, SkillPartId};
use skill_envs::{Env, Split, TaskView};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use trial::Trial;

/// Versions of a bank that can be asked for at once.
const MAX_VERSIONS: usize = 256;
/// The shortest beginning of a version that names it.
const MIN_PREFIX: usize = 8;

/// A bank that is served to other trainers.
pub struct OutsideBank {
    path: PathBuf,
    /// The size and time of the log when it was read.
    stamp: Option<(u64, SystemTime)>,
    bank: Bank,
    env: Arc<dyn Env>,
    settings: BankSettings,
    seed: u64,
    /// None where there are too few training tasks for two sets: nobody is taught or tried then.
    sets: Option<ItemSets>,
    forbidden: Arc<Forbidden>,
    versions: IndexMap<String, BankView>,
    knows_past: bool,
    episodes: Episodes,
    results: ResultsFile,
    /// Tasks of the trial set that were asked for, with their goals.
    visited: BTreeMap<ItemId, Visited>,
    /// Successes and episodes of tasks without a candidate.
    rates: TaskRates,
    scores: TrialOutcome,
    trial: Option<Trial>,
    retirements: Vec<SkillRef>,
    is_evolving: bool,
}

struct Visited {
    goal: String,
    task_type: String,
}

/// Which skills an episode asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Those that are active.
    Current,
    /// Those of its half of the trial under way; without a trial, or for a task that is none of it, those that are active.
    Trial,
    /// Those of a version of the bank, by 8 of its digits or more, or the active ones with a skill by its id, such as a
    /// candidate's.
    Version(String),
}

/// What an episode may be shown.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The skills that it is selected from.
    pub view: BankView,
    /// Its place in the trial under way.
    pub trial: Option<TrialPlace>,
}

impl OutsideBank {
    /// Opens the bank of a directory, or of a file of another system, which is then never changed.
    ///
    /// `seed` names the chance that splits tasks and groups.
    ///
    /// # Errors
    ///
    /// A bank, or results beside it, that cannot be read, and a task that is in the data more than once.
    pub fn open(
        path: &Path,
        env: Arc<dyn Env>,
        settings: BankSettings,
        seed: u64,
    ) -> Result<Self, OutsideError> {
        let stamp = stamp(path);
        let bank = read_bank(path)?.bank;
        let mut forbidden = Forbidden::new();
        forbid_items(&mut forbidden, env.as_ref());
        let (results, lines) = ResultsFile::open(path)?;
        let sets = match item_sets(env.as_ref(), &settings, seed) {
            Ok(sets) => Some(sets),
            Err(PipelineError::EmptySplit { .. } | PipelineError::NoTrialTasks { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let mut opened = Self {
            path: path.to_owned(),
            stamp,
            bank,
            sets,
            env,
            settings,
            seed,
            forbidden: Arc::new(forbidden),
            versions: IndexMap::new(),
            knows_past: false,
            episodes: Episodes::default(),
            results,
            visited: BTreeMap::new(),
            rates: TaskRates::default(),
            scores: Default::default(),
            trial: None,
            retirements: Vec::new(),
            is_evolving: false,
        };
        opened.know(opened.bank.view());
        opened.replay(lines)?;
        Ok(opened)
    }

    /// The bank as it was read last.
    pub fn bank(&self) -> &Bank {
        &self.bank
    }

    /// Chooses what an episode about this task may be shown.
    ///
    /// # Errors
    ///
    /// [`OutsideError::UnknownVersion`], and a bank that has changed and cannot be read.
    pub fn choose(
        &mut self,
        wanted: &Wanted,
        task: &TaskView<'_>,
        split: Split,
    ) -> Result<Chosen, OutsideError> {
        self.refresh()?;
        if split == Split::Train && self.sets.as_ref().is_some_and(|sets| sets.trial().contains(task.item)) {
            self.visited.entry(task.item.clone()).or_insert_with(|| Visited {
                goal: task.goal.to_owned(),
                task_type: task.task_type.to_owned(),
            });
        }
        match wanted {
            Wanted::Current => Ok(Chosen { view: self.bank.view(), trial: None }),
            Wanted::Trial => {
                let place = self.trial.as_mut().filter(|_| split == Split::Train);
                let place = place.and_then(|trial| trial.take_place(task.item));
                let view = match (&place, &self.trial) {
                    (Some(place), Some(trial)) => trial.view(place.half).clone(),
                    _ => self.bank.view(),
                };
                Ok(Chosen { view, trial: place })
            }
            Wanted::Version(name) => Ok(Chosen { view: self.version(name)?, trial: None }),
        }
    }

    /// The view of a version, or the current one with a skill.
    fn version(&mut self, name: &str) -> Result<BankView, OutsideError> {
        if let Some(view) = self.known(name) {
            return Ok(view);
        }
        let skill = SkillRef::of_part(&SkillPartId::new(name));
        if self.bank.version(&skill).is_some() {
            let view = self.with(&skill);
            self.know(view.clone());
            return Ok(view);
        }
        self.learn_past();
        self.known(name).ok_or_else(|| OutsideError::UnknownVersion { version: name.to_owned() })
    }

    fn known(&self, name: &str) -> Option<BankView> {
        if let Some(view) = self.versions.get(name) {
            return Some(view.clone());
        }
        if name.len() < MIN_PREFIX {
            return None;
        }
        let mut found = self.versions.iter().filter(|(version, _)| version.starts_with(name));
        let (_, view) = found.next()?;
        found.next().is_none().then(|| view.clone())
    }

    /// The active skills with this one, before all others of its tier and in the place of what it was made from.
    fn with(&self, skill: &SkillRef) -> BankView {
        let is_active = self.bank.version(skill).is_some_and(|version| version.state == State::Active);
        if is_active { self.bank.view() } else { with_skill(&self.bank, skill) }
    }

    fn know(&mut self, view: BankView) {
        self.versions.insert(view.version().to_owned(), view);
        if self.versions.len() > MAX_VERSIONS {
            self.versions.shift_remove_index(0);
        }
    }

    /// Learns the versions that the log went through: only where somebody asks for one that is not known.
    fn learn_past(&mut self) {
        if std::mem::replace(&mut self.knows_past, true) {
            return;
        }
        let mut past = Bank::new();
        let mut views = Vec::new();
        for record in self.bank.log() {
            // What was read is read again without a fault.
            drop(past.record(record.round, record.by, record.event.clone()).map(drop));
            match &record.event {
                BankEvent::Imported { .. }
                | BankEvent::Proposed { .. }
                | BankEvent::TrialOpened { .. }
                | BankEvent::Pinned { .. }
                | BankEvent::Unpinned { .. } => {}
                _ => views.push(past.view()),
            }
            if views.len() > MAX_VERSIONS {
                views.remove(0);
            }
        }
        let known: Vec<BankView> = self.versions.values().cloned().collect();
        self.versions.clear();
        for view in views.into_iter().chain(known) {
            self.know(view);
        }
    }

    /// Takes over what others have done to the bank.
    fn refresh(&mut self) -> Result<(), OutsideError> {
        let now = stamp(&self.path);
        if now == self.stamp {
            return Ok(());
        }
        let bank = read_bank(&self.path)?.bank;
        self.stamp = now;
        self.take_over(bank);
        Ok(())
    }

    fn take_over(&mut self, bank: Bank) {
        self.bank = bank;
        self.know(self.bank.view());
        // A person may have decided about what is tried.
        let is_open = |trial: &Trial| {
            let state = self.bank.version(trial.candidate()).map(|version| version.state);
            state == Some(trial.expected_state())
        };
        if !self.trial.as_ref().is_none_or(is_open) {
            self.trial = None;
        }
    }

    /// Adds events to the bank on the disk, behind what others have added meanwhile.
    fn record(&mut self, round: u32, events: Vec<BankEvent>) -> Result<(), OutsideError> {
        if !is_bank(&self.path) {
            return Err(OutsideError::ReadOnly { path: self.path.clone() });
        }
        let mut dir = BankDir::open(&self.path)?;
        dir.record(round, Author::Process, events)?;
        let bank = dir.bank().clone();
        drop(dir);
        self.stamp = stamp(&self.path);
        self.take_over(bank);
        Ok(())
    }
}

/// The size and time of the file that a bank is read from.
fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let file = if path.is_dir() { path.join(LOG_FILE) } else { path.to_owned() };
    let found = std::fs::metadata(file).ok()?;
    Some((found.len(), found.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use skill_bank::{Content, Evidence, SkillProvenance, Tier};
    use skill_core::RolloutResult;
    use skill_envs::{EnvError, Item, RolloutCtx, SkillSource};
    use skill_llm::ChatModel;
    use std::fs;

    /// Tasks that nobody plays.
    struct Tasks([Vec<Item>; 3]);

    impl Tasks {
        fn of(ids: [&[&str]; 3]) -> Arc<Self> {
            let item = |id: &&str| Item::new(*id, serde_json::json!(null));
            Arc::new(Self(ids.map(|ids| ids.iter().map(item).collect())))
        }
    }

    #[async_trait]
    impl Env for Tasks {
        fn name(&self) -> &str {
            "tasks"
        }

        fn items(&self, split: Split) -> &[Item] {
            &self.0[split as usize]
        }

        async fn rollout(
            &self,
            item: &Item,
            _: &dyn SkillSource,
            _: &dyn ChatModel,
            _: &RolloutCtx,
        ) -> Result<RolloutResult, EnvError> {
            Ok(RolloutResult::new(item.id.clone(), 0.0, 0.0))
        }
    }

    /// A bank whose only skill is a candidate.
    fn bank_at(path: &Path) {
        let mut bank = Bank::new();
        let content = Content::principle("look first", "Look first.".to_owned(), "Always.");
        let skill = bank.next_skill(&Tier::General);
        let proposed =
            BankEvent::proposed(skill, Tier::General, content, SkillProvenance::Person, Evidence::default());
        bank.record(0, Author::Person, proposed).unwrap();
        drop(BankDir::create(path, bank, None).unwrap());
    }

    fn open(path: &Path, tasks: [&[&str]; 3]) -> Result<OutsideBank, OutsideError> {
        OutsideBank::open(path, Tasks::of(tasks), BankSettings::default(), 7)
    }

    const TASKS: [&[&str]; 3] = [&["a", "b", "c", "d"], &[], &[]];

    #[test]
    fn a_trial_whose_design_cannot_be_read_is_not_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bank");
        bank_at(&path);
        let mut bank = open(&path, TASKS).unwrap();
        for item in Tasks::of(TASKS).items(Split::Train) {
            bank.choose(&Wanted::Current, &TaskView::new(item, "win"), Split::Train).unwrap();
        }
        let draft = bank.next_trial().unwrap();
        let shown: Vec<ItemId> = draft.items.iter().map(|(item, ..)| item.clone()).collect();
        let report = bank.open_trial(draft, &shown).unwrap();
        assert_eq!(open(&path, TASKS).unwrap().trial_report(), report);
        let results = path.join(RESULTS_FILE);
        let whole = fs::read_to_string(&results).unwrap();
        fs::write(&results, whole.replacen("max_rollouts", "max_rollout5", 1)).unwrap();
        match open(&path, TASKS).map(drop) {
            Err(OutsideError::Pipeline(PipelineError::Corrupt { path, .. })) => assert_eq!(path, results),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tasks_that_are_there_twice_are_not_too_few() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bank");
        bank_at(&path);
        let taught = |tasks| open(&path, tasks).map(|mut bank| bank.next_trial().is_some());
        assert!(taught(TASKS).unwrap());
        let few: [[&[&str]; 3]; 2] = [[&[], &["v"], &[]], [&["a"], &["v"], &[]]];
        assert!(few.iter().all(|few| !taught(*few).unwrap()));
        match taught([TASKS[0], &["a"], &[]]) {
            Err(OutsideError::Pipeline(PipelineError::DuplicateItem { id, .. })) => {
                assert_eq!(id.as_str(), "a");
            }
            other => panic!("{other:?}"),
        }
    }
}
