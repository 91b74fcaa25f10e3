//! A skill as agents see it: its folder, its files and what its front matter says to them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use skill_core::SkillPackage;
use skill_core::member;
use skill_core::package::front_matter::{FrontMatter, with_field, with_fields};

use crate::table::{Agent, NamedBy};

/// The file by which Codex is told about a skill.
const CODEX_FILE: &str = "agents/openai.yaml";

/// A skill with the name of its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name of its folder.
    pub folder: String,
    /// Its files.
    pub package: SkillPackage,
    /// `name` of its front matter; empty where there is none.
    pub name: String,
    /// `description` of its front matter.
    pub description: String,
    /// `when_to_use` of its front matter, which Claude Code shows behind the description.
    pub when_to_use: Option<String>,
    /// It asks to be called by people alone.
    pub is_for_people: bool,
    /// It asks Codex to be called by people alone.
    pub is_for_people_in_codex: bool,
}

/// The texts that are trained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Texts {
    /// `description` of the front matter.
    pub description: String,
    /// `when_to_use` of the front matter, where the skill has one and the agent shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
}

/// A folder that no agent would list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillFault {
    /// The front matter is missing, is not YAML, or has no description.
    #[error("{folder}/SKILL.md, line {line}: {what}")]
    FrontMatter {
        /// The folder.
        folder: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to do.
        advice: String,
    },
    /// The file by which Codex is told about a skill cannot be read.
    #[error("{folder}/{CODEX_FILE}: {what}")]
    CodexFile {
        /// The folder.
        folder: String,
        /// What is wrong.
        what: String,
    },
}

impl SkillFault {
    /// What to do about it.
    pub fn hint(&self) -> &str {
        match self {
            Self::FrontMatter { advice, .. } => advice,
            Self::CodexFile { .. } => "fix the file, or remove it: it decides whether Codex lists the skill",
        }
    }
}

impl Skill {
    /// A skill of a package.
    ///
    /// # Errors
    ///
    /// A `SKILL.md` without front matter, or without a description in it, and a file for Codex that is not YAML.
    pub fn new(folder: impl Into<String>, package: SkillPackage) -> Result<Self, SkillFault> {
        let folder = folder.into();
        let fault = |line: usize, what: String, advice: &str| SkillFault::FrontMatter {
            folder: folder.clone(),
            line,
            what,
            advice: advice.to_owned(),
        };
        let front = FrontMatter::read(&package.main)
            .map_err(|found| fault(found.line, found.message, &found.advice))?
            .ok_or_else(|| {
                let advice =
                    "begin SKILL.md with a line `---`, `name: ..`, `description: ..` and a line `---`";
                fault(1, "no front matter, and no agent lists such a skill".to_owned(), advice)
            })?;
        let description = front.description.filter(|text| !text.trim().is_empty());
        let description = description.ok_or_else(|| {
            let advice = "add `description: ..`, which says what the skill does and when to use it";
            fault(1, "the front matter has no description".to_owned(), advice)
        })?;
        let fields = package.front_matter().map(fields).transpose();
        let fields = fields.map_err(|what| fault(1, what, "fix the YAML"))?.unwrap_or_default();
        let is_true = |value: Option<&Value>| value.and_then(Value::as_bool) == Some(true);
        let is_implicit = match package.contents.get(CODEX_FILE) {
            Some(file) => is_implicit_in_codex(file.bytes())
                .map_err(|what| SkillFault::CodexFile { folder: folder.clone(), what })?,
            None => true,
        };
        Ok(Self {
            name: front.name.unwrap_or_default(),
            when_to_use: fields.get("when_to_use").and_then(Value::as_str).map(str::to_owned),
            is_for_people: is_true(fields.get("disable-model-invocation")),
            is_for_people_in_codex: !is_implicit,
            description,
            folder,
            package,
        })
    }

    /// The name by which an agent lists it.
    pub fn listed_name(&self, agent: &Agent) -> &str {
        match agent.named_by {
            NamedBy::Folder => &self.folder,
            NamedBy::FrontMatter if self.name.is_empty() => &self.folder,
            NamedBy::FrontMatter => &self.name,
        }
    }

    /// The name of its folder in a plugin.
    pub(crate) fn name_in_plugin(&self) -> &str {
        if self.name.is_empty() { &self.folder } else { &self.name }
    }

    /// The text that an agent lists, before any limit.
    pub fn listed_text(&self, agent: &Agent) -> String {
        match &self.when_to_use {
            Some(when) if agent.reads_when_to_use => format!("{} - {when}", self.description),
            Some(_) | None => self.description.clone(),
        }
    }

    /// The texts by which an agent's model decides.
    pub fn texts(&self, agent: &Agent) -> Texts {
        Texts {
            description: self.description.clone(),
            when_to_use: self.when_to_use.clone().filter(|_| agent.reads_when_to_use),
        }
    }

    /// The same skill with other texts; without `when_to_use` that of the skill stays.
    ///
    /// # Errors
    ///
    /// A text that cannot be a description.
    pub fn with_texts(&self, texts: &Texts) -> Result<Self, SkillFault> {
        let mut package = self.package.clone();
        package.main = with_fields(&package.main, None, Some(&texts.description));
        if let Some(when) = &texts.when_to_use {
            package.main = with_field(&package.main, "when_to_use", when);
        }
        Self::new(self.folder.clone(), package)
    }

    /// True if a query can mean this skill by this name: that of its folder, or that of its front matter.
    pub fn is_called(&self, name: &str) -> bool {
        self.folder == name || self.name == name
    }

    /// A hash of all its files and of its folder's name.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.folder.as_bytes());
        for (path, bytes, is_executable) in self.package.files() {
            hash.update((path.len() as u64).to_le_bytes());
            hash.update(path.as_bytes());
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
            hash.update([u8::from(is_executable)]);
        }
        hex(&hash.finalize())
    }
}

/// The SHA-256 of a text, in hexadecimal digits.
pub fn text_hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// True if the skill's `agents/openai.yaml` allows Codex to load it implicitly; the error is the file's fault.
fn is_implicit_in_codex(file: &[u8]) -> Result<bool, String> {
    let text = std::str::from_utf8(file).map_err(|_| "is not UTF-8".to_owned())?;
    let fields = fields_of_yaml(text)?;
    let policy = member::object(&fields, "policy").map_err(|error| error.to_string())?;
    let is_implicit = policy.map(|policy| member::flag(policy, "allow_implicit_invocation")).transpose();
    Ok(is_implicit.map_err(|error| format!("`policy`: {error}"))?.flatten().unwrap_or(true))
}

/// The fields of front matter between its lines.
fn fields(front_matter: &str) -> Result<Map<String, Value>, String> {
    let lines: Vec<&str> = front_matter.lines().filter(|line| line.trim_end() != "---").collect();
    fields_of_yaml(&lines.join("\n"))
}

fn fields_of_yaml(yaml: &str) -> Result<Map<String, Value>, String> {
    match serde_saphyr::from_str(yaml).map_err(|error| format!("is not YAML: {error}"))? {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        other => Err(format!("is {}; expected an object", member::kind_of(&other))),
    }
}
