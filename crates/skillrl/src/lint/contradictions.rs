//! Contradictions, as the optimizer's model sees them. They are warnings: a model's opinion fails nothing.

use crate::prompts::{CONTRADICTIONS_PROMPT, CONTRADICTIONS_PROMPT_NAME};
use serde_json::{Value, json};
use skill_core::SkillPackage;
use skill_core::json::read_object;
use skill_core::lint::{Finding, Severity};
use skill_core::package::MAIN_FILE;
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatRequest, LlmError, Message, PromptError, PromptTemplate,
    ResponseSchema, Sampling,
};
use std::fmt::Write as _;

/// The most pairs that a reply may name; a model that finds more has misunderstood.
const MAX_PAIRS: usize = 50;
/// The most characters of a reason.
const MAX_REASON_CHARS: usize = 300;
/// Bytes of a prompt for each token of its estimate.
const BYTES_PER_TOKEN: usize = 4;

/// What is asked, and what may be said of it before.
#[derive(Debug, Clone, PartialEq)]
pub struct Contradictions {
    request: ChatRequest,
    lines: Vec<(String, Vec<String>)>,
}

impl Contradictions {
    /// The request for a package; `prompt` replaces the built-in one.
    ///
    /// # Errors
    ///
    /// A prompt that cannot be rendered.
    pub fn new(package: &SkillPackage, prompt: Option<&str>, max_tokens: u32) -> Result<Self, PromptError> {
        let references = package.references.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        let lines: Vec<(String, Vec<String>)> = std::iter::once((MAIN_FILE, package.main.as_str()))
            .chain(references)
            .map(|(path, text)| (path.to_owned(), text.lines().map(str::to_owned).collect()))
            .collect();
        let mut files = String::new();
        for (path, lines) in &lines {
            let _ = write!(files, "{}## {path}\n\n", if files.is_empty() { "" } else { "\n" });
            for (line, number) in lines.iter().zip(1_usize..) {
                let _ = writeln!(files, "{number}: {}", line.replace("</skill", "<\\/skill"));
            }
        }
        let messages: Vec<Message> =
            PromptTemplate::parse(CONTRADICTIONS_PROMPT_NAME, prompt.unwrap_or(CONTRADICTIONS_PROMPT))?
                .render(json!({"files": files.trim_end()}))?;
        let request = ChatRequest {
            messages,
            sampling: Sampling { max_tokens: Some(max_tokens), ..Sampling::default() },
            response_schema: Some(ResponseSchema::new(CONTRADICTIONS_PROMPT_NAME, schema())),
            ..ChatRequest::default()
        };
        Ok(Self { request, lines })
    }

    /// About how many tokens the request has.
    pub fn estimated_tokens(&self) -> u64 {
        let n_bytes: usize = self.request.messages.iter().map(|message| message.text().len()).sum();
        u64::try_from(n_bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
    }

    /// The messages that are sent.
    pub fn messages(&self) -> &[Message] {
        &self.request.messages
    }

    /// Reads a reply; a text that holds no list of pairs is a note, and so is a pair that names no line of the skill.
    pub fn read(&self, reply: &str) -> Vec<Finding> {
        let pairs =
            read_object(reply, "contradictions").and_then(|found| match found.value.get("contradictions") {
                Some(Value::Array(pairs)) => Some(pairs.clone()),
                Some(_) | None => None,
            });
        let Some(pairs) = pairs else {
            return vec![note("the model's reply about contradictions cannot be read")];
        };
        let mut findings: Vec<Finding> =
            pairs.iter().take(MAX_PAIRS).filter_map(|pair| self.finding(pair)).collect();
        let n_lost = pairs.len() - findings.len();
        if n_lost > 0 {
            findings.push(note(&format!(
                "{n_lost} of the model's contradictions name no two lines of the skill"
            )));
        }
        findings
    }

    fn finding(&self, pair: &Value) -> Option<Finding> {
        let place = |which: &str| -> Option<(&str, usize, &str)> {
            let asked = pair.get(format!("{which}_file"))?.as_str()?.trim();
            let number = usize::try_from(pair.get(format!("{which}_line"))?.as_u64()?).ok()?;
            let (path, lines) = self.lines.iter().find(|(path, _)| path == asked)?;
            let text = lines.get(number.checked_sub(1)?)?.trim();
            (!text.is_empty()).then_some((path.as_str(), number, text))
        };
        let (first, second) = (place("first")?, place("second")?);
        if (first.0, first.1) == (second.0, second.1) {
            return None;
        }
        let why = pair.get("why").and_then(Value::as_str).unwrap_or_default();
        let why: String =
            why.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_REASON_CHARS).collect();
        Some(Finding {
            rule: "contradiction".to_owned(),
            severity: Severity::Warning,
            file: second.0.to_owned(),
            line: second.1,
            message: format!("may contradict {}:{}: {why}", first.0, first.1),
            advice: "keep one of the two, or say when each holds".to_owned(),
        })
    }
}

fn note(message: &str) -> Finding {
    Finding {
        rule: "contradiction".to_owned(),
        severity: Severity::Note,
        file: MAIN_FILE.to_owned(),
        line: 0,
        message: message.to_owned(),
        advice: "ask again, or ask another model".to_owned(),
    }
}

/// Asks a model.
///
/// # Errors
///
/// A call that failed.
pub async fn ask_for_contradictions(
    asked: &Contradictions,
    model: &dyn ChatModel,
) -> Result<Vec<Finding>, LlmError> {
    let call = CallCtx::new(CallPlace::new("lint").child("contradictions"));
    let reply = model.chat(&asked.request, &call).await?;
    Ok(asked.read(&reply.text))
}

fn schema() -> Value {
    let names = ["first_file", "first_line", "second_file", "second_line", "why"];
    let kind = |name: &str| json!({"type": if name.ends_with("_line") { "integer" } else { "string" }});
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), kind(name))).collect();
    json!({
        "type": "object",
        "properties": {"contradictions": {"type": "array", "items": {
            "type": "object", "properties": properties, "required": names, "additionalProperties": false,
        }}},
        "required": ["contradictions"],
        "additionalProperties": false,
    })
}
