//! A recorded configuration as settings of ours. A key that this table does not know fails the test.

use serde_json::Value;
use skill_core::gate::{Gate, GateMetric};
use skill_core::schedule::{EditBudget, Schedule};
use skill_pipeline::TrainSettings;

/// The reference's defaults, where they are not those of [`TrainSettings`].
const REFERENCE: [(&str, &str); 2] = [("use_slow_update", "true"), ("use_meta_skill", "true")];

/// What a configuration asks for that is not built.
pub(crate) fn not_built(config: &Value) -> Option<&'static str> {
    let asks = |key: &str| config.get(key).map_or(default_of(key), |value| value == &Value::Bool(true));
    if config.get("accumulation").is_some_and(|n| n != 1) {
        return Some("gradient accumulation");
    }
    (asks("use_slow_update") || asks("use_meta_skill")).then_some("the slow update and the meta skill")
}

fn default_of(key: &str) -> bool {
    REFERENCE.iter().any(|(name, value)| *name == key && *value == "true")
}

/// The settings, or what is wrong with the configuration.
pub(crate) fn settings(config: &Value) -> Result<TrainSettings, String> {
    let mut settings = TrainSettings { workers: 1, ..TrainSettings::default() };
    let (mut max, mut min, mut schedule) = (4, 2, Schedule::Cosine);
    let mut gate = Gate::default();
    for (key, value) in config.as_object().ok_or("the configuration is no object")? {
        let wrong = || format!("configuration key `{key}`: cannot make anything of {value}");
        let count = || value.as_u64().ok_or_else(wrong);
        let size = || count().map(|number| usize::try_from(number).unwrap());
        let small = || count().map(|number| u32::try_from(number).unwrap());
        let text = || value.as_str().ok_or_else(wrong);
        match key.as_str() {
            "num_epochs" => settings.epochs = small()?,
            "batch_size" => settings.batch_size = size()?,
            "seed" => settings.seed = count()?,
            "minibatch_size" => settings.minibatch_size = size()?,
            "merge_batch_size" => settings.merge_batch_size = size()?,
            "edit_budget" | "learning_rate" => max = small()?,
            "min_edit_budget" | "min_learning_rate" => min = small()?,
            "lr_scheduler" => schedule = Schedule::parse(text()?).ok_or_else(wrong)?,
            "gate_metric" => gate.metric = GateMetric::parse(text()?).ok_or_else(wrong)?,
            "gate_mixed_weight" => gate.mixed_weight = value.as_f64().ok_or_else(wrong)?,
            "eval_test" => settings.eval_test = value.as_bool().ok_or_else(wrong)?,
            // Not there yet, and harmless at these values.
            "accumulation" if value == 1 => {}
            "lr_control_mode" if value == "fixed" => {}
            "skill_update_mode" if value == "patch" => {}
            "failure_only" | "use_slow_update" | "use_meta_skill" if value == false => {}
            "slow_update_samples" => {}
            // Speed alone, or a check of what the world says.
            "analyst_workers" => {}
            "train_size" | "sel_env_num" | "test_env_num" if value == 0 || value == 10 => {}
            "use_semantic_density" if value == false => {}
            _ => return Err(format!("configuration key `{key}` = {value}: `settings.rs` does not know it")),
        }
    }
    settings.edit_budget = EditBudget::new(schedule, max, min).map_err(|error| error.to_string())?;
    settings.gate = gate;
    Ok(settings)
}
