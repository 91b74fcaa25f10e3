//! Games along the way.

use crate::runs::lines;
use crate::setup::{bigram, new_run, text, trainer};
use crate::world::{Doors, whole_history};
use skill_core::SkillDoc;
use skill_envs::source::document;
use skill_pipeline::records::sft::SftValidation;
use skill_weights::policy::EnvGames;
use std::sync::Arc;

#[tokio::test]
async fn games_are_played_before_the_first_step_and_with_each_validation() {
    let (_dir, run, settings, data) = new_run().await;
    let env = Doors::env(12, whole_history());
    let games = EnvGames::new(env, document(&SkillDoc::new("Look first.")), text(), 2);
    let trainer = trainer(&run, &bigram(&run), &data, &settings).with_games(Arc::new(games));
    let summary = trainer.train(&run).await.unwrap();
    let played: Vec<SftValidation> = lines(&run.join("validation.jsonl"));
    assert_eq!(played.iter().map(|one| one.games.unwrap().played).collect::<Vec<_>>(), [2, 2, 2]);
    // A model of pairs of letters cannot remember which door; it can only not win.
    assert_eq!(summary.before.unwrap().games.unwrap().won, 0);
}
