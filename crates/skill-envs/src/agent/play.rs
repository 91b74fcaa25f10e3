//! One episode, from the reset to its end.

use super::action::{NoAction, parse_action_with_tags};
use super::repetition::Rounds;
use super::settings::{ActionFormat, AgentSettings};
use super::transcript::{Shown, Transcript, TurnOutcome, tool};
use super::{ROLLOUT_PROMPT_NAME, Sight};
use crate::env::RolloutCtx;
use crate::episode::{Episode, Observation};
use crate::error::EnvError;
use crate::item::Item;
use crate::source::SkillSource;
use serde::Serialize;
use skill_core::{Ending, RolloutResult, Usage};
use skill_llm::{
    ChatModel, ChatReply, ChatRequest, ErrorClass, FinishReason, LlmError, Message, PromptError,
    PromptTemplate, Sampling,
};

/// What the template sees.
#[derive(Serialize)]
struct PromptVariables<'a> {
    skill: &'a str,
    instructions: &'a str,
    format: &'a str,
    think: bool,
    first: bool,
    task: &'a str,
    observation: &'a str,
    admissible: Option<&'a [String]>,
    remark: &'a str,
}

/// Texts that are in no template by themselves.
const SAMPLES: [(&str, &str); 3] = [
    ("skill", "sample-skill-6d1f"),
    ("observation", "sample-observation-6d1f"),
    ("action", "sample-action-6d1f"),
];

/// Reads a template and renders it once for each kind of turn, so that a wrong one is found before the run.
pub(super) fn prompt_template(
    source: &str,
    instructions: &str,
    settings: &AgentSettings,
) -> Result<PromptTemplate, EnvError> {
    let template = PromptTemplate::parse(ROLLOUT_PROMPT_NAME, source)?;
    let [(_, skill), (_, observation), (_, action)] = SAMPLES;
    let actions = [action.to_owned()];
    let full = PromptVariables {
        skill,
        instructions,
        format: settings.action_format.as_str(),
        think: settings.think,
        first: true,
        task: "task",
        observation,
        admissible: settings.show_admissible.then_some(&actions),
        remark: "",
    };
    let bare =
        PromptVariables { skill: "", first: false, task: "", admissible: None, remark: "remark", ..full };
    render(&template, &bare)?;
    let (system, user) = render(&template, &full)?;
    let text = format!("{system}\n{user}");
    for (variable, sample) in SAMPLES {
        if !text.contains(sample) && (variable != "action" || settings.show_admissible) {
            let message = match variable {
                "action" => "never shows `{{ admissible }}`, which the settings ask for".to_owned(),
                _ => format!("never shows `{{{{ {variable} }}}}`, without which nothing can be learned"),
            };
            return Err(PromptError { prompt: ROLLOUT_PROMPT_NAME.to_owned(), message }.into());
        }
    }
    Ok(template)
}

/// The system and the user message.
fn render(template: &PromptTemplate, variables: &PromptVariables<'_>) -> Result<(String, String), EnvError> {
    let messages = template.render(variables)?;
    let text = |place: usize| messages.get(place).map(Message::text).unwrap_or_default();
    Ok((text(0), text(1)))
}

/// An agent that plays.
pub(super) struct Agent<'a> {
    pub(super) settings: &'a AgentSettings,
    pub(super) prompt: &'a PromptTemplate,
    pub(super) instructions: &'a str,
    /// See [`crate::World::action_tags`].
    pub(super) tags: &'static [&'static str],
    pub(super) source: &'a dyn SkillSource,
    pub(super) target: &'a dyn ChatModel,
    pub(super) ctx: &'a RolloutCtx,
}

/// What adds up over an episode.
#[derive(Default)]
struct Tally {
    n_turns: u32,
    usage: Usage,
    reward: f64,
    invalid: u32,
    invalid_in_a_row: u32,
    last_action: String,
    finish: Option<FinishReason>,
}

impl Agent<'_> {
    pub(super) async fn play(
        &self,
        item: &Item,
        episode: &mut dyn Episode,
    ) -> Result<RolloutResult, EnvError> {
        let settings = self.settings;
        let mut seen = episode.reset().await?;
        let typed = match episode.task_type().filter(|_| item.task_type.is_empty()) {
            Some(task_type) => Item { task_type: task_type.to_owned(), ..item.clone() },
            None => item.clone(),
        };
        let item = &typed;
        let task = episode.task().unwrap_or_default().to_owned();
        // Many worlds say it in their first observation, and once is enough.
        let told = if seen.text.contains(task.trim()) { "" } else { task.trim() };
        let goal = if task.trim().is_empty() { seen.text.trim() } else { task.trim() };
        let (skill, ctx) = self.ctx.show(self.source, item, goal).await?;
        let skill = skill.agent_view();
        let (system, first) = self.shown(&skill, true, told, &seen, "")?;
        let mut transcript = Transcript::new(system);
        transcript.show(first);
        let mut rounds = Rounds::new(settings.max_repetitions);
        let mut tally = Tally { reward: seen.reward, ..Tally::default() };
        let ending = loop {
            if seen.done || seen.won {
                break if seen.won { Ending::Won } else { Ending::Lost };
            }
            let sight = Sight {
                task: told.to_owned(),
                observation: seen.text.clone(),
                actions: seen.admissible.clone(),
                solution: episode.solution(),
            };
            let reply = match self.ask(&ctx, sight, &mut transcript, &mut tally).await {
                // A first prompt that is too long is a fault of the settings; a later one is how this game went.
                Err(EnvError::Model(error)) if tally.n_turns > 0 && is_too_long(&error) => {
                    break Ending::Context;
                }
                reply => reply?,
            };
            let found = parse_action_with_tags(&reply, seen.admissible.as_deref(), self.tags);
            let remark = match &found {
                Ok(action) => {
                    seen = episode.step(action).await?;
                    tally.reward += seen.reward;
                    tally.last_action.clone_from(action);
                    String::new()
                }
                Err(missing) => {
                    seen = Observation { reward: 0.0, understood: false, ..seen };
                    self.remark(*missing)
                }
            };
            let outcome = TurnOutcome {
                action: found.as_deref().ok(),
                observation: &clipped(&seen.text, settings.max_observation_characters),
                reward: seen.reward,
                understood: seen.understood,
            };
            transcript.end_turn(&reply, &outcome);
            if let Some(ending) = tally.limit(settings, &seen) {
                break ending;
            }
            // Rounds of replies without an action are what the limit of invalid actions is for.
            if let Ok(action) = &found
                && rounds.add(action, &seen.text)
            {
                break if seen.won { Ending::Won } else { Ending::Repetition };
            }
            let (_, next) = self.shown(&skill, false, told, &seen, &remark)?;
            transcript.show(next);
        };
        Ok(self.result(item, task, &seen, ending, transcript, tally))
    }

    /// One call of the agent.
    async fn ask(
        &self,
        ctx: &RolloutCtx,
        sight: Sight,
        transcript: &mut Transcript,
        tally: &mut Tally,
    ) -> Result<ChatReply, EnvError> {
        let settings = self.settings;
        let history = settings.history_turns.map(|turns| usize::try_from(turns).unwrap_or(usize::MAX));
        let tools = match settings.action_format {
            ActionFormat::Tags => Vec::new(),
            ActionFormat::Tool => vec![tool()],
        };
        let request = ChatRequest {
            sampling: Sampling { max_tokens: settings.max_tokens, ..Sampling::default() },
            tools,
            ..ChatRequest::new(transcript.request(history, settings.max_prompt_tokens))
        };
        let call = ctx.call.child(format_args!("turn {}", tally.n_turns + 1)).with(sight);
        let reply = self.target.chat(&request, &call).await?;
        tally.n_turns += 1;
        tally.usage += reply.usage;
        tally.finish = Some(reply.finish.clone());
        Ok(reply)
    }

    /// The system message, and what a turn shows.
    fn shown(
        &self,
        skill: &str,
        first: bool,
        task: &str,
        seen: &Observation,
        remark: &str,
    ) -> Result<(String, Shown), EnvError> {
        let observation = clipped(&seen.text, self.settings.max_observation_characters);
        let variables = PromptVariables {
            skill: skill.trim(),
            instructions: self.instructions.trim(),
            format: self.settings.action_format.as_str(),
            think: self.settings.think,
            first,
            task,
            observation: &observation,
            admissible: seen.admissible.as_deref().filter(|_| self.settings.show_admissible),
            remark,
        };
        let (system, now) = render(self.prompt, &variables)?;
        let (_, later) = render(self.prompt, &PromptVariables { admissible: None, ..variables })?;
        Ok((system, Shown { now, later }))
    }

    /// What the agent is told about a reply without an action.
    fn remark(&self, missing: NoAction) -> String {
        let wrong = match missing {
            NoAction::Missing => "Your last reply had no action",
            NoAction::Cut => "Your last reply was cut off at its limit, before its action",
            NoAction::Unusable => "The action in your last reply is not valid",
        };
        let right = match self.settings.action_format {
            ActionFormat::Tags => "Write the action between <action> and </action>",
            ActionFormat::Tool => "Call the tool `act`",
        };
        format!("{wrong}, so nothing was done. {right}.")
    }

    fn result(
        &self,
        item: &Item,
        task: String,
        seen: &Observation,
        ending: Ending,
        transcript: Transcript,
        tally: Tally,
    ) -> RolloutResult {
        let won = ending == Ending::Won;
        let penalty = self.settings.invalid_action_penalty * f64::from(tally.invalid);
        let mut result = RolloutResult::new(
            item.id.clone(),
            f64::from(u8::from(won)),
            tally.reward.clamp(0.0, 1.0) - penalty,
        );
        result.n_turns = tally.n_turns;
        result.task_type.clone_from(&item.task_type);
        result.fail_reason = self.fail_reason(ending, &tally);
        result.task_description = task;
        result.predicted_answer = tally.last_action;
        result.usage = tally.usage;
        let (system, user) = transcript.opening();
        result.target_system_prompt = system.to_owned();
        result.target_user_prompt = user.to_owned();
        let last = clipped(&seen.text, self.settings.max_observation_characters);
        result.trajectory = transcript.into_trajectory((tally.n_turns > 0).then_some(&last));
        result.trajectory.ending = Some(ending);
        result.trajectory.invalid_actions = tally.invalid;
        result
    }

    fn fail_reason(&self, ending: Ending, tally: &Tally) -> String {
        let mut reason = match ending {
            Ending::Won => return String::new(),
            Ending::Lost => "the episode ended without its goal".to_owned(),
            Ending::Turns => format!("the goal was not reached in {} turns", tally.n_turns),
            Ending::Tokens => {
                format!("the goal was not reached before the limit of tokens, in {} turns", tally.n_turns)
            }
            Ending::Context => {
                format!(
                    "the goal was not reached before the conversation outgrew the model's context, in {} turns",
                    tally.n_turns
                )
            }
            Ending::InvalidActions => {
                format!(
                    "the last {} replies held no action that the world understands",
                    tally.invalid_in_a_row
                )
            }
            Ending::Repetition => {
                let action = &tally.last_action;
                format!("the agent did the same again and again, with the same outcome; last: {action:?}")
            }
            // This loop knows no other.
            _ => "the episode ended".to_owned(),
        };
        if tally.invalid > 0 && ending != Ending::InvalidActions {
            reason.push_str(&format!("; {} of its actions meant nothing to the world", tally.invalid));
        }
        if tally.finish == Some(FinishReason::Length) {
            reason.push_str("; the last reply was cut at its token limit");
        }
        reason
    }
}

fn is_too_long(error: &LlmError) -> bool {
    error.class() == ErrorClass::ContextTooLong
}

impl Tally {
    /// Counts a turn that is over, and says whether a limit is reached.
    fn limit(&mut self, settings: &AgentSettings, seen: &Observation) -> Option<Ending> {
        if seen.understood {
            self.invalid_in_a_row = 0;
        } else {
            self.invalid += 1;
            self.invalid_in_a_row += 1;
        }
        if seen.done || seen.won {
            return Some(if seen.won { Ending::Won } else { Ending::Lost });
        }
        let tokens = self.usage.input.saturating_add(self.usage.output);
        if self.n_turns >= settings.max_turns {
            Some(Ending::Turns)
        } else if settings.max_invalid_actions.is_some_and(|limit| self.invalid_in_a_row >= limit) {
            Some(Ending::InvalidActions)
        } else if settings.max_episode_tokens.is_some_and(|limit| tokens >= limit) {
            Some(Ending::Tokens)
        } else {
            None
        }
    }
}

/// A text of at most so many characters, and what is missing of it.
fn clipped(text: &str, max_characters: u32) -> String {
    let max_characters = usize::try_from(max_characters).unwrap_or(usize::MAX);
    match text.char_indices().nth(max_characters) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (shown, rest) = text.split_at_checked(end).unwrap_or((text, ""));
            format!("{shown}\n({} more characters are not shown.)", rest.chars().count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ROLLOUT_PROMPT;
    use super::*;

    #[test]
    fn the_built_in_prompt_serves_every_kind_of_settings() {
        for action_format in ActionFormat::ALL {
            for (think, show_admissible) in [(true, true), (true, false), (false, true)] {
                let settings =
                    AgentSettings { action_format, think, show_admissible, ..AgentSettings::default() };
                prompt_template(ROLLOUT_PROMPT, "Play.", &settings).unwrap();
            }
        }
    }

    #[test]
    fn long_observations_are_cut_between_characters() {
        assert_eq!(clipped("äöü", 3), "äöü");
        insta::assert_snapshot!(clipped("äöü", 2), @r"
        äö
        (1 more characters are not shown.)
        ");
    }
}
