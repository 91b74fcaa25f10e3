//! A run that trains a bank on a world where no task is ever solved whole: its trials compare scores.

use crate::world::counted;
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_bank::distill::TeacherPrompts;
use skill_bank::retrieve::{Retrieval, RetrievalSettings};
use skill_bank::{State, TrialVerdict};
use skill_core::RolloutResult;
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{ChatModel, ChatRequest, Message, Role};
use skill_pipeline::bank::{BankSettings, BankTrainer, read_record};
use skill_pipeline::bank_dir::read_bank;
use skill_pipeline::{TrainSettings, Trainer};
use std::sync::Arc;

struct Shelves([Vec<Item>; 3]);

impl Shelves {
    fn new() -> Self {
        let split = |split: &str, n: usize| {
            let item = |number: usize| {
                let goal = json!(format!("fill shelf {split}{number}"));
                let mut item = Item::new(format!("{split}-{number}"), goal);
                "fill".clone_into(&mut item.task_type);
                item
            };
            (0..n).map(item).collect()
        };
        Self([split("tr", 16), split("va", 4), split("te", 4)])
    }
}

#[async_trait]
impl Env for Shelves {
    fn name(&self) -> &str {
        "shelves"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.0[split as usize]
    }

    fn goal(&self, item: &Item) -> Option<String> {
        item.data.as_str().map(str::to_owned)
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let goal = item.data.as_str().unwrap();
        let (skill, ctx) = ctx.show(source, item, goal).await?;
        let request = ChatRequest::new(vec![Message::system(skill.agent_view()), Message::user(goal)]);
        let did = target.chat(&request, &ctx.call).await?.text;
        let mut result = RolloutResult::new(item.id.clone(), 0.0, if did == "mostly" { 0.75 } else { 0.25 });
        result.task_type.clone_from(&item.task_type);
        result.task_description = goal.to_owned();
        result.predicted_answer = did;
        Ok(result)
    }
}

fn fills(request: &ChatRequest) -> String {
    let knows = request.text_of(Role::System).contains("heavy things first");
    if knows { "mostly" } else { "hardly" }.to_owned()
}

fn teaches(request: &ChatRequest) -> String {
    let asked = request.text_of(Role::User);
    let skill = |title: &str, principle: &str| json!({"title": title, "principle": principle, "when_to_apply": "At a shelf."});
    let said = if asked.contains("Type of the tasks: fill") {
        json!({"skills": [skill("Order", "Put heavy things first."), skill("Hum", "Hum a tune while you work.")]})
    } else if asked.contains("mistakes to avoid") {
        json!({"mistakes": [{"description": "Leaving", "why_it_happens": "Haste", "how_to_avoid": "Stay."}]})
    } else if asked.contains("general skills") {
        json!({"skills": [skill("Be calm", "Take a breath before you begin.")]})
    } else {
        json!({"changes": []})
    };
    said.to_string()
}

#[test]
fn where_tasks_are_solved_in_part_trials_compare_scores() {
    let dir = tempfile::tempdir().unwrap();
    let base = Trainer::new(
        Arc::new(Shelves::new()),
        counted(ScriptedModel::answering("target", fills), usize::MAX, Value::Null),
        counted(ScriptedModel::answering("teacher", teaches), usize::MAX, Value::Null),
    )
    .with_settings(TrainSettings { workers: 4, ..TrainSettings::default() });
    let mut settings = BankSettings::default();
    settings.rounds = 0;
    settings.max_trial_rollouts = 128;
    settings.trial_samples = 4;
    let retrieval = Retrieval::new(RetrievalSettings::default()).unwrap();
    let trainer =
        BankTrainer::new(base, retrieval, TeacherPrompts::embedded().unwrap()).with_settings(settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let summary = runtime.block_on(trainer.train(dir.path())).unwrap();
    let bank = read_bank(&dir.path().join("bank")).unwrap().bank;
    let active = bank.skills().filter(|skill| skill.state() == State::Active);
    let titles: Vec<&str> = active.map(|skill| skill.active().unwrap().content.title()).collect();
    assert_eq!(titles, ["Order"]);
    assert!((summary.baseline.soft, summary.score.soft) == (0.25, 0.75), "{summary:?}");
    let record = read_record(&dir.path().join("rounds/round_0000/record.json")).unwrap();
    let admitted = record.trials.iter().find(|trial| trial.title == "Order").unwrap();
    let decision = admitted.decision.unwrap();
    assert_eq!(decision.verdict, TrialVerdict::Admit);
    for numbers in [decision.numbers, admitted.fresh.unwrap()] {
        assert_eq!((numbers.with[0], numbers.without[0], numbers.difference), (0, 0, 0.5));
        assert_eq!(numbers.mean_scores, Some([0.75, 0.25]));
    }
    // Where all rollouts score the same, a trial ends after its first look.
    let hum = record.trials.iter().find(|trial| trial.title == "Hum").unwrap();
    assert!(hum.decision.is_none_or(|decision| decision.verdict != TrialVerdict::Admit), "{hum:?}");
}
