//! What a report says, gathered from a run directory.

pub(crate) mod any;
pub(crate) mod arms;
pub(crate) mod bank;
pub(crate) mod compare;
pub(crate) mod conversation;
pub(crate) mod course;
mod ending;
pub(crate) mod epochs;
pub(crate) mod front;
mod games;
pub(crate) mod headline;
pub(crate) mod items;
mod kinds;
pub(crate) mod labels;
pub(crate) mod notes;
pub(crate) mod overview;
pub(crate) mod phases;
pub(crate) mod rl;
pub(crate) mod setup;
pub(crate) mod sft;
mod source;
pub(crate) mod standing;
pub(crate) mod steps;
mod verdict;
mod weights_files;

use crate::ReportError;
use crate::verdict::{Caution, CautionKind, Verdict};
use conversation::Trajectories;
use course::CoursePoint;
use front::FrontRow;
use headline::Headline;
use indexmap::IndexMap;
use items::Items;
use labels::Classes;
use notes::NoteRow;
use serde::Serialize;
use setup::Setup;
use skill_core::Gate;
use skill_pipeline::provenance::{Blame, Version, blame};
use skill_pipeline::records::{StageTokens, TokensByStage};
use skill_pipeline::run_dir::Sent;
use skill_pipeline::{PipelineError, RunReader};
use source::Source;
use standing::{RunPhase, Standing};
use std::path::Path;
use steps::{Chosen, DiffLine, StepRow};
use verdict::{Judged, not_measured};

/// What a report holds besides what it always holds.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The most trajectories that are shown whole.
    pub max_trajectories: usize,
    /// The most characters of one turn of a trajectory.
    pub max_turn_characters: usize,
    /// The most characters of all trajectories together.
    pub max_trajectory_characters: usize,
    /// The most steps that are shown one by one.
    pub max_steps: usize,
    /// The most characters of edits, differences and notes of all steps together.
    pub max_step_characters: usize,
    /// The most items that are shown over time.
    pub max_items: usize,
    /// The most skills of a bank.
    pub max_skills: usize,
    /// The most trials of a bank's run.
    pub max_trials: usize,
    /// The most characters of one text of a skill of a bank.
    pub max_skill_characters: usize,
    /// The gate of the run; the default is the paper's.
    pub gate: Gate,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            max_trajectories: 60,
            max_turn_characters: 4_000,
            max_trajectory_characters: 400_000,
            max_steps: 400,
            max_step_characters: 600_000,
            max_items: 2_000,
            max_skills: 400,
            max_trials: 1_000,
            max_skill_characters: 2_000,
            gate: Gate::default(),
        }
    }
}

/// A run, as a person wants to see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The name of the run's directory.
    pub name: String,
    /// The environment.
    pub env: String,
    /// The program that wrote the run, if it has ended.
    pub version: Option<String>,
    /// Steps that are finished.
    pub n_steps: usize,
    /// Whether the run has come to its end.
    pub is_finished: bool,
    /// What the run is doing.
    pub phase: RunPhase,
    /// What stopped or interrupted it, where that is known; a provider's words may be among it.
    pub reason: Option<String>,
    /// When it began, how long it worked, and what it was asked to do.
    pub setup: Setup,
    /// What it came to, with what to know before the numbers are trusted.
    pub verdict: Verdict,
    /// Its scores; `None` before the initial skill is measured.
    pub headline: Option<Headline>,
    /// The finished steps that are shown, in order; all of them, unless they are too many.
    pub steps: Vec<StepRow>,
    /// How many steps are left out for their number: none that was accepted before all others are.
    pub n_steps_left_out: usize,
    /// The score of the current and of the best skill wherever one of them changes, over all steps.
    pub course: Vec<ScorePoint>,
    /// The best skill's score over calls and money, after the first measurement and after each step; empty until
    /// [`Report::read_spending`].
    pub spending: Vec<CoursePoint>,
    /// Score, tokens and length of the skills that were measured whole, those of the steps that are shown.
    pub front: Vec<FrontRow>,
    /// What people have noted on it, the newest at the end.
    pub notes: Vec<NoteRow>,
    /// Calls, tokens and money by stage: what the results of the run are based on.
    pub stages: Vec<StageRow>,
    /// All stages together.
    pub total: Option<StageRow>,
    /// What the run has sent.
    pub sent: SentRow,
    /// What the best skill has changed in the first one.
    pub change: Vec<DiffLine>,
    /// The best skill.
    pub skill: Vec<SkillLine>,
    /// The classes of the items; `None` where right answers are no class labels.
    pub classes: Option<Classes>,
    /// The items of the validation split over time.
    pub items: Items,
    /// What the agent did on items of the final evaluation.
    pub trajectories: Trajectories,
    /// Candidates that were rejected before every item was measured, because the rest could not change the decision.
    pub n_rejected_early: usize,
}

/// The scores from a point of the run on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScorePoint {
    /// The step after which they hold.
    pub step: u32,
    /// Whether it is the end of the step's epoch after which they hold.
    pub is_epoch_end: bool,
    /// The score of the current skill.
    pub current: f64,
    /// The score of the best skill.
    pub best: f64,
}

/// Calls and tokens of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageRow {
    /// The stage.
    pub stage: String,
    /// What it used.
    #[serde(flatten)]
    pub used: StageTokens,
    /// What that cost, where prices are known.
    pub money: Option<f64>,
}

/// What a run has sent, over all its processes: retries, cancelled calls, and the requests of `doctor`, `prune` and `try`
/// too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SentRow {
    /// Requests.
    pub requests: u64,
    /// Their tokens, prompts and replies.
    pub tokens: u64,
    /// What they cost, where prices are known.
    pub money: Option<f64>,
    /// True if nothing was sent for the replies of the run: a replay, for example.
    pub is_replay: bool,
    /// The models of the requests, to price them by.
    #[serde(skip)]
    pub counted: Sent,
}

impl From<Sent> for SentRow {
    fn from(sent: Sent) -> Self {
        Self {
            requests: sent.requests(),
            tokens: sent.tokens(),
            money: None,
            is_replay: sent.is_replay(),
            counted: sent,
        }
    }
}

/// A line of the best skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkillLine {
    /// Its number, from 1.
    pub number: usize,
    /// Its text.
    pub text: String,
    /// What put it there, in words.
    pub from: String,
    /// The step that put it there.
    pub step: Option<u32>,
}

impl Report {
    /// Gathers a report from a run directory.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be. What is not there yet is not an error.
    pub fn read(run: &RunReader, options: &ReportOptions) -> Result<Self, ReportError> {
        let name = name_of(run.path());
        let env = run.config().config.pointer("/env/kind").and_then(|kind| kind.as_str());
        let env = env.unwrap_or_default().to_owned();
        let Some(judged) = Judged::read(run, options)? else { return Self::not_begun(run, name, env) };
        let source = &judged.source;
        let chosen = Chosen::of(&source.history, options.max_steps);
        let steps = steps::read(source, &chosen, options.max_step_characters)?;
        let items = items::read(source, &chosen, options.max_items)?;
        let summary = source.summary.as_ref();
        let (stages, sent) = (stages(&judged.tokens), Sent::of(run)?);
        Ok(Self {
            setup: Setup::read(run, sent.seconds())?,
            n_rejected_early: n_rejected_early(source),
            change: steps::change(run)?,
            name,
            env: summary.map_or(env, |summary| summary.env.clone()),
            n_steps: source.history.len(),
            is_finished: summary.is_some(),
            n_steps_left_out: source.history.len() - steps.len(),
            course: course(source),
            spending: Vec::new(),
            front: front::read(source, &chosen)?,
            notes: notes::read(run, &source.history)?,
            total: total(&stages),
            stages,
            verdict: judged.verdict.with_cautions(uncounted(&sent)),
            sent: sent.into(),
            skill: best_skill(run, judged.is_skill_changed)?,
            trajectories: conversation::read(source, options),
            version: summary.map(|summary| summary.version.clone()),
            steps,
            items,
            phase: judged.phase,
            reason: judged.reason,
            classes: judged.classes,
            headline: Some(judged.headline),
        })
    }

    fn not_begun(run: &RunReader, name: String, env: String) -> Result<Self, ReportError> {
        let Standing { phase, reason, .. } = Standing::of(run.path(), false);
        let sent = Sent::of(run)?;
        Ok(Self {
            setup: Setup::read(run, sent.seconds())?,
            verdict: not_measured(run).with_cautions(uncounted(&sent)),
            n_rejected_early: 0,
            change: Vec::new(),
            name,
            env,
            version: None,
            n_steps: 0,
            is_finished: false,
            phase,
            reason,
            headline: None,
            steps: Vec::new(),
            n_steps_left_out: 0,
            course: Vec::new(),
            spending: Vec::new(),
            front: Vec::new(),
            notes: notes::read(run, &[])?,
            stages: Vec::new(),
            total: None,
            sent: sent.into(),
            skill: Vec::new(),
            classes: None,
            items: Items::default(),
            trajectories: Trajectories::default(),
        })
    }

    /// Reads the best skill's score over calls and money, with the prices that `price` knows, and what came after the last
    /// gain.
    ///
    /// # Errors
    ///
    /// A file of the run that cannot be read.
    pub fn read_spending(
        &mut self,
        run: &RunReader,
        price: impl Fn(&TokensByStage) -> Option<f64>,
    ) -> Result<(), ReportError> {
        let Some(headline) = &self.headline else { return Ok(()) };
        self.spending = course::read(run, headline.selection.before, price)?;
        if let Some(words) = course::spent_in_vain(&self.spending) {
            self.verdict.add_caution(Caution::new(CautionKind::SpentInVain, words));
        }
        Ok(())
    }

    /// Prices the stages by what each cost, and their sum by all of them: stages without a price are not in it.
    pub fn price(&mut self, costs: &IndexMap<String, f64>) {
        for stage in &mut self.stages {
            stage.money = costs.get(&stage.stage).copied();
        }
        self.total = total(&self.stages);
        if let Some(headline) = &mut self.headline {
            self.verdict = self.verdict.clone().priced(headline, costs);
        }
    }
}

/// The scores wherever they change, with those of the last step.
fn course(source: &Source<'_>) -> Vec<ScorePoint> {
    let of_steps = source.history.iter().map(|record| ScorePoint {
        step: record.step.0,
        is_epoch_end: false,
        current: record.current_score,
        best: record.best_score,
    });
    let of_ends = source.ends.iter().filter_map(|end| end.slow_update.as_ref()).map(|record| ScorePoint {
        step: record.step.0,
        is_epoch_end: true,
        current: record.current_score,
        best: record.best_score,
    });
    let mut points: Vec<ScorePoint> = of_steps.chain(of_ends).collect();
    points.sort_by_key(|point| (point.step, point.is_epoch_end));
    let last = points.last().copied();
    points.dedup_by(|next, point| next.current == point.current && next.best == point.best);
    points.extend(last.filter(|last| points.last().is_some_and(|point| point.step != last.step)));
    points
}

/// The name of a directory; one that is only called `run` has the name of what it is in.
fn name_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let names = path.ancestors().filter_map(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let mut names = names.skip_while(|name| name == "run");
    names.next().unwrap_or_else(|| "run".to_owned())
}

fn stages(tokens: &TokensByStage) -> Vec<StageRow> {
    let rows = tokens.iter().map(|(stage, used)| StageRow { stage: stage.clone(), used: *used, money: None });
    rows.collect()
}

/// The sum of stages; its money is that of the stages that have a price.
fn total(stages: &[StageRow]) -> Option<StageRow> {
    let mut used = StageTokens::default();
    for row in stages {
        used += row.used;
    }
    let money = stages.iter().filter_map(|row| row.money).reduce(|sum, money| sum + money);
    (!stages.is_empty()).then(|| StageRow { stage: "all".to_owned(), used, money })
}

fn skill_lines(blame: &Blame) -> Vec<SkillLine> {
    let lines = blame.lines.iter().map(|line| SkillLine {
        number: line.number,
        text: line.text.clone(),
        from: line.origin.to_string(),
        step: line.origin.step().map(|step| step.0),
    });
    lines.collect()
}

/// That a run has not come to its end.
fn unfinished(phase: RunPhase) -> Option<Caution> {
    let said = match phase {
        RunPhase::Training => "The run is not finished; everything here may still change.",
        RunPhase::Stopped => "The run was stopped before its end.",
        RunPhase::Interrupted => "The run was interrupted before its end.",
        RunPhase::Finished | RunPhase::Damaged => return None,
    };
    Some(Caution::new(CautionKind::Unfinished, said))
}

/// Candidates that were rejected before every item was measured.
fn n_rejected_early(source: &Source<'_>) -> usize {
    let of_ends = source.ends.iter().filter_map(|end| end.slow_update.as_ref());
    let of_ends = of_ends.map(|end| end.selection_interval);
    let of_steps = source.history.iter().map(|record| record.selection_interval);
    of_steps.chain(of_ends).flatten().count()
}

/// The best skill with each line's origin: the run's own, where its file was changed.
fn best_skill(run: &RunReader, is_changed: bool) -> Result<Vec<SkillLine>, PipelineError> {
    if is_changed {
        return Ok(skill_lines(&blame(run, Version::Text(&run.kept_best_skill()?))?));
    }
    Ok(skill_lines(&blame(run, Version::Best)?))
}

/// The models of a run by role, as its configuration names them: those of its kind, a file by its name.
pub fn models(run: &RunReader) -> Vec<(String, String)> {
    let roles = skill_pipeline::kind::roles_of(run.path());
    let of_role = |role: &&str| {
        let section = run.config().config.get("models")?.get(*role)?;
        let text = |key: &str| section.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
        // A local model by its file.
        let file =
            |path: String| Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = text("model").or_else(|| file(text("path")?));
        Some(((*role).to_owned(), name.or_else(|| text("agent")).or_else(|| text("kind"))?))
    };
    let models: Vec<(String, String)> = roles.iter().filter_map(of_role).collect();
    // A policy that is not configured is the model of the tasks.
    if models.is_empty() { of_role(&"target").into_iter().collect() } else { models }
}

/// That a journal cannot be read, so that not all is counted.
pub(crate) fn uncounted(sent: &Sent) -> Option<Caution> {
    let words = format!(
        "Calls, tokens and cost are incomplete, since a journal cannot be read: {}.",
        sent.problem()?
    );
    Some(Caution::new(CautionKind::DamagedFile, words))
}

/// Which models were simulated; `None` where none was.
fn simulated(run: &RunReader) -> Option<Caution> {
    let names = &run.config().simulated_models;
    (!names.is_empty()).then(|| {
        let words =
            format!("Models were simulated ({}): the numbers do not apply to real models.", names.join(", "));
        Caution::new(CautionKind::Simulated, words)
    })
}
