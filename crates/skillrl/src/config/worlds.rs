//! `[env]` of the kinds that are worlds with several turns, as plain data.

use super::path::AskedPath;
use super::types::choice;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skill_core::{SplitRatio, SplitRule};

/// How an agent plays: keys that all worlds share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgentKeys {
    /// How actions are written.
    pub action_format: WorldActionFormat,
    /// Whether the agent is asked to think first.
    pub think: bool,
    /// Whether the possible actions stand in the prompt.
    pub show_admissible: bool,
    /// How many earlier turns the prompt holds.
    pub history_turns: u32,
    /// The most turns of an episode.
    pub max_turns: u32,
    /// The most tokens of an episode.
    pub max_episode_tokens: Option<u64>,
    /// The most tokens of one reply.
    pub max_tokens: Option<u32>,
    /// How many invalid actions in a row end an episode.
    pub max_invalid_actions: u32,
    /// What an invalid action takes from the soft score.
    pub invalid_action_penalty: f64,
    /// How often an agent may go round in circles.
    pub max_repetitions: u32,
}

/// A struct with its own fields and those of [`AgentKeys`]: the file has them side by side.
macro_rules! world {
    (
        $(#[$meta:meta])* $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)+
            /// How actions are written.
            pub action_format: WorldActionFormat,
            /// Whether the agent is asked to think first.
            pub think: bool,
            /// Whether the possible actions stand in the prompt.
            pub show_admissible: bool,
            /// How many earlier turns the prompt holds.
            pub history_turns: u32,
            /// The most turns of an episode.
            pub max_turns: u32,
            /// The most tokens of an episode.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub max_episode_tokens: Option<u64>,
            /// The most tokens of one reply.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub max_tokens: Option<u32>,
            /// How many invalid actions in a row end an episode.
            pub max_invalid_actions: u32,
            /// What an invalid action takes from the soft score.
            pub invalid_action_penalty: f64,
            /// How often an agent may go round in circles.
            pub max_repetitions: u32,
        }

        impl $name {
            /// How the agent plays.
            pub fn agent(&self) -> AgentKeys {
                AgentKeys {
                    action_format: self.action_format,
                    think: self.think,
                    show_admissible: self.show_admissible,
                    history_turns: self.history_turns,
                    max_turns: self.max_turns,
                    max_episode_tokens: self.max_episode_tokens,
                    max_tokens: self.max_tokens,
                    max_invalid_actions: self.max_invalid_actions,
                    invalid_action_penalty: self.invalid_action_penalty,
                    max_repetitions: self.max_repetitions,
                }
            }
        }
    };
}

world! {
    /// An environment with `kind = "alfworld"`; `docs/alfworld.md` says what each key means.
    AlfworldConfig {
        /// The directory of the data set; without one, games are generated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        games: Option<AskedPath>,
        /// The games of train: a directory or a list.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        games_train: Option<AskedPath>,
        /// The games of val.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        games_val: Option<AskedPath>,
        /// The games of test.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        games_test: Option<AskedPath>,
        /// The kinds of task; empty for all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        task_types: Vec<String>,
        /// The most games of train, or how many are made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_train: Option<usize>,
        /// Of val.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_val: Option<usize>,
        /// Of test.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_test: Option<usize>,
        /// Decides which games are made.
        game_seed: u64,
        /// What becomes of a game that cannot be played.
        unplayable: UnplayableGames,
        /// Servers that play it; empty to play it here.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        servers: Vec<String>,
        /// The directory with the ids of the servers' tasks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_tasks: Option<AskedPath>,
        /// Seconds that a request to a server may take.
        server_timeout_s: u64,
    }
}

world! {
    /// An environment with `kind = "webshop"`; `docs/webshop.md` says what each key means.
    WebshopConfig {
        /// The product file; without one, products are made up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        products: Option<AskedPath>,
        /// The file of attributes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attributes: Option<AskedPath>,
        /// The file of people's instructions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<AskedPath>,
        /// How many products count, or are made up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_products: Option<usize>,
        /// Which instructions become goals.
        goal_kind: ShopGoals,
        /// A file with the goals themselves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goals: Option<AskedPath>,
        /// A file with prices.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prices: Option<AskedPath>,
        /// A file with nouns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nouns: Option<AskedPath>,
        /// What becomes of instructions for products that are not there.
        missing_products: MissingShopProducts,
        /// Decides what the original draws anew in each process.
        shop_seed: u64,
        /// Whether there are pages of attributes.
        show_attributes: bool,
        /// How pages are written.
        observation: ShopPages,
        /// How many earlier pages stand before the newest one.
        previous_observations: usize,
        /// How many earlier actions.
        previous_actions: usize,
        /// How goals become splits.
        goal_split: GoalSplit,
        /// The shares of train, val and test; not all 0.
        split_ratio: SplitRatio,
        /// How they become whole numbers.
        split_rule: SplitRule,
        /// Decides which goal falls into which split.
        split_seed: u64,
        /// The most goals of train.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_train: Option<usize>,
        /// Of val.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_val: Option<usize>,
        /// Of test.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_test: Option<usize>,
        /// Servers that play it; empty to play it here.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        servers: Vec<String>,
        /// The directory with the ids of the servers' tasks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_tasks: Option<AskedPath>,
        /// Seconds that a request to a server may take.
        server_timeout_s: u64,
    }
}

world! {
    /// An environment with `kind = "exec"`; `docs/env-protocol.md` says how such a program speaks.
    ExecConfig {
        /// The program and its arguments.
        program: Vec<String>,
        /// Where it runs; without it the directory of the configuration file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program_dir: Option<AskedPath>,
        /// Environment variables that it gets, with their values.
        #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
        set_env: IndexMap<String, String>,
        /// Environment variables of this process that it gets.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pass_env: Vec<String>,
        /// Handed to the program as it is.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        settings: Map<String, Value>,
        /// Data files with the items; without it the program lists them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        items: Option<AskedPath>,
        /// The shares of train, val and test; not all 0.
        split_ratio: SplitRatio,
        /// How they become whole numbers.
        split_rule: SplitRule,
        /// Decides which item falls into which split.
        split_seed: u64,
        /// How many processes run side by side.
        processes: u32,
        /// Whether each rollout has a process of its own.
        process_per_rollout: bool,
        /// How the program gets the skill.
        skill_delivery: ExecSkill,
        /// Whether its agent is served the target as its model.
        endpoint: bool,
        /// Seconds until it has said what it is.
        start_timeout_s: u64,
        /// Seconds for a reset.
        reset_timeout_s: u64,
        /// Seconds for a step.
        step_timeout_s: u64,
        /// Seconds for a whole rollout.
        rollout_timeout_s: u64,
    }
}

choice! {
    /// How a program that runs its own agent gets the skill.
    ExecSkill {
        /// As text in the request.
        Inline = "inline",
        /// As a file.
        File = "file",
        /// In the system prompt of every call to the endpoint.
        SystemPrompt = "system_prompt",
    }
}

choice! {
    /// How an agent writes its actions.
    WorldActionFormat {
        /// Between tags.
        Tags = "tags",
        /// As a call of a tool.
        Tool = "tool",
    }
}

choice! {
    /// What becomes of a game that cannot be played.
    UnplayableGames {
        /// The data is refused.
        Refuse = "refuse",
        /// The game is left out.
        LeaveOut = "leave_out",
    }
}

choice! {
    /// Which instructions become goals.
    ShopGoals {
        /// Those that people wrote.
        Human = "human",
        /// Those that were made by rule.
        Synthetic = "synthetic",
    }
}

choice! {
    /// What becomes of an instruction for a product that is not there.
    MissingShopProducts {
        /// It is left out.
        Skip = "skip",
        /// It is an error.
        Error = "error",
    }
}

choice! {
    /// How pages are written.
    ShopPages {
        /// As one line.
        Text = "text",
        /// One piece a line.
        TextRich = "text_rich",
    }
}

choice! {
    /// How goals become splits.
    GoalSplit {
        /// The paper's ranges with a product file, a ratio without.
        Auto = "auto",
        /// By the ratio.
        Ratio = "ratio",
    }
}
