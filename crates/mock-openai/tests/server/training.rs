//! Whole training runs over the socket.

use crate::world::{env, model, play};
use mock_openai::workload::{DataSize, Workload};
use mock_openai::{Fault, FaultPlan, MockServer, Replies, ServerConfig};
use skill_core::schedule::{EditBudget, Schedule};
use skill_llm::{OpenAiConfig, ResponseFormat};
use skill_pipeline::{PipelineError, Summary, TrainSettings, Trainer};
use std::path::Path;
use std::sync::Arc;

const SIZE: DataSize = DataSize { train: 60, val: 40, test: 40, context_bytes: 200 };

fn settings() -> TrainSettings {
    TrainSettings {
        epochs: 3,
        batch_size: 12,
        minibatch_size: 3,
        edit_budget: EditBudget::new(Schedule::Constant, 2, 2).unwrap(),
        workers: 16,
        ..TrainSettings::default()
    }
}

async fn train(server: &MockServer, dir: &Path, format: ResponseFormat) -> Result<Summary, PipelineError> {
    let env = env(&dir.join("data"), &SIZE);
    let models = ["target", "optimizer"].map(|name| {
        let config = OpenAiConfig::new(server.base_url(), name);
        model(OpenAiConfig { response_format: format, ..config })
    });
    let [target, optimizer] = models;
    let trainer = Trainer::new(Arc::new(env), target, optimizer).with_settings(settings());
    trainer.train(&dir.join("run")).await
}

async fn run(workload: Workload, format: ResponseFormat) -> (Summary, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let server = play(workload).await;
    let summary = train(&server, dir.path(), format).await.unwrap();
    assert_eq!(server.stats().answered, server.stats().requests);
    let history = std::fs::read(dir.path().join("run/history.json")).unwrap();
    let history: serde_json::Value = serde_json::from_slice(&history).unwrap();
    let records = history.as_array().unwrap();
    for record in records {
        let notes = record["notes"].as_array().map_or(0, Vec::len);
        assert_eq!(notes, 0, "every reply has the shape that was asked for: {record}");
        let report = &record["apply_report"];
        assert_eq!(report["skipped"], 0, "every edit can be applied: {record}");
    }
    (summary, records.iter().map(|record| record["action"].as_str().unwrap().to_owned()).collect())
}

fn sometimes() -> Workload {
    Workload { improve_every: 20, accuracy_step: 0.15, accuracy: 0.5, ..Workload::default() }
}

#[tokio::test]
async fn some_candidates_are_better_and_most_are_not() {
    let (summary, actions) = run(sometimes(), ResponseFormat::JsonSchema).await;
    assert_eq!((summary.total_steps, summary.total_skips), (15, 0), "{actions:?}");
    assert!(summary.total_accepts >= 1, "{actions:?}");
    assert!(summary.total_rejects > 2 * summary.total_accepts, "{actions:?}");
    assert!(summary.test_hard > summary.baseline_test_hard, "{summary:?}");
}

#[tokio::test]
async fn the_prompts_alone_say_what_is_asked_for() {
    let schema = run(sometimes(), ResponseFormat::JsonObjectSchema).await;
    assert!(schema.0.total_accepts >= 1 && schema.0.total_skips == 0, "{:?}", schema.1);
}

#[tokio::test]
async fn without_improvements_nothing_is_accepted() {
    for harm in [false, true] {
        let workload = Workload { improve_every: 0, harm, ..sometimes() };
        let (summary, actions) = run(workload, ResponseFormat::JsonSchema).await;
        assert_eq!((summary.total_accepts, summary.total_rejects), (0, 15), "{actions:?}");
    }
}

#[tokio::test]
async fn harm_makes_candidates_worse_and_improvements_still_count() {
    let workload = Workload { harm: true, ..sometimes() };
    let (summary, actions) = run(workload, ResponseFormat::JsonSchema).await;
    assert!(summary.total_accepts >= 1 && summary.total_rejects >= 5, "{actions:?}");
    assert!(summary.test_hard > summary.baseline_test_hard, "{summary:?}");
}

#[tokio::test]
async fn every_analyst_can_improve() {
    let workload = Workload { improve_every: 1, accuracy: 0.1, accuracy_step: 0.1, ..Workload::default() };
    let (summary, actions) = run(workload, ResponseFormat::JsonSchema).await;
    assert!(summary.total_accepts >= 5, "{actions:?}");
    assert_eq!(summary.test_hard, Some(1.0), "{actions:?}");
}

#[tokio::test]
async fn a_fault_reaches_the_trainer() {
    let dir = tempfile::tempdir().unwrap();
    let faults = FaultPlan::only(Fault::Unavailable, 0.5);
    let replies = Replies::Workload(sometimes());
    let server =
        MockServer::start(ServerConfig { replies, faults, ..ServerConfig::default() }).await.unwrap();
    let error = train(&server, dir.path(), ResponseFormat::JsonSchema).await.unwrap_err();
    assert!(format!("{error:?}").contains("status: 503"), "{error:?}");
}
