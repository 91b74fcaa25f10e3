//! The identity of a run includes the parameters of its models, and its judge.

use crate::run_files::files;
use crate::world::{INITIAL_SKILL, Job, Words, with_parameters};
use serde_json::{Value, json};
use skill_core::SkillDoc;
use skill_envs::Split;
use skill_envs::source::document;
use skill_llm::{Journal, JournalOptions};
use skill_pipeline::error::SettingChange;
use skill_pipeline::stage::StageCtx;
use skill_pipeline::stage::evaluate::evaluate;
use skill_pipeline::stage::rollout::Rollouts;
use skill_pipeline::{NoEvents, PipelineError, Stage};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A run with these parameters of target and optimizer, and a judge of this name and these parameters.
fn job(target: &Value, optimizer: &Value, judge: Option<(&str, Value)>) -> Job {
    let mut env = Words::new();
    env.judge = judge.map(|(name, parameters)| with_parameters(name, parameters) as _);
    Job {
        env,
        target: with_parameters("target", target.clone()),
        optimizer: with_parameters("optimizer", optimizer.clone()),
        ..Job::default()
    }
}

fn stopped(dir: &Path, job: Job) {
    let error = Job { stop_after: 1, ..job }.run(dir).unwrap_err();
    assert!(matches!(error, PipelineError::Stopped { .. }), "{error:?}");
}

fn judged() -> Option<(&'static str, Value)> {
    Some(("judge", json!({"temperature": 0.0})))
}

#[test]
fn other_parameters_of_a_model_and_another_judge_are_refused_by_name() {
    let (cold, hot) = (json!({"temperature": 0.0}), json!({"temperature": 1.0}));
    #[track_caller]
    fn check(job: Job, expect: &[SettingChange]) {
        let dir = tempfile::tempdir().unwrap();
        let cold = json!({"temperature": 0.0});
        stopped(dir.path(), self::job(&cold, &cold, judged()));
        let before = files(dir.path());
        let PipelineError::Mismatch { changes, .. } = job.run(dir.path()).unwrap_err() else { panic!() };
        assert_eq!(changes, expect);
        assert_eq!(files(dir.path()), before, "a refused run loses nothing");
    }
    let temperature = |model: &str| SettingChange::Parameters {
        model: model.to_owned(),
        members: vec!["temperature".to_owned()],
    };
    let other_judge = |is: Value| SettingChange::Value {
        name: "models.judge".to_owned(),
        was: json!("judge at scripted"),
        is,
    };
    check(job(&hot, &cold, judged()), &[temperature("models.target")]);
    check(job(&cold, &hot, judged()), &[temperature("models.optimizer")]);
    check(job(&cold, &cold, Some(("judge", hot.clone()))), &[temperature("models.judge")]);
    check(job(&cold, &cold, Some(("other", cold.clone()))), &[other_judge(json!("other at scripted"))]);
    check(job(&cold, &cold, None), &[other_judge(Value::Null), temperature("models.judge")]);
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path(), job(&cold, &cold, judged()));
    job(&cold, &cold, judged()).run(dir.path()).unwrap();
}

#[test]
fn a_judge_is_not_added_to_a_run_without_one() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path(), job(&Value::Null, &Value::Null, None));
    let error = job(&Value::Null, &Value::Null, judged()).run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { .. }), "{error:?}");
}

#[test]
fn a_rollout_is_not_reused_under_another_judge() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (skill, target) = (SkillDoc::new(INITIAL_SKILL), with_parameters("target", Value::Null));
    let n_rollouts = |judge: Option<(&str, Value)>| {
        let mut env = Words::new();
        env.judge = judge.map(|(name, parameters)| with_parameters(name, parameters) as _);
        let env = Arc::new(env);
        runtime.block_on(async {
            let journal =
                Journal::open(&dir.path().join("journal.sqlite"), JournalOptions::default()).unwrap();
            let ctx =
                StageCtx { journal: Some(journal.clone()), ..StageCtx::new(Stage::Baseline, &NoEvents) };
            let rollouts = Rollouts::local(Arc::clone(&env) as _, Arc::clone(&target) as _, None);
            evaluate(&rollouts, Split::Val, &document(&skill), &ctx).await.unwrap();
            journal.flush().await.unwrap();
        });
        env.n_rollouts.load(Ordering::Relaxed)
    };
    let hot = json!({"temperature": 1.0});
    assert_eq!(n_rollouts(None), 10);
    assert_eq!(n_rollouts(None), 0);
    assert_eq!(n_rollouts(judged()), 10);
    assert_eq!(n_rollouts(judged()), 0);
    assert_eq!(n_rollouts(Some(("judge", hot.clone()))), 10);
    assert_eq!(n_rollouts(Some(("other", json!({"temperature": 0.0})))), 10);
}
