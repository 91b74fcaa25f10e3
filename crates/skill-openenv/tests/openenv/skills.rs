//! What episodes are shown of a bank.

use crate::site::{Site, code, household, text};
use serde_json::{Value, json};
use skill_bank::retrieve::{Retrieval, RetrievalSettings};
use skill_bank::{Author, Bank, BankEvent, Basis, Content, Evidence, SkillProvenance, SkillRef, Tier};
use skill_core::{SkillDoc, SkillPartId};
use skill_envs::{Split, World, WorldEnv};
use skill_openenv::{EnvOptions, ServedBank, SkillOptions, TeacherOptions};
use skill_pipeline::bank::BankSettings;
use skill_pipeline::bank::outside::OutsideBank;
use skill_pipeline::bank_dir::BankDir;
use std::path::Path;
use std::sync::Arc;

/// Proposes a skill, and makes it active if that is asked for.
pub(crate) fn propose(bank: &mut Bank, tier: Tier, title: &str, is_active: bool) -> SkillRef {
    let content = Content::principle(title, format!("Do {title}."), "Always.");
    let skill = bank.next_skill(&tier);
    let proposed =
        BankEvent::proposed(skill.clone(), tier, content, SkillProvenance::Person, Evidence::default());
    bank.record(0, Author::Person, proposed).unwrap();
    if is_active {
        let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Person };
        bank.record(0, Author::Person, admitted).unwrap();
    }
    skill
}

/// Serves the household with this bank.
pub(crate) async fn site_with(
    path: &Path,
    settings: BankSettings,
    frame: Option<SkillDoc>,
    teacher: Option<TeacherOptions>,
) -> Site {
    let world = household();
    let env = WorldEnv::new(Arc::clone(&world), Default::default(), None).unwrap();
    let bank = OutsideBank::open(path, Arc::new(env), settings, 7).unwrap();
    let retrieval = Retrieval::new(RetrievalSettings::default()).unwrap();
    let bank = Some(ServedBank { bank, retrieval, embedding: None });
    let skills = SkillOptions { frame, bank };
    Site::with(EnvOptions { skills, teacher, ..EnvOptions::on_loopback(world) }).await
}

/// A bank with two active skills and a candidate.
fn bank() -> Bank {
    let mut bank = Bank::new();
    propose(&mut bank, Tier::General, "look first", true);
    propose(&mut bank, Tier::General, "open doors", true);
    propose(&mut bank, Tier::General, "walk slowly", false);
    bank
}

fn shown(reply: &Value) -> Vec<&str> {
    let shown = reply["data"]["metadata"]["skills"]["shown"].as_array();
    shown.unwrap_or_else(|| panic!("{reply}")).iter().map(|id| id.as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_reset_chooses_the_skills_and_is_told_which_were_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    let bank = bank();
    drop(BankDir::create(&path, bank.clone(), None).unwrap());
    let site = site_with(&path, BankSettings::default(), None, None).await;
    let world = household();
    let plain = world.episode(&world.items(Split::Test)[0]).unwrap().reset().await.unwrap().text;
    let mut client = site.session().await;
    let version = bank.view().version().to_owned();
    let mut reset =
        async |skills: Value| client.reset(json!({"split": "test", "index": 0, "skills": skills})).await;

    for on in [json!(null), json!("bank"), json!(version), json!(version[..10]), json!({"version": version})]
    {
        let seen = reset(on.clone()).await;
        assert_eq!(shown(&seen), ["gen_001", "gen_002"], "{on}");
        assert_eq!(seen["data"]["metadata"]["skills"]["version"], json!(version));
        assert!(text(&seen).ends_with(&plain) && text(&seen).contains("Do look first."), "{seen}");
    }
    let off = reset(json!("off")).await;
    assert_eq!((text(&off), shown(&off)), (plain.as_str(), vec![]));
    assert_eq!(off["data"]["metadata"]["skills"]["version"], "off");
    let one = reset(json!({"k": 1})).await;
    assert_eq!(shown(&one), ["gen_001"]);
    assert_eq!(shown(&reset(json!({"k": 0})).await), Vec::<&str>::new());
    // A candidate is shown before all others, where it is asked for by its id.
    let with = reset(json!("gen_003")).await;
    assert_eq!(shown(&with), ["gen_003", "gen_001", "gen_002"]);
    let with_version = with["data"]["metadata"]["skills"]["version"].clone();
    assert_ne!(with_version, json!(version));
    assert_eq!(shown(&reset(with_version).await), ["gen_003", "gen_001", "gen_002"]);
    for unknown in [json!("gen_009"), json!("gen_003@2"), json!("0123456789"), json!(version[..4])] {
        assert_eq!(code(&reset(unknown.clone()).await), "VALIDATION_ERROR", "{unknown}");
    }
    let (status, task) =
        site.post("/alfworld/task", json!({"split": "test", "index": 0, "skills": {"k": 1}})).await;
    assert_eq!(status, 200, "{task}");
    assert!(task["task"]["system_prompt"].as_str().unwrap().contains("Do look first."));
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn what_a_person_does_to_the_bank_is_shown_from_the_next_episode_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    drop(BankDir::create(&path, bank(), None).unwrap());
    let site = site_with(&path, BankSettings::default(), None, None).await;
    let mut client = site.session().await;
    let before = client.reset(json!({})).await;
    let skill = SkillRef::new(SkillPartId::new("gen_003"), 1);
    let event = BankEvent::Admitted { skill, basis: Basis::Person };
    BankDir::open(&path).unwrap().record(0, Author::Person, [event]).unwrap();
    assert_eq!(shown(&client.reset(json!({})).await), ["gen_001", "gen_002", "gen_003"]);
    // The version before can still be asked for.
    let version = before["data"]["metadata"]["skills"]["version"].clone();
    assert_eq!(shown(&client.reset(json!({"skill_version": version})).await), ["gen_001", "gen_002"]);
    drop(client);
    site.end().await;
    // By another process too, which reads it from the log.
    let site = site_with(&path, BankSettings::default(), None, None).await;
    let mut client = site.session().await;
    assert_eq!(shown(&client.reset(json!({"skill_version": version})).await), ["gen_001", "gen_002"]);
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_document_is_shown_with_the_bank_and_without_one() {
    let frame = || Some(SkillDoc::new("Be brief."));
    let world: Arc<dyn World> = household();
    let skills = SkillOptions { frame: frame(), bank: None };
    let site = Site::with(EnvOptions { skills, ..EnvOptions::on_loopback(world) }).await;
    let mut client = site.session().await;
    assert!(text(&client.reset(json!({})).await).starts_with("Be brief.\n\n"));
    assert!(!text(&client.reset(json!({"skills": "off"})).await).contains("Be brief."));
    drop(client);
    site.end().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    drop(BankDir::create(&path, bank(), None).unwrap());
    let site = site_with(&path, BankSettings::default(), frame(), None).await;
    let mut client = site.session().await;
    let seen = client.reset(json!({})).await;
    assert!(text(&seen).starts_with("Be brief.\n\n") && text(&seen).contains("Do look first."), "{seen}");
    drop(client);
    site.end().await;
}
