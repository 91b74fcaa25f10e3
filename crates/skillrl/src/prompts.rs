//! All prompts, built in or replaced by a file in `prompts.dir`.

use crate::config::PromptsConfig;
use crate::error::Error;
use skill_bank::distill::{TeacherPrompt, TeacherPrompts};
use skill_envs::Env;
use skill_llm::{PromptTemplate, text_file};
use skill_pipeline::Protocol;
use skill_pipeline::prompts::{PromptLibrary, PromptName};
use skill_pipeline::prompts::{REASON_PROMPT, REASON_PROMPT_NAME};
use skill_pipeline::trainer::environment_prompts;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of the linter's prompt.
pub(crate) const CONTRADICTIONS_PROMPT_NAME: &str = "lint_contradictions";
/// The text of the linter's prompt; `prompts.dir` may replace it in a build without the linter too.
pub(crate) const CONTRADICTIONS_PROMPT: &str = include_str!("../prompts/lint_contradictions.md");

/// All prompts that are built in, by name: the optimizer's, then those of the environments and of the linter.
pub fn built_in_prompts() -> impl Iterator<Item = (&'static str, &'static str)> {
    skill_pipeline::prompts::embedded_sources().into_iter().chain(others())
}

/// The prompts that are not the trainer's, by name.
fn others() -> impl Iterator<Item = (&'static str, &'static str)> {
    let qa = (skill_envs::qa::ROLLOUT_PROMPT_NAME, skill_envs::qa::ROLLOUT_PROMPT);
    let world = (skill_envs::agent::ROLLOUT_PROMPT_NAME, skill_envs::agent::ROLLOUT_PROMPT);
    #[cfg(feature = "spreadsheets")]
    let workbooks = [(skill_envs::spreadsheet::ROLLOUT_PROMPT_NAME, skill_envs::spreadsheet::ROLLOUT_PROMPT)];
    #[cfg(not(feature = "spreadsheets"))]
    let workbooks: [(&str, &str); 0] = [];
    let linter = (CONTRADICTIONS_PROMPT_NAME, CONTRADICTIONS_PROMPT);
    let teacher = TeacherPrompt::ALL.into_iter().map(|prompt| (prompt.as_str(), prompt.embedded_source()));
    let reason = (REASON_PROMPT_NAME, REASON_PROMPT);
    let environments =
        std::iter::once(qa).chain(skill_envs::tasks::built_in_prompts()).chain([world]).chain(workbooks);
    #[cfg(feature = "evals")]
    let environments =
        environments.chain([(skill_envs::evals::GRADER_PROMPT_NAME, skill_envs::evals::GRADER_PROMPT)]);
    environments.chain([linter]).chain(teacher).chain([reason])
}

/// The text of a prompt that `prompts.dir` replaces and that is not the trainer's.
///
/// # Errors
///
/// A file that cannot be read.
pub(crate) fn replaced(prompts: &PromptsConfig, name: &str) -> Result<Option<String>, Error> {
    let Some(path) = replaced_path(prompts, name) else { return Ok(None) };
    let text = match text_file::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { what: "prompt", path, source }),
    };
    PromptTemplate::warn_of_unused_text(&path, &text);
    let built_in = built_in_prompts().find(|(built_in, _)| *built_in == name);
    let embedded = built_in.map(|(_, source)| source).unwrap_or_default();
    Ok(Some(PromptTemplate::in_place_of(embedded, text)))
}

/// Where `prompts.dir` would hold a prompt.
pub(crate) fn replaced_path(prompts: &PromptsConfig, name: &str) -> Option<PathBuf> {
    Some(prompts.dir.as_ref()?.to_path().join(format!("{name}.md")))
}

/// The prompts of the optimizer: built in, replaced by the environment, replaced by `prompts.dir`.
///
/// # Errors
///
/// A file in `prompts.dir` that is not a template or has the name of no prompt.
pub fn library(prompts: &PromptsConfig, env: &dyn Env) -> Result<PromptLibrary, Error> {
    let library = environment_prompts(env).map_err(Error::Prompt)?;
    match &prompts.dir {
        Some(dir) => {
            let others: Vec<&str> = others().map(|(name, _)| name).collect();
            library.with_directory(&dir.to_path(), &others).map_err(Error::Prompts)
        }
        None => Ok(library),
    }
}

/// The files of a directory of prompts that training a document by this protocol never sends.
pub fn unsent(dir: &Path, protocol: Protocol) -> Vec<PathBuf> {
    let is_sent = |name: &PromptName| match protocol {
        // The one-shot arm asks for a whole skill.
        Protocol::Auto => matches!(name, PromptName::Propose | PromptName::AnalystFullRewrite),
        Protocol::Paper => *name != PromptName::Propose,
    };
    let unsent = PromptName::ALL.into_iter().filter(|name| !is_sent(name));
    unsent.map(|name| dir.join(name.file_name())).filter(|path| path.is_file()).collect()
}

/// The warning about such a file.
pub(crate) fn unsent_text(path: &Path, protocol: Protocol) -> String {
    format!(
        "{} has no effect: `train.protocol = \"{}\"` never sends this prompt",
        path.display(),
        protocol.as_str()
    )
}

/// The prompts of the teacher: built in, replaced by `prompts.dir`.
///
/// # Errors
///
/// A file that is not a template.
pub fn of_teacher(prompts: &PromptsConfig) -> Result<TeacherPrompts, Error> {
    let mut all = TeacherPrompts::embedded().map_err(Error::Prompt)?;
    for name in TeacherPrompt::ALL {
        if let Some(text) = replaced(prompts, name.as_str())? {
            all = all.with_source(name, name.as_str(), &text).map_err(Error::Prompt)?;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_prompt_that_the_protocol_never_sends_is_found() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["analyst_error.md", "propose.md", "rollout_qa.md"] {
            std::fs::write(dir.path().join(name), "Read.").unwrap();
        }
        let named = |protocol| -> Vec<String> {
            let files = unsent(dir.path(), protocol).into_iter();
            files.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(named(Protocol::Auto), ["analyst_error.md"]);
        assert_eq!(named(Protocol::Paper), ["propose.md"]);
    }
}
