//! What the agent did, readable as a conversation.

use super::ReportOptions;
use super::epochs::{Maker, guided_by};
use super::headline::measured_at;
use super::items::ItemOutcome;
use super::source::Source;
use serde::Serialize;
use skill_core::{Role, RolloutResult, SkillId, StepIdx, TrajectoryMessage};
use skill_pipeline::records::document::StepRecord;
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::stage::evaluate::draw_of;
use skill_pipeline::{PipelineError, RunReader};
use std::collections::BTreeMap;

const CUT: &str = " […]";

/// Trajectories of the best skill, unless another one is asked for: first the items whose outcome has changed, then those that it failed.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Trajectories {
    /// `test` or `selection`.
    pub split: &'static str,
    /// Those that are shown.
    pub shown: Vec<TrajectoryView>,
    /// How many changed and failed items are left out.
    pub n_left_out: usize,
    /// How many items were solved by both skills and are not shown for that.
    pub n_kept: usize,
}

/// What the agent did on one item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrajectoryView {
    /// The item.
    pub id: String,
    /// Its kind, where items have one.
    pub task_type: String,
    /// `won`, `lost` or `never`.
    pub outcome: ItemOutcome,
    /// The best skill's strict score.
    pub hard: f64,
    /// Its graded score.
    pub soft: f64,
    /// Why it failed.
    pub reason: String,
    /// What it answered.
    pub answer: String,
    /// What the initial skill's agent answered.
    pub answer_before: String,
    /// The right answer, where there is one.
    pub reference: String,
    /// What was said, the skill left out.
    pub turns: Vec<TrajectoryTurn>,
}

/// A turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrajectoryTurn {
    /// Who spoke.
    pub role: &'static str,
    /// What was said.
    pub text: String,
}

impl Trajectories {
    /// Those of the best skill so far, against the initial one: on the test split where that is read, else on the
    /// validation split. `None` if nothing is measured yet.
    ///
    /// # Errors
    ///
    /// As for [`of_step`](Self::of_step).
    pub fn of_best(run: &RunReader, options: &ReportOptions) -> Result<Option<Self>, PipelineError> {
        let Some(state) = run.state()? else { return Ok(None) };
        Ok(Some(read(&Source::read(run, &state)?, options)))
    }

    /// Those of a step's candidate, against the skill that was current before it, on the validation split: the candidate
    /// takes the place of the best skill. `None` if the step measured none.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be.
    pub fn of_step(
        run: &RunReader,
        step: StepIdx,
        options: &ReportOptions,
    ) -> Result<Option<Self>, PipelineError> {
        let history = run.history()?;
        let is_measured = |record: &StepRecord| record.step == step && record.selection_n_seen.is_some();
        if !history.iter().any(is_measured) {
            return Ok(None);
        }
        let accepted = history.iter().filter(|record| record.step < step && record.action.is_accept());
        let accepted = accepted.map(|record| SkillId::of_step(record.step));
        let ends = run.epoch_ends()?;
        let guided = ends.iter().filter_map(|end| end.slow_update.as_ref());
        let guided = guided.filter(|record| record.step < step && record.action.is_accept());
        let makers = accepted.chain(guided.map(guided_by));
        let before = Maker::of(makers.max().unwrap_or(SkillId::INITIAL)).measured(&history);
        let before = run.results(before)?;
        let after = run.results(EvaluationDir::of_step(measured_at(&history, step)))?;
        Ok(before.zip(after).map(|(before, after)| choose("selection", &before, &after, options)))
    }
}

pub(super) fn read(source: &Source<'_>, options: &ReportOptions) -> Trajectories {
    let (split, pair) = match &source.test {
        Some(test) => ("test", test),
        None => ("selection", &source.selection),
    };
    choose(split, &pair.before, pair.after(), options)
}

pub(super) fn choose(
    split: &'static str,
    before: &[RolloutResult],
    after: &[RolloutResult],
    options: &ReportOptions,
) -> Trajectories {
    // Of several draws the first one is shown.
    let is_first = |result: &&RolloutResult| draw_of(result).1 == 0;
    let known: BTreeMap<&str, &RolloutResult> =
        before.iter().filter(is_first).map(|result| (result.id.as_str(), result)).collect();
    let mut of_outcome: [Vec<(&RolloutResult, &RolloutResult)>; 4] = Default::default();
    for result in after.iter().filter(is_first) {
        let earlier = known.get(result.id.as_str()).copied().unwrap_or(result);
        let place = match (earlier.is_success(), result.is_success()) {
            (true, false) => 0,
            (false, true) => 1,
            (false, false) => 2,
            (true, true) => 3,
        };
        if let Some(list) = of_outcome.get_mut(place) {
            list.push((earlier, result));
        }
    }
    let [lost, won, never, kept] = of_outcome;
    let outcomes = [(ItemOutcome::Lost, lost), (ItemOutcome::Won, won), (ItemOutcome::Never, never)];
    let mut trajectories = Trajectories { split, n_kept: kept.len(), ..Trajectories::default() };
    let mut n_characters = 0;
    for (outcome, pairs) in outcomes {
        for (earlier, result) in pairs {
            let is_full = trajectories.shown.len() >= options.max_trajectories
                || n_characters >= options.max_trajectory_characters;
            if is_full {
                trajectories.n_left_out += 1;
                continue;
            }
            let shown = trajectory(outcome, earlier, result, options);
            n_characters += shown.turns.iter().map(|turn| turn.text.len()).sum::<usize>();
            trajectories.shown.push(shown);
        }
    }
    trajectories
}

fn trajectory(
    outcome: ItemOutcome,
    before: &RolloutResult,
    after: &RolloutResult,
    options: &ReportOptions,
) -> TrajectoryView {
    let prompts;
    let mut said: Vec<&TrajectoryMessage> = after.trajectory.conversation().collect();
    if said.is_empty() {
        prompts = [
            TrajectoryMessage::new(Role::User, after.target_user_prompt.as_str()),
            TrajectoryMessage::new(Role::Assistant, after.predicted_answer.as_str()),
        ];
        said.extend(&prompts);
    }
    // The skill has a place of its own in the report, and would be most of each conversation here.
    let said = said.into_iter().filter(|message| message.role != Role::System);
    let texts =
        said.map(|message| (message.role, message.as_text())).filter(|(_, text)| !text.trim().is_empty());
    let clip = |text: &str| clip(text.trim(), options.max_turn_characters);
    TrajectoryView {
        id: after.id.as_str().to_owned(),
        task_type: after.task_type.clone(),
        outcome,
        hard: after.hard,
        soft: after.soft,
        reason: clip(&after.fail_reason),
        answer: clip(&after.predicted_answer),
        answer_before: clip(&before.predicted_answer),
        reference: clip(&after.reference_text),
        turns: texts.map(|(role, text)| TrajectoryTurn { role: role.as_str(), text: clip(&text) }).collect(),
    }
}

/// The first characters of a text, with a mark where it is cut.
pub(crate) fn clip(text: &str, max_characters: usize) -> String {
    match text.char_indices().nth(max_characters) {
        Some((end, _)) => format!("{}{CUT}", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
