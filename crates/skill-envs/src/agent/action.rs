//! The action in a reply.

use super::settings::ActionFormat;
use skill_core::{Usage, json};
use skill_llm::{ChatReply, FinishReason, ToolCall};
#[cfg(any(feature = "webshop", feature = "live"))]
use std::borrow::Cow;

/// The tool that an agent calls to act.
pub const ACTION_TOOL: &str = "act";
/// The field of its arguments.
pub const ACTION_FIELD: &str = "action";
/// The most characters of an action; a longer one is not an action.
pub const MAX_ACTION_CHARACTERS: usize = 1_000;

/// The most characters of a reply without tags that is taken for an action as a whole.
const MAX_BARE_CHARACTERS: usize = 200;

/// Quotation marks that models put around an action.
const MARKS: [char; 3] = ['"', '\'', '`'];

/// Why a reply holds no action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAction {
    /// It holds none.
    Missing,
    /// It was cut before its action.
    Cut,
    /// What is in the place of the action is empty or far too long.
    Unusable,
}

/// Finds the action in a reply: in a call of the tool `act`, else between the tags, else the whole of a short reply.
///
/// The first action counts: those after it were written without having seen what the first one does. Tags in thoughts
/// do not count. White space becomes single blanks, and quotation marks around the action are left out; where one
/// of the `admissible` actions differs in nothing but its letters' case, it is taken.
///
/// # Errors
///
/// There is no action, see [`NoAction`].
pub fn parse_action(reply: &ChatReply, admissible: Option<&[String]>) -> Result<String, NoAction> {
    parse_action_with_tags(reply, admissible, &[])
}

/// As [`parse_action`], for a world whose actions may also stand between tags of their own, or be calls of tools of their
/// own, see [`crate::World::action_tags`].
///
/// # Errors
///
/// As [`parse_action`].
pub fn parse_action_with_tags(
    reply: &ChatReply,
    admissible: Option<&[String]>,
    tags: &[&str],
) -> Result<String, NoAction> {
    let is_own = |call: &&ToolCall| call.name == ACTION_TOOL || tags.contains(&call.name.as_str());
    let found = match reply.tool_calls.iter().find(is_own) {
        Some(call) if call.name == ACTION_TOOL => tool_action(call).ok_or(NoAction::Missing)?,
        Some(call) => own_tool_action(call).ok_or(NoAction::Missing)?,
        None => text_action(reply, admissible, tags)?,
    };
    let action = plain(&found);
    if action.is_empty() || action.chars().nth(MAX_ACTION_CHARACTERS).is_some() {
        return Err(NoAction::Unusable);
    }
    let spelt = admissible.unwrap_or_default().iter().find(|known| known.eq_ignore_ascii_case(&action));
    Ok(spelt.cloned().unwrap_or(action))
}

/// A reply with this thought and this action, in which [`parse_action`] finds the action; an empty thought or action is
/// left out.
pub(super) fn reply_of(format: ActionFormat, thought: &str, action: &str) -> ChatReply {
    match format {
        ActionFormat::Tool => {
            let arguments = serde_json::json!({ ACTION_FIELD: action }).to_string();
            let call = ToolCall { id: "call-1".to_owned(), name: ACTION_TOOL.to_owned(), arguments };
            let calls = if action.is_empty() { Vec::new() } else { vec![call] };
            ChatReply::text(thought, Usage::default()).with_tool_calls(calls)
        }
        ActionFormat::Tags => {
            let thought = (!thought.is_empty()).then(|| format!("<think>{thought}</think>"));
            let action = (!action.is_empty()).then(|| format!("<action>{action}</action>"));
            let parts: Vec<String> = thought.into_iter().chain(action).collect();
            ChatReply::text(parts.join("\n"), Usage::default())
        }
    }
}

/// The words of the shop's actions.
#[cfg(any(feature = "webshop", feature = "live"))]
const SHOP_WORDS: [&str; 2] = ["search", "click"];

/// An action in the shop with its word in lower case and right in front of its bracket, as the shop knows it: other
/// readers of actions in it fold the case of the whole action, which the shop does with the argument.
#[cfg(any(feature = "webshop", feature = "live"))]
pub(crate) fn shop_action(action: &str) -> Cow<'_, str> {
    let is_known = |word: &str| SHOP_WORDS.iter().any(|known| known.eq_ignore_ascii_case(word));
    match action.split_once('[') {
        Some((word, argument)) if is_known(word.trim()) => {
            Cow::Owned(format!("{}[{argument}", word.trim().to_ascii_lowercase()))
        }
        Some(_) | None => Cow::Borrowed(action),
    }
}

fn tool_action(call: &ToolCall) -> Option<String> {
    let found = json::read_object(&call.arguments, ACTION_FIELD)?;
    Some(found.value.get(ACTION_FIELD)?.as_str()?.to_owned())
}

/// A call of a world's own tool: its only text is what the action is about.
fn own_tool_action(call: &ToolCall) -> Option<String> {
    let arguments: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&call.arguments).ok()?;
    let text = arguments.values().find_map(serde_json::Value::as_str)?;
    Some(format!("{}[{text}]", call.name))
}

fn text_action(reply: &ChatReply, admissible: Option<&[String]>, tags: &[&str]) -> Result<String, NoAction> {
    let is_cut = reply.finish == FinishReason::Length;
    let answer = reply.answer();
    let answer = answer.as_ref();
    if let Some(rest) = after(answer, "<action>") {
        let end = find(rest, "</action>");
        return match end {
            Some(end) => Ok(rest.get(..end).unwrap_or_default().to_owned()),
            // A model that stops at its closing tag does not write it.
            None if is_cut => Err(NoAction::Cut),
            None => Ok(rest.trim().lines().next().unwrap_or_default().to_owned()),
        };
    }
    let own = tags.iter().filter_map(|tag| Some((find(answer, &format!("<{tag}>"))?, *tag))).min();
    if let Some((start, tag)) = own {
        let rest = answer.get(start + tag.len() + 2..).unwrap_or_default();
        return match find(rest, &format!("</{tag}>")) {
            Some(end) => Ok(format!("{tag}[{}]", rest.get(..end).unwrap_or_default().trim())),
            None if is_cut => Err(NoAction::Cut),
            None => Ok(format!("{tag}[{}]", rest.trim().lines().next().unwrap_or_default())),
        };
    }
    if is_cut {
        return Err(NoAction::Cut);
    }
    let bare = answer.trim();
    let fits = !bare.is_empty()
        && bare.lines().count() == 1
        && bare.chars().nth(MAX_BARE_CHARACTERS).is_none()
        && !bare.contains(['<', '>']);
    let bare_action = plain(bare);
    let is_known =
        admissible.is_none_or(|known| known.iter().any(|known| known.eq_ignore_ascii_case(&bare_action)));
    if fits && is_known { Ok(bare_action) } else { Err(NoAction::Missing) }
}

fn after<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    text.get(find(text, tag)? + tag.len()..)
}

/// Where a tag is, whatever the case of its letters; tags are ASCII.
fn find(text: &str, tag: &str) -> Option<usize> {
    text.as_bytes().windows(tag.len()).position(|window| window.eq_ignore_ascii_case(tag.as_bytes()))
}

/// One line, without quotation marks around it.
fn plain(action: &str) -> String {
    let line = action.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut inner = line.as_str();
    // Marks within marks go too, so that an action that is said again in the same words is the same.
    while let Some(unquoted) = MARKS.iter().find_map(|mark| inner.strip_prefix(*mark)?.strip_suffix(*mark)) {
        inner = unquoted.trim();
    }
    inner.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGS: [&str; 2] = ["search", "answer"];

    #[track_caller]
    fn check(text: &str, expect: Result<&str, NoAction>) {
        let reply = ChatReply::text(text, Usage::default());
        assert_eq!(parse_action_with_tags(&reply, None, &TAGS), expect.map(str::to_owned), "{text}");
    }

    #[test]
    fn actions_stand_between_tags_of_their_world_or_are_calls_of_its_tools() {
        check("<search>who is it</search>", Ok("search[who is it]"));
        check("<think>why</think>\n<answer> Ada </answer>", Ok("answer[Ada]"));
        check("<search>one</search><answer>two</answer>", Ok("search[one]"));
        check("<action>search[x]</action><answer>y</answer>", Ok("search[x]"));
        check("<search>cut\nhere", Ok("search[cut]"));
        check(&format!("<search>{}</search>", "long ".repeat(2000)), Err(NoAction::Unusable));
        let call = |name: &str, arguments: &str| {
            let call =
                ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
            ChatReply::text("", Usage::default()).with_tool_calls(vec![call])
        };
        let found = |reply: &ChatReply| parse_action_with_tags(reply, None, &TAGS);
        assert_eq!(found(&call("search", r#"{"query": "who"}"#)), Ok("search[who]".to_owned()));
        assert_eq!(found(&call("act", r#"{"action": "answer[Ada]"}"#)), Ok("answer[Ada]".to_owned()));
        assert_eq!(found(&call("search", "{}")), Err(NoAction::Missing));
        // Tags of other worlds are no actions.
        let reply = ChatReply::text("<search>who</search>", Usage::default());
        assert_eq!(parse_action(&reply, None), Err(NoAction::Missing));
    }
}
