//! Runs that train a bank: in the list, live, in the metrics.

use crate::HOSTILE;
use crate::site::Site;
use serde_json::{Value, json};
use skillrl::bank::distill::TeacherPrompts;
use skillrl::bank::retrieve::{Retrieval, RetrievalSettings};
use skillrl::llm::scripted::ScriptedModel;
use skillrl::pipeline::bank::{BankSettings, BankTrainer};
use skillrl::pipeline::records::bank::BankSummary;
use skillrl::pipeline::{PipelineError, TrainSettings, Trainer};
use skillrl::prelude::*;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Doors that open for those who are told to turn the key; each rollout waits until it may go on.
struct Doors {
    items: Vec<Item>,
    may_go_on: Arc<Semaphore>,
}

impl Doors {
    fn new(may_go_on: Arc<Semaphore>) -> Self {
        let item = |number: usize| {
            let mut item = Item::new(format!("door-{number}"), json!(format!("pass gate number {number}")));
            "locked".clone_into(&mut item.task_type);
            item
        };
        Self { items: (0..16).map(item).collect(), may_go_on }
    }
}

#[async_trait]
impl Env for Doors {
    fn name(&self) -> &str {
        "doors"
    }

    fn items(&self, split: Split) -> &[Item] {
        match split {
            Split::Train => &self.items[..8],
            Split::Val => &self.items[8..12],
            Split::Test => &self.items[12..],
        }
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
        self.may_go_on.acquire().await.unwrap().forget();
        let goal = item.data.as_str().unwrap();
        let (skill, ctx) = ctx.show(source, item, goal).await?;
        let request = ChatRequest::new(vec![Message::system(skill.agent_view()), Message::user(goal)]);
        let did = target.chat(&request, &ctx.call).await?.text;
        let hard = f64::from(u8::from(did == "open"));
        let mut result = RolloutResult::new(item.id.clone(), hard, hard);
        result.task_type.clone_from(&item.task_type);
        result.task_description = goal.to_owned();
        result.predicted_answer = did;
        Ok(result)
    }
}

fn teaches(request: &ChatRequest) -> String {
    let asked = request.text_of(Role::User);
    let skill = |title: &str, principle: &str| json!({"title": title, "principle": principle, "when_to_apply": "At a door."});
    let said = if asked.contains("Type of the tasks: locked") {
        json!({"skills": [skill(&format!("Use the lock {HOSTILE}"), "Turn the key, then go through.")]})
    } else if asked.contains("mistakes to avoid") {
        json!({"mistakes": [{"description": "Walking away", "why_it_happens": "Haste", "how_to_avoid": "Stay."}]})
    } else if asked.contains("general skills") {
        json!({"skills": [skill("Be calm", "Take a breath before you begin.")]})
    } else {
        json!({"changes": []})
    };
    said.to_string()
}

/// Trains a bank in one round: 4 rollouts for the baseline, 8 for the episodes, then the trials; at last the test split.
fn train(dir: &Path, may_go_on: Arc<Semaphore>) -> Result<BankSummary, PipelineError> {
    let target = ScriptedModel::answering("target", |request| {
        if request.text_of(Role::System).contains("Turn the key") { "open" } else { "shut" }.to_owned()
    });
    let base = Trainer::new(
        Arc::new(Doors::new(may_go_on)),
        Arc::new(target),
        Arc::new(ScriptedModel::answering("teacher", teaches)),
    )
    .with_settings(TrainSettings { workers: 1, ..TrainSettings::default() });
    let mut settings = BankSettings::default();
    (settings.rounds, settings.max_trial_rollouts, settings.trial_samples) = (1, 64, 4);
    let retrieval = Retrieval::new(RetrievalSettings::default()).unwrap();
    let trainer =
        BankTrainer::new(base, retrieval, TeacherPrompts::embedded().unwrap()).with_settings(settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(trainer.train(dir))
}

fn any_line(lines: &Value, text: &str) -> bool {
    lines.as_array().unwrap().iter().any(|line| line["text"].as_str().unwrap().contains(text))
}

#[test]
fn the_training_of_a_bank_is_followed_by_rounds_and_trials() {
    let site = Site::new(|_| {});
    let (dir, may_go_on) = (site.path("runs/bank"), Arc::new(Semaphore::new(0)));
    let of_thread = Arc::clone(&may_go_on);
    let training = std::thread::spawn(move || train(&dir, of_thread));
    let mut list = site.news("/news");
    list.until("rows", |rows| rows.as_str().unwrap().contains("data-run=\"bank\""));
    let mut news = site.news("/news/bank");
    news.until("now", |now| now["stage"]["name"] == "baseline");
    // The baseline and the episodes, and three rollouts of the first trial.
    may_go_on.add_permits(4 + 8 + 3);
    let now = news.until("now", |now| now["progress"]["trial"]["rollouts"] == 3);
    let progress = &now["progress"];
    assert_eq!((&progress["round"], &progress["rounds"]), (&0.into(), &1.into()));
    assert_eq!((&progress["trial"]["trial"], &progress["trial"]["max_rollouts"]), (&1.into(), &64.into()));
    assert_eq!((&now["stage"]["name"], &now["stage"]["total"]), (&"trial".into(), &64.into()));
    assert!(progress["trial"]["rule"]["any_time"]["threshold"].as_f64().unwrap() > 1.0);
    assert_eq!(now["bank"]["skills"]["waiting"], 3);
    assert_eq!(now["bank"]["baseline"]["hard"], 0.0);

    may_go_on.add_permits(10_000);
    let summary = training.join().unwrap().unwrap();
    let now = news.until("now", |now| now["state"] == "finished");
    assert_eq!(now["progress"], Value::Null);
    let bank = &now["bank"];
    assert_eq!(bank["skills"]["active"], summary.active);
    assert_eq!(bank["trials"]["admitted"], summary.trials[1]);
    assert_eq!(bank["validation"]["hard"], summary.score.hard);
    assert_eq!((&now["n_steps"], &now["total_steps"]), (&1.into(), &1.into()));
    // Anyone who comes later is told in words what there was, in the words of rounds.
    let told = RefCell::new(Vec::new());
    let expect = [
        "without a bank: validation 0.0 %",
        "round 0: begins with the distillation",
        "round 0: the teacher proposed 3 skills",
        "% probability",
        "is active (admitted), 1 in all",
        "measured once more",
        "admitted, +100 points",
        "validation 100.0 %",
        "1 active; validation 100.0 %",
        "the run is finished",
    ];
    let mut late = site.news("/news/bank");
    late.until("log", |lines| {
        told.borrow_mut().extend(lines.as_array().unwrap().iter().cloned());
        let told = Value::from(told.borrow().clone());
        expect.iter().all(|text| any_line(&told, text))
    });
    // Nothing is shown as it is in the log.
    assert!(told.borrow().iter().all(|line| !line["text"].as_str().unwrap().starts_with('{')), "{told:?}");
    site.end();
}

#[test]
fn banks_are_in_the_list_and_in_the_metrics() {
    let site = Site::new(|runs| {
        train(&runs.join("bank"), Arc::new(Semaphore::new(10_000))).unwrap();
        crate::runs::finished(&runs.join("document"));
    });
    let list = site.until("/", |list| list.contains("bank of"));
    assert!(list.contains("bank of 1 skill<"), "{list}");
    assert!(list.contains("0.0 % → <b>100.0 %</b>"), "{list}");
    let report = skillrl::report::bank(&site.path("runs/bank")).unwrap();
    assert_eq!(site.body("/report/bank"), skill_report::content(&report.into()).unwrap());
    let page = site.body("/run/bank");
    assert!(!page.contains("<script>") && !page.contains("<img"), "what a teacher says is text");

    let metrics = site.body("/metrics");
    let lines: Vec<&str> = metrics.lines().collect();
    let expect = [
        "skillrl_run_info{run=\"bank\",state=\"finished\",env=\"\"} 1",
        "skillrl_run_rounds_total{run=\"bank\"} 1",
        "skillrl_run_skills{run=\"bank\",state=\"active\"} 1",
        "skillrl_run_skills_unmeasured{run=\"bank\"} 0",
        "skillrl_run_trials_total{run=\"bank\",verdict=\"admitted\"} 1",
        "skillrl_run_score{run=\"bank\",split=\"selection\",skill=\"first\"} 0",
        "skillrl_run_score{run=\"bank\",split=\"selection\",skill=\"best\"} 1",
        "skillrl_run_score{run=\"bank\",split=\"test\",skill=\"best\"} 1",
    ];
    for line in expect {
        assert!(lines.contains(&line), "{line} is not in\n{metrics}");
    }
    let of_trials: Vec<&&str> =
        lines.iter().filter(|line| line.starts_with("skillrl_run_trial_rollouts_total{")).collect();
    assert_eq!(of_trials.len(), 1, "a document has none: {of_trials:?}");
    site.end();
}
