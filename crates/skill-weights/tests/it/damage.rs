//! No damage to a run that trains weights goes unseen.

use crate::damages::assert_every_damage_is_named;
use crate::setup::{bigram, check_same_files, files, new_run, trainer};
use crate::{rl, rl_bank};
use skill_pipeline::PipelineError;
use skill_pipeline::run_dir::check::{Fault, check};
use skill_weights::policy::WeightsCaps;

#[tokio::test]
async fn every_damage_to_a_run_that_fine_tunes_is_named() {
    let (dir, run, settings, data) = new_run().await;
    trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
    let n_damaged = assert_every_damage_is_named(&run, &[]);
    assert!(n_damaged > 80, "{n_damaged}");
    let half = dir.path().join("half");
    let caps = WeightsCaps::new(Some(1), None);
    let capped = trainer(&half, &bigram(&half), &data, &settings).with_caps(caps).train(&half).await;
    assert!(matches!(capped, Err(PipelineError::SftCapped { .. })), "{capped:?}");
    assert_every_damage_is_named(&half, &[]);
    // It goes on to the same files, and its checks hold to the end.
    trainer(&half, &bigram(&half), &data, &settings).train(&half).await.unwrap();
    assert_eq!(check(&half).unwrap().damage, []);
    check_same_files(&files(&half), &files(&run), "after a cap");
}

#[tokio::test]
async fn every_damage_to_a_run_of_reinforcement_learning_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let [run, half, with_bank] = ["run", "half", "with-bank"].map(|name| dir.path().join(name));
    let mut settings = rl::settings();
    settings.iterations = 2;
    rl::train(&run, &settings).await;
    let n_damaged = assert_every_damage_is_named(&run, &[]);
    assert!(n_damaged > 60, "{n_damaged}");
    rl::train_capped(&half, &settings).await;
    assert_every_damage_is_named(&half, &[]);
    let mut settings = rl_bank::settings();
    settings.iterations = 5;
    rl_bank::train(&with_bank, &settings).await;
    let n_damaged = assert_every_damage_is_named(&with_bank, &[]);
    assert!(n_damaged > 100, "{n_damaged}");
}

#[tokio::test]
async fn a_run_is_whole_wherever_it_was_killed() {
    let (dir, _, settings, data) = new_run().await;
    for call in 0..16 {
        let run = dir.path().join(format!("killed-{call}"));
        let dying = bigram(&run).failing_at(call, || skill_train::TrainError::Cancelled);
        trainer(&run, &dying, &data, &settings).train(&run).await.unwrap_err();
        assert_eq!(check(&run).unwrap().damage, [], "call {call}");
    }
    let mut settings = rl_bank::settings();
    settings.iterations = 4;
    for call in (0..40).step_by(5) {
        let run = dir.path().join(format!("rl-killed-{call}"));
        rl_bank::train_dying(&run, &settings, call).await;
        assert_eq!(check(&run).unwrap().damage, [], "call {call}");
    }
}

#[tokio::test]
async fn a_run_of_an_earlier_version_is_whole_and_gets_its_hashes_from_the_same_command() {
    let (_dir, run, settings, data) = new_run().await;
    trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
    // Earlier versions had none of these.
    for name in ["files.jsonl", "timings.jsonl", "policy/SHA256SUMS"] {
        std::fs::remove_file(run.join(name)).unwrap();
    }
    for (name, fields) in [("config.json", &["has_hashes"][..]), ("checkpoint.json", &["logs"])] {
        let path = run.join(name);
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for field in fields.iter().chain(&["checksum"]) {
            value.as_object_mut().unwrap().remove(*field).unwrap();
        }
        std::fs::write(&path, serde_json::to_vec_pretty(&value).unwrap()).unwrap();
    }
    let found = check(&run).unwrap();
    assert!(found.is_unrecorded && found.damage.is_empty(), "{found:?}");
    assert!(found.not_checked.contains(&"policy/".to_owned()), "{:?}", found.not_checked);
    trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
    let found = check(&run).unwrap();
    assert!(!found.is_unrecorded && found.damage.is_empty(), "{found:?}");
    std::fs::remove_file(run.join("policy/SHA256SUMS")).unwrap();
    let found = check(&run).unwrap();
    assert_eq!(found.damage.iter().map(|damage| damage.fault).collect::<Vec<_>>(), [Fault::Missing]);
}
