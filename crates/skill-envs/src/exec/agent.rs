//! The endpoint of one rollout: what its agent is told, and what it did there.

use super::config::SkillDelivery;
use super::protocol::EndpointAddress;
use crate::endpoint::{Endpoint, EndpointSession, SessionRecord, SessionSettings, SkillInPrompt};
use crate::reach;
use serde_json::{Map, Value, json};
use skill_core::{RolloutResult, SkillDoc};
use skill_llm::ChatModel;

/// The environment variables that say where the endpoint is, to a process of one rollout: those that clients read.
pub const ENDPOINT_VARIABLES: [&str; 5] =
    ["OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"];

/// The key of a result's extras that says that the agent asked more often than it may.
const LIMIT_REACHED_KEY: &str = "agent_call_limit_reached";

/// The key of a result's extras that lists what the agent asked and the model would not answer.
const REFUSED_KEY: &str = "agent_calls_refused";

/// What an agent is told of its endpoint.
pub(super) struct Address {
    openai_base_url: String,
    anthropic_base_url: String,
    token: String,
    model: String,
}

impl Address {
    pub(super) fn as_request(&self) -> EndpointAddress<'_> {
        EndpointAddress {
            openai_base_url: &self.openai_base_url,
            anthropic_base_url: &self.anthropic_base_url,
            token: &self.token,
            model: &self.model,
        }
    }

    /// The variables of [`ENDPOINT_VARIABLES`].
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let (openai, anthropic) = (&self.openai_base_url, &self.anthropic_base_url);
        let values = [openai, openai, &self.token, anthropic, &self.token];
        ENDPOINT_VARIABLES.into_iter().zip(values.map(String::clone)).collect()
    }
}

/// Opens the endpoint for one rollout.
pub(super) fn open(
    endpoint: &Endpoint,
    (delivery, held): (SkillDelivery, &str),
    skill: &SkillDoc,
    target: &dyn ChatModel,
) -> (EndpointSession, Address) {
    let model = target.id().model.clone();
    let skill = match delivery {
        SkillDelivery::SystemPrompt => SkillInPrompt::Appended(skill.agent_view().into()),
        SkillDelivery::Replace => {
            SkillInPrompt::Replacing { held: held.to_owned(), skill: skill.agent_view().into() }
        }
        SkillDelivery::Inline => SkillInPrompt::Expected(skill.agent_view().into()),
        // An agent may open its files, or some of them, when it needs them.
        SkillDelivery::File => SkillInPrompt::Absent,
    };
    let settings = SessionSettings { skill, models: vec![model.clone()], ..SessionSettings::default() };
    let session = endpoint.session(settings);
    let address = Address {
        openai_base_url: session.base_url_openai(),
        anthropic_base_url: session.base_url_anthropic(),
        token: session.token().to_owned(),
        model,
    };
    (session, address)
}

/// Fills what the program has not said of its agent with what the endpoint has seen of it.
pub(super) fn complete(
    result: &mut RolloutResult,
    session: SessionRecord,
    is_replacing: bool,
    (has_turns, has_usage): (bool, bool),
) {
    tell_reach(&mut result.extras, &session, is_replacing);
    if session.n_calls == 0 && session.refused.is_empty() {
        return;
    }
    if !session.refused.is_empty() {
        let refused = session.refused.iter();
        let refused = refused.map(|call| json!({"class": call.class.as_str(), "message": call.message}));
        result.extras.entry(REFUSED_KEY).or_insert_with(|| refused.collect());
    }
    if !session.requests.is_empty() {
        // What was really sent is known better here.
        result.target_system_prompt = session.system_prompt();
        result.target_user_prompt = session.user_prompt();
    }
    if session.limit_reached {
        result.extras.entry(LIMIT_REACHED_KEY).or_insert(Value::Bool(true));
    }
    if !has_usage {
        result.usage = session.usage;
    }
    let has_conversation = !result.trajectory.is_empty();
    if !has_turns && !has_conversation {
        result.n_turns = session.n_calls;
    }
    let mut seen = session.trajectory();
    if has_conversation {
        // The program tells what was said better than its calls do; those are kept for training.
        let told = std::mem::take(&mut result.trajectory.messages);
        let places = told.into_iter().map(|message| seen.intern(message)).collect();
        seen.set_conversation(places);
        seen.breaks.clear();
    }
    result.trajectory = seen;
}

/// Says where the skill may not have reached the agent.
fn tell_reach(extras: &mut Map<String, Value>, session: &SessionRecord, is_replacing: bool) {
    let told = session.reach;
    let mut set = |key: &str, value: Value| {
        extras.insert(key.to_owned(), value);
    };
    if told.n_requests == 0 {
        set(reach::NO_REQUEST_KEY, true.into());
    }
    if told.n_without_skill > 0 {
        set(reach::WITHOUT_SKILL_KEY, told.n_without_skill.into());
    }
    if is_replacing && told.n_requests > 0 && told.n_without_skill >= told.n_requests {
        set(reach::NOTHING_REPLACED_KEY, true.into());
    }
    if told.is_twice {
        set(reach::SKILL_TWICE_KEY, true.into());
    }
}
