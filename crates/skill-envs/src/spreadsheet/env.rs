//! The environment.

use super::config::SpreadsheetConfig;
use super::lab::Lab;
use super::rollout::{Talk, variables};
use super::task::Task;
use super::{ROLLOUT_PROMPT, ROLLOUT_PROMPT_NAME};
use crate::choices::SpreadsheetMode as Mode;
use crate::env::{Env, RolloutCtx, SCORING_VERSION, SCORING_VERSION_KEY};
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use crate::source::SkillSource;
use crate::tasks::load::{Source, load_splits};
use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::{Value, json};
use skill_core::{ItemId, RolloutResult};
use skill_llm::{ChatModel, ChatRequest, PromptError, PromptTemplate, Sampling};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The files with the tasks in a directory of the data set.
const DATA_FILES: [&str; 2] = ["dataset.jsonl", "dataset.json"];
/// A skill that is in no template by itself.
const SAMPLE_SKILL: &str = "sample-skill-6d1f";

/// SpreadsheetBench.
pub struct SpreadsheetEnv {
    config: SpreadsheetConfig,
    prompt: PromptTemplate,
    splits: Splits<Vec<Item>>,
    tasks: IndexMap<ItemId, (Task, Split)>,
    faults: Vec<EnvError>,
    /// Opened by the first task, before any model is asked; what is missing then is missing for all.
    lab: OnceCell<Result<Arc<Lab>, String>>,
}

impl SpreadsheetEnv {
    /// Reads the tasks, and every workbook of theirs once.
    ///
    /// Tasks that cannot be judged are left out, see [`Env::faults`].
    ///
    /// # Errors
    ///
    /// Data that is missing or malformed, a split without a task, a prompt that cannot be used.
    pub fn load(config: SpreadsheetConfig) -> Result<Self, EnvError> {
        let source = config.prompt.as_deref().unwrap_or(ROLLOUT_PROMPT);
        let prompt = PromptTemplate::parse(ROLLOUT_PROMPT_NAME, source)?;
        let data = data_file(&config.data);
        let root =
            if data.is_dir() { data.clone() } else { data.parent().map(Path::to_owned).unwrap_or_default() };
        let optional: &[Split] = if config.test_is_optional { &[Split::Test] } else { &[] };
        let splitting = &config.splitting;
        let source = Source { data: &data, splitting, optional, group_of: None, drops_duplicates: false };
        let (loaded, _) = load_splits(&source, &mut |record, _| Task::read(record, &root).map(Some))?;
        let mut tasks = IndexMap::new();
        let mut faults = Vec::new();
        let mut splits = Splits::from([Vec::new(), Vec::new(), Vec::new()]);
        for (split, items) in Split::ALL.into_iter().zip(<[_; 3]>::from(loaded)) {
            let n_items = items.len();
            for (item, task) in items {
                match &task.fault {
                    Some(fault) => faults.push(fault.place.error(fault.message.clone())),
                    None => {
                        tasks.insert(item.id.clone(), (task, split));
                        splits[split].push(item);
                    }
                }
            }
            if splits[split].is_empty() && n_items > 0 {
                let message = format!("none of the {n_items} tasks of the split `{split}` can be judged");
                return Err(EnvError::BadData { path: data, message });
            }
        }
        if let Some(first) = faults.first() {
            tracing::warn!("tasks that cannot be judged are left out: {}; the first: {first}", faults.len());
        }
        let env = Self { config, prompt, splits, tasks, faults, lab: OnceCell::new() };
        env.check_prompt()?;
        Ok(env)
    }

    /// What programs run in, opened once.
    async fn lab(&self) -> Result<Arc<Lab>, EnvError> {
        let open = || async {
            let config = self.config.clone();
            let opened = tokio::task::spawn_blocking(move || Lab::open(&config)).await;
            match opened {
                Ok(Ok(lab)) => Ok(Arc::new(lab)),
                Ok(Err(EnvError::Configuration { message })) => Err(message),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(format!("the sandbox broke: {error}")),
            }
        };
        self.lab.get_or_init(open).await.clone().map_err(|message| super::lab::wrong(&message))
    }

    fn check_prompt(&self) -> Result<(), EnvError> {
        let Some((task, _)) = self.tasks.values().next() else { return Ok(()) };
        let messages = self.prompt.render(variables(task, &self.config, SAMPLE_SKILL, "preview"))?;
        if messages.iter().any(|message| message.text().contains(SAMPLE_SKILL)) {
            return Ok(());
        }
        let message = "never shows `{{ skill }}`, without which nothing can be learned".to_owned();
        Err(EnvError::Prompt(PromptError { prompt: ROLLOUT_PROMPT_NAME.to_owned(), message }))
    }
}

/// What programs of an agent run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramsReport {
    /// The sandbox, Python and LibreOffice, a line for each.
    pub lines: Vec<String>,
    /// Formulas are calculated.
    pub calculates: bool,
}

/// The sandbox, Python and LibreOffice of a configuration, for people; opens the sandbox and takes a second or two.
///
/// # Errors
///
/// What is missing, with what to install.
pub fn describe_programs(config: &SpreadsheetConfig) -> Result<ProgramsReport, EnvError> {
    let lab = Lab::open(config)?;
    Ok(ProgramsReport { lines: lab.describe(), calculates: lab.office().is_some() })
}

/// The file with the tasks: itself, or the usual one of a directory; else the directory, with its parts.
fn data_file(data: &Path) -> PathBuf {
    let files = DATA_FILES.iter().map(|name| data.join(name));
    files.into_iter().find(|path| path.is_file()).unwrap_or_else(|| data.to_owned())
}

#[async_trait]
impl Env for SpreadsheetEnv {
    fn name(&self) -> &str {
        "spreadsheet"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    fn settings(&self) -> Value {
        let config = &self.config;
        json!({
            SCORING_VERSION_KEY: SCORING_VERSION,
            "mode": config.mode.as_str(),
            "compare": config.compare.as_str(),
            "recalculate": config.recalculate.as_str(),
            "max_rounds": config.max_rounds,
            "review_rounds": config.review_rounds,
            "feedback_rounds": config.feedback_rounds,
            "max_tokens": config.max_tokens,
            "program_timeout_s": config.program_timeout.as_secs(),
            "program_memory": config.program_memory,
            "sandbox": match &config.sandbox {
                skill_sandbox::Choice::Auto | skill_sandbox::Choice::Bubblewrap { .. } => "bwrap",
                skill_sandbox::Choice::Container(config) => config.image.as_str(),
                skill_sandbox::Choice::Off => "off",
            },
            "prompt": self.prompt.source(),
        })
    }

    fn reward(&self) -> Option<String> {
        let rule = match self.config.compare {
            super::Compare::Official => "by the benchmark's own comparison of values",
            super::Compare::Strict => "by their values as a reader sees them",
        };
        Some(format!(
            "The agent's program is run on every workbook of the task, and the cells of the answer are compared with the \
             right ones {rule}; a task counts as solved when all cells of all its workbooks are right."
        ))
    }

    fn faults(&self) -> &[EnvError] {
        &self.faults
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.tasks.get(&item.id).map(|(task, _)| task.instruction.clone())
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let (task, split) = self.tasks.get(&item.id).ok_or_else(|| EnvError::Configuration {
            message: format!("item `{}` is not one of this environment's", item.id),
        })?;
        // Before anything is paid for.
        let lab = self.lab().await?;
        let (request, ctx) = {
            let (skill, ctx) = ctx.show(source, item, &task.instruction).await?;
            let preview = match (self.config.mode, task.cases.first()) {
                (Mode::Single | Mode::Multi, Some(case)) => {
                    super::preview::preview(case.read_input().map_err(|error| super::lab::wrong(&error))?)
                }
                (_, _) => String::new(),
            };
            let shown = skill.agent_view();
            let messages = self.prompt.render(variables(task, &self.config, shown.trim(), &preview))?;
            let sampling = Sampling { max_tokens: self.config.max_tokens, ..Sampling::default() };
            (ChatRequest { sampling, ..ChatRequest::new(messages) }, ctx)
        };
        let is_training = *split == Split::Train;
        Talk::new(&lab, &self.config, task, is_training, target, &ctx, request).play(item).await
    }
}
