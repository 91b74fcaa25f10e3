//! What a program finds: the prompt on its standard input, and files in a fresh working directory.

use super::arguments::takes_schema;
use super::config::{AgentConfig, SkillAs};
use crate::call::CallCtx;
use crate::chat::{ChatRequest, ContentPart, ImageSource, Message};
use crate::error::{LlmError, wrong};
use base64::Engine as _;
use skill_agents::measure::project_of;
use skill_core::Role;
use skill_core::package::AgentText;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SCHEMA_FILE: &str = "reply.schema.json";
/// Where programs that are not known may look for skills.
const SKILLS_OF_OTHERS: &str = ".agents/skills";
/// The name of the package that holds the skill.
const SKILL_NAME: &str = "task-skill";
/// The sentence in place of the skill, for [`SkillAs::PackageWithHint`].
const HINT: &str = "Your instructions for this kind of task are the skill `task-skill`: read its SKILL.md before \
                       you begin, and follow it.";
/// Why a call cannot have the skill as a package.
const NO_SKILL_IN_PROMPT: &str = "`skill_as = \"package\"` takes the skill out of the prompt and writes it as a package, and this prompt does \
                                  not contain the skill as it is; use `skill_as = \"prompt\"`, or put the whole skill into \
                                  the prompt unchanged";
/// What a skill without front matter begins with, so that a program finds it.
const FRONT_MATTER: &str = "---\nname: task-skill\ndescription: Instructions for the tasks in this directory. Read them \
                            before any task.\n---\n\n";

/// What a program finds: its prompt, and what lies in its working directory.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) directory: PathBuf,
    pub(super) prompt: String,
    /// The file with the schema of the reply, for programs that take one.
    pub(super) schema_file: Option<&'static str>,
}

/// Writes the files of a call into its directory.
pub(super) fn write(
    request: &ChatRequest,
    call: &CallCtx,
    config: &AgentConfig,
    at: &Path,
) -> Result<Written, LlmError> {
    if !request.tools.is_empty() {
        return Err(wrong("the request has tools, and a program that plays a model has its own"));
    }
    let failed = |error: std::io::Error| wrong(format!("cannot make a working directory: {error}"));
    let agent = config.kind.row()?;
    let directory = agent.map_or_else(|| at.to_owned(), |_| project_of(at));
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let document = call
        .get::<AgentText>()
        .map(AgentText::as_str)
        .filter(|document| config.skill_as.is_package() && !document.trim().is_empty());
    let instead = match config.skill_as {
        SkillAs::Prompt | SkillAs::Package => "",
        SkillAs::PackageWithHint => HINT,
    };
    let writing = Writing { directory: &directory, document, instead, n_images: 0, had_document: false };
    let (prompt, had_document) = writing.prompt(request).map_err(failed)?;
    if let Some(document) = document {
        if !had_document {
            return Err(wrong(NO_SKILL_IN_PROMPT));
        }
        let skills = agent.map_or(SKILLS_OF_OTHERS, |agent| agent.project_skills.as_str());
        write_skill(&directory.join(skills), document).map_err(failed)?;
    }
    let schema = request.response_schema.as_ref();
    let schema = schema.filter(|schema| schema.strict && takes_schema(agent));
    if let Some(schema) = schema {
        std::fs::write(directory.join(SCHEMA_FILE), schema.schema.to_string()).map_err(failed)?;
    }
    Ok(Written { prompt, schema_file: schema.map(|_| SCHEMA_FILE), directory })
}

fn write_skill(skills: &Path, document: &str) -> std::io::Result<()> {
    let package = skills.join(SKILL_NAME);
    std::fs::create_dir_all(&package)?;
    let has_front_matter = document.starts_with("---\n") || document.starts_with("---\r\n");
    let front_matter = if has_front_matter { "" } else { FRONT_MATTER };
    std::fs::write(package.join("SKILL.md"), format!("{front_matter}{}\n", document.trim_end()))
}

/// A prompt that is being written.
struct Writing<'a> {
    directory: &'a Path,
    /// The skill, which is taken out of the prompt.
    document: Option<&'a str>,
    /// What is in its place.
    instead: &'static str,
    n_images: usize,
    had_document: bool,
}

impl Writing<'_> {
    /// The prompt, and whether the skill was in it.
    fn prompt(mut self, request: &ChatRequest) -> std::io::Result<(String, bool)> {
        let (system, turns): (Vec<&Message>, Vec<&Message>) =
            request.messages.iter().partition(|message| message.role == Role::System);
        let mut prompt = String::new();
        for message in system {
            let text = self.text(message)?;
            if !text.trim().is_empty() {
                let _ = write!(prompt, "{}\n\n", text.trim());
            }
        }
        match turns.as_slice() {
            [only] if only.role == Role::User => prompt.push_str(&self.text(only)?),
            turns => {
                prompt.push_str("The conversation so far:\n\n");
                for message in turns {
                    let text = self.text(message)?;
                    let role = message.role.as_str();
                    let _ = write!(prompt, "<{role}>\n{}\n</{role}>\n\n", text.trim());
                }
                prompt.push_str("Write the assistant's next message, and nothing else.\n");
            }
        }
        Ok((prompt, self.had_document))
    }

    /// The text of a message; its images become files.
    fn text(&mut self, message: &Message) -> std::io::Result<String> {
        let mut texts = Vec::new();
        for part in &message.content {
            texts.push(match part {
                ContentPart::Text(text) => self.without_document(text),
                ContentPart::Image(ImageSource::Url(url)) => format!("[image: {url}]"),
                ContentPart::Image(ImageSource::Base64 { media_type, data }) => {
                    format!("[image: the file {}]", self.image(media_type, data)?)
                }
            });
        }
        Ok(texts.join("\n"))
    }

    fn without_document(&mut self, text: &str) -> String {
        match self.document.map(str::trim) {
            Some(document) if text.contains(document) => {
                self.had_document = true;
                text.replacen(document, self.instead, 1)
            }
            Some(_) | None => text.to_owned(),
        }
    }

    fn image(&mut self, media_type: &str, data: &str) -> std::io::Result<String> {
        self.n_images += 1;
        let extension: String = media_type
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(8)
            .collect();
        let name = format!("image-{}.{extension}", self.n_images);
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(data)
            .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))?;
        std::fs::write(self.directory.join(&name), bytes)?;
        Ok(name)
    }
}
