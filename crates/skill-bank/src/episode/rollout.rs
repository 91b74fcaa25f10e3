//! Episodes of rollouts that this program made.

use super::{Episode, EpisodeStep};
use skill_core::{Role, RolloutResult, Trajectory, TrajectoryMessage, thought};

impl Episode {
    /// The episode of a rollout; `id` must differ from those of other rollouts of the same task.
    ///
    /// Worlds have a step for each turn, with the action that was taken; elsewhere every reply is a step, and what was
    /// said to the agent since its last reply is what it saw.
    pub fn of_rollout(id: impl Into<String>, environment: &str, result: &RolloutResult) -> Self {
        let trajectory = &result.trajectory;
        let is_world = trajectory.turns.iter().any(|turn| turn.action.is_some());
        let (steps, last_observation) =
            if is_world { world_steps(trajectory) } else { conversation_steps(trajectory) };
        // Some worlds tell the goal in their first observation alone.
        let first = steps.first().map_or("", |step| step.observation.as_str());
        let told = [result.task_description.as_str(), &result.question, first];
        let goal = told.into_iter().map(str::trim).find(|text| !text.is_empty());
        let goal = goal.unwrap_or_default().to_owned();
        // The answer of a world is its last action.
        let answer = if is_world { "" } else { result.predicted_answer.as_str() };
        Self {
            task_type: result.task_type.clone(),
            fail_reason: result.fail_reason.clone(),
            answer: answer.to_owned(),
            reference: result.reference_text.clone(),
            environment: environment.to_owned(),
            skills_shown: trajectory.shown_parts.clone(),
            steps,
            last_observation,
            ..Self::new(id, result.id.clone(), goal, result.is_success(), result.soft)
        }
    }
}

fn world_steps(trajectory: &Trajectory) -> (Vec<EpisodeStep>, String) {
    // As the conversation has it: without the actions that were possible then.
    let first = trajectory.conversation().find(|message| message.role == Role::User);
    let first = first.map(|message| message.content.trim().to_owned());
    let mut seen = first.unwrap_or_default();
    let mut steps = Vec::with_capacity(trajectory.turns.len());
    for turn in &trajectory.turns {
        let after = turn.observation.clone().unwrap_or_default();
        let reply = trajectory.reply(turn);
        steps.push(EpisodeStep {
            observation: std::mem::replace(&mut seen, after),
            action: turn.action.clone().unwrap_or_default(),
            reasoning: reply.map(|reply| thought(reply, turn.action.as_deref())).unwrap_or_default(),
            reward: turn.reward,
        });
    }
    (steps, seen)
}

/// The thought of a reply: its reasoning, or its text without the action at its end.
fn thought(reply: &TrajectoryMessage, action: Option<&str>) -> String {
    if let Some(reasoning) = &reply.reasoning {
        return reasoning.trim().to_owned();
    }
    let parts = thought::parts(&reply.content);
    if let Some(thought) = parts.thought.filter(|thought| !thought.is_empty()) {
        return thought;
    }
    let said = parts.answer.trim();
    let Some(action) = action else { return said.to_owned() };
    let before = said.rsplit_once(action).map_or(said, |(before, _)| before).trim_end();
    let before = before.strip_suffix("<action>").or_else(|| before.strip_suffix("Action:")).unwrap_or(before);
    before.trim().to_owned()
}

fn conversation_steps(trajectory: &Trajectory) -> (Vec<EpisodeStep>, String) {
    let mut seen: Vec<String> = Vec::new();
    let mut steps = Vec::new();
    for message in trajectory.conversation() {
        match message.role {
            Role::System => {}
            Role::User | Role::Tool => seen.push(message.as_text().trim().to_owned()),
            Role::Assistant => {
                let text = message.as_text();
                let parts = thought::parts(&text);
                steps.push(EpisodeStep {
                    observation: std::mem::take(&mut seen).join("\n"),
                    action: parts.answer.trim().to_owned(),
                    reasoning: message.reasoning.clone().or(parts.thought).unwrap_or_default(),
                    reward: None,
                });
            }
        }
    }
    (steps, seen.join("\n"))
}
