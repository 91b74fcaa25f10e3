//! The templates of a run, and what they render to.

use super::context::{
    AnalystContext, AppendixContext, BatchScore, BudgetContext, ComparisonContext, FinalMergeContext,
    MergeContext, RankingContext, RewriteContext,
};
use super::name::{PromptName, Templates};
use crate::settings::{Protocol, TrajectoryLimits};
use crate::text::escape_closing;
use serde::Serialize;
use skill_core::rewrite::UpdateMode;
use skill_core::{
    ComparisonPair, Edit, EditOp, Patch, Role, RolloutResult, SkillDoc, SkillHash, SourceType, Trajectory,
    TrajectoryMessage, comparison_pairs, inject_slow_update, replace_slow_update,
};
use skill_llm::{Message, PromptError, PromptTemplate, text_file};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// A directory of prompts that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptLibraryError {
    /// The directory cannot be listed.
    #[error("cannot read the prompt directory `{}`", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A prompt's file cannot be read, or is not UTF-8.
    #[error("cannot read the prompt file `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file has the name of no prompt: it would have no effect.
    #[error("no prompt is called like the file `{}`: did you mean `{nearest}`?", path.display())]
    UnknownFile {
        /// The file.
        path: PathBuf,
        /// The file name of the prompt with the most similar name.
        nearest: String,
    },
    /// A file is not a template.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

/// The prompts of a run: those built in, less what an environment or a directory replaces.
///
/// What is given last counts.
#[derive(Debug, Clone)]
pub struct PromptLibrary {
    templates: Templates,
    background: Background,
    update_mode: UpdateMode,
    limits: TrajectoryLimits,
}

/// What every prompt may show besides the material of its call: a variable of all templates for each field.
///
/// A field without text is left out by the built-in prompts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Background {
    /// What earlier steps came to, see [`crate::memory`].
    pub memory: String,
    /// What the optimizer has noted for itself at the end of the last epoch; see [`PromptLibrary::set_meta_skill`].
    pub meta_skill: String,
    /// How large the skill is and may become, in words; see [`PromptLibrary::with_size_of`].
    pub size_limit: String,
    /// What people say of the task, and what its score rewards; see [`PromptLibrary::with_task`].
    pub task: String,
    /// Whether the search is planned; see [`PromptLibrary::with_protocol`].
    pub planned: bool,
}

/// The variables of a template.
#[derive(Serialize)]
struct Variables<'a, Context> {
    #[serde(flatten)]
    background: &'a Background,
    #[serde(flatten)]
    context: Context,
}

impl PromptLibrary {
    /// The prompts that are built in.
    ///
    /// # Errors
    ///
    /// A built-in prompt that does not parse; a test holds that there is none.
    pub fn embedded() -> Result<Self, PromptError> {
        let templates = Templates::embedded()?;
        Ok(Self {
            templates,
            background: Background::default(),
            update_mode: UpdateMode::default(),
            limits: TrajectoryLimits::default(),
        })
    }

    /// The same prompts for another way of updating: whether they ask for edits, for suggestions or for whole skills.
    #[must_use]
    pub fn with_update_mode(self, update_mode: UpdateMode) -> Self {
        Self { update_mode, ..self }
    }

    /// The same prompts for a search by this protocol: a planned one asks for facts of the domain too, and for failures by
    /// the names of [`FailureType`](crate::records::memory::FailureType).
    #[must_use]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.background.planned = protocol == Protocol::Auto;
        self
    }

    /// By which protocol they ask.
    pub fn protocol(&self) -> Protocol {
        if self.background.planned { Protocol::Auto } else { Protocol::Paper }
    }

    /// The same prompts with trajectories of at most this length.
    #[must_use]
    pub fn with_limits(self, limits: TrajectoryLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same prompts that say this of the task; nothing where the text is blank.
    #[must_use]
    pub fn with_task(mut self, task: &str) -> Self {
        self.background.task = escape_closing(task.trim(), "</task").into_owned();
        self
    }

    /// The same prompts that add to the task what people have noted; nothing where that is blank.
    #[must_use]
    pub fn with_notes(mut self, notes: &str) -> Self {
        let notes = escape_closing(notes.trim(), "</task");
        if !notes.is_empty() {
            let before = if self.background.task.is_empty() { "" } else { "\n\n" };
            self.background.task = [&self.background.task, before, &notes].concat();
        }
        self
    }

    /// What the prompts ask for.
    pub fn update_mode(&self) -> UpdateMode {
        self.update_mode
    }

    /// The same prompts with something else to know besides the material of each call.
    #[must_use]
    pub(crate) fn with_background(self, background: Background) -> Self {
        Self { background, ..self }
    }

    /// The same prompts that show what earlier steps came to.
    #[must_use]
    pub fn with_memory(mut self, memory: String) -> Self {
        self.background.memory = memory;
        self
    }

    /// The same prompts that say how large this skill is and may become; nothing where there is no limit.
    #[must_use]
    pub fn with_size_of(mut self, skill: &SkillDoc, max_tokens: Option<u64>) -> Self {
        self.background.size_limit = max_tokens.map(|limit| size_text(skill, limit)).unwrap_or_default();
        self
    }

    /// Shows these notes of the optimizer's in every prompt; blank ones are none.
    pub fn set_meta_skill(&mut self, notes: &str) {
        self.background.meta_skill = escape_closing(notes.trim(), "</notes").into_owned();
    }

    /// What every prompt may show besides the material of its call.
    pub fn background(&self) -> &Background {
        &self.background
    }

    /// Replaces every prompt that `directory` has a file `NAME.md` for.
    ///
    /// A file without tags (`{% … %}`) is a system message, see [`PromptTemplate::in_place_of`].
    /// Files with another ending and hidden files are not looked at, and neither is a file whose name is in
    /// `foreign`, which lists prompts of others (`rollout_qa` or `rollout_qa.md`).
    ///
    /// # Errors
    ///
    /// A directory or file that cannot be read, a file `*.md` that is not a prompt's, a file that is not a template.
    pub fn with_directory(mut self, directory: &Path, foreign: &[&str]) -> Result<Self, PromptLibraryError> {
        for file in markdown_files(directory)? {
            let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
            if let Some(name) = PromptName::parse(&stem) {
                let source = text_file::read(&file)
                    .map_err(|source| PromptLibraryError::File { path: file.clone(), source })?;
                PromptTemplate::warn_of_unused_text(&file, &source);
                let source = PromptTemplate::in_place_of(name.embedded_source(), source);
                *self.template_mut(name) = PromptTemplate::parse(file.display().to_string(), source)?;
            } else if !foreign.iter().any(|other| other.strip_suffix(".md").unwrap_or(other) == stem) {
                let nearest = nearest_file_name(&stem, foreign);
                return Err(PromptLibraryError::UnknownFile { path: file, nearest });
            }
        }
        Ok(self)
    }

    /// Replaces one prompt by the text that an environment gives, see [`skill_envs::Env::prompt_override`].
    ///
    /// # Errors
    ///
    /// A text that is not a template.
    pub fn with_override(mut self, name: PromptName, source: &str) -> Result<Self, PromptError> {
        let label = format!("{name} of the environment");
        *self.template_mut(name) = PromptTemplate::parse(label, source)?;
        Ok(self)
    }

    /// Renders every prompt with sample data, so that a variable that does not exist is found before a run starts.
    ///
    /// # Errors
    ///
    /// The first prompt that cannot be rendered.
    pub fn validate(&self) -> Result<(), PromptError> {
        let sample = Background {
            memory: "Step 1 was rejected.".to_owned(),
            meta_skill: "Short rules are followed.".to_owned(),
            size_limit: "The skill has 5 tokens.".to_owned(),
            task: "Tasks of a harbour.".to_owned(),
            planned: true,
        };
        for background in [Background::default(), sample] {
            for mode in UpdateMode::ALL {
                self.clone().with_background(background.clone()).with_update_mode(mode).validate_samples()?;
            }
        }
        Ok(())
    }

    fn validate_samples(&self) -> Result<(), PromptError> {
        let (result, patches, edits) = (sample_result(), [sample_patch(1), sample_patch(3)], sample_edits(3));
        let [small, large] = &patches;
        let guided = replace_slow_update(&SkillDoc::new("# Skill\n"), "- Look twice.");
        // Twice, since a template may treat one thing otherwise than many, and a skill that is a folder otherwise than none.
        for (skill, results, budget) in [
            ("", [&result].as_slice(), 1),
            (
                "# Skill\n- Be exact.\n\n<!-- SKILL_FILE: references/x.md -->\n# X\n",
                [&result, &result].as_slice(),
                2,
            ),
        ] {
            let skill = SkillDoc::new(skill);
            for source in [SourceType::Failure, SourceType::Success] {
                self.analyst(source, &skill, budget, results)?;
                self.skill_aware_analyst(source, &skill, budget, results)?;
                self.analyst_beside(&skill, budget, results, results, "", false)?;
                self.merge(source, &skill, &patches, 1)?;
            }
            self.merge_final(&skill, small, large)?;
            self.merge_final(&skill, large, small)?;
            self.ranking(&skill, &edits, budget)?;
            self.rewrite(&skill, &edits)?;
            self.appendix_consolidate(&["One note.".to_owned(), "Another one.".to_owned()])?;
            self.edit_budget(&skill, &edits, BatchScore { n_rollouts: 4, hard: 0.5, soft: 0.25 })?;
            let results: Vec<RolloutResult> = results.iter().map(|result| (*result).clone()).collect();
            let pairs = comparison_pairs(&results, &results);
            for (previous, current) in [(&skill, &inject_slow_update(&skill)), (&guided, &guided)] {
                self.slow_update(previous, current, &pairs)?;
                self.meta_skill(previous, current, &pairs)?;
            }
        }
        Ok(())
    }

    /// The template of a prompt.
    pub fn template(&self, name: PromptName) -> &PromptTemplate {
        self.templates.template(name)
    }

    fn template_mut(&mut self, name: PromptName) -> &mut PromptTemplate {
        self.templates.template_mut(name)
    }

    /// The hash of each prompt's text, by its name: a run that goes on with another text names the prompt.
    pub fn hashes(&self) -> BTreeMap<&'static str, SkillHash> {
        // Runs by the paper's protocol never had a prompt for proposals.
        let is_used = |name: &PromptName| *name != PromptName::Propose || self.protocol() == Protocol::Auto;
        PromptName::ALL
            .into_iter()
            .filter(is_used)
            .map(|name| (name.as_str(), SkillHash::of(self.template(name).source())))
            .collect()
    }

    /// The hash of all prompts, names and texts: 16 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        let lines: Vec<String> =
            self.hashes().iter().map(|(name, hash)| format!("{name} {hash}\n")).collect();
        SkillHash::of(&lines.concat()).as_str().to_owned()
    }

    /// What an analyst is told about one minibatch of trajectories, which all failed or all succeeded.
    ///
    /// # Errors
    ///
    /// A replaced prompt that cannot be rendered; the built-in ones always can.
    pub fn analyst(
        &self,
        source: SourceType,
        skill: &SkillDoc,
        edit_budget: u32,
        trajectories: &[&RolloutResult],
    ) -> Result<Vec<Message>, PromptError> {
        let context = AnalystContext::new(source, skill, edit_budget, trajectories, self.limits);
        self.render(self.analyst_name(source), Ok(context))
    }

    /// The prompt variables of an analyst of failures that also gets solved tasks of the same kind and the patterns of all
    /// failures.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn analyst_beside(
        &self,
        skill: &SkillDoc,
        edit_budget: u32,
        trajectories: &[&RolloutResult],
        solved: &[&RolloutResult],
        patterns: &str,
        skill_aware: bool,
    ) -> Result<Vec<Message>, PromptError> {
        let source = SourceType::Failure;
        let context = AnalystContext::new(source, skill, edit_budget, trajectories, self.limits);
        let context = context.beside(skill, solved, self.limits).after(patterns);
        let context = if skill_aware { context.skill_aware() } else { context };
        self.render(self.analyst_name(source), Ok(context))
    }

    /// What an analyst is told who also tells lapses of the agent apart from defects of the skill.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn skill_aware_analyst(
        &self,
        source: SourceType,
        skill: &SkillDoc,
        edit_budget: u32,
        trajectories: &[&RolloutResult],
    ) -> Result<Vec<Message>, PromptError> {
        let context =
            AnalystContext::new(source, skill, edit_budget, trajectories, self.limits).skill_aware();
        self.render(self.analyst_name(source), Ok(context))
    }

    /// What the optimizer is told to make fewer notes of these.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn appendix_consolidate(&self, notes: &[String]) -> Result<Vec<Message>, PromptError> {
        self.render(PromptName::AppendixConsolidate, AppendixContext::new(notes))
    }

    /// What the optimizer is told to merge patches of one kind; `level` is the merge tree's, from 1.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn merge(
        &self,
        source: SourceType,
        skill: &SkillDoc,
        patches: &[Patch],
        level: u32,
    ) -> Result<Vec<Message>, PromptError> {
        let name = match (self.update_mode, source) {
            (UpdateMode::Patch, SourceType::Failure) => PromptName::MergeFailure,
            (UpdateMode::Patch, SourceType::Success) => PromptName::MergeSuccess,
            (UpdateMode::RewriteFromSuggestions, _) => PromptName::MergeRewrite,
            (UpdateMode::FullRewriteMinibatch, _) => PromptName::MergeFullRewrite,
        };
        self.render(name, MergeContext::new(self.update_mode, source, skill, patches, level))
    }

    /// What the optimizer is told to combine the patch from failures with the patch from successes.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn merge_final(
        &self,
        skill: &SkillDoc,
        failure: &Patch,
        success: &Patch,
    ) -> Result<Vec<Message>, PromptError> {
        let of_both = || MergeContext::of_both(self.update_mode, skill, failure, success);
        match self.update_mode {
            UpdateMode::Patch => {
                self.render(PromptName::MergeFinal, FinalMergeContext::new(skill, failure, success))
            }
            UpdateMode::RewriteFromSuggestions => self.render(PromptName::MergeRewrite, of_both()),
            UpdateMode::FullRewriteMinibatch => self.render(PromptName::MergeFullRewrite, of_both()),
        }
    }

    /// What the optimizer is told to choose `budget` of `edits`; their indices count from 0.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn ranking(
        &self,
        skill: &SkillDoc,
        edits: &[Edit],
        budget: u32,
    ) -> Result<Vec<Message>, PromptError> {
        let name = match self.update_mode {
            // Whole skills are not ranked; if they were, they would be like edits.
            UpdateMode::Patch | UpdateMode::FullRewriteMinibatch => PromptName::Ranking,
            UpdateMode::RewriteFromSuggestions => PromptName::RankingRewrite,
        };
        self.render(name, RankingContext::new(self.update_mode, skill, edits, budget))
    }

    /// What the optimizer is told to rewrite the skill by these suggestions.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn rewrite(&self, skill: &SkillDoc, suggestions: &[Edit]) -> Result<Vec<Message>, PromptError> {
        self.render(PromptName::RewriteSkill, RewriteContext::new(skill, suggestions))
    }

    fn analyst_name(&self, source: SourceType) -> PromptName {
        match (self.update_mode, source) {
            (UpdateMode::Patch, SourceType::Failure) if self.protocol() == Protocol::Auto => {
                PromptName::Propose
            }
            (UpdateMode::Patch, SourceType::Failure) => PromptName::AnalystError,
            (UpdateMode::Patch, SourceType::Success) => PromptName::AnalystSuccess,
            (UpdateMode::RewriteFromSuggestions, _) => PromptName::AnalystRewrite,
            (UpdateMode::FullRewriteMinibatch, _) => PromptName::AnalystFullRewrite,
        }
    }

    /// What the optimizer is told to say how many of `edits` are to be applied.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn edit_budget(
        &self,
        skill: &SkillDoc,
        edits: &[Edit],
        batch: BatchScore,
    ) -> Result<Vec<Message>, PromptError> {
        self.render(PromptName::LrAutonomous, BudgetContext::new(self.update_mode, skill, edits, batch))
    }

    /// What the optimizer is told to write the guidance in the slow update's region of `current` by.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn slow_update(
        &self,
        previous: &SkillDoc,
        current: &SkillDoc,
        pairs: &[ComparisonPair],
    ) -> Result<Vec<Message>, PromptError> {
        self.render(PromptName::SlowUpdate, Ok(ComparisonContext::new(previous, current, pairs)))
    }

    /// What the optimizer is told to write its own notes by.
    ///
    /// # Errors
    ///
    /// As [`PromptLibrary::analyst`].
    pub fn meta_skill(
        &self,
        previous: &SkillDoc,
        current: &SkillDoc,
        pairs: &[ComparisonPair],
    ) -> Result<Vec<Message>, PromptError> {
        self.render(PromptName::MetaSkill, Ok(ComparisonContext::new(previous, current, pairs)))
    }

    fn render(
        &self,
        name: PromptName,
        context: serde_json::Result<impl Serialize>,
    ) -> Result<Vec<Message>, PromptError> {
        let template = self.template(name);
        let context = context.map_err(|error| PromptError {
            prompt: template.name().to_owned(),
            message: format!("cannot write the edits as JSON: {error}"),
        })?;
        template.render(Variables { background: &self.background, context })
    }
}

/// How large the skill is and may become, in words.
fn size_text(skill: &SkillDoc, limit: u64) -> String {
    let size = skill.n_tokens();
    let sizes = format!("The skill has about {size} tokens; the limit is {limit}.");
    match limit.checked_sub(size) {
        Some(left) => {
            format!("{sizes} About {left} are left. Edits that would exceed the limit are not applied.")
        }
        None => format!("{sizes} It is too long: only edits that shorten it are applied."),
    }
}

/// The files `*.md` of a directory by name; hidden ones are an editor's or the system's.
fn markdown_files(directory: &Path) -> Result<Vec<PathBuf>, PromptLibraryError> {
    let error = |source| PromptLibraryError::Directory { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let is_markdown = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_markdown && !is_hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn nearest_file_name(stem: &str, foreign: &[&str]) -> String {
    let stem = stem.to_lowercase();
    let mut nearest = (0.0, PromptName::AnalystError.as_str());
    let others = foreign.iter().map(|other| other.strip_suffix(".md").unwrap_or(other));
    for name in PromptName::ALL.map(PromptName::as_str).into_iter().chain(others) {
        let similarity = strsim::jaro_winkler(&stem, name);
        if similarity > nearest.0 {
            nearest = (similarity, name);
        }
    }
    format!("{}.md", nearest.1)
}

fn sample_result() -> RolloutResult {
    let mut result = RolloutResult::new("sample".into(), 0.0, 0.5);
    result.question = "What is asked?".to_owned();
    result.trajectory = Trajectory::of_messages([
        TrajectoryMessage::new(Role::User, "What is asked?"),
        TrajectoryMessage::new(Role::Assistant, "This."),
    ]);
    result
}

fn sample_edits(n_edits: usize) -> Vec<Edit> {
    vec![Edit { support_count: Some(1), ..Edit::new(EditOp::Replace, "exact", "precise") }; n_edits]
}

fn sample_patch(n_edits: usize) -> Patch {
    Patch { reasoning: "a reason".to_owned(), edits: sample_edits(n_edits), ranking_details: None }
}
