//! Any reply of an agent as an action.

use serde_json::json;
use skill_envs::agent::{ACTION_FIELD, ACTION_TOOL, MAX_ACTION_CHARACTERS, NoAction, parse_action};
use skill_llm::{ChatReply, FinishReason, ToolCall, Usage};

/// Actions that the world tells, with the case of their letters.
const ADMISSIBLE: [&str; 4] = ["look", "go to Desk 1", "click[Buy Now]", "search[<your query>]"];

/// What opens or closes a thought.
const THOUGHTS: [&str; 4] = ["<think>", "<thinking>", "</think>", "</thinking>"];

/// Reads a text as a reply and as the arguments of a tool call: an action is one line of what was said, in the
/// spelling of the world, said again it is the same, and nothing within a thought is one.
///
/// Of the first byte, one bit says whether the world tells its actions, and one whether the reply was cut.
pub fn agent_actions(data: &[u8]) {
    let [first, rest @ ..] = data else { return };
    let text = String::from_utf8_lossy(rest);
    let admissible = ADMISSIBLE.map(str::to_owned);
    let admissible = (first & 1 == 1).then_some(admissible.as_slice());
    let finish = if first & 2 == 2 { FinishReason::Length } else { FinishReason::Stop };
    let said = |text: &str| {
        let reply = ChatReply::new(text, Usage::default(), finish.clone());
        parse_action(&reply, admissible)
    };

    let found = said(&text);
    if let Ok(action) = &found {
        check_action(action, &text, admissible);
        // What holds a tag is not said again in the same words.
        if !action.contains('<') {
            assert_eq!(said(&format!("<think>so</think><action>{action}</action>")), found);
        }
    }
    assert!(found != Err(NoAction::Cut) || finish == FinishReason::Length, "nothing was cut");
    let has_thoughts = {
        let lower = text.to_ascii_lowercase();
        THOUGHTS.iter().any(|tag| lower.contains(tag))
    };
    if !has_thoughts {
        let thought = said(&format!("<think>{text}"));
        assert!(matches!(thought, Err(NoAction::Missing | NoAction::Cut)), "{thought:?} within a thought");
        // Between quotation marks a tag is spoken of, and ends nothing.
        let after = said(&format!("<think>{text}\n</think>\n{text}"));
        assert_eq!(after, found, "a thought makes a difference");
    }

    let called = |arguments: &str| {
        let id = "call".to_owned();
        let call = ToolCall { id, name: ACTION_TOOL.to_owned(), arguments: arguments.to_owned() };
        let reply = ChatReply::text("<action>look</action>", Usage::default()).with_tool_calls(vec![call]);
        parse_action(&reply, admissible)
    };
    // Whatever is in the arguments, the text beside a call is not the action.
    if let Ok(action) = called(&text) {
        check_shape(&action, admissible);
    }
    let exact = called(&json!({ ACTION_FIELD: text }).to_string());
    match exact {
        Ok(action) => check_action(&action, &text, admissible),
        Err(fault) => assert_eq!(fault, NoAction::Unusable, "{text:?}"),
    }
}

/// An action is a part of what was said, but for white space and the case of letters.
fn check_action(action: &str, text: &str, admissible: Option<&[String]>) {
    check_shape(action, admissible);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    assert!(said.contains(&action.to_ascii_lowercase()), "{action:?} was not said: {text:?}");
}

fn check_shape(action: &str, admissible: Option<&[String]>) {
    assert!(!action.is_empty() && action.chars().count() <= MAX_ACTION_CHARACTERS, "{action:?}");
    assert_eq!(action, action.split_whitespace().collect::<Vec<_>>().join(" "));
    for known in admissible.unwrap_or_default() {
        assert!(known == action || !known.eq_ignore_ascii_case(action), "{action:?} is spelt {known:?}");
    }
}
