//! What a report says, gathered from a run directory.

pub(crate) mod compare;
pub(crate) mod conversation;
pub(crate) mod epochs;
pub(crate) mod headline;
pub(crate) mod items;
pub(crate) mod overview;
pub(crate) mod steps;

use crate::ReportError;
use conversation::Trajectories;
use headline::Headline;
use indexmap::IndexMap;
use items::Items;
use serde::Serialize;
use skill_core::Gate;
use skill_pipeline::provenance::{Blame, Version, blame};
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::run_dir::epoch_format::EpochRecords;
use skill_pipeline::run_dir::format::{StageTokens, StepAction, StepRecord, TokensByStage};
use skill_pipeline::{PipelineError, RunReader};
use std::path::Path;
use steps::StepRow;

/// What a report holds besides what it always holds.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The most trajectories that are shown whole.
    pub max_trajectories: usize,
    /// The most characters of one turn of a trajectory.
    pub max_turn_characters: usize,
    /// The most characters of all trajectories together.
    pub max_trajectory_characters: usize,
    /// What each stage cost, where prices are known.
    pub money: IndexMap<String, f64>,
    /// The gate of the run; the default is the paper's.
    pub gate: Gate,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            max_trajectories: 60,
            max_turn_characters: 4_000,
            max_trajectory_characters: 400_000,
            money: IndexMap::new(),
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
    /// What it came to; `None` before the first skill is measured.
    pub headline: Option<Headline>,
    /// Every finished step.
    pub steps: Vec<StepRow>,
    /// Calls, tokens and money by stage.
    pub stages: Vec<StageRow>,
    /// The best skill.
    pub skill: Vec<SkillLine>,
    /// The items of the selection split over time.
    pub items: Items,
    /// What the agent did on items of the final evaluation.
    pub trajectories: Trajectories,
    /// What was not measured, and what the numbers do not say, one sentence each.
    pub not_measured: Vec<String>,
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
    /// A file that cannot be read or is not what it should be. What is not there yet is no error.
    pub fn read(run: &RunReader, options: &ReportOptions) -> Result<Self, ReportError> {
        let (state, history, summary) = (run.state()?, run.history()?, run.summary()?);
        let name = name_of(run.path());
        let env = summary.as_ref().map(|summary| summary.env.clone());
        let env = env.or_else(|| run.config().config.pointer("/env/kind")?.as_str().map(str::to_owned));
        let Some(state) = state else {
            let not_measured = vec!["The first skill is not measured yet: nothing can be said.".to_owned()];
            return Ok(Self {
                name,
                env: env.unwrap_or_default(),
                version: None,
                n_steps: 0,
                is_finished: false,
                headline: None,
                steps: Vec::new(),
                stages: Vec::new(),
                skill: Vec::new(),
                items: Items::default(),
                trajectories: Trajectories::default(),
                not_measured,
            });
        };
        let tokens = tokens(run, &history, summary.as_ref().map(|summary| &summary.token_summary))?;
        let headline = Headline::read(run, &state, &history, summary.as_ref(), &tokens, options.gate)?;
        Ok(Self {
            name,
            env: env.unwrap_or_default(),
            n_steps: history.len(),
            is_finished: summary.is_some(),
            steps: steps::read(run, &history)?,
            stages: stages(&tokens, options),
            skill: skill_lines(&blame(run, Version::Best)?),
            items: items::read(run, &history, summary.as_ref())?,
            trajectories: conversation::read(run, &state, &history, options)?,
            not_measured: not_measured(&headline, &history, &run.epoch_ends()?, summary.is_some()),
            headline: Some(headline),
            version: summary.map(|summary| summary.version),
        })
    }
}

/// The name of a directory; one that is only called `run` has the name of what it is in.
fn name_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let names = path.ancestors().filter_map(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let mut names = names.skip_while(|name| name == "run");
    names.next().unwrap_or_else(|| "run".to_owned())
}

/// What the run used so far, by stage.
fn tokens(
    run: &RunReader,
    history: &[StepRecord],
    total: Option<&TokensByStage>,
) -> Result<TokensByStage, PipelineError> {
    if let Some(total) = total {
        return Ok(total.clone());
    }
    let mut tokens = TokensByStage::new();
    if let Some(baseline) = run.evaluation_summary(EvaluationDir::Baseline)? {
        tokens.insert("baseline".to_owned(), baseline.tokens);
    }
    let ends = run.epoch_ends()?;
    let of_steps = history.iter().map(|record| &record.tokens);
    for (stage, used) in of_steps.chain(ends.iter().flat_map(EpochRecords::tokens)).flatten() {
        *tokens.entry(stage.clone()).or_default() += *used;
    }
    Ok(tokens)
}

fn stages(tokens: &TokensByStage, options: &ReportOptions) -> Vec<StageRow> {
    let rows = tokens.iter().map(|(stage, used)| StageRow {
        stage: stage.clone(),
        used: *used,
        money: options.money.get(stage).copied(),
    });
    rows.collect()
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

/// What a reader should know before believing the numbers.
fn not_measured(
    headline: &Headline,
    history: &[StepRecord],
    ends: &[EpochRecords],
    is_finished: bool,
) -> Vec<String> {
    let mut said = Vec::new();
    if !is_finished {
        said.push("The run is not finished; everything here may still change.".to_owned());
    }
    match &headline.test {
        None if is_finished => {
            said.push(
                "The test split was not read, so nothing is known about tasks that took no part in training."
                    .to_owned(),
            );
        }
        None => said.push("The test split is read once, at the end.".to_owned()),
        Some(_) => {}
    }
    let of_ends = ends.iter().filter_map(|end| end.slow_update.as_ref()).map(|end| end.selection_interval);
    let intervals = history.iter().map(|record| record.selection_interval).chain(of_ends);
    let n_early = intervals.flatten().count();
    if n_early > 0 {
        said.push(format!(
            "{n_early} candidates were rejected before every item was measured: they could not win any more. Their \
             scores are not known; the chart shows the interval in which they are."
        ));
    }
    let n_indecisive = history.iter().filter(|record| record.action == StepAction::Indecisive).count();
    if n_indecisive > 0 {
        said.push(format!(
            "Of {n_indecisive} candidates too few items could tell: they were neither better nor worse as far as the \
             selection split can show."
        ));
    }
    if headline.n_candidates > 1 {
        let instead = match headline.fresh {
            Some(_) => "the scores that were measured anew do not, and",
            None => "it was not measured anew;",
        };
        said.push(format!(
            "The selection score of the best skill is the best of {} measurements, so it flatters; {instead} the test \
             split is what counts.",
            headline.best_of
        ));
    }
    said
}
