//! A person's own data, without code: items from files, a prompt over their fields, and a scorer by its name.
//!
//! # Data
//!
//! Items are JSON Lines (`.jsonl`), JSON (`.json`: an array, or an object with an array `data`) or CSV (`.csv`, `.tsv`
//! with a header; each value is a text).
//! They come from one file, from a directory of files that belong together, or from a directory with the parts
//! `train`, `val` and `test`; [`Splitting`] says how what has no parts is split.
//! [`FieldNames`] says which field is the id, the reference, the category, the choices, the images and the rules; all
//! fields can be used in the prompt.
//!
//! # Prompt
//!
//! A template with a system and a user block.
//! It sees every field of the item by its name, and besides: `skill`, `item` (all fields), `task_type`, `choices` where
//! they are read, `choice_list`, and `answer_format`, a sentence that says where the answer is looked for.
//! Each item's prompt is rendered when the data is read, so that a missing field is found before anything is paid for.
//!
//! # Scoring
//!
//! [`Extraction`] takes the answer out of the reply, [`ScorerConfig`] says how it is scored.
//! A reply without an answer is a failed task under every scorer.
//!
//! # Invariants
//!
//! - A judge that gives no points is an `Err` and never a score; so is a scorer's program that hangs, fails or
//!   prints something else. Held by `a_judge_that_gives_no_points_is_asked_again_and_is_never_a_score`,
//!   `a_program_that_fails_is_an_error_and_no_score`, `a_program_that_hangs_is_killed_with_all_that_it_started`.
//! - A tool over files reaches the files of its item and nothing else, and every wrong call is answered to the
//!   agent. Held by `a_call_that_is_wrong_is_an_observation`, `links_are_not_followed`,
//!   `files_that_cannot_be_had_are_named_with_their_item`.
//! - The prompt of every item renders before the first call. Held by `prompts_that_do_not_render_are_named`.

pub(crate) mod answerable;
mod answers;
mod choices;
mod config;
mod extract;
mod files;
mod foreign;
mod image;
pub(crate) mod load;
mod preset;
mod python_literal;
mod reader;
pub(crate) mod rollout;
mod sample;
pub(crate) mod scorers;
mod survey;
mod talk;
pub(crate) mod task;
mod traces;
mod world;

pub use crate::data::{DATA_FORMATS, items_member_of, split_of_file, splits_of_names, write_json_lines};
pub use config::{Extraction, FieldNames, NamedPrompt, Splitting, TasksConfig, TasksSettings};
pub use extract::{Extracted, Extractor};
pub use files::{FILES_PROMPT, FILES_PROMPT_NAME, FileTool, FilesConfig, ToolFormat};
pub use foreign::{ForeignLayout, foreign_layout};
pub use load::read_split_ids;
pub use preset::Preset;
pub use sample::DataSample;
pub use scorers::{
    CommandConfig, DEFAULT_ANLS_THRESHOLD, JUDGE_PROMPT, JUDGE_PROMPT_NAME, RubricConfig, ScorerConfig,
    ScorerKind, ScorerSpec, command,
};
pub(crate) use scorers::{JudgedAnswer, Rubric};
pub use survey::{DataSurvey, FieldSurvey, LEAK_SHARE, is_named_as_answer};
pub use task::ANSWER_FIELDS;
pub use traces::{TraceMessage, TraceTask, Traces, trace_layout};
pub use world::TasksWorld;

use crate::answerable::AnswerFinding;
use crate::data::{all_files, field_names, read_records};
use crate::env::{Env, RolloutCtx, SCORING_VERSION, SCORING_VERSION_KEY};
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use crate::score::{ChoiceBy, named_choice, texts_that_are_labels};
use crate::source::SkillSource;
use async_trait::async_trait;
use files::{FileAccess, Folder};
use indexmap::IndexMap;
use load::{Source, load_splits};
use reader::TaskReader;
use rollout::{Agenda, Attempt};
use scorers::Scorer;
use serde_json::{Map, Value, json};
use skill_core::labels::{class_label, respelled};
use skill_core::{ItemId, RolloutResult, SkillDoc};
use skill_llm::{ChatModel, PromptError, PromptTemplate};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use talk::Talk;
use task::{Asked, SHOWN_FIELDS, Task};

/// The name of the built-in prompt.
pub const ROLLOUT_PROMPT_NAME: &str = "rollout_tasks";

/// The built-in prompt: the skill, then the fields with the usual names of what a task is asked with.
pub const ROLLOUT_PROMPT: &str = include_str!("../../prompts/rollout_tasks.md");

/// All prompts of this environment, by name.
pub fn built_in_prompts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = [
        (ROLLOUT_PROMPT_NAME, ROLLOUT_PROMPT),
        (FILES_PROMPT_NAME, FILES_PROMPT),
        (JUDGE_PROMPT_NAME, JUDGE_PROMPT),
    ];
    own.into_iter().chain(Preset::ALL.map(|preset| (preset.prompt_name(), preset.prompt())))
}

/// An environment of a person's own tasks.
#[derive(Clone)]
pub struct TasksEnv {
    splits: Splits<Vec<Item>>,
    by_id: IndexMap<ItemId, Task>,
    agenda: Agenda,
    n_unused: usize,
    choice_seed: Option<u64>,
    files: Option<FileAccess>,
    judge: Option<Arc<dyn ChatModel>>,
    faults: Arc<[EnvError]>,
}

impl TasksEnv {
    /// Reads the data and prepares prompt, extraction and scorer.
    ///
    /// # Errors
    ///
    /// Data that is missing, malformed, without what the scorer needs, empty in a split, overlapping or without unique
    /// ids, with the file and line; settings that cannot work; a prompt that does not render for an item.
    pub fn load(config: &TasksConfig) -> Result<Self, EnvError> {
        let agenda = agenda(config)?;
        let data_dir = if config.data.is_dir() { Some(config.data.as_path()) } else { config.data.parent() };
        let image_dir = config.image_dir.as_deref().or(data_dir).unwrap_or(Path::new(""));
        let folder = config.files.as_ref().map(|files| {
            Folder::open(&files.dir, files.field.as_deref(), files.pages_field.as_deref()).map(Arc::new)
        });
        let folder = folder.transpose()?;
        let reader = TaskReader {
            config,
            folder: folder.as_deref(),
            scorer: &agenda.scorer,
            image_dir,
            first_choice: first_choice(config, &agenda.scorer)?,
        };
        let skill = SkillDoc::new(SAMPLE_SKILL);
        let input_of = |item: &Item, task: &Task| {
            let request = agenda.messages(Asked { item, task }, &skill).ok()?;
            serde_json::to_string(&request.messages).ok()
        };
        let source = Source {
            data: &config.data,
            splitting: &config.splitting,
            optional: &config.optional,
            group_of: config.group_equal_inputs.then_some(&input_of),
            drops_duplicates: config.drop_duplicates,
        };
        let spellings = match (config.merge_labels, config.fold_labels.is_empty()) {
            (false, true) => None,
            (merges, _) => Some(spellings(config, merges)?),
        };
        let (mut has_answer_field, mut without) = (false, None);
        let read = load_splits(&source, &mut |mut record, number| {
            if let Some(preset) = config.preset {
                preset.shape(&mut record.fields, number);
            }
            if let Some(spellings) = &spellings {
                respell(&mut record.fields, config.fields.answer.as_deref(), spellings);
            }
            match reader.without_answer_field(&record) {
                Some(error) => without = without.take().or(Some(error)),
                None => has_answer_field = true,
            }
            reader.read(record, number)
        });
        let may_lack = config.skip_unanswered || agenda.scorer.expects().is_none();
        if let Some(error) = without.filter(|_| may_lack && !has_answer_field) {
            return Err(error);
        }
        let (splits, n_unused) = read?;
        let mut by_id = IndexMap::new();
        let splits = splits.map(|split| {
            let kept = split.into_iter().map(|(item, task)| {
                by_id.insert(item.id.clone(), task);
                item
            });
            kept.collect()
        });
        let files = match (&config.files, folder) {
            (Some(files), Some(folder)) => {
                if !agenda.tools.is_empty() {
                    let message =
                        "`tools` and `files_dir` are given; tools over files are all that there can be";
                    return Err(EnvError::Configuration { message: message.to_owned() });
                }
                let content = folder.content(by_id.values().flat_map(|task| task.files.iter()))?;
                Some(FileAccess::new(files, folder, content)?)
            }
            _ => None,
        };
        let choice_seed = config.choice_seed;
        let faults = Arc::default();
        let env = Self { splits, by_id, agenda, n_unused, choice_seed, files, judge: None, faults };
        env.check_scorer()?;
        env.check_guard()?;
        env.check_prompts()?;
        if config.lists_faults {
            let faults = env.reference_faults().collect();
            return Ok(Self { faults, ..env });
        }
        if let Some(fault) = env.reference_faults().next() {
            return Err(fault);
        }
        Ok(env)
    }

    /// Asks this model where the scorer is [`ScorerConfig::Rubric`].
    #[must_use]
    pub fn with_judge(self, judge: Arc<dyn ChatModel>) -> Self {
        Self { judge: Some(judge), ..self }
    }

    /// Items of the data that are in no split.
    pub fn n_unused(&self) -> usize {
        self.n_unused
    }

    /// References that cannot be scored.
    fn reference_faults(&self) -> impl Iterator<Item = EnvError> {
        self.tasks().filter_map(|task| Some(place_error(task, task.fault.clone()?)))
    }

    /// Refuses items that the scorer cannot score.
    fn check_scorer(&self) -> Result<(), EnvError> {
        let offers_tools = !self.agenda.tools.is_empty();
        let fault = |task: Asked<'_>| {
            Some(place_error(task, self.agenda.scorer.fault(&task, offers_tools)?.to_owned()))
        };
        self.tasks().find_map(fault).map_or(Ok(()), Err)
    }

    /// Refuses a second scorer that rejects every reference answer.
    fn check_guard(&self) -> Result<(), EnvError> {
        let Some(guard) = &self.agenda.guard else { return Ok(()) };
        match answerable::rejected_by_guard(self.tasks(), &self.agenda, guard) {
            None => Ok(()),
            Some((id, answer)) => Err(EnvError::Configuration {
                message: format!(
                    "the second scorer `{}` gives no right answer a point: that of the item `{id}` is {}",
                    guard.kind().as_str(),
                    scorers::quoted(&answer, MAX_ANSWER_CHARS)
                ),
            }),
        }
    }

    /// Renders the prompt of every item, so that no run stops at a field that one of them lacks.
    fn check_prompts(&self) -> Result<(), EnvError> {
        let skill = SkillDoc::new(SAMPLE_SKILL);
        for (task_idx, task) in self.tasks().enumerate() {
            if self.agenda.shows_usual_fields && !SHOWN_FIELDS.iter().any(|name| is_there(task, name)) {
                let fields = task.item.data.as_object().map(field_names).unwrap_or_default();
                let message = format!(
                    "has none of the fields that the built-in prompt shows ({}); its fields are {fields}; say in \
                     `prompt` or `user_prompt` what is asked",
                    SHOWN_FIELDS.join(", ")
                );
                return Err(place_error(task, message));
            }
            let request = match self.agenda.messages(task, &skill) {
                Ok(request) => request,
                Err(error) => return Err(self.prompt_error(task, error, task_idx == 0)),
            };
            if !request.messages.iter().any(|message| message.text().contains(SAMPLE_SKILL)) {
                let prompt = self.agenda.prompt.name().to_owned();
                let message = "never shows `{{ skill }}`, without which nothing can be learned".to_owned();
                return Err(EnvError::Prompt(PromptError { prompt, message }));
            }
        }
        Ok(())
    }

    /// What to say of a prompt that does not render: if it is so for the first item, the prompt is to blame.
    fn prompt_error(&self, task: Asked<'_>, error: PromptError, is_first: bool) -> EnvError {
        let known = task.item.data.as_object();
        let unknown: Vec<String> = self
            .agenda
            .prompt
            .variables()
            .into_iter()
            .filter(|name| {
                !RESERVED.contains(&name.as_str()) && known.is_none_or(|fields| !fields.contains_key(name))
            })
            .map(|name| format!("`{name}`"))
            .collect();
        let mut what = error.message.clone();
        if !unknown.is_empty() {
            let verb = if unknown.len() == 1 { "is no field" } else { "are no fields" };
            what.push_str(&format!("; {} {verb} of the item", unknown.join(" and ")));
        }
        if let Some(fields) = known {
            what.push_str(&format!("; its fields are {}", field_names(fields)));
        }
        if is_first {
            return EnvError::Prompt(PromptError { message: what, ..error });
        }
        place_error(task, format!("the prompt `{}` cannot be rendered: {what}", error.prompt))
    }

    fn task<'a>(&'a self, item: &'a Item) -> Result<Asked<'a>, EnvError> {
        let task = self.by_id.get(&item.id).ok_or_else(|| EnvError::Configuration {
            message: format!("item `{}` is not one of this environment's", item.id),
        })?;
        Ok(Asked { item, task })
    }

    /// All tasks, split by split.
    fn tasks(&self) -> impl Iterator<Item = Asked<'_>> {
        let items = self.splits.iter().flat_map(|(_, items)| items);
        items.filter_map(|item| Some(Asked { item, task: self.by_id.get(&item.id)? }))
    }
}

/// Labels that count as others, by `FROM=TO`.
///
/// # Errors
///
/// A text that is none of this form, and a label that would count as one that itself counts as another.
pub fn folds(texts: &[String]) -> Result<BTreeMap<String, String>, EnvError> {
    let mut folds = BTreeMap::new();
    for text in texts {
        let pair = text.split_once('=').map(|(from, to)| (class_label(from), class_label(to)));
        let Some((from, to)) = pair.filter(|(from, to)| !from.is_empty() && !to.is_empty() && from != to)
        else {
            let message = format!("`{text}` does not fold a label; expected FROM=TO, such as Biling=Billing");
            return Err(EnvError::Configuration { message });
        };
        folds.insert(from.into_owned(), to.into_owned());
    }
    if let Some(to) = folds.values().find(|to| folds.contains_key(*to)) {
        let message =
            format!("the label `{to}` counts as another one, and others count as it; name the last one");
        return Err(EnvError::Configuration { message });
    }
    Ok(folds)
}

/// The labels that stand for others, of all records: by their spellings, if these are merged, and by folds.
fn spellings(config: &TasksConfig, merges: bool) -> Result<BTreeMap<String, String>, EnvError> {
    let folds = folds(&config.fold_labels)?;
    if !merges {
        return Ok(folds);
    }
    let mut answers = Vec::new();
    for file in all_files(&config.data)? {
        for record in read_records(&file)? {
            answers.extend(answer_in(&record.fields, config.fields.answer.as_deref()).map(Cow::into_owned));
        }
    }
    let mut all = respelled(answers.iter().map(String::as_str));
    all.values_mut().for_each(|to| {
        if let Some(other) = folds.get(to) {
            to.clone_from(other);
        }
    });
    all.extend(folds);
    Ok(all)
}

/// From which number right answers count their choices, where choices are scored that have letters and all answers are
/// numbers.
fn first_choice(config: &TasksConfig, scorer: &Scorer) -> Result<Option<u64>, EnvError> {
    if scorer.choice_by().is_none_or(|by| by == ChoiceBy::SkillOpt) || config.preset.is_some() {
        return Ok(None);
    }
    let mut answers: Vec<Value> = Vec::new();
    let (mut n_choices, mut are_texts) = (0_usize, true);
    for file in all_files(&config.data)? {
        for record in read_records(&file)? {
            let asked = config.fields.answer.as_deref();
            let usual = || ANSWER_FIELDS.into_iter().find_map(|name| record.fields.get(name));
            let answer = asked.map_or_else(usual, |name| task::value_at(&record.fields, name));
            let Some(answer) = answer.filter(|answer| !answers::is_blank_answer(answer)) else { continue };
            let Some(index) = choices::index_in(answer) else { return Ok(None) };
            let choices = choices::lettered(&record.fields, config.fields.choices.as_deref());
            n_choices = n_choices.max(choices.len());
            are_texts &= named_choice(&index.to_string(), &choices).is_some();
            answers.push(answer.clone());
        }
    }
    // Choices that are numbers are named by their texts.
    Ok(choices::first_choice(&answers, n_choices).filter(|_| !are_texts))
}

/// The right answer of a record, where it is a text or a truth.
fn answer_in<'a>(fields: &'a Map<String, Value>, asked: Option<&str>) -> Option<Cow<'a, str>> {
    let usual = || ANSWER_FIELDS.into_iter().find_map(|name| fields.get(name));
    match asked.map_or_else(usual, |name| fields.get(name))? {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Bool(flag) => Some(Cow::Owned(flag.to_string())),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Writes a label as most answers have it, and without the blanks around it: it may be the type of its task, too.
fn respell(fields: &mut Map<String, Value>, asked: Option<&str>, spellings: &BTreeMap<String, String>) {
    let name = asked.or_else(|| ANSWER_FIELDS.into_iter().find(|name| fields.contains_key(*name)));
    let label = answer_in(fields, asked).map(|answer| {
        let label = class_label(&answer);
        spellings.get(&*label).cloned().unwrap_or_else(|| label.into_owned())
    });
    if let (Some(label), Some(name)) = (label, name) {
        let is_same = match fields.get(name) {
            Some(Value::Bool(flag)) => label == if *flag { "true" } else { "false" },
            Some(_) | None => false,
        };
        if !is_same {
            fields.insert(name.to_owned(), Value::String(label));
        }
    }
}

/// Characters of a right answer that an error shows.
const MAX_ANSWER_CHARS: usize = 80;
/// A skill that is in no template by itself.
const SAMPLE_SKILL: &str = "sample-skill-6d1f";

/// Variables of the template that are no fields.
const RESERVED: [&str; 7] =
    ["skill", "item", "choices", "choice_list", "answer_format", "task_type", "shown"];

fn is_there(task: Asked<'_>, name: &str) -> bool {
    task.variable(name).is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
}

fn place_error(task: Asked<'_>, message: String) -> EnvError {
    match &task.place {
        Some(place) => place.error(message),
        None => EnvError::Configuration { message: format!("item `{}` {message}", task.item.id) },
    }
}

fn agenda(config: &TasksConfig) -> Result<Agenda, EnvError> {
    let settings = &config.settings;
    if settings.max_tokens == Some(0) {
        let message = "`max_tokens` is 0; expected at least 1, or none".to_owned();
        return Err(EnvError::Configuration { message });
    }
    let (name, source) = match (&settings.prompt, config.preset) {
        (Some(prompt), _) => (prompt.name.as_str(), prompt.source.as_str()),
        (None, Some(preset)) => (preset.prompt_name(), preset.prompt()),
        (None, None) => (ROLLOUT_PROMPT_NAME, ROLLOUT_PROMPT),
    };
    let prompt = PromptTemplate::parse(name, source)?;
    Ok(Agenda {
        shows_usual_fields: prompt.variables().iter().any(|name| name == "shown"),
        prompt,
        tools: settings.tools.clone(),
        max_tokens: settings.max_tokens,
        extractor: Extractor::new(settings.extraction.clone())?,
        scorer: Scorer::new(settings.scorer.clone())?,
        guard: settings.guard.clone().map(Scorer::new).transpose()?,
    })
}

#[async_trait]
impl Env for TasksEnv {
    fn name(&self) -> &str {
        "tasks"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    fn settings(&self) -> Value {
        let mut settings = json!({
            SCORING_VERSION_KEY: SCORING_VERSION,
            "scorer": self.agenda.scorer.settings(),
            "extract": self.agenda.extractor.extraction(),
            "max_tokens": self.agenda.max_tokens,
            "prompt": self.agenda.prompt.source(),
        });
        if let Value::Object(fields) = &mut settings {
            if !self.agenda.tools.is_empty() {
                fields.insert("tools".to_owned(), json!(self.agenda.tools));
            }
            if let Some(guard) = &self.agenda.guard {
                fields.insert("guard".to_owned(), guard.settings());
            }
            if let Some(files) = &self.files {
                fields.insert("files".to_owned(), files.settings());
            }
            if let Some(seed) = self.choice_seed {
                fields.insert("choice_seed".to_owned(), json!(seed));
            }
            if let Some(judge) = self.judge() {
                let (id, parameters) = (judge.id(), judge.parameters());
                fields.insert("judge".to_owned(), json!({"model": id.to_string(), "parameters": parameters}));
            }
        }
        settings
    }

    fn judge(&self) -> Option<&Arc<dyn ChatModel>> {
        let needs_it = |scorer: &Scorer| scorer.kind().spec().is_judged;
        let mut scorers = [Some(&self.agenda.scorer), self.agenda.guard.as_ref()].into_iter().flatten();
        self.judge.as_ref().filter(|_| scorers.any(needs_it))
    }

    fn reward(&self) -> Option<String> {
        Some(self.agenda.scorer.reward())
    }

    fn reference_reply(&self, item: &Item) -> Option<String> {
        self.agenda.reference_reply(self.task(item).ok()?)
    }

    fn faults(&self) -> &[EnvError] {
        &self.faults
    }

    fn answerable(&self, skill: &SkillDoc) -> Vec<AnswerFinding> {
        answerable::answerable(self.tasks(), &self.agenda, skill)
    }

    fn doubtful_choices(&self, item: &Item) -> Vec<String> {
        if self.agenda.scorer.choice_by() != Some(ChoiceBy::Either) {
            return Vec::new();
        }
        let Ok(task) = self.task(item) else { return Vec::new() };
        texts_that_are_labels(&task.choices).map(|choice| choice.text.clone()).collect()
    }

    fn label(&self, item: &Item) -> Option<String> {
        self.agenda.scorer.label(self.task(item).ok()?.task)
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.agenda.goal(self.task(item).ok()?).ok()
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let task = self.task(item)?;
        // Neither goal nor skill is kept while the model is waited for: many rollouts wait at once.
        let (request, ctx) = {
            let goal = self.agenda.goal(task)?;
            let (skill, ctx) = ctx.show(source, item, &goal).await?;
            (self.agenda.request(task, &skill)?, ctx)
        };
        let (attempt, reply) = match &self.files {
            Some(access) => {
                Talk::new(access, Arc::clone(&task.files), request)?.run(target, &ctx.call).await?
            }
            None => {
                let reply = target.chat(&request, &ctx.call).await?;
                (Attempt::single(request, &reply), reply)
            }
        };
        let judge = ctx.judge.as_ref().or(self.judge.as_ref()).map(AsRef::as_ref);
        self.agenda.result(task, attempt, reply, judge, &ctx.call).await
    }
}
