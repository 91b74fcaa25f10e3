//! Prompt templates: one Markdown file with a system and a user part, rendered by minijinja.
//!
//! A template has two blocks:
//!
//! ```text
//! {% block system %}You are an analyst.{% endblock %}
//! {% block user %}Look at this: {{ text }}{% endblock %}
//! ```
//!
//! A variable that the caller does not give is an error, never an empty string, unless the filter `as_text` says
//! otherwise. Nothing is escaped: the output is plain text.

mod built_in;
mod outside;

use crate::chat::Message;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

const SYSTEM_BLOCK: &str = "system";
const USER_BLOCK: &str = "user";
/// How the user block begins in every prompt that is built in.
const USER_TAG: &str = "{% block user %}";

/// A template that could not be read or rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("prompt `{prompt}`: {message}")]
pub struct PromptError {
    /// The prompt's name, or the file that replaces it.
    pub prompt: String,
    /// What is wrong, with the line.
    pub message: String,
}

/// A prompt that is ready to be rendered; clones share what was compiled.
#[derive(Clone)]
pub struct PromptTemplate {
    name: String,
    source: Arc<str>,
    compiled: Arc<Environment<'static>>,
}

impl PromptTemplate {
    /// Reads a template; `name` is in errors.
    ///
    /// # Errors
    ///
    /// A template that does not parse, or that lacks one of the two blocks.
    pub fn parse(name: impl Into<String>, source: impl Into<String>) -> Result<Self, PromptError> {
        let (name, source) = (name.into(), source.into());
        let compiled = Arc::new(compile(&name, &source)?);
        let missing =
            [SYSTEM_BLOCK, USER_BLOCK].into_iter().find(|block| !source.contains(&format!("block {block}")));
        if let Some(block) = missing {
            return Err(PromptError { prompt: name, message: format!("has no `{{% block {block} %}}`") });
        }
        Ok(Self { name, source: source.into(), compiled })
    }

    /// A person's text for a prompt that is built in: a template as it is, and a text without tags (`{% … %}`) to the
    /// letter in the place of the system message, beside the user message of the built-in one, as in skillrl 1.0.
    pub fn in_place_of(embedded: &str, text: String) -> String {
        if text.contains("{%") {
            return text;
        }
        let user = embedded.find(USER_TAG).and_then(|at| embedded.get(at..)).unwrap_or_default();
        format!("{{% block {SYSTEM_BLOCK} %}}{{% raw %}}{text}{{% endraw %}}{{% endblock %}}\n{user}")
    }

    /// Warns where a person's prompt holds text in none of its blocks: it is never rendered, so nobody reads it.
    ///
    /// Comments, macros and what is set for later use may stand anywhere.
    pub fn warn_of_unused_text(file: &Path, source: &str) {
        if let Some(line) = outside::line_outside_blocks(source) {
            let file = file.display();
            tracing::warn!(
                "{file}, line {line}: text outside `{{% block system %}}` and `{{% block user %}}` is not used"
            );
        }
    }

    /// The name given to [`PromptTemplate::parse`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of the template.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The variables that the template asks for and does not set itself, in alphabetical order.
    pub fn variables(&self) -> Vec<String> {
        let template = self.compiled.get_template(&self.name).ok();
        let names = template.map(|template| template.undeclared_variables(false)).unwrap_or_default();
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        names
    }

    /// Renders both blocks into a system and a user message, each without white space around it.
    ///
    /// # Errors
    ///
    /// A variable that `context` does not have, or a filter that fails.
    pub fn render(&self, context: impl Serialize) -> Result<Vec<Message>, PromptError> {
        let failed = |error| prompt_error(&self.name, &error);
        let template = self.compiled.get_template(&self.name).map_err(failed)?;
        let context = minijinja::Value::from(Serde(context));
        let mut rendered = template.render_captured(context).map_err(failed)?;
        let mut block = |name| rendered.with_state_mut(|state| state.render_block(name)).map_err(failed);
        let (system, user) = (block(SYSTEM_BLOCK)?, block(USER_BLOCK)?);
        Ok(vec![Message::system(system.trim()), Message::user(user.trim())])
    }
}

impl fmt::Debug for PromptTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptTemplate")
            .field("name", &self.name)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// An environment that holds this template alone.
fn compile(name: &str, source: &str) -> Result<Environment<'static>, PromptError> {
    let failed = |error| prompt_error(name, &error);
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(failed)?);
    environment.add_filter("as_text", as_text);
    environment.add_template_owned(name.to_owned(), source.to_owned()).map_err(failed)?;
    Ok(environment)
}

/// A value as text: empty if it is missing or null, and JSON unless it is a string.
fn as_text(value: &minijinja::Value) -> Result<String, minijinja::Error> {
    if value.is_undefined() || value.is_none() {
        return Ok(String::new());
    }
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    serde_json::to_string(value)
        .map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))
}

fn prompt_error(name: &str, error: &minijinja::Error) -> PromptError {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    PromptError { prompt: name.to_owned(), message: format!("{line}{}{detail}", error.kind()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str =
        "{% block system %}\nBe brief.\n{% endblock %}\n{% block user %}\nLook: {{ text }}\n{% endblock %}\n";

    #[test]
    fn renders_a_system_and_a_user_message() {
        let template = PromptTemplate::parse("look", TEMPLATE).unwrap();
        let text = "<b> & {{ x }}";
        let messages = template.render(serde_json::json!({ "text": text })).unwrap();
        assert_eq!(messages, vec![Message::system("Be brief."), Message::user(format!("Look: {text}"))]);
    }

    #[test]
    fn a_missing_variable_is_an_error_that_names_prompt_and_line() {
        let template = PromptTemplate::parse("look", TEMPLATE).unwrap();
        let error = template.render(serde_json::json!({})).unwrap_err();
        assert_eq!(error.prompt, "look");
        assert!(error.message.starts_with("line 5: undefined value"), "{error}");
    }

    #[test]
    fn as_text_takes_what_is_missing_and_what_is_no_text() {
        let source = "{% block system %}{{ gone | as_text }}-{{ item[\"a b\"] | as_text }}{% endblock %}{% block user %}\
                      {{ none | as_text }}{{ list | as_text }} {{ object | as_text }} {{ number | as_text }} {{ text | as_text }}{% endblock %}";
        let template = PromptTemplate::parse("look", source).unwrap();
        let fields = serde_json::json!({
            "none": null, "list": [{"content": "a<'b'>"}, null], "object": {"a": true}, "number": 1.5, "text": " é",
            "item": {},
        });
        let messages = template.render(fields).unwrap();
        let expect = r#"[{"content":"a<'b'>"},null] {"a":true} 1.5  é"#;
        assert_eq!(messages, vec![Message::system("-"), Message::user(expect)]);
    }

    #[test]
    fn variables_are_known_by_name() {
        let source = "{% block system %}{% set own = 1 %}{{ own }}{{ b }}{% endblock %}{% block user %}{% for x in list %}{{ x }}{% endfor %}{{ a.y }}{% endblock %}";
        let template = PromptTemplate::parse("names", source).unwrap();
        assert_eq!(template.variables(), ["a", "b", "list"]);
    }

    #[test]
    fn a_template_without_a_block_is_refused() {
        let error = PromptTemplate::parse("look", "{% block system %}x{% endblock %}").unwrap_err();
        assert!(error.to_string().contains("block user"), "{error}");
    }

    #[test]
    fn a_template_that_does_not_parse_is_refused() {
        let error = PromptTemplate::parse("look", "{% block system %}{{ %}{% endblock %}").unwrap_err();
        assert!(error.message.starts_with("line 1: "), "{error}");
    }
}
