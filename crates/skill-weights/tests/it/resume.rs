//! A run that is killed anywhere ends with the same bytes.

use crate::setup::{bigram, check_same_files, data, files, settings, trainer};
use skill_train::TrainError;

#[tokio::test]
async fn a_run_that_dies_in_any_call_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.epochs = 3;
    let data = data(&settings).await;
    let whole = dir.path().join("whole");
    let model = bigram(&whole);
    trainer(&whole, &model, &data, &settings).train(&whole).await.unwrap();
    let (expected, n_calls) = (files(&whole), model.n_calls());
    assert!(n_calls > 20, "{n_calls}");
    for call in 0..n_calls {
        let run = dir.path().join(format!("killed-{call}"));
        let dying = bigram(&run).failing_at(call, || TrainError::Cancelled);
        trainer(&run, &dying, &data, &settings).train(&run).await.unwrap_err();
        // What a process that was killed may leave behind: half a line, and half a file.
        let steps = run.join("steps.jsonl");
        let torn = std::fs::read(&steps).unwrap_or_default();
        std::fs::write(&steps, [torn.as_slice(), b"{\"step\":"].concat()).unwrap();
        std::fs::create_dir_all(run.join("checkpoints/objects")).unwrap();
        std::fs::write(run.join("checkpoints/objects/.half.1"), b"half").unwrap();
        trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
        check_same_files(&files(&run), &expected, &format!("after a death in call {call}"));
    }
}
