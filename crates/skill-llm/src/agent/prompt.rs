//! What a program finds: the prompt on its standard input, and files in a fresh working directory.

use super::arguments::takes_schema;
use super::config::{AgentConfig, SkillAs};
use crate::agent_work::AgentProject;
use crate::call::CallCtx;
use crate::chat::{ChatRequest, ContentPart, ImageSource, Message};
use crate::error::{LlmError, wrong};
use base64::Engine as _;
use skill_agents::measure::{is_delivered, project_of, settings_of_projects, write_file};
use skill_core::package::front_matter::{FrontMatter, FrontMatterFault, with_fields};
use skill_core::package::{AgentText, MAIN_FILE, SkillPackage};
use skill_core::{Role, SkillDoc};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SCHEMA_FILE: &str = "reply.schema.json";
/// Where programs that are not known may look for skills.
pub(super) const SKILLS_OF_OTHERS: &str = ".agents/skills";
/// The name of the package of a skill that has none of its own: one that says that it is a substitute.
const SUBSTITUTE_NAME: &str = "substitute-for-unnamed-skill";
/// The description of the package of a skill that has none of its own.
const SUBSTITUTE_DESCRIPTION: &str =
    "Instructions for the tasks in this directory. Read them before any task.";
/// Why a call cannot have the skill as a package.
const NO_SKILL_IN_PROMPT: &str = "`skill_as = \"package\"` takes the skill out of the prompt and writes it as a package, and this prompt does \
                                  not contain the skill as it is; use `skill_as = \"prompt\"`, or put the whole skill into \
                                  the prompt unchanged";
/// What a program finds: its prompt, and what lies in its working directory.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) directory: PathBuf,
    pub(super) prompt: String,
    /// The file with the schema of the reply, for programs that take one.
    pub(super) schema_file: Option<&'static str>,
    /// The name under which the skill was delivered as a package.
    pub(super) skill: Option<String>,
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
    let shown = call.get::<AgentText>().map(AgentText::as_str).filter(|_| config.skill_as.is_package());
    let document = shown.filter(|document| !document.trim().is_empty());
    let package = if config.skill_as.is_package() { package(call)? } else { None };
    let name = package.as_ref().map(|package| package.folder.as_str());
    let instead = match (config.skill_as, name) {
        (SkillAs::PackageWithHint, Some(name)) => hint(name),
        (SkillAs::Prompt | SkillAs::Package | SkillAs::PackageWithHint, _) => String::new(),
    };
    let project = call.get::<AgentProject>();
    if let Some(path) = project.map(settings_of_agents).transpose()?.flatten() {
        return Err(wrong(format!(
            "the project has {path:?}, which configures an agent and could start programs; leave it out"
        )));
    }
    for (path, file) in project.iter().flat_map(|project| &project.files) {
        write_file(&directory.join(path), &file.bytes, file.is_executable).map_err(failed)?;
    }
    let writing =
        Writing { directory: &directory, document, instead: &instead, n_images: 0, had_document: false };
    let (mut prompt, had_document) = writing.prompt(request).map_err(failed)?;
    if let Some(package) = &package {
        // The prompt of a task with files of its own has no place for a skill.
        match (document, project) {
            (Some(_), None) if !had_document => return Err(wrong(NO_SKILL_IN_PROMPT)),
            (_, Some(_)) if !had_document && !instead.is_empty() => prompt = format!("{instead}\n\n{prompt}"),
            (Some(_) | None, _) => {}
        }
        let skills = agent.map_or(SKILLS_OF_OTHERS, |agent| agent.project_skills.as_str());
        write_skill(&directory.join(skills), package).map_err(failed)?;
    }
    let schema = request.response_schema.as_ref();
    let schema = schema.filter(|schema| schema.strict && takes_schema(agent));
    if let Some(schema) = schema {
        std::fs::write(directory.join(SCHEMA_FILE), schema.schema.to_string()).map_err(failed)?;
    }
    let skill = package.map(|package| package.folder);
    Ok(Written { prompt, schema_file: schema.map(|_| SCHEMA_FILE), directory, skill })
}

/// The first file of a project that configures an agent, which could have it start programs outside of its sandbox.
///
/// # Errors
///
/// A table of agents that cannot be read.
pub fn settings_of_agents(project: &AgentProject) -> Result<Option<&str>, LlmError> {
    let settings = settings_of_projects().map_err(|error| wrong(error.to_string()))?;
    let configures = |path: &&str| {
        let mut parts = Path::new(path).ancestors();
        parts.any(|part| settings.iter().any(|named| part.ends_with(named)))
    };
    Ok(project.files.keys().map(String::as_str).find(configures))
}

/// The sentence in place of the skill, for [`SkillAs::PackageWithHint`].
fn hint(name: &str) -> String {
    format!(
        "Your instructions for this kind of task are the skill `{name}`: read its SKILL.md before you begin, and \
         follow it."
    )
}

/// A skill as the folder that an agent looks for.
struct Delivered {
    folder: String,
    package: SkillPackage,
}

/// The skill of a call as the package that it is; one without a name or a description gets those of a substitute.
///
/// # Errors
///
/// Front matter that cannot be read: a program would find the skill under another name than its own.
fn package(call: &CallCtx) -> Result<Option<Delivered>, LlmError> {
    // Callers that know only what is shown have no more to deliver.
    let shown = || call.get::<AgentText>().map(|text| SkillDoc::new(text.as_str()));
    let skill = call.get::<SkillDoc>().cloned().or_else(shown).filter(|skill| !skill.is_blank());
    let Some(skill) = skill else { return Ok(None) };
    let mut package = SkillPackage::of(&skill);
    let front = FrontMatter::read(&package.main).map_err(|fault| {
        let FrontMatterFault { line, message, advice, .. } = fault;
        wrong(format!("the skill cannot be a package: {MAIN_FILE}, line {line}: {message}; {advice}"))
    })?;
    let named = front.as_ref().and_then(|front| front.name.clone()).filter(|name| is_folder_name(name));
    let description = front.and_then(|front| front.description).filter(|text| !text.trim().is_empty());
    let folder = named.clone().unwrap_or_else(|| SUBSTITUTE_NAME.to_owned());
    if named.is_none() || description.is_none() {
        let name = named.is_none().then_some(folder.as_str());
        let description = description.is_none().then_some(SUBSTITUTE_DESCRIPTION);
        package.main = with_fields(&package.main, name, description);
    }
    Ok(Some(Delivered { folder, package }))
}

/// Whether a name can be that of a folder below that of skills.
fn is_folder_name(name: &str) -> bool {
    const MAX_BYTES: usize = 128;
    !name.is_empty() && name.len() <= MAX_BYTES && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

fn write_skill(skills: &Path, skill: &Delivered) -> std::io::Result<()> {
    let folder = skills.join(&skill.folder);
    for (path, bytes, is_executable) in skill.package.files().filter(|(path, ..)| is_delivered(path)) {
        write_file(&folder.join(path), bytes, is_executable)?;
    }
    Ok(())
}

/// A prompt that is being written.
struct Writing<'a> {
    directory: &'a Path,
    /// The skill, which is taken out of the prompt.
    document: Option<&'a str>,
    /// What is in its place.
    instead: &'a str,
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
