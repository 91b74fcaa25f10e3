//! Logits, hidden states, log-probabilities and entropies of recorded batches.

use skill_train::model::{Adapters, Keep, Target};
use skill_train::weights::TensorFile;

use super::local::{LOGITS, batch, files, model, rows};
use crate::recorded::{Counted, close, number};

#[test]
fn conformance_forward() {
    let mut counted = Counted::new("forward, tokens");
    for path in files("forward", "forward-") {
        let recorded: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let tensors = TensorFile::open(&path.with_extension("safetensors")).unwrap();
        let model = model(recorded["model"].as_str().unwrap().trim_start_matches("models/"));
        let width = model.config().vocab_size;
        for (key, recorded) in recorded["batches"].as_object().unwrap() {
            let rows = rows(recorded);
            let batch = batch(&rows);
            let n_tokens = batch.tokens().len();
            let forward = model.forward(batch, Adapters::On, Keep::Nothing).unwrap();
            let positions: Vec<usize> = (0..n_tokens).collect();
            let logits = model.logits(&forward, &positions).unwrap();
            let expected = tensors.read(&format!("{key}.logits")).unwrap();
            let n_columns = expected.shape[1];
            // Each token is scored: by the token that follows it, or by any where none does.
            let mut targets = Vec::new();
            for row in &rows {
                for index in 0..row.tokens.len() {
                    let token = row.tokens.get(index + 1).copied().unwrap_or(0);
                    targets.push(Target { position: targets.len(), token });
                }
            }
            let scores = model.log_probs(&forward, &targets, 1.0).unwrap();
            let mut position = 0;
            for (row_idx, row) in rows.iter().enumerate() {
                for (index, column) in row.columns.iter().enumerate() {
                    let what = format!("{} {key} row {row_idx} column {column}", path.display());
                    let at = (row_idx * n_columns + column) * width;
                    let found = &logits[position * width..(position + 1) * width];
                    for (found, expected) in found.iter().zip(&expected.values[at..at + width]) {
                        close(f64::from(*found), f64::from(*expected), LOGITS, &what);
                    }
                    let entropy = number(&recorded["entropy"][row_idx][column]);
                    close(f64::from(scores.entropies[position]), entropy, LOGITS, &what);
                    if index + 1 < row.tokens.len() {
                        let logprob = number(&recorded["next_token_logp"][row_idx][column]);
                        close(f64::from(scores.logprobs[position]), logprob, LOGITS, &what);
                    }
                    position += 1;
                    counted.add();
                }
            }
            // Behind the last norm; the states between the layers are covered by logits and gradients.
            let name = format!("{key}.hidden_{}", model.config().n_layers);
            if tensors.names().any(|found| found == name) {
                let expected = tensors.read(&name).unwrap();
                let (hidden, width) = (forward.hidden().unwrap(), model.config().hidden_size);
                let mut found = hidden.chunks_exact(width);
                for (row_idx, row) in rows.iter().enumerate() {
                    for column in &row.columns {
                        let at = (row_idx * n_columns + column) * width;
                        for (found, expected) in
                            found.next().unwrap().iter().zip(&expected.values[at..at + width])
                        {
                            close(f64::from(*found), f64::from(*expected), LOGITS, &name);
                        }
                    }
                }
            }
        }
    }
}
