//! Episodes of worlds with several turns as trajectories tell them, and the lessons that can be drawn from them.

use crate::habits::Habit;
use serde_json::Value;

/// What can be learned in a world.
pub(crate) trait Lessons: Habit {
    /// Rules that sound sensible and do harm.
    const HARMFUL: &'static [&'static str];

    /// The name of the failure that comes of not having the habit.
    fn name(self) -> &'static str;

    /// What went wrong, in a sentence.
    fn description(self) -> &'static str;

    /// Rules that ask for the habit; one is enough.
    fn phrasings(self) -> &'static [&'static str];

    /// Whether an episode was played in this world.
    fn is_in(played: &Played) -> bool;

    /// The habits that would have repaired a failed episode.
    fn diagnose(played: &Played) -> Vec<Self>;

    /// The habits that an episode shows at work.
    fn practised(played: &Played) -> Vec<Self>;
}

/// One action with what was seen then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) action: String,
    pub(crate) seen: String,
}

impl Step {
    /// Whether the action begins so.
    pub(crate) fn did(&self, verb: &str) -> bool {
        self.action.starts_with(verb)
    }

    /// Whether something was taken whose name is among these words.
    pub(crate) fn is_taking(&self, words: &std::collections::BTreeSet<&str>) -> bool {
        let class = self.action.strip_prefix("take ").and_then(|rest| rest.split(' ').next());
        class.is_some_and(|class| words.contains(class))
    }
}

/// An episode as a trajectory tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Played {
    /// What was seen first.
    pub(crate) opening: String,
    pub(crate) steps: Vec<Step>,
}

impl Played {
    /// Reads the conversation of a trajectory.
    pub(crate) fn read(conversation: &str) -> Self {
        let mut played = Self::default();
        let mut turns: Vec<(&str, String)> = Vec::new();
        for line in conversation.lines() {
            let roles = ["[system] ", "[user] ", "[assistant] ", "[tool] "];
            match roles.into_iter().find_map(|role| Some((role, line.strip_prefix(role)?))) {
                Some((role, text)) => turns.push((role, text.to_owned())),
                None => {
                    if let Some((_, text)) = turns.last_mut() {
                        text.push('\n');
                        text.push_str(line);
                    }
                }
            }
        }
        for (role, text) in turns {
            match (role, played.steps.last_mut()) {
                ("[assistant] ", _) => {
                    played.steps.push(Step { action: action_of(&text), seen: String::new() });
                }
                ("[system] ", _) => {}
                (_, Some(step)) => step.seen = text,
                (_, None) => played.opening.push_str(&text),
            }
        }
        played
    }
}

/// The action of a reply: between its tags, or of a call of a tool.
fn action_of(reply: &str) -> String {
    if let Some((_, rest)) = reply.rsplit_once("<action>") {
        return rest.split("</action>").next().unwrap_or_default().trim().to_owned();
    }
    let called = reply.lines().filter_map(|line| line.split_once("] ")).find_map(|(_, arguments)| {
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        Some(arguments.get("action")?.as_str()?.to_owned())
    });
    called.unwrap_or_default()
}
