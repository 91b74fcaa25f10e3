//! Demonstrations become examples: what is used, what is left out, and what is learnt.

use crate::codec::{ByteCodec, IM_END};
use crate::setup::{play, settings, text};
use crate::world::{Doors, walk, whole_history, wins};
use serde_json::json;
use skill_bank::{Author, Bank, BankEvent, BankSource, Basis, Content, Evidence, SkillProvenance, Tier};
use skill_core::{Role, SkillDoc, Usage};
use skill_envs::AgentSettings;
use skill_envs::source::document;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatReply, ChatRequest};
use skill_pipeline::PipelineError;
use skill_train::examples::SftExample;
use skill_train::tokenizer::TokenCodec as _;
use skill_weights::sft::SftData;
use skill_weights::sft::demos::{Demonstrations, Demonstrator};
use skill_weights::sft::reasons::Reasoner;
use std::sync::Arc;

/// The learnt parts of an example, in order.
fn learnt(example: &SftExample) -> Vec<String> {
    let codec = ByteCodec::new();
    let mut parts: Vec<Vec<u32>> = Vec::new();
    let mut was_learnt = false;
    for (token, weight) in example.tokens.iter().zip(&example.weights) {
        let is_learnt = *weight > 0.0;
        if is_learnt && !was_learnt {
            parts.push(Vec::new());
        }
        if is_learnt {
            parts.last_mut().unwrap().push(*token);
        }
        was_learnt = is_learnt;
    }
    parts.iter().map(|part| codec.decode(part, true).unwrap()).collect()
}

#[tokio::test]
async fn an_episode_whose_prompt_only_grows_is_one_example_with_every_reply_learnt() {
    let played = play(wins(4), whole_history()).await;
    let data = SftData::new(&played, &text(), &settings()).unwrap();
    assert_eq!((data.train.len(), data.validation.len()), (3, 1));
    let first = data.lines.iter().position(|line| line.item.as_str() == "train-0").unwrap();
    let example = if first < 3 { &data.train[first] } else { &data.validation[0] };
    assert_eq!(
        learnt(example),
        ["<action>look</action><|im_end|>\n", "<action>open red</action><|im_end|>\n"]
    );
    assert_eq!(data.lines[first].turns, [1, 2]);
    let whole = ByteCodec::new().decode(&example.tokens, true).unwrap();
    for part in ["Look first.", "open the red door", "Three doors."] {
        assert!(whole.contains(part), "{part} is not in {whole}");
    }
}

#[tokio::test]
async fn an_action_that_the_world_does_not_understand_is_shown_and_not_learnt() {
    let played = play(vec![walk("train-0", &["look", "fly away", "open red"])], whole_history()).await;
    let mut settings = settings();
    settings.validation_share = 0.0;
    let data = SftData::new(&played, &text(), &settings).unwrap();
    let example = &data.train[0];
    assert_eq!(
        learnt(example),
        ["<action>look</action><|im_end|>\n", "<action>open red</action><|im_end|>\n"]
    );
    assert!(ByteCodec::new().decode(&example.tokens, true).unwrap().contains("<action>fly away</action>"));
}

#[tokio::test]
async fn a_prompt_that_changes_makes_an_example_of_each_turn() {
    let agent = AgentSettings { think: false, ..AgentSettings::default() };
    let played = play(wins(1), agent).await;
    let mut settings = settings();
    settings.validation_share = 0.0;
    let data = SftData::new(&played, &text(), &settings).unwrap();
    let all: Vec<Vec<String>> = data.train.iter().map(learnt).collect();
    assert_eq!(all, [["<action>look</action><|im_end|>\n"], ["<action>open red</action><|im_end|>\n"]]);
    assert_eq!(data.lines.iter().map(|line| line.turns).collect::<Vec<_>>(), [[1, 1], [2, 2]]);
}

#[tokio::test]
async fn demonstrations_that_do_not_do_what_they_claim_are_left_out_and_counted() {
    let mut episodes = wins(2);
    episodes.push(walk("train-2", &["look", "open red", "look"]));
    episodes.push(walk("train-3", &["open red", "wait", "wait"]));
    episodes.push(walk("val-0", &["look", "open red"]));
    episodes.push(walk("test-0", &["look", "open red"]));
    episodes.push(walk("attic-0", &["look"]));
    episodes.push(walk("train-4", &[]));
    let played = play(episodes, whole_history()).await;
    let counts = played.counts;
    assert_eq!((counts.demonstrations, counts.used), (8, 2));
    assert_eq!((counts.not_replayed, counts.lost), (2, 1));
    assert_eq!((counts.held_out, counts.unknown), (2, 1));
    assert_eq!(played.results.len(), 2);
    assert_eq!(played.notes.len(), 6);
}

#[tokio::test]
async fn without_a_usable_demonstration_there_is_nothing_to_train_on() {
    let played = play(vec![walk("train-3", &["open red", "wait", "wait"])], whole_history()).await;
    match SftData::new(&played, &text(), &settings()) {
        Err(PipelineError::NoExamples { counts, notes }) => {
            assert_eq!((counts.demonstrations, counts.lost), (1, 1));
            assert_eq!(notes.len(), 1);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn prompts_that_fill_the_length_are_left_out_and_longer_replies_lose_their_end() {
    let played = play(wins(3), whole_history()).await;
    let mut settings = settings();
    settings.validation_share = 0.0;
    let whole = SftData::new(&played, &text(), &settings).unwrap();
    let end = whole.train[0].tokens.len();
    settings.max_tokens = end - 4;
    let cut = SftData::new(&played, &text(), &settings).unwrap();
    assert!(cut.counts.cut >= 1 && cut.lines[0].cut && cut.train[0].tokens.len() == end - 4);
    settings.max_tokens = 10;
    let error = SftData::new(&played, &text(), &settings).unwrap_err();
    assert!(matches!(error, PipelineError::NoExamples { counts, .. } if counts.cut_away == 3));
}

#[tokio::test]
async fn texts_of_special_tokens_in_a_demonstration_stay_texts() {
    let mut episode = wins(1).remove(0);
    episode.steps[0].action = "look".to_owned();
    episode.steps.insert(0, skill_bank::episode::EpisodeStep::new("", "open <|im_end|>"));
    let played = play(vec![episode], whole_history()).await;
    let mut settings = settings();
    settings.validation_share = 0.0;
    let data = SftData::new(&played, &text(), &settings).unwrap();
    let n_ends = data.train[0].tokens.iter().filter(|token| **token == IM_END).count();
    // System, three prompts and three replies.
    assert_eq!(n_ends, 7);
}

#[tokio::test]
async fn the_parts_share_no_task_and_a_task_keeps_its_part() {
    let mut episodes = wins(9);
    episodes.extend(wins(9).into_iter().map(|mut episode| {
        episode.id.push_str(", once more");
        episode
    }));
    let settings = settings();
    let part = |data: &SftData, validation: bool| {
        let lines = data.lines.iter().filter(move |line| line.validation == validation);
        lines.map(|line| line.item.to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    let data = SftData::new(&play(episodes, whole_history()).await, &text(), &settings).unwrap();
    assert_eq!((data.train.len(), data.validation.len()), (14, 4));
    assert!(part(&data, true).is_disjoint(&part(&data, false)));
    let fewer = SftData::new(&play(wins(9), whole_history()).await, &text(), &settings).unwrap();
    assert_eq!(part(&fewer, true), part(&data, true));
    assert_ne!(fewer.hash(), data.hash());
}

#[tokio::test]
async fn enough_examples_are_enough() {
    let mut settings = settings();
    settings.max_examples = 5;
    let data = SftData::new(&play(wins(10), whole_history()).await, &text(), &settings).unwrap();
    assert_eq!(data.train.len() + data.validation.len(), 5);
    assert_eq!(data.lines.len(), 5);
    assert_eq!((data.counts.used, data.counts.not_needed), (5, 5));
}

#[tokio::test]
async fn each_example_has_the_skills_that_are_selected_for_its_task() {
    let mut bank = Bank::new();
    let mut admit = |tier: Tier, title: &str, principle: &str| {
        let skill = bank.next_skill(&tier);
        let content = Content::principle(title, principle, "");
        let proposed =
            BankEvent::proposed(skill.clone(), tier, content, SkillProvenance::Person, Evidence::default());
        bank.record(0, Author::Person, proposed).unwrap();
        bank.record(0, Author::Person, BankEvent::Admitted { skill, basis: Basis::Person }).unwrap();
    };
    let (of_doors, of_windows) = ("Look before you open a door.", "Close windows at night.");
    admit(Tier::TaskType("open".into()), "Doors", of_doors);
    admit(Tier::TaskType("close".into()), "Windows", of_windows);
    let retrieval =
        skill_bank::retrieve::Retrieval::new(skill_bank::retrieve::RetrievalSettings::default()).unwrap();
    let source = BankSource::new(bank.view(), &retrieval, None).unwrap();
    let env = Doors::env(3, whole_history());
    let demonstrations = Demonstrations::new(env.as_ref(), &source);
    let played = demonstrations.play(&Demonstrator::Episodes(wins(2)), |_| false).await.unwrap();
    let data = SftData::new(&played, &text(), &settings()).unwrap();
    for (line, example) in data.lines.iter().zip(data.train.iter().chain(&data.validation)) {
        assert_eq!(line.skills.len(), 1, "{line:?}");
        let whole = ByteCodec::new().decode(&example.tokens, true).unwrap();
        assert!(whole.contains(of_doors) && !whole.contains(of_windows), "{whole}");
    }
}

#[tokio::test]
async fn a_teacher_writes_reasons_and_those_that_know_what_comes_are_refused() {
    let teacher = ScriptedModel::from_fn("teacher", |request: &ChatRequest, _: &CallCtx| {
        let asked = request.text_of(Role::User);
        let reason = match asked.contains("<action>\nlook\n</action>") {
            true => "I do not know the doors yet.",
            // The world says so after the action.
            false => "It opens, so I take this door.",
        };
        Ok(ChatReply::text(json!({"reason": reason}).to_string(), Usage::default()))
    });
    let reasoner = Reasoner::new(Arc::new(teacher), 2).unwrap();
    let env = Doors::env(4, AgentSettings { think: true, ..whole_history() });
    let source = document(&SkillDoc::new("Look first."));
    let demonstrations = Demonstrations::new(env.as_ref(), source.as_ref()).with_reasons(Some(reasoner));
    let played = demonstrations.play(&Demonstrator::Episodes(wins(2)), |_| false).await.unwrap();
    assert_eq!((played.counts.used, played.counts.reasons, played.counts.reasons_refused), (2, 2, 2));
    let mut settings = settings();
    settings.validation_share = 0.0;
    let data = SftData::new(&played, &text(), &settings).unwrap();
    insta::assert_debug_snapshot!(learnt(&data.train[0]), @r#"
    [
        "<think>I do not know the doors yet.</think>\n<action>look</action><|im_end|>\n",
        "<action>open red</action><|im_end|>\n",
    ]
    "#);
}
