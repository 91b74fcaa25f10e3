//! Faults: what is named, and what is left.

use crate::setup::{bigram, is_at_step, new_run, trainer};
use skill_pipeline::PipelineError;
use skill_pipeline::run_dir::check::check;
use skill_train::TrainError;

#[tokio::test]
async fn a_loss_that_is_not_a_number_ends_the_run_at_its_step_and_keeps_the_last_checkpoint() {
    let (_dir, run, settings, data) = new_run().await;
    let error = trainer(&run, &bigram(&run).with_nan_at(3), &data, &settings).train(&run).await.unwrap_err();
    assert!(is_at_step(&error, 3), "{error:?}");
    let PipelineError::Weights { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(source.downcast_ref(), Some(TrainError::NotFinite { .. })));
    let text = std::fs::read_to_string(run.join("checkpoint.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(kept["step"], 2);
    let state = kept["state"].as_str().unwrap();
    skill_train::checkpoint::StateStore::new(run.join("checkpoints")).load(state).unwrap();
    assert!(!run.join("sft_summary.json").exists());
}

#[tokio::test]
async fn a_full_disk_at_a_checkpoint_leaves_the_one_before() {
    let (dir, run, settings, data) = new_run().await;
    let full = || TrainError::Io {
        path: "checkpoints/objects/1".into(),
        source: std::io::Error::from(std::io::ErrorKind::StorageFull),
    };
    let whole = dir.path().join("whole");
    let model = bigram(&whole);
    trainer(&whole, &model, &data, &settings).train(&whole).await.unwrap();
    let mut n_refused = 0;
    for call in 0..model.n_calls() {
        let _ = std::fs::remove_dir_all(&run);
        let error = trainer(&run, &bigram(&run).failing_at(call, full), &data, &settings)
            .train(&run)
            .await
            .unwrap_err();
        let PipelineError::Weights { source, .. } = &error else { panic!("{error:?}") };
        assert!(matches!(source.downcast_ref(), Some(TrainError::Io { .. })));
        assert!(error.hint().contains("room"), "{}", error.hint());
        n_refused += 1;
    }
    assert!(n_refused > 10);
}

#[tokio::test]
async fn damaged_files_of_a_run_are_named() {
    let (_dir, run, settings, data) = new_run().await;
    trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
    let again = async || trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap_err();
    let checkpoint = run.join("checkpoint.json");
    let text = std::fs::read_to_string(&checkpoint).unwrap();
    std::fs::write(&checkpoint, text.replace("\"step\": 4", "\"step\": 3")).unwrap();
    assert!(matches!(again().await, PipelineError::ChangedFile { .. }));
    std::fs::write(&checkpoint, &text).unwrap();
    let steps = std::fs::read_to_string(run.join("steps.jsonl")).unwrap();
    std::fs::write(run.join("steps.jsonl"), steps.lines().next().unwrap()).unwrap();
    assert!(matches!(again().await, PipelineError::Corrupt { .. }));
    std::fs::write(run.join("steps.jsonl"), &steps).unwrap();
    for object in std::fs::read_dir(run.join("checkpoints/objects")).unwrap() {
        std::fs::write(object.unwrap().path(), b"other").unwrap();
    }
    let error = again().await;
    let PipelineError::Weights { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(source.downcast_ref(), Some(TrainError::State { .. })));
}

#[tokio::test]
async fn a_run_is_not_resumed_on_lines_that_were_changed() {
    let (_dir, run, settings, data) = new_run().await;
    // It dies in step 4, behind the checkpoint of step 2.
    trainer(&run, &bigram(&run).with_nan_at(4), &data, &settings).train(&run).await.unwrap_err();
    for name in ["steps.jsonl", "validation.jsonl"] {
        let path = run.join(name);
        let whole = std::fs::read_to_string(&path).unwrap();
        // The same number of lines, and each is a record.
        let digit = whole.find(|character: char| character.is_ascii_digit() && character != '9').unwrap();
        let mut changed = whole.clone().into_bytes();
        changed[digit] = b'9';
        std::fs::write(&path, changed).unwrap();
        let refused = trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap_err();
        assert!(
            matches!(&refused, PipelineError::Corrupt { path: at, .. } if *at == path),
            "{name}: {refused:?}"
        );
        std::fs::write(&path, whole).unwrap();
    }
    trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
}

#[tokio::test]
async fn a_clock_that_cannot_be_read_is_an_error_and_does_not_begin_again() {
    let (_dir, run, settings, data) = new_run().await;
    trainer(&run, &bigram(&run).with_nan_at(4), &data, &settings).train(&run).await.unwrap_err();
    let path = run.join("sft_times.json");
    let whole = std::fs::read(&path).unwrap();
    for damaged in [&b""[..], b"{", b"{\"secomds\": 5.0}", b"[]"] {
        std::fs::write(&path, damaged).unwrap();
        let refused = trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap_err();
        assert!(matches!(&refused, PipelineError::Corrupt { path: at, .. } if *at == path), "{refused:?}");
        let found = check(&run).unwrap().damage;
        assert!(found.iter().any(|damage| damage.file == "sft_times.json"), "{found:?}");
    }
    std::fs::write(&path, whole).unwrap();
    trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
}
