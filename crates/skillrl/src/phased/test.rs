//! The last phase: each policy plays the test split, greedily.

use crate::config::LoadedConfig;
use crate::error::Error;
use crate::policy::{LocalTarget, model_error, with_policy};
use crate::{skills, world};
use skill_core::canonical::canonical_hash;
use skill_envs::Split;
use skill_envs::source::document;
use skill_pipeline::bank_dir::read_bank;
use skill_pipeline::phases::{Phases, TestResult};
use skill_pipeline::records::phases::{Phase, PhaseRecord, TEST_FILE, TestGames};
use skill_pipeline::run_dir::atomic;
use skill_pipeline::{PipelineError, StopSignal};
use skill_train::checkpoint::StateStore;
use skill_train::local::LocalBackend;
use skill_train::model::Keep;
use skill_train::seam::TrainBackend;
use skill_weights::policy::{EnvGames, PolicyGames as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A policy, the phase that it comes from, and the bank that it is shown.
pub(super) type Tested = (Option<Phase>, Option<PathBuf>, Option<PathBuf>);

/// Plays the test split with each policy.
pub(super) async fn play(
    loaded: &LoadedConfig,
    run: &Path,
    policies: &[Tested],
    stop: &StopSignal,
) -> Result<PhaseRecord, Error> {
    let mut games = Vec::new();
    for (phase, policy, bank) in policies {
        if bank.is_none() && phase.is_some() && games.last().is_some_and(|last: &TestGames| !last.has_skills)
        {
            // Nothing was shown the first time either.
            continue;
        }
        games.push(played(loaded, *phase, policy.as_deref(), bank.as_deref(), stop).await?);
    }
    let phases = Phases::read(run)?.unwrap_or_default();
    let policy = phases.get(Phase::Rl).map(|record| record.result.clone()).unwrap_or_default();
    let result = canonical_hash(&serde_json::to_value(&games).expect("games serialize"));
    let mut record = PhaseRecord::new(Phase::Test, result);
    for TestGames { policy, has_skills, games, .. } in &games {
        let name = match (policy, has_skills) {
            (None, _) => "before",
            (Some(Phase::Rl), false) => "without_skills",
            (Some(phase), _) => phase.as_str(),
        };
        record = record.with_figure(name, Some(games.score));
    }
    atomic::write_json(&Phase::Test.dir(run).join(TEST_FILE), &TestResult { policy, games })?;
    Ok(record)
}

async fn played(
    loaded: &LoadedConfig,
    phase: Option<Phase>,
    policy: Option<&Path>,
    bank: Option<&Path>,
    stop: &StopSignal,
) -> Result<TestGames, Error> {
    let loaded = match policy {
        Some(policy) => with_policy(loaded, policy)?,
        None => loaded.clone(),
    };
    let target = LocalTarget::open(&loaded.config.models.target)?;
    let files = &target.files;
    let env = world::environment(&loaded, None)?;
    let skill = skills::first_skill(&loaded.config.skill, env.as_ref())?.unwrap_or_default();
    let (source, has_skills) = match bank {
        Some(bank) => {
            let has_skills = !read_bank(bank)?.bank.view().skills().is_empty();
            (skills::source(&loaded, Some(bank), env.as_ref())?, has_skills)
        }
        None => (document(&skill), false),
    };
    let rl = loaded.config.rl.clone().unwrap_or_default();
    let context = files.config().max_positions;
    let max_reply = usize::try_from(rl.max_reply_tokens).unwrap_or(usize::MAX).min(context / 4);
    let model = files.load_to_train().map_err(|error| model_error(&error))?;
    let n_games = env.items(Split::Test).len();
    let games = EnvGames::new(env, Arc::clone(&source), target.text(), n_games)
        .with_split(Split::Test)
        .with_limits(context.saturating_sub(max_reply), max_reply);
    let backend: Arc<dyn TrainBackend> =
        Arc::new(LocalBackend::new(model, None, Keep::Activations, StateStore::new(PathBuf::new())));
    let games = games.play(&backend, 0, None, &stop.now).await.map_err(|error| match error {
        PipelineError::Halted => PipelineError::Stopped { last_step: 4, total_steps: 5 },
        error => error,
    })?;
    Ok(TestGames::new(phase, has_skills, games))
}

/// True if the games were played with another policy than the run has now.
pub(super) fn is_of_another(run: &Path, phases: &Phases) -> bool {
    let now = phases.get(Phase::Rl).map(|record| record.result.as_str());
    !matches!((TestResult::read(run), now), (Ok(Some(found)), Some(now)) if found.policy == now)
}
