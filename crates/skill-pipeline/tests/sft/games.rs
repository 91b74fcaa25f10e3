//! Games along the way.

use crate::runs::lines;
use crate::setup::{bigram, data, settings, text, trainer};
use crate::world::{Doors, whole_history};
use skill_core::SkillDoc;
use skill_envs::source::document;
use skill_llm::{CallCtx, ChatModel as _, ChatRequest, Message};
use skill_pipeline::sft::record::SftValidation;
use skill_pipeline::sft::{EnvGames, PolicyChat};
use std::sync::Arc;

#[tokio::test]
async fn games_are_played_before_the_first_step_and_with_each_validation() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let settings = settings();
    let data = data(&settings).await;
    let env = Doors::env(12, whole_history());
    let games = EnvGames::new(env, document(&SkillDoc::new("Look first.")), text(), 2);
    let trainer = trainer(&run, &bigram(&run), &data, &settings).with_games(Arc::new(games));
    let summary = trainer.train(&run).await.unwrap();
    let played: Vec<SftValidation> = lines(&run.join("validation.jsonl"));
    assert_eq!(played.iter().map(|one| one.games.unwrap().played).collect::<Vec<_>>(), [2, 2, 2]);
    // A model of pairs of letters cannot remember which door; it can only not win.
    assert_eq!(summary.before.unwrap().games.unwrap().won, 0);
}

#[tokio::test]
async fn the_trained_model_replies_as_it_learnt_to() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut settings = settings();
    settings.epochs = 6;
    let data = data(&settings).await;
    let model = bigram(&run);
    trainer(&run, &model, &data, &settings).train(&run).await.unwrap();
    let chat = PolicyChat::new(Arc::new(model), text(), "trained");
    let mut request = ChatRequest::new(vec![Message::user("Go.")]);
    request.sampling.max_tokens = Some(9);
    let reply = chat.chat(&request, &CallCtx::default()).await.unwrap();
    assert!(reply.text.starts_with('<'), "{:?}", reply.text);
    assert!(reply.usage.input > 0 && reply.usage.output > 0);
    let again = chat.chat(&request, &CallCtx::default()).await.unwrap();
    assert_eq!(again.text, reply.text);
    assert_eq!(chat.id().revision, "trained");
}
