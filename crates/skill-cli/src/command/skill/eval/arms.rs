//! One arm: a skill, or none, on all cases, as often as that is asked.

use crate::measuring::check_out;
use crate::progress::{Progress, Show};
use serde_json::{Value, json};
use skillrl::config::LoadedConfig;
use skillrl::core::{ItemId, RolloutResult, SkillDoc};
use skillrl::engine::Engine;
use skillrl::envs::evals::control::Excluded;
use skillrl::envs::evals::{ArmRows, RunRow, checks_of};
use skillrl::envs::source::document;
use skillrl::envs::{Env, Item, Split};
use skillrl::listener::Listener;
use skillrl::llm::{ChatModel, ModelId};
use skillrl::measurement::{
    Measured as Measurements, Measurement, MeasurementDir, RUNS, identity, is_other_part_of,
};
use skillrl::pipeline::records::evaluation::EvaluationSummary;
use skillrl::pipeline::run_dir::summarise;
use skillrl::pipeline::stage::Draws;
use skillrl::pipeline::{Stage, StopSignal};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// All cases are in this split.
pub(super) const SPLIT: Split = Split::Val;

/// A skill that is measured.
pub(super) struct Arm {
    /// Its name on the disk and in JSON.
    pub(super) name: &'static str,
    /// What it is, in words.
    pub(super) title: String,
    pub(super) skill: SkillDoc,
}

/// What an arm came to.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) results: Vec<RolloutResult>,
    pub(super) summary: EvaluationSummary,
}

impl Measured {
    /// The runs as skill-creator's viewer has them; an arm has its name there.
    pub(super) fn rows(&self, name: &str) -> ArmRows {
        let number = |result: &RolloutResult, key: &str| {
            result.extras.get(key).and_then(Value::as_f64).unwrap_or_default()
        };
        let row = |result: &RolloutResult| RunRow {
            case: result.id.as_str().to_owned(),
            prompt: result.task_description.clone(),
            run: result.trajectory.sample as usize + 1,
            checks: checks_of(result),
            seconds: number(result, "seconds"),
            tokens: result.usage.tokens(),
            tool_calls: number(result, "tool_calls") as u64,
        };
        ArmRows { name: name.to_owned(), runs: self.results.iter().map(row).collect() }
    }
}

/// An agent that does nothing, for the control: its reply is empty, and the project stays as it was.
pub(super) fn does_nothing() -> Arc<dyn ChatModel> {
    let id = ModelId::new("control", "does nothing");
    Arc::new(Listener::new(Some(String::new())).with_id(id).with_agent_work())
}

/// What all arms of an agent share.
pub(super) struct Bench<'a> {
    pub(super) loaded: &'a LoadedConfig,
    pub(super) engine: &'a Engine<'a>,
    pub(super) env: &'a Arc<dyn Env>,
    /// The agent.
    pub(super) target: Arc<dyn ChatModel>,
    /// The directory of this agent's measurements.
    pub(super) out: Option<&'a Path>,
    pub(super) force: bool,
    pub(super) is_quiet: bool,
}

impl Bench<'_> {
    /// Measures an arm on all cases but those that are left out; `control` takes the place of the agent.
    pub(super) fn measure(
        &self,
        arm: &Arm,
        (runs, left_out): (usize, &BTreeMap<ItemId, Excluded>),
        control: Option<Arc<dyn ChatModel>>,
    ) -> crate::Result<Measured> {
        let is_control = control.is_some();
        let target = control.unwrap_or_else(|| Arc::clone(&self.target));
        let mut settings = identity(self.loaded, self.env.as_ref(), SPLIT, target.id());
        settings.insert(RUNS.to_owned(), json!(runs));
        let out = match self.out {
            Some(out) => {
                let (place, all) = (out.join(arm.name), self.env.items(SPLIT));
                let items: Vec<Item> =
                    all.iter().filter(|item| !left_out.contains_key(&item.id)).cloned().collect();
                // Other cases or more runs replace a smaller measurement, and answer its part from its calls.
                let force = self.force || is_other_part_of(&place, &arm.skill, (all, &items), &settings)?;
                check_out(&place, force)?;
                Some(MeasurementDir::open(&place, &arm.skill, &items, settings, force)?)
            }
            None => None,
        };
        if let Some(out) = &out {
            out.count_spent(self.engine, is_control.then(|| target.id()))?;
        }
        let journal = out.as_ref().map(|out| out.journal.clone());
        let measurement = Measurement::new(self.loaded, self.env, SPLIT, target, journal.as_ref())?
            .of_draws(Stage::Evaluate, Draws { first: 0, per_item: runs })
            .without(left_out.keys().cloned().collect());
        let stop = StopSignal::default();
        let progress = Progress::new(if self.is_quiet { Show::Quiet } else { Show::Progress });
        let source = document(&arm.skill);
        let measuring = measurement.results(&source, (&progress, &stop));
        let Measurements { evaluation, tokens } =
            crate::command::block_on(stop.clone(), "stopping", measuring)?
                .map_err(|error| crate::measuring::unkept(error.into(), self.out.is_some()))?;
        let summary = summarise(&arm.skill.hash(), &evaluation, tokens);
        if let Some(out) = &out {
            let results = evaluation.results.iter().cloned().map(Ok);
            out.write(results, &summary).map_err(skillrl::Error::Pipeline)?;
        }
        Ok(Measured { name: arm.name, title: arm.title.clone(), results: evaluation.results, summary })
    }
}
