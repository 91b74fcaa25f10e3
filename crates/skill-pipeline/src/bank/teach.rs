//! What a teacher is asked in a run, and what becomes of its replies.

use super::run::BankRun;
use super::{Admission, Show};
use crate::error::PipelineError;
use crate::event::Stage;
use crate::records::bank::RoundRecord;
use skill_bank::BankEvent;
use skill_bank::distill::{
    Admit, Applied, DistillError, DistillPlan, DistillSettings, Distillation, LeftOut, Proposal, Teacher,
    apply, distill, raw_episodes,
};
use skill_bank::episode::TrainEpisode;
use skill_bank::evolve::{EvolvePlan, evolve};
use skill_bank::lint::Forbidden;
use skill_core::StepIdx;
use skill_envs::{Env, Split};
use skill_llm::{CallCtx, EmbeddingModel, EmbeddingRequest, Journal, LlmError};

/// The text whose vector is requested before anything else.
const FIRST_TEXT: &str = "ready";

impl BankRun<'_> {
    pub(super) async fn distil(
        &mut self,
        episodes: &[TrainEpisode],
        record: &mut RoundRecord,
    ) -> Result<(), PipelineError> {
        let settings = DistillSettings::default();
        let call = self.call(None);
        let distilled = match self.settings().show {
            Show::Skills => {
                let plan = DistillPlan::new(episodes, &settings);
                let watch = self.begin();
                self.tell_stage(None, Stage::Distill, plan.calls.len());
                let models = self.counted(&watch);
                let task =
                    DistillTask { episodes, plan: &plan, settings: &settings, forbidden: &self.forbidden };
                let distilled = task.ask(&self.asked(&models), &call, &self.journal).await?;
                self.end(None, Stage::Distill, &watch);
                distilled
            }
            Show::Episodes => {
                raw_episodes(episodes).map_err(|error| teacher_error(error, distill_place(&call)))?
            }
        };
        record.episode_tokens = Some(tokens_of(episodes));
        record.left_out.extend(distilled.left_out.iter().map(LeftOut::to_string));
        record.notes.extend(distilled.notes);
        self.propose(record, &distilled.proposals).await?;
        if self.settings().show == Show::Skills {
            self.tell_proposals(Stage::Distill, record);
        }
        Ok(())
    }

    pub(super) async fn evolve(
        &mut self,
        episodes: &[TrainEpisode],
        plan: &EvolvePlan,
        record: &mut RoundRecord,
    ) -> Result<(), PipelineError> {
        if !plan.is_needed() {
            return Ok(());
        }
        let settings = self.settings().of_evolution();
        let step = Some(StepIdx(record.round));
        let watch = self.begin();
        self.tell_stage(step, Stage::Evolve, 1);
        let call = self.call(step);
        let models = self.counted(&watch);
        let (bank, teacher) = (self.bank.bank(), self.asked(&models));
        let evolved = evolve(episodes, plan, bank, &settings, &teacher, &self.forbidden, &call).await;
        let evolved = match evolved {
            // The bank is what it was, and the next round asks about new episodes.
            Err(error @ DistillError::BrokenReply { .. }) => {
                record.notes.push(error.to_string());
                None
            }
            evolved => Some(evolved.map_err(|error| {
                teacher_error(error, call.place.child(Stage::Evolve.as_str()).to_string())
            })?),
        };
        self.end(step, Stage::Evolve, &watch);
        let Some(evolved) = evolved else { return Ok(()) };
        record.episode_tokens = Some(tokens_of(episodes));
        record.left_out.extend(evolved.left_out.iter().map(LeftOut::to_string));
        record.notes.extend(evolved.notes);
        self.propose(record, &evolved.proposals).await?;
        self.tell_proposals(Stage::Evolve, record);
        Ok(())
    }

    /// Takes proposals into the bank: as candidates, or as the paper does.
    async fn propose(
        &mut self,
        record: &mut RoundRecord,
        proposals: &[Proposal],
    ) -> Result<(), PipelineError> {
        let admit = match self.settings().admission {
            Admission::Measured => Admit::Candidate,
            Admission::Unmeasured => Admit::Unmeasured,
        };
        let mut changed = self.bank.bank().clone();
        let n_before = changed.log().len();
        let applied: Applied =
            apply(&mut changed, record.round, proposals, admit).map_err(|error| self.bank_error(error))?;
        let events: Vec<BankEvent> =
            changed.log().iter().skip(n_before).map(|record| record.event.clone()).collect();
        self.record_events(record.round, events).await?;
        record.left_out.extend(applied.left_out.iter().map(LeftOut::to_string));
        if admit == Admit::Unmeasured {
            record.admitted.extend(applied.proposed.iter().cloned());
            record.retired.extend(applied.retirements.iter().cloned());
        }
        if admit == Admit::Candidate {
            self.retirements.extend(applied.retirements);
        }
        record.proposed.extend(applied.proposed);
        Ok(())
    }
}

fn tokens_of(episodes: &[TrainEpisode]) -> u64 {
    episodes.iter().map(|episode| episode.tokens()).sum()
}

/// What a teacher is asked to distil.
pub struct DistillTask<'a> {
    /// What it reads.
    pub episodes: &'a [TrainEpisode],
    /// How, made from these episodes and settings.
    pub plan: &'a DistillPlan,
    /// Sizes and limits.
    pub settings: &'a DistillSettings,
    /// What no skill may say.
    pub forbidden: &'a Forbidden,
}

impl DistillTask<'_> {
    /// Distils by a teacher whose replies this journal keeps. Where it keeps only such as cannot be read, the teacher is
    /// asked once more, so that the same command may come further than the one before it.
    ///
    /// # Errors
    ///
    /// As [`distill`].
    pub async fn ask(
        &self,
        teacher: &Teacher<'_>,
        call: &CallCtx,
        journal: &Journal,
    ) -> Result<Distillation, PipelineError> {
        let Self { episodes, plan, settings, forbidden } = *self;
        check_embedding(teacher.embedding, call).await?;
        let mut asked = call.clone();
        for number in 1.. {
            journal.flush().await?;
            let n_sent = journal.requests_committed();
            let error = match distill(episodes, plan, settings, teacher, forbidden, &asked).await {
                Err(error @ DistillError::BrokenReply { .. }) => error,
                outcome => return outcome.map_err(|error| teacher_error(error, distill_place(&asked))),
            };
            journal.flush().await?;
            if journal.requests_committed() > n_sent {
                return Err(teacher_error(error, distill_place(&asked)));
            }
            asked = call.child(format_args!("again {number}"));
        }
        Err(PipelineError::Halted)
    }
}

/// Requests one vector, so that a model that gives none is known before anything else is paid for.
///
/// A recording may be older than this request.
///
/// # Errors
///
/// [`PipelineError::Optimizer`] with the error of the model.
pub async fn check_embedding(
    model: Option<&dyn EmbeddingModel>,
    call: &CallCtx,
) -> Result<(), PipelineError> {
    let Some(model) = model else { return Ok(()) };
    let call = call.child("embedding");
    match model.embed(&EmbeddingRequest::new([FIRST_TEXT]), &call).await {
        Ok(_) | Err(LlmError::NotRecorded { .. }) => Ok(()),
        Err(source) => Err(PipelineError::Optimizer { place: call.place.to_string(), source }),
    }
}

fn distill_place(call: &CallCtx) -> String {
    call.place.child(Stage::Distill.as_str()).to_string()
}

/// Why a run or a command that asks a teacher stops; `place` is where it was asked, where the error does not say.
pub fn teacher_error(error: DistillError, place: impl Into<String>) -> PipelineError {
    match error {
        DistillError::Model { place, source } => PipelineError::Optimizer { place, source },
        DistillError::Prompt(error) => PipelineError::Prompt(error),
        error => PipelineError::Teacher { place: place.into(), source: Box::new(error) },
    }
}

/// Keeps the goals, ids and reference answers of all items of an environment out of skills, whatever split they are in.
pub fn forbid_items(forbidden: &mut Forbidden, env: &dyn Env) {
    for item in Split::ALL.into_iter().flat_map(|split| env.items(split)) {
        forbidden.add_id(item.id.as_str());
        if let Some(goal) = env.goal(item) {
            forbidden.add_goal(&goal);
        }
        if let Some(answer) = env.reference_reply(item) {
            forbidden.add_answer(&answer);
        }
    }
}
