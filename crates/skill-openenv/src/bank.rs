//! The bank over HTTP: what it is, what episodes were worth, and new candidates from what failed.
//!
//! # Invariants
//!
//! - Chance splits a group before any of its episodes begins, exactly in half, and a trial continues in the next
//!   process with every result that was accepted. Held by
//!   `halves_are_exact_in_every_group_and_a_trial_outlives_its_server`.
//! - An admitted skill is measured on groups that had no part in the decision, over restarts. Held by
//!   `what_is_admitted_is_measured_on_further_groups_also_by_another_server`.
//! - No reply of a teacher is paid for twice. Held by `a_reply_of_the_teacher_is_kept_for_the_next_server`.
//! - The same result twice is one result, and none counts for an episode that was shown something else. Held by
//!   `a_result_is_recorded_once_and_says_what_is_wrong_with_it`.

use crate::app::App;
use crate::rejection::{Answer, Rejection, fields, refused};
use crate::skills::{Skills, TeacherOptions};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Json;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_bank::distill::{DistillError, Teacher};
use skill_bank::evolve::{Evolution, evolve as ask};
use skill_bank::{BankSummary, Episode};
use skill_core::ItemId;
use skill_envs::TaskView;
use skill_llm::error::with_causes;
use skill_llm::{CallCtx, CallPlace};
use skill_pipeline::bank::outside::{EvolutionDraft, OutsideBank, OutsideError, Proposed, TrialDraft};
use std::sync::Arc;

impl From<OutsideError> for Rejection {
    fn from(error: OutsideError) -> Self {
        let status = match &error {
            OutsideError::UnknownEpisode { .. } | OutsideError::UnknownVersion { .. } => {
                StatusCode::NOT_FOUND
            }
            OutsideError::EpisodeTaken { .. }
            | OutsideError::OtherVersion { .. }
            | OutsideError::OtherResult { .. }
            | OutsideError::Evolving
            | OutsideError::TooFewTasks
            | OutsideError::ReadOnly { .. }
            | OutsideError::Trial(_) => StatusCode::CONFLICT,
            OutsideError::BadReward => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        refused(status, json!(with_causes(&error)))
    }
}

impl From<DistillError> for Rejection {
    fn from(error: DistillError) -> Self {
        refused(StatusCode::BAD_GATEWAY, json!(with_causes(&error)))
    }
}

fn bank_of(app: &App) -> Result<&Arc<Mutex<OutsideBank>>, Rejection> {
    app.skills.bank().ok_or_else(|| refused(StatusCode::NOT_FOUND, json!("this server has no bank")))
}

/// What the bank is now.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Answer {
    let bank = bank_of(&app)?.lock();
    let summary = BankSummary::of(bank.bank());
    Ok(Json(json!({
        "version": bank.bank().view().version(),
        "skills": summary,
        "trial": bank.trial_report(),
        "unread_episodes": bank.n_unread(),
    })))
}

/// Records what an episode was worth.
pub(crate) async fn report(State(app): State<Arc<App>>, body: Bytes) -> Answer {
    let bank = Arc::clone(bank_of(&app)?);
    let fields = fields(&body)?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let reward = fields.get("reward").and_then(Value::as_f64);
    let (Some(id), Some(version), Some(reward)) = (text("episode_id"), text("skill_version"), reward) else {
        let detail = "expected the texts `episode_id` and `skill_version` and the number `reward`";
        return Err(refused(StatusCode::UNPROCESSABLE_ENTITY, json!(detail)));
    };
    let recorded = blocking(move || bank.lock().report(&id, &version, reward)).await?;
    Ok(Json(json!({
        "recorded": recorded.is_new,
        "counted": recorded.is_counted,
        "trial": recorded.trial,
    })))
}

/// Has the teacher read what failed since the last time, and begins the next trial.
pub(crate) async fn evolve(State(app): State<Arc<App>>) -> Answer {
    let bank = Arc::clone(bank_of(&app)?);
    // A client that goes away leaves the evolution to its end, or its episodes would be lost.
    let work = tokio::spawn(async move { evolved(&app, &bank).await });
    match work.await {
        Ok(outcome) => outcome.map(Json),
        Err(error) => Err(refused(StatusCode::INTERNAL_SERVER_ERROR, json!(error.to_string()))),
    }
}

async fn evolved(app: &App, bank: &Arc<Mutex<OutsideBank>>) -> Result<Value, Rejection> {
    let mut notes = Vec::new();
    let mut asked = None;
    if let Some(teacher) = &app.teacher {
        let draft = begun(&app.skills, bank)?;
        let evolution = teach(teacher, &draft).await;
        let (rates, weak) = (draft.plan.rates.clone(), draft.plan.weak.clone());
        let n_episodes = draft.episodes.len();
        let proposed = {
            let bank = Arc::clone(bank);
            let found = evolution.as_ref().ok().cloned();
            blocking(move || bank.lock().end_evolution(draft, found.as_ref())).await?
        };
        let evolution = evolution?;
        let Proposed { candidates, left_out } = proposed;
        notes.extend(left_out);
        notes.extend(evolution.notes);
        asked = Some((candidates, rates, weak, n_episodes, evolution.calls));
    }
    let (trial, problem) = begin_trial(&app.skills, bank).await?;
    notes.extend(problem);
    let trial = trial.or_else(|| bank.lock().trial_report());
    let Some((candidates, rates, weak, n_episodes, calls)) = asked else {
        // Without a teacher, the trial of a candidate that waits is all that can be had.
        return if trial.is_some() {
            Ok(json!({"trial": trial, "notes": notes}))
        } else {
            let detail = "no teacher is configured: `models.teacher` or `models.optimizer`";
            Err(refused(StatusCode::NOT_IMPLEMENTED, json!(detail)))
        };
    };
    let candidates: Vec<Value> =
        candidates.into_iter().map(|(skill, version)| json!({"skill": skill, "version": version})).collect();
    let newest = candidates.last().and_then(|candidate| candidate.get("version")).cloned();
    let bank_version = bank.lock().bank().view().version().to_owned();
    Ok(json!({
        "version": newest.unwrap_or_else(|| json!(bank_version)),
        "bank_version": bank_version,
        "candidates": candidates,
        "trial": trial,
        "episodes": n_episodes,
        "rates": rates,
        "weak": weak,
        "calls": calls,
        "notes": notes,
    }))
}

fn begun(skills: &Skills, bank: &Mutex<OutsideBank>) -> Result<EvolutionDraft, OutsideError> {
    let task_type = |episode: &Episode| {
        let found = skills.task_type(&episode.task_type, &episode.goal);
        found.unwrap_or_else(|| episode.task_type.clone())
    };
    bank.lock().begin_evolution(&task_type)
}

async fn teach(teacher: &TeacherOptions, draft: &EvolutionDraft) -> Result<Evolution, DistillError> {
    let asked = Teacher {
        model: teacher.model.as_ref(),
        embedding: None,
        prompts: &teacher.prompts,
        max_reply_tokens: teacher.max_reply_tokens,
        workers: 1,
    };
    let call = CallCtx::new(CallPlace::new(format_args!("round {}", draft.round)));
    let EvolutionDraft { bank, episodes, plan, settings, forbidden, .. } = draft;
    ask(episodes, plan, bank, settings, &asked, forbidden, &call).await
}

/// Begins the next trial, if one waits and some of the tasks that trainers ask for would show its candidate.
async fn begin_trial(
    skills: &Skills,
    bank: &Arc<Mutex<OutsideBank>>,
) -> Result<(Option<skill_pipeline::bank::outside::TrialReport>, Option<String>), Rejection> {
    let Some(draft) = bank.lock().next_trial() else { return Ok((None, None)) };
    let candidate = draft.tried.skill.to_string();
    let shown = match shown(skills, &draft).await {
        Ok(shown) => shown,
        Err(problem) => return Ok((None, Some(format!("{candidate} is not tried: {problem}")))),
    };
    let bank = Arc::clone(bank);
    match blocking(move || bank.lock().open_trial(draft, &shown)).await {
        Ok(trial) => Ok((trial, None)),
        Err(OutsideError::Trial(error)) => Ok((None, Some(format!("{candidate} is not tried yet: {error}")))),
        Err(error) => Err(error.into()),
    }
}

/// The tasks whose agents would be shown the candidate.
async fn shown(skills: &Skills, draft: &TrialDraft) -> Result<Vec<ItemId>, String> {
    let mut shown = Vec::new();
    for (item, goal, task_type) in &draft.items {
        let mut task = skill_envs::Item::new(item.clone(), Value::Null);
        task.task_type.clone_from(task_type);
        let selected = skills.selects(draft.with.clone(), &TaskView::new(&task, goal)).await;
        if selected.map_err(|fault| fault.message)?.contains(&draft.tried.skill) {
            shown.push(item.clone());
        }
    }
    Ok(shown)
}

/// Work with files, away from those who wait for messages.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OutsideError> + Send + 'static,
) -> Result<T, OutsideError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and nobody waits any longer.
            Err(_) => std::future::pending().await,
        },
    }
}
