//! Conversations as transformers renders them, and what TRL learns of them.

use crate::recorded::{self, Counted};
use serde_json::{Map, Value};
use skill_train::chat::{ChatError, ChatTemplate, Conversation, RenderOptions};

/// A rendering of a case: the name of its template, the template, the conversation, and what is recorded.
pub(super) struct Rendering<'a> {
    /// The name of the case in failures.
    pub(super) what: String,
    /// The name of the template, which is that of its tokenizer too.
    #[cfg(feature = "tokenizer")]
    pub(super) name: &'a str,
    pub(super) template: &'a ChatTemplate,
    pub(super) conversation: Conversation,
    pub(super) options: RenderOptions,
    pub(super) recorded: &'a Value,
}

/// Runs `check` on every rendering of every case, and counts those that it compared.
pub(super) fn each(what: &str, mut check: impl FnMut(&Rendering<'_>) -> bool) {
    let recorded = recorded::json("chat/chat.json");
    let mut counted = Counted::new(what);
    let source = |path: &Value| recorded::text(&format!("chat/{}", path.as_str().unwrap()));
    let templates: Vec<(&String, ChatTemplate)> = recorded["templates"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, path)| (name, ChatTemplate::parse(&source(path), Map::new()).unwrap()))
        .collect();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for case in recorded["cases"].as_array().unwrap() {
        for (name, template) in &templates {
            let generation_prompt = case["add_generation_prompt"].as_bool().unwrap();
            let compared = check(&Rendering {
                what: format!("{name}, {}", case["name"].as_str().unwrap()),
                #[cfg(feature = "tokenizer")]
                name,
                template,
                conversation: Conversation { messages: list(&case["messages"]), tools: list(&case["tools"]) },
                options: RenderOptions { generation_prompt, ..RenderOptions::default() },
                recorded: &case["rendered"][name.as_str()],
            });
            if compared {
                counted.add();
            }
        }
    }
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_of_chat_texts() {
    each("chat, texts", |case| {
        let ours = case.template.render(&case.conversation, &case.options);
        match case.recorded.get("text") {
            Some(text) => assert_eq!(ours.as_deref(), Ok(text.as_str().unwrap()), "{}", case.what),
            None => assert_eq!(ours, Err(ChatError::NoMessages), "{}", case.what),
        }
        true
    });
}
