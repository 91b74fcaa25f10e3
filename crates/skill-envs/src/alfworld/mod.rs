//! ALFWorld's text games, natively: the data set's own game files, played with the same answers to the byte.
//!
//! [`Game`] is a room with its rules and its goal, [`Play`] one play of it.
//! The rules are those of the published domains and grammars, written in Rust; a file with others is refused.
//!
//! # Invariants
//!
//! - A game answers as the original engine does, to the byte. Held by
//!   `every_transcript_is_played_as_it_was_recorded`.
//! - A generated game can be solved by a player who sees only what is shown. Held by
//!   `every_generated_game_is_solved`.
//! - A command is understood if and only if it is listed as admissible; the fuzz target `alfworld_commands` and its
//!   corpus hold this.

mod action;
mod bits;
mod build;
mod config;
mod error;
mod expert;
mod files;
mod game;
mod generate;
mod goal;
mod list;
mod pddl;
mod plan;
mod play;
mod predicate;
mod rules;
mod state;
mod task;
mod token;
mod world;

pub use config::{AlfworldConfig, GeneratedConfig, Rooms, Unplayable};
pub use error::{GameError, TextPlace};
pub use expert::{Expert, HouseholdHabit};
pub use files::{GameFile, LoadedGame, RulesName, TaskParameters, TrajectoryData, load};
pub use game::Game;
pub use generate::{GeneratedGame, RoomKind, RoomLimits, generate, generate_small, split_of_room};
pub use play::{Play, Turn};
pub use rules::{Rules, Wording};
pub use task::TaskType;
pub use world::{AlfworldEpisode, AlfworldWorld, INSTRUCTIONS};
