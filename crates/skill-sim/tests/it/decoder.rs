//! The small decoder that a simulated target stands for: its files, and what its tokenizer knows.

use crate::agents::{play_by, settings};
use skill_envs::World;
use skill_envs::agent::AgentSettings;
use skill_envs::alfworld::{AlfworldConfig, AlfworldWorld, GeneratedConfig, Rooms, TaskType};
use skill_sim::{HouseholdExpert, SimulatedAgent, household_decoder};
use skill_train::chat_model::ModelFiles;
use skill_train::tokenizer::TokenCodec as _;
use std::sync::Arc;

#[test]
fn a_seed_gives_the_same_decoder_which_knows_the_words_of_small_households() {
    let files = household_decoder(3).unwrap();
    assert_eq!(files, household_decoder(3).unwrap());
    assert_ne!(files, household_decoder(4).unwrap());
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let model = ModelFiles::open(dir.path(), None).unwrap();
    assert_eq!(model.config().max_positions, 1024);
    let tokenizer = model.tokenizer();
    let n_unknown = |text: &str| {
        let tokens = tokenizer.encode_ordinary(text).unwrap();
        tokens.iter().filter(|token| **token == 0).count()
    };
    assert!(n_unknown("Zanzibar") > 0);

    let generated = GeneratedConfig { seed: 9, train: 60, val: 1, test: 1, rooms: Rooms::Small };
    let task_types = vec![TaskType::PickAndPlace, TaskType::LookInLight];
    let config = AlfworldConfig { generated, task_types, ..AlfworldConfig::default() };
    let world: Arc<dyn World> = Arc::new(AlfworldWorld::new(&config).unwrap());
    let settings = AgentSettings { show_admissible: false, think: false, ..settings() };
    let expert = SimulatedAgent::new(HouseholdExpert::default(), 7).with_memory().with_thoughts(false);
    let skill = "### General Principles\n- **Search every place once**: Go on to a place where you have not been yet; do \
                 not search the same place twice.\n  _Apply when: The object is not in sight_";
    let results = play_by(&world, settings, &expert, skill);
    let messages = results.iter().flat_map(|result| &result.trajectory.messages);
    let unknown: Vec<&str> =
        messages.map(|message| message.content.as_str()).filter(|text| n_unknown(text) > 0).collect();
    assert!(
        unknown.len() <= 3,
        "{} messages hold unknown words, such as {:?}",
        unknown.len(),
        unknown.first()
    );
}
