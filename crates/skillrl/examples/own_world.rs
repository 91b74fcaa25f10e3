//! A world of several turns in Rust: behind each door somebody sleeps, and only who knocks first is let in.
//!
//! `cargo run -p skillrl --example own_world` trains on it; the models are scripted, so nothing is paid for.
#![expect(clippy::print_stdout, reason = "an example talks to the person who started it")]

use skillrl::envs::{AgentSettings, Episode, Observation, World, WorldEnv};
use skillrl::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// The data set: six doors for each split.
struct Doors {
    splits: [Vec<Item>; 3],
}

impl Doors {
    fn new() -> Self {
        let doors = |split: &str| {
            (1..=6).map(|number| Item::new(format!("{split}-door-{number}"), number.into())).collect()
        };
        Self { splits: ["train", "val", "test"].map(doors) }
    }
}

impl World for Doors {
    fn name(&self) -> &str {
        "doors"
    }

    fn items(&self, split: Split) -> &[Item] {
        let [train, val, test] = &self.splits;
        match split {
            Split::Train => train,
            Split::Val => val,
            Split::Test => test,
        }
    }

    // What an agent has to know to act, and nothing that a skill should have to say.
    fn instructions(&self) -> &str {
        "The actions are `knock` and `open`."
    }

    fn episode(&self, _: &Item) -> Result<Box<dyn Episode>, EnvError> {
        Ok(Box::new(Door { was_knocked: false }))
    }
}

/// One play of an item.
struct Door {
    was_knocked: bool,
}

#[async_trait]
impl Episode for Door {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        self.was_knocked = false;
        Ok(Observation::new("You stand before a closed door. Get in."))
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        let seen = match (action, self.was_knocked) {
            ("knock", _) => {
                self.was_knocked = true;
                Observation::new("A voice says: come in.")
            }
            // A task that is lost is an observation like any other; an error is for a world that broke.
            ("open", false) => {
                Observation { done: true, ..Observation::new("Somebody shouts, and the door is locked.") }
            }
            ("open", true) => {
                Observation { reward: 1.0, done: true, won: true, ..Observation::new("You are in.") }
            }
            _ => Observation { understood: false, ..Observation::new("Nothing happens.") },
        };
        Ok(seen)
    }
}

/// Trains in this directory; returns the share of doors that opened before and after.
pub(crate) async fn train(run_dir: &Path) -> Result<(Option<f64>, Option<f64>), Box<dyn std::error::Error>> {
    // An agent that opens doors, and knocks once where its skill says so.
    let target = ScriptedModel::answering("target", |request| {
        let knows = request.text_of(Role::System).contains("Knock before");
        let has_knocked = request.text_of(Role::User).contains("come in");
        let action = if knows && !has_knocked { "knock" } else { "open" };
        format!("<think>A door.</think><action>{action}</action>")
    });
    let optimizer = ScriptedModel::answering("optimizer", |_| {
        r#"{"edits": [{"op": "append", "content": "- Knock before you open a door."}]}"#.to_owned()
    });
    // The agent loop of skillrl plays the world; an agent of your own implements `Env` instead.
    let env = WorldEnv::new(Arc::new(Doors::new()), AgentSettings::default(), None)?;
    let settings = TrainSettings { epochs: 1, ..TrainSettings::default() };
    let trainer = Trainer::new(Arc::new(env), Arc::new(target), Arc::new(optimizer)).with_settings(settings);
    let summary = trainer.train(run_dir).await?;
    Ok((summary.baseline_test_hard, summary.test_hard))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (before, after) = train(Path::new("runs/doors")).await?;
    println!("doors opened: {before:?} before, {after:?} after; the skill is runs/doors/best_skill.md");
    Ok(())
}
