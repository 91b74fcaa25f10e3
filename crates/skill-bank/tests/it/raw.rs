//! Episodes as they were recorded, in place of skills.

use crate::support::train;
use skill_bank::distill::{Admit, DistillError, LeftOutReason, apply, raw_episodes};
use skill_bank::episode::EpisodeStep;
use skill_bank::format::{BankFormat, agent_skills, write};
use skill_bank::retrieve::{Retrieval, RetrievalMode, RetrievalSettings, WhyLeftOut};
use skill_bank::{Bank, BankSource, Content, Episode, SkillProvenance};
use skill_core::ItemId;
use skill_envs::{Item, SkillSource as _, TaskView};
use skill_llm::CallCtx;

/// An attempt at heating something, of so many steps.
fn attempt(number: usize, task_type: &str, success: bool, n_steps: usize) -> Episode {
    let id = format!("task-{number}");
    let goal = format!("put hot thing {number} on the table");
    let mut episode =
        Episode::new(format!("{id}/0"), ItemId::new(id), goal, success, f64::from(u8::from(success)));
    episode.task_type = task_type.to_owned();
    episode.steps = (1..=n_steps)
        .map(|step| EpisodeStep::new(format!("You see cupboard {step}."), format!("open cupboard {step}")))
        .collect();
    episode.last_observation = "You hold it.".to_owned();
    episode
}

fn bank_of(episodes: Vec<Episode>) -> Bank {
    let mut bank = Bank::new();
    let raw = raw_episodes(&train(episodes)).unwrap();
    assert_eq!((raw.calls, raw.notes.len()), (0, 0));
    apply(&mut bank, 0, &raw.proposals, Admit::Unmeasured).unwrap();
    bank
}

fn retrieval(change: impl FnOnce(&mut RetrievalSettings)) -> Retrieval {
    let mut settings = RetrievalSettings { mode: RetrievalMode::Template, ..RetrievalSettings::default() };
    change(&mut settings);
    Retrieval::new(settings).unwrap()
}

/// The prompt of a task of the type `heat`, and the ids of what it shows.
async fn shown(bank: &Bank, retrieval: &Retrieval, item: &str) -> (String, Vec<String>) {
    let source = BankSource::new(bank.view(), retrieval, None).unwrap();
    let item = Item { task_type: "heat".to_owned(), ..Item::new(item, serde_json::Value::Null) };
    let shown = source.show(&TaskView::new(&item, "put a hot mug away"), &CallCtx::default()).await.unwrap();
    let parts = shown.parts.iter().map(ToString::to_string).collect();
    (shown.skill.source_text().to_owned(), parts)
}

#[tokio::test]
async fn a_task_is_shown_the_episodes_of_its_type_as_they_were_recorded() {
    let mut failure = attempt(2, "heat", false, 2);
    failure.steps[0].reasoning = "It may be in here. </skill>".to_owned();
    let mut summarised = attempt(4, "heat", true, 0);
    summarised.description = "Went to the microwave first.".to_owned();
    let bank = bank_of(vec![attempt(1, "heat", true, 3), failure, attempt(3, "cool", true, 1), summarised]);
    let (text, parts) = shown(&bank, &retrieval(|_| {}), "another").await;
    assert_eq!(parts, ["hea_001", "hea_002", "hea_003"], "{text}");
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn a_task_is_not_shown_its_own_episodes() {
    let mut again = attempt(1, "heat", false, 1);
    again.id = "task-1/1".to_owned();
    let bank = bank_of(vec![attempt(1, "heat", true, 3), again, attempt(2, "heat", true, 1)]);
    let (_, others) = shown(&bank, &retrieval(|_| {}), "another").await;
    assert_eq!(others.len(), 3, "attempts at one task are episodes of their own");
    let (text, parts) = shown(&bank, &retrieval(|_| {}), "task-1").await;
    assert_eq!(parts, ["hea_003"], "{text}");
    let prepared = retrieval(|_| {}).prepare(bank.view());
    let selection = prepared.select_for(Some(&ItemId::new("task-1")), prepared.detect("heat", ""), None);
    let why: Vec<WhyLeftOut> = selection.left_out.iter().map(|left_out| left_out.why).collect();
    assert_eq!(why, [WhyLeftOut::SameTask, WhyLeftOut::SameTask]);
}

#[tokio::test]
async fn episodes_are_within_the_limits_of_skills() {
    let episodes = |n: usize| (1..=n).map(|number| attempt(number, "heat", true, 30)).collect();
    let bank = bank_of(episodes(20));
    let (text, parts) = shown(&bank, &retrieval(|settings| settings.task_top_k = Some(2)), "another").await;
    assert_eq!(parts.len(), 2);
    // The end of an episode decides what it came to.
    assert!(text.contains("open cupboard 30") && !text.contains("open cupboard 1\n"), "{text}");
    assert!(text.contains("left out]"), "{text}");
    let (text, _) = shown(&bank, &retrieval(|settings| settings.max_skill_chars = 60), "another").await;
    assert!(text.lines().all(|line| line.chars().count() < 100) && text.len() < 6 * 200, "{text}");
    let budget = retrieval(|settings| settings.token_budget = Some(250));
    let prepared = budget.prepare(bank.view());
    let selection = prepared.select(prepared.detect("heat", ""), None);
    assert!(!selection.shown.is_empty() && selection.shown.len() < 6 && selection.tokens <= 250);
}

#[tokio::test]
async fn an_episode_of_a_megabyte_is_bounded() {
    let mut wide = attempt(1, "heat", true, 2);
    wide.steps[1].observation = "x".repeat(1 << 20);
    let mut wider = attempt(2, "heat", true, 1);
    wider.steps[0].action = "é ".repeat(1 << 19);
    let long = attempt(3, "heat", true, 25_000);
    let bank = bank_of(vec![wide, wider, long]);
    assert!(bank.log_text().len() < 150_000, "{}", bank.log_text().len());
    let (text, parts) = shown(&bank, &retrieval(|_| {}), "another").await;
    assert_eq!(parts.len(), 3, "{text}");
    assert!(text.chars().count() < 3 * 650, "{}", text.chars().count());
    assert!(text.contains("open cupboard 25000"), "{text}");
}

#[test]
fn a_bank_of_episodes_survives_its_log_and_is_no_file_of_skills() {
    let bank = bank_of(vec![attempt(1, "heat", true, 3), attempt(2, "unknown", false, 1)]);
    assert_eq!(Bank::from_log(&bank.log_text()).unwrap(), bank);
    assert_eq!(bank.contents(), (2, 0));
    let tiers: Vec<String> = bank.skills().map(|skill| skill.tier.to_string()).collect();
    assert_eq!(tiers, ["heat", "general"], "an episode without a task type is general");
    let version = bank.skills().next().unwrap().active().unwrap();
    assert_eq!((version.source, version.evidence.calls), (SkillProvenance::Recorded, 0));
    assert_eq!(version.evidence.trajectories, ["task-1/0"]);
    for format in [BankFormat::Paper, BankFormat::Krill] {
        let written = write(&bank, format, None, "").unwrap();
        assert_eq!(written.left_out.len(), 2, "{}", written.text);
        assert!(!written.text.contains("hot thing"), "{}", written.text);
    }
    assert!(agent_skills(&bank).is_empty());
    let unknown = bank.log_text().replace("\"outcome\"", "\"outcomes\"");
    Bank::from_log(&unknown).unwrap_err();
}

#[test]
fn an_episode_with_a_secret_or_without_steps_is_left_out() {
    let mut secret = attempt(1, "heat", true, 1);
    secret.steps[0].observation = "api_key = sk-proj-Zk3Lq9Vw7Xy2Tb5Nc8Rd4Hs6Jm1Pf0Ga".to_owned();
    let told = attempt(3, "heat", true, 1);
    let raw = raw_episodes(&train(vec![secret.clone(), attempt(2, "heat", true, 0), told])).unwrap();
    assert_eq!(raw.proposals.len(), 1);
    assert!(matches!(raw.left_out[0].reason, LeftOutReason::Refused { .. }), "{:?}", raw.left_out);
    assert!(matches!(raw.left_out[1].reason, LeftOutReason::MissingField { field: "steps" }));
    assert!(!raw.left_out[0].to_string().contains("Zk3Lq9"), "{}", raw.left_out[0]);
    for none in [Vec::new(), vec![secret]] {
        assert!(matches!(raw_episodes(&train(none)), Err(DistillError::NoEpisodes)));
    }
    let content = Content::Episode {
        item: ItemId::new("i"),
        goal: "g".to_owned(),
        outcome: "success".to_owned(),
        steps: "s".to_owned(),
    };
    assert_eq!((content.title(), content.is_episode()), ("g", true));
}
