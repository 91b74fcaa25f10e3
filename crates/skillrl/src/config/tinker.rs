//! The section of a server that trains the weights.

use super::key::KeyDefault::{Absent, Value};
use super::key::MAX_SECONDS;
use super::key::ValueType::{Text, Url, Variable};
use super::key::declare::{decisive, number, process, settings};

settings! {
    /// `[tinker]`.
    TinkerConfig {
        /// The address of a server that speaks the JSON form of the Tinker API, such as `skillrl train-server`.
        base_url: String = process(Url, Value("\"http://127.0.0.1:8600\""));
        /// The name of the base model, as the server has it. Without it, the name of the target's folder.
        base_model: Option<String> = decisive(Text, Absent { example: "\"Qwen/Qwen3-4B\"" });
        /// Saved weights of the server that the adapter begins with.
        start: Option<String> = decisive(Text, Absent { example: "\"tinker://model_1/weights/state-3\"" });
        /// The environment variable with the key.
        api_key_env: Option<String> = process(Variable, Absent { example: "\"TINKER_API_KEY\"" });
        /// Seconds that the result of one call may take.
        max_wait_s: f64 = process(number(1.0, MAX_SECONDS), Value("3600.0"));
    }
}
