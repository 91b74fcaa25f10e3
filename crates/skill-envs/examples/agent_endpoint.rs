//! The endpoint for agents with a model that needs no network: for trying an agent or an SDK against it.
//!
//! It prints a line of JSON that says how to reach it, serves until its standard input ends, and then prints what it
//! saw, as another line. `failing_token` opens a second session whose model fails.
//!
//! ```console
//! cargo run --package skill-envs --features endpoint --example agent_endpoint
//! ```
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use serde_json::{Value, json};
use skill_core::Role;
use skill_envs::RolloutCtx;
use skill_envs::endpoint::{Endpoint, EndpointSession, SessionRecord, SessionSettings, SkillInPrompt};
use skill_llm::scripted::estimated_usage;
use skill_llm::{
    ChatReply, ChatRequest, ContentPart, FinishReason, LlmError, Message, ScriptedModel, ToolCall, ToolChoice,
};
use std::error::Error;
use std::future::Future;
use std::io::Read as _;
use tokio::sync::watch;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::start().await?;
    let skill = SkillInPrompt::Appended("Always be kind.".to_owned());
    let settings = SessionSettings { skill, models: vec!["echo".to_owned()], ..SessionSettings::default() };
    let mut session = endpoint.session(settings);
    let mut failing = endpoint.session(SessionSettings::default());
    println!(
        "{}",
        json!({
            "openai": session.base_url_openai(),
            "anthropic": session.base_url_anthropic(),
            "token": session.token(),
            "failing_token": failing.token(),
        })
    );
    let (end, ended) = watch::channel(false);
    std::thread::spawn(move || {
        // An input that breaks is one that ended.
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        end.send_replace(true);
    });
    let broken = ScriptedModel::from_fn("broken", |_, _| {
        Err(LlmError::ServerError {
            provider: "example".to_owned(),
            status: 503,
            message: "it is down".to_owned(),
            retry_after: None,
        })
    });
    let echo = ScriptedModel::from_fn("echo", |request, _| Ok(reply(request)));
    tokio::join!(
        serve(&mut session, &echo, until(ended.clone())),
        serve(&mut failing, &broken, until(ended.clone()))
    );
    let failure = failing.finish().err().map(|error| error.to_string());
    println!("{}", report(&session.finish()?, failure));
    Ok(())
}

async fn until(mut ended: watch::Receiver<bool>) {
    // A sender that is gone has said all that it will say.
    drop(ended.wait_for(|ended| *ended).await);
}

async fn serve(session: &mut EndpointSession, model: &ScriptedModel, end: impl Future<Output = ()>) {
    let ctx = RolloutCtx::default();
    tokio::select! {
        () = end => {}
        never = session.serve(model, &ctx) => match never {},
    }
}

fn report(trajectory: &SessionRecord, failure: Option<String>) -> Value {
    let requests: Vec<Value> = trajectory.requests.iter().map(|call| json!(call.request())).collect();
    json!({
        "n_calls": trajectory.n_calls,
        "usage": trajectory.usage,
        "conversations": trajectory.conversations().collect::<Vec<_>>(),
        "requests": requests,
        "failure": failure,
    })
}

/// Calls a tool if there is one, tells what a tool said and how many images there are, and repeats all else.
fn reply(request: &ChatRequest) -> ChatReply {
    let last = request.messages.last().map(Message::text).unwrap_or_default();
    let answers_tool = request.messages.last().is_some_and(|message| message.role == Role::Tool);
    let parts = request.messages.iter().flat_map(|message| &message.content);
    let n_images = parts.filter(|part| matches!(part, ContentPart::Image(_))).count();
    let may_call = !request.tools.is_empty() && request.tool_choice != Some(ToolChoice::Never);
    let (text, tool_calls) = if may_call && !answers_tool {
        let calls = request.tools.iter().enumerate().map(|(idx, tool)| ToolCall {
            id: format!("call_{idx}"),
            name: tool.name.clone(),
            arguments: r#"{"city": "Zürich", "days": 2}"#.to_owned(),
        });
        ("Let me see.".to_owned(), calls.collect())
    } else if answers_tool {
        (format!("It says: {last}"), Vec::new())
    } else if request.response_schema.is_some() {
        (r#"{"colour": "blue"}"#.to_owned(), Vec::new())
    } else if n_images > 0 {
        (format!("I see {n_images}."), Vec::new())
    } else {
        (format!("re: {last}"), Vec::new())
    };
    let finish = match (tool_calls.is_empty(), request.sampling.max_tokens) {
        (false, _) => FinishReason::ToolCalls,
        (true, Some(1)) => FinishReason::Length,
        (true, _) => FinishReason::Stop,
    };
    let usage = estimated_usage(request, &text);
    ChatReply::new(text, usage, finish).with_tool_calls(tool_calls)
}
