//! Adapters of peft: loss, gradients, steps, merged weights, and the files byte for byte.

use skill_train::lora::{CONFIG_FILE, LoraConfig, WEIGHTS_FILE};
use skill_train::model::{Adapters, Gradients, Keep};
use skill_train::optim::AdamW;
use skill_train::seam::Decayed;
use skill_train::weights::TensorFile;

use super::local::{
    GRADIENT, GRADIENT_NORM, LOGITS, LOSS, PARAMETER, PARAMETER_NORM, adam, batch, compare, cross_entropy,
    model, rows, targets, total_norm,
};
use crate::recorded::{Counted, close, json, number, path};

#[test]
fn conformance_lora() {
    let (recorded, sft) = (json("lora/lora.json"), json("sft/sft.json"));
    let mut counted = Counted::new("lora, models and steps");
    for (name, expected) in recorded["models"].as_object().unwrap() {
        let adapter = path(expected["adapter"].as_str().unwrap());
        let mut model = model(name);
        let plain = model.clone();
        model.attach_from(&adapter).unwrap();

        let n_trainable: usize =
            model.trainable().unwrap().iter().map(|(_, tensor)| tensor.values.len()).sum();
        assert_eq!(n_trainable as u64, expected["trainable_parameters"].as_u64().unwrap());
        assert_eq!(model.lora().unwrap().scale(), number(&recorded["scale"]));
        for (file, bytes) in model.adapter_files().unwrap() {
            assert!(
                std::fs::read(adapter.join(file)).unwrap() == bytes,
                "{name}: {file} differs from peft's"
            );
        }

        let logits = TensorFile::open(&path(&format!("lora/lora-{name}.safetensors"))).unwrap();
        let rows_a = rows(&sft["batches"]["A"]);
        let merged = model.merged().unwrap();
        for (key, model, adapters) in
            [("logits", &model, Adapters::On), ("merged_logits", &merged, Adapters::On)]
        {
            let expected = logits.read(key).unwrap();
            let width = model.config().vocab_size;
            let forward = model.forward(batch(&rows_a), adapters, Keep::Nothing).unwrap();
            let positions: Vec<usize> = (0..rows_a.iter().map(|row| row.tokens.len()).sum()).collect();
            let found = model.logits(&forward, &positions).unwrap();
            let mut found = found.chunks_exact(width);
            for (row_idx, row) in rows_a.iter().enumerate() {
                for column in &row.columns {
                    let at = (row_idx * expected.shape[1] + column) * width;
                    for (found, expected) in
                        found.next().unwrap().iter().zip(&expected.values[at..at + width])
                    {
                        close(f64::from(*found), f64::from(*expected), LOGITS, key);
                    }
                }
            }
        }
        for weight in logits.names().filter(|name| name.ends_with(".weight")) {
            let expected = logits.read(weight).unwrap();
            let merged = merged.base().unwrap();
            let bare = weight.trim_start_matches("merged.").trim_start_matches("merged_");
            let (_, found) = merged.iter().find(|(name, _)| name == bare).unwrap();
            for (found, expected) in found.values.iter().zip(&expected.values) {
                close(f64::from(*found), f64::from(*expected), LOGITS, weight);
            }
        }

        let without = model.forward(batch(&rows_a), Adapters::Off, Keep::Nothing).unwrap();
        let base = plain.forward(batch(&rows_a), Adapters::On, Keep::Nothing).unwrap();
        assert_eq!(without.hidden().unwrap(), base.hidden().unwrap(), "the base model has changed");

        let training = &expected["training"];
        let mut settings = adam(training);
        settings.decayed = Decayed::All;
        let mut optimizer = AdamW::default();
        for (step, expected_step) in expected["steps"].as_array().unwrap().iter().enumerate() {
            let what = format!("{name} step {step}");
            let recorded = &sft["batches"][expected_step["batch"].as_str().unwrap()];
            let rows = rows(recorded);
            let targets = targets(&rows, &recorded["labels"]);
            let mut gradients = Gradients::default();
            let denominator = targets.len() as f64;
            let loss =
                cross_entropy(&model, batch(&rows), &targets, denominator, Keep::Activations, &mut gradients);
            close(loss, number(&expected_step["loss"]), LOSS, &what);
            if step == 0 {
                let found = model.named_gradients(&gradients).unwrap();
                compare(&found, &expected["grads"]["params"], [GRADIENT_NORM, GRADIENT], &what);
            }
            let norm = model.step(&mut optimizer, &settings, &gradients).unwrap();
            close(norm, number(&expected_step["grad_norm"]), GRADIENT_NORM, &what);
            close(total_norm(&model), number(&expected_step["adapter_norm_after"]), PARAMETER_NORM, &what);
            counted.add();
        }
        let after = model.trainable().unwrap();
        compare(&after, &expected["final_adapter"], [PARAMETER_NORM, PARAMETER], name);
    }
}

#[test]
fn a_new_adapter_has_the_files_of_peft_and_changes_nothing() {
    let adapter = path("lora/adapter-llama-tiny");
    let recorded = std::fs::read_to_string(adapter.join(CONFIG_FILE)).unwrap();
    let order = ["k_proj", "down_proj", "up_proj", "gate_proj", "o_proj", "v_proj", "q_proj"];
    let lora = LoraConfig::new(4, 8.0, &order, "llama-tiny").unwrap();
    let as_value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let (mut expected, found) = (as_value(&recorded), as_value(&lora.to_json()));
    expected["target_modules"] = found["target_modules"].clone();
    assert_eq!(found, expected);

    let plain = model("llama-tiny");
    let mut model = plain.clone();
    model.attach_new(lora, 7).unwrap();
    let batch = skill_train::model::Batch::new([[5, 6, 7].as_slice()]);
    let states = |model: &skill_train::model::Decoder| {
        model.forward(batch.clone(), Adapters::On, Keep::Nothing).unwrap().hidden().unwrap()
    };
    assert_eq!(states(&model), states(&plain));
    let names: Vec<String> = model.trainable().unwrap().into_iter().map(|(name, _)| name).collect();
    let files = model.adapter_files().unwrap();
    assert_eq!(files[1].0, WEIGHTS_FILE);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.safetensors"), &files[1].1).unwrap();
    let file = TensorFile::open(&folder.path().join("a.safetensors")).unwrap();
    let recorded = TensorFile::open(&adapter.join(WEIGHTS_FILE)).unwrap();
    assert!(file.names().eq(recorded.names()) && names.len() == recorded.names().count());
}
