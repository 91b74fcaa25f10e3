//! A recorded configuration as settings of ours. A key that this table does not know fails the test.

use serde_json::Value;
use skill_core::gate::{Gate, GateMetric};
use skill_core::schedule::{EditBudget, EditBudgetSchedule};
use skill_core::{BudgetControl, PairPolicy};
use skill_pipeline::{Acceptance, AppendixSource, EpochEnd, SkillAware, SlowUpdate, TrainSettings};

/// The settings, or what is wrong with the configuration.
pub(crate) fn settings(config: &Value) -> Result<TrainSettings, String> {
    let mut settings = TrainSettings { workers: 1, ..TrainSettings::default() };
    // The reference forces guidance into the skill unless it is told otherwise.
    let (mut slow_gate, mut has_slow_update) = (false, true);
    let mut epoch_end = EpochEnd::default();
    let (mut max, mut min, mut schedule) = (4, 2, EditBudgetSchedule::Cosine);
    let mut gate = Gate::default();
    let (mut is_skill_aware, mut aware) =
        (false, SkillAware { source: AppendixSource::Both, consolidate_above: 0 });
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
            // The name of a schedule that nobody asks where the optimizer chooses.
            "lr_scheduler" if value == "autonomous" && config["lr_control_mode"] == "autonomous" => {}
            "lr_scheduler" => schedule = EditBudgetSchedule::parse(text()?).ok_or_else(wrong)?,
            "gate_metric" => gate.metric = GateMetric::parse(text()?).ok_or_else(wrong)?,
            "gate_mixed_weight" => gate.mixed_weight = value.as_f64().ok_or_else(wrong)?,
            "eval_test" => settings.eval_test = value.as_bool().ok_or_else(wrong)?,
            "accumulation" => settings.accumulation = size()?,
            "use_gate" if value == false => settings.acceptance = Acceptance::Always,
            "use_gate" if value == true => {}
            "use_slow_update" => has_slow_update = value.as_bool().ok_or_else(wrong)?,
            "slow_update_samples" => epoch_end.samples = size()?,
            "slow_update_gate_with_selection" => slow_gate = value.as_bool().ok_or_else(wrong)?,
            "longitudinal_pair_policy" => {
                epoch_end.pair_policy = PairPolicy::from_reference(text()?).ok_or_else(wrong)?;
            }
            "use_meta_skill" => epoch_end.meta_skill = value.as_bool().ok_or_else(wrong)?,
            "lr_control_mode" => {
                settings.budget_control = BudgetControl::from_reference(text()?).ok_or_else(wrong)?;
            }
            "failure_only" => settings.failure_only = value.as_bool().ok_or_else(wrong)?,
            "use_skill_aware_reflection" => is_skill_aware = value.as_bool().ok_or_else(wrong)?,
            "skill_aware_appendix_source" if value == "both" => aware.source = AppendixSource::Both,
            "skill_aware_appendix_source" if value == "failure_only" => {
                aware.source = AppendixSource::FailureOnly;
            }
            "skill_aware_consolidate_threshold" => aware.consolidate_above = size()?,
            // Not there yet, and harmless at this value.
            "skill_update_mode" if value == "patch" => {}
            // Speed alone, or a check of what the world says.
            "analyst_workers" => {}
            "train_size" | "sel_env_num" | "test_env_num" if value == 0 || value == 10 => {}
            "use_semantic_density" if value == false => {}
            _ => return Err(format!("configuration key `{key}` = {value}: `settings.rs` does not know it")),
        }
    }
    settings.edit_budget = EditBudget::new(schedule, max, min).map_err(|error| error.to_string())?;
    settings.gate = gate;
    settings.skill_aware = is_skill_aware.then_some(aware);
    epoch_end.slow_update = match (has_slow_update, slow_gate) {
        (false, _) => SlowUpdate::Off,
        (true, true) => SlowUpdate::Gated,
        (true, false) => SlowUpdate::Force,
    };
    settings.epoch_end = epoch_end;
    Ok(settings)
}
