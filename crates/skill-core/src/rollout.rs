//! Rollout results: the trajectory of one task and its score.

use crate::ids::ItemId;
use crate::reply::{FinishReason, Role};
use crate::trajectory::{Trajectory, TrajectoryMessage};
use crate::usage::Usage;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt::{self, Formatter};

/// A result with a `hard` below this is a failure, every other one a success.
pub const SUCCESS_THRESHOLD: f64 = 1e-9;

/// The key of [`RolloutResult::extras`] by which a program that plays rollouts says why its agent's last reply ended.
pub const FINISH_REASON_KEY: &str = "finish_reason";
/// The key of [`RolloutResult::extras`] that is true where an answer holds no number and is compared with one.
pub const NO_NUMBER_KEY: &str = "no_number";
/// Where the extras of a result say that its answer differs from the right one by marks, case or a full stop alone.
pub const MARKS_KEY: &str = "marks";

/// The key of [`RolloutResult::extras`] with a second score from 0 to 1, which a gate with a guard does not let fall.
pub const GUARD_KEY: &str = "guard";

/// The key of [`RolloutResult::extras`] that says of a coding agent whether it loaded the skill that it found as a package.
pub const SKILL_LOADED_KEY: &str = "skill_loaded";

/// The value of [`FINISH_REASON_KEY`] for a reply that was cut at its token limit.
pub(crate) const FINISH_REASON_LENGTH: &str = "length";

/// What came of running the agent on one item: a score, and the trajectory that explains it.
///
/// The field names are those of skillrl 1.0's `rollout_results.json`, but for the trajectory; a `conversation` is read as
/// one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RolloutResult {
    /// The item.
    pub id: ItemId,
    /// The strict score in [0, 1]; below [`SUCCESS_THRESHOLD`] the task failed.
    #[serde(serialize_with = "integral_as_integer")]
    pub hard: f64,
    /// The graded score in [0, 1].
    pub soft: f64,
    /// How many times the agent spoke.
    #[serde(default)]
    pub n_turns: u32,
    /// Why the task failed; empty for a success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fail_reason: String,
    /// The item's category, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_type: String,
    /// What the agent was asked to do, where that is not a question.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_description: String,
    /// The answer that was scored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub predicted_answer: String,
    /// The question, where the task is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// What a right answer looks like; the analysts see it, the agent does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reference_text: String,
    /// The system prompt of the agent's first call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_system_prompt: String,
    /// The user prompt of the agent's first call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_user_prompt: String,
    /// What the agent was shown, what it said, and what came of it.
    #[serde(
        default,
        alias = "conversation",
        deserialize_with = "trajectory_or_messages",
        skip_serializing_if = "says_nothing"
    )]
    pub trajectory: Trajectory,
    /// Tokens of all calls of this rollout.
    #[serde(default)]
    pub usage: Usage,
    /// What only this environment knows.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extras: Map<String, Value>,
}

impl RolloutResult {
    /// A result with these scores and nothing else; scores are clamped to [0, 1], and what is not a number is 0.
    pub fn new(id: ItemId, hard: f64, soft: f64) -> Self {
        Self {
            id,
            hard: unit_interval(hard),
            soft: unit_interval(soft),
            n_turns: 0,
            fail_reason: String::new(),
            task_type: String::new(),
            task_description: String::new(),
            predicted_answer: String::new(),
            question: String::new(),
            reference_text: String::new(),
            target_system_prompt: String::new(),
            target_user_prompt: String::new(),
            trajectory: Trajectory::default(),
            usage: Usage::default(),
            extras: Map::new(),
        }
    }

    /// The result without its trajectory: the scores, the counts and the short fields, and what [`Self::is_silent`] and
    /// [`Self::is_cut`] go by.
    ///
    /// An evaluation of thousands of items needs no more in memory.
    #[must_use]
    pub fn without_trajectory(self) -> Self {
        let mut trajectory = Trajectory::default();
        if self.is_silent() {
            // Only what the silence is told by: who spoke, without what was asked.
            for message in self.trajectory.conversation() {
                let is_short = matches!(message.role, Role::Assistant | Role::Tool);
                let text = if is_short { message.content.as_str() } else { "" };
                trajectory.say(TrajectoryMessage::new(message.role, text));
            }
        }
        let messages = std::mem::take(&mut trajectory.messages);
        let trajectory = Trajectory { messages, ..self.trajectory.without_texts() };
        let is_short =
            |name: &str, value: &Value| name == FINISH_REASON_KEY || value.is_number() || value.is_boolean();
        let extras = self.extras.into_iter().filter(|(name, value)| is_short(name, value));
        Self {
            n_turns: self.n_turns,
            task_type: self.task_type,
            trajectory,
            usage: self.usage,
            extras: extras.collect(),
            ..Self::new(self.id, self.hard, self.soft)
        }
    }

    /// Whether the agent's last reply was cut at its token limit.
    pub fn is_cut(&self) -> bool {
        self.trajectory.last_finish() == Some(&FinishReason::Length)
            || self.extras.get(FINISH_REASON_KEY).and_then(Value::as_str) == Some(FINISH_REASON_LENGTH)
    }

    /// True if a number was expected and the answer holds none: no part of a range, a ratio or a time is one.
    pub fn has_no_number(&self) -> bool {
        self.extras.get(NO_NUMBER_KEY).and_then(Value::as_bool) == Some(true)
    }

    /// True if the answer is the right one but for marks around it, case or a full stop; scorers that do not mind such marks
    /// count it as right all the same.
    pub fn has_marks(&self) -> bool {
        self.extras.get(MARKS_KEY).and_then(Value::as_bool) == Some(true)
    }

    /// The second score, where the environment gives one.
    pub fn guard(&self) -> Option<f64> {
        self.extras.get(GUARD_KEY).and_then(Value::as_f64)
    }

    /// Whether the agent loaded the skill, where it found it as a package and decides itself; `None` where it is shown the
    /// skill.
    pub fn is_activated(&self) -> Option<bool> {
        self.extras.get(SKILL_LOADED_KEY).and_then(Value::as_bool)
    }

    /// Whether the agent was asked and said nothing at all: every reply is empty, and so is the answer, no tool was
    /// called, and nothing was scored.
    pub fn is_silent(&self) -> bool {
        let is_asked = self.trajectory.conversation().any(|message| message.role == Role::Assistant);
        let has_spoken = self.trajectory.conversation().any(|message| match message.role {
            Role::Assistant => !message.content.trim().is_empty() || !message.tool_calls.is_empty(),
            // A tool answers what was said.
            Role::Tool => true,
            Role::System | Role::User => false,
        });
        let is_unscored = !self.is_success() && self.soft < SUCCESS_THRESHOLD;
        is_asked && !has_spoken && is_unscored && self.predicted_answer.trim().is_empty()
    }

    /// Whether the task counts as solved.
    pub fn is_success(&self) -> bool {
        self.hard >= SUCCESS_THRESHOLD
    }
}

/// A trajectory, or the `conversation` of skillrl 1.0 and of programs that play rollouts.
fn trajectory_or_messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Trajectory, D::Error> {
    struct Written;

    impl<'de> Visitor<'de> for Written {
        type Value = Trajectory;

        fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
            formatter.write_str("a trajectory or a list of messages")
        }

        fn visit_unit<E>(self) -> Result<Trajectory, E> {
            Ok(Trajectory::default())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, messages: A) -> Result<Trajectory, A::Error> {
            let messages: Vec<TrajectoryMessage> =
                Deserialize::deserialize(SeqAccessDeserializer::new(messages))?;
            Ok(Trajectory::of_messages(messages))
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Trajectory, A::Error> {
            Deserialize::deserialize(MapAccessDeserializer::new(fields))
        }
    }
    deserializer.deserialize_any(Written)
}

fn says_nothing(trajectory: &Trajectory) -> bool {
    *trajectory == Trajectory::default()
}

/// A score as everything else may rely on it: clamped to [0, 1], and 0 where it is not a number.
pub(crate) fn unit_interval(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) }
}

/// Writes 0 and 1 as integers, as the files of skillrl 1.0 have them.
fn integral_as_integer<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if *value == 0.0 {
        serializer.serialize_u8(0)
    } else if *value == 1.0 {
        serializer.serialize_u8(1)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// Mean scores over a set of results.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct MeanScore {
    /// Mean of `hard`.
    pub hard: f64,
    /// Mean of `soft`.
    pub soft: f64,
}

impl MeanScore {
    /// The plain means, summed in the order given; 0 for no results, as the reference has it.
    pub fn of(scores: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let (mut hard, mut soft, mut n_results) = (0.0, 0.0, 0_u32);
        for (item_hard, item_soft) in scores {
            hard += item_hard;
            soft += item_soft;
            n_results += 1;
        }
        if n_results == 0 {
            return Self::default();
        }
        Self { hard: hard / f64::from(n_results), soft: soft / f64::from(n_results) }
    }

    /// The means of a list of results.
    pub fn of_results(results: &[RolloutResult]) -> Self {
        Self::of(results.iter().map(|result| (result.hard, result.soft)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_an_empty_reply_that_did_nothing() {
        let turns = |turns: &[(Role, &str)]| RolloutResult {
            trajectory: Trajectory::of_messages(
                turns.iter().map(|(role, text)| TrajectoryMessage::new(*role, *text)),
            ),
            ..RolloutResult::new(ItemId::new("a"), 0.0, 0.0)
        };
        let silent = turns(&[(Role::System, "be brief"), (Role::User, "well?"), (Role::Assistant, " \n")]);
        assert!(silent.is_silent());
        assert!(silent.clone().without_trajectory().is_silent());
        for spoken in [
            turns(&[]),
            turns(&[(Role::User, "well?")]),
            turns(&[(Role::Assistant, ""), (Role::User, "well?"), (Role::Assistant, "yes")]),
            turns(&[(Role::Assistant, ""), (Role::Tool, "done"), (Role::Assistant, "")]),
            RolloutResult { soft: 0.5, ..silent.clone() },
            RolloutResult { hard: 1.0, ..silent.clone() },
            RolloutResult { predicted_answer: "yes".to_owned(), ..silent },
        ] {
            assert!(!spoken.is_silent(), "{spoken:?}");
            assert!(!spoken.clone().without_trajectory().is_silent(), "{spoken:?}");
        }
    }

    #[test]
    fn a_conversation_is_read_as_a_trajectory() {
        let written = serde_json::json!({
            "id": "q1", "hard": 1, "soft": 0.5, "n_turns": 2, "target_system_prompt": "Play.",
            "conversation": [{"role": "user", "content": "door 0"}, {"role": "assistant", "content": "go on"}],
            "usage": {"input": 1, "output": 2}, "extras": {"finish_reason": "length", "judge": {"points": 1}},
        });
        let result: RolloutResult = serde_json::from_value(written).unwrap();
        let said: Vec<&str> =
            result.trajectory.conversation().map(|message| message.content.as_str()).collect();
        assert_eq!(said, ["door 0", "go on"]);
        assert!(result.is_cut());
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<RolloutResult>(&text).unwrap(), result);
        let bare: RolloutResult =
            serde_json::from_value(serde_json::json!({"id": "q1", "hard": 0, "soft": 0})).unwrap();
        assert_eq!(bare, RolloutResult::new(ItemId::new("q1"), 0.0, 0.0));
    }
}
