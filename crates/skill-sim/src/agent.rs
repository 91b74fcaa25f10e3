//! Agents that need no network: a model whose replies are the moves of a scripted player.

use crate::{PROVIDER, reply_to};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::random::Dice;
use skill_core::{Role, Usage};
use skill_envs::agent::{ACTION_FIELD, ACTION_TOOL, OMITTED, Sight, parse_action};
use skill_llm::{
    CallCtx, CallScope, ChatModel, ChatReply, ChatRequest, LlmError, Message, ModelId, ToolCall,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// What is above the possible actions in the built-in prompt.
const ACTIONS_HEADING: &str = "\nPossible actions:\n";

/// A turn that the agent still remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTurn {
    /// What it saw.
    pub observation: String,
    /// What it did then; `None` if it wrote no action, or if that was left out of the prompt.
    pub action: Option<String>,
}

/// What a player knows when it moves: what is in the prompt; or, for an agent with a memory, what the world has shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// The skill: the system message without what the world says of itself.
    pub skill: String,
    /// The turns so far, as far as the prompt holds them.
    pub past: Vec<PastTurn>,
    /// What is seen now.
    pub observation: String,
    /// The actions that are possible, where the prompt tells them.
    pub admissible: Option<Vec<String>>,
    /// The actions that solve the task, for an agent with a memory, where the data say so.
    pub solution: Vec<String>,
}

impl Situation {
    /// What was seen first.
    pub fn opening(&self) -> &str {
        self.past.first().map_or(&self.observation, |turn| &turn.observation)
    }

    /// Reads the messages that the agent loop sends; `instructions` are the world's own words in the first one.
    fn read(request: &ChatRequest, instructions: &[&str]) -> Self {
        let system = request.text_of(Role::System);
        let skill = instructions.iter().fold(system, |text, words| text.replace(words.trim(), ""));
        let mut situation = Self {
            skill,
            past: Vec::new(),
            observation: String::new(),
            admissible: None,
            solution: Vec::new(),
        };
        for message in &request.messages {
            match message.role {
                Role::System => {}
                Role::Assistant => {
                    let observation = std::mem::take(&mut situation.observation);
                    situation.past.push(PastTurn { observation, action: action_of(message) });
                }
                Role::User | Role::Tool => situation.see(&message.text()),
            }
        }
        situation
    }

    /// Puts what the world shows in the place of what its prompt says of it.
    fn look(&mut self, sight: &Sight) {
        // The first prompt tells the task too, where the observation does not.
        if !self.past.is_empty() || sight.task.is_empty() {
            sight.observation.trim().clone_into(&mut self.observation);
        }
        self.solution.clone_from(&sight.solution);
        if sight.actions.is_some() {
            self.admissible.clone_from(&sight.actions);
        }
    }

    fn see(&mut self, text: &str) {
        let (text, actions) = match text.rsplit_once(ACTIONS_HEADING) {
            Some((text, actions)) => (text, Some(actions)),
            None => (text, None),
        };
        self.admissible = actions.map(|actions| {
            actions.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
        });
        let omitted = format!("\n\n{OMITTED}\n\n");
        let seen = match text.split_once(&omitted) {
            Some((opening, seen)) => {
                self.past.push(PastTurn { observation: opening.trim().to_owned(), action: None });
                seen
            }
            None => text,
        };
        self.observation = seen.trim().to_owned();
    }
}

fn action_of(message: &Message) -> Option<String> {
    let reply = ChatReply::text(message.text(), Usage::default()).with_tool_calls(message.tool_calls.clone());
    parse_action(&reply, None).ok()
}

/// What a player does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Why, in a sentence.
    pub thought: String,
    /// The action.
    pub action: String,
}

/// Somebody who plays in one kind of world, as well as the skill makes them.
pub trait Player: Send + Sync {
    /// The name in records, such as `simulated-shopper`.
    fn name(&self) -> &'static str;

    /// What the world says of itself, in the system message; it is not a part of the skill.
    fn instructions(&self) -> Vec<&'static str>;

    /// The next move. The dice are those of the episode: the same for all its turns and all skills.
    fn decide(&self, situation: &Situation, dice: Dice) -> Move;
}

/// A [`ChatModel`] whose replies are the moves of a [`Player`].
///
/// It reads the prompts of the agent loop as a real model does, and answers in their form: an action between its
/// tags after a thought, or a call of the tool `act` where the request has one. The same seed and prompt give the
/// same bytes on every machine.
/// It remembers what the prompt holds, so `history_turns` should be as large as an episode is long; or it has a memory of
/// its own, see [`SimulatedAgent::with_memory`].
#[derive(Debug, Clone)]
pub struct SimulatedAgent<P> {
    id: ModelId,
    player: P,
    seed: u64,
    memory: Option<Memory>,
    thinks: bool,
}

/// What agents have seen and done, by episode.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<usize, Walk>>>);

/// One episode so far. The scope is held weakly, so that no other one gets its address.
#[derive(Debug)]
struct Walk {
    scope: Weak<CallScope>,
    past: Vec<PastTurn>,
}

impl Memory {
    /// Puts the turns of the episode in the place of those that its prompt holds.
    fn recall(&self, scope: &Arc<CallScope>, situation: &mut Situation) {
        let mut walks = self.0.lock();
        // A prompt without a past is the first one, also where an episode is begun again.
        if situation.past.is_empty() {
            walks.retain(|_, walk| walk.scope.strong_count() > 0);
            walks.remove(&address(scope));
        }
        if let Some(walk) = walks.get(&address(scope)) {
            situation.past.clone_from(&walk.past);
        }
    }

    fn keep(&self, scope: &Arc<CallScope>, observation: String, action: &str) {
        let mut walks = self.0.lock();
        let begun = || Walk { scope: Arc::downgrade(scope), past: Vec::new() };
        let walk = walks.entry(address(scope)).or_insert_with(begun);
        walk.past.push(PastTurn { observation, action: Some(action.to_owned()) });
    }
}

fn address(scope: &Arc<CallScope>) -> usize {
    Arc::as_ptr(scope).addr()
}

impl<P: Player> SimulatedAgent<P> {
    /// An agent that moves as this player does; the seed decides on its slips and on what it does of its own accord.
    pub fn new(player: P, seed: u64) -> Self {
        Self { id: ModelId::new(PROVIDER, player.name()), player, seed, memory: None, thinks: true }
    }

    /// The same agent, which writes its actions without a thought before them if `thinks` is false.
    #[must_use]
    pub fn with_thoughts(self, thinks: bool) -> Self {
        Self { thinks, ..self }
    }

    /// The same agent with a memory of each whole episode, also of turns that are no longer in its prompt, which reads
    /// the world ([`Sight`]) where it plays in one: neither the prompt's form nor its limits decide on what it knows.
    /// Calls of one [`CallScope`] are an episode.
    #[must_use]
    pub fn with_memory(self) -> Self {
        Self { memory: Some(Memory::default()), ..self }
    }

    fn reply(&self, request: &ChatRequest, call: &CallCtx) -> ChatReply {
        let (scope, sight) = (&call.scope, call.get::<Sight>());
        let mut situation = Situation::read(request, &self.player.instructions());
        if let Some(memory) = &self.memory {
            memory.recall(scope, &mut situation);
            if let Some(sight) = sight {
                situation.look(sight);
            }
        }
        let dice = Dice::new(self.seed, &[situation.opening()]);
        let Move { thought, action } = self.player.decide(&situation, dice);
        if let Some(memory) = &self.memory {
            memory.keep(scope, situation.observation, &action);
        }
        if !request.tools.iter().any(|tool| tool.name == ACTION_TOOL) {
            let thought = if self.thinks { format!("<think>{thought}</think>\n") } else { String::new() };
            return reply_to(request, format!("{thought}<action>{action}</action>"));
        }
        let arguments = json!({ ACTION_FIELD: action }).to_string();
        let usage = reply_to(request, format!("{thought}{arguments}")).usage;
        let id = format!("call-{}", request.messages.len());
        let call = ToolCall { id, name: ACTION_TOOL.to_owned(), arguments };
        ChatReply::text(thought, usage).with_tool_calls(vec![call])
    }
}

#[async_trait]
impl<P: Player> ChatModel for SimulatedAgent<P> {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        match self.memory {
            Some(_) => json!({ "seed": self.seed, "memory": true }),
            None => json!({ "seed": self.seed }),
        }
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if call.cancel.is_cancelled() {
            return Err(LlmError::Cancelled);
        }
        request.sampling.refuse_logprobs(&self.id)?;
        Ok(self.reply(request, call))
    }
}
