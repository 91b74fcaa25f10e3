//! Questions as a multi-turn environment: an agent searches and answers.

use super::corpus::Corpus;
use super::made_up::MadeUp;
use super::question::Question;
use super::retriever::{CommandRetriever, HttpRetriever, LocalRetriever, Retriever};
use crate::data::{DataFiles, find, read_records, train_and_val};
use crate::episode::{Episode, Observation, World};
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use crate::retrieval::{BuildError, Passage, StoreError, StoredIndex};
use crate::score::em_f1;
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::canonical::hex_sha256;
use skill_core::{ItemId, RatioSplit, SplitRatio, SplitRule};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What an agent has to know to act here.
pub const INSTRUCTIONS: &str = "You answer a question with the help of a search engine. You act by writing one action at \
a time, in one of two forms. `search[query]` shows the passages that fit a query best; it is possible as often as \
there are turns. `answer[text]` gives the final answer and ends the episode; it is compared with the right answer word \
by word, so it is as short as possible.";

/// Where passages come from.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum PassageSource {
    /// The passages that come with the questions.
    #[default]
    Questions,
    /// A file or a directory of passages.
    Corpus(PathBuf),
    /// A server at this address.
    Server(String),
    /// A program, which is started for each query in this directory.
    Command(Vec<String>, PathBuf),
}

/// What is asked, and where answers are looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchConfig {
    /// The questions: a file, or a directory with one or more files for each split; `None` makes them up. Without a
    /// validation split, it is taken from the training split.
    pub data: Option<PathBuf>,
    /// Where passages come from.
    pub source: PassageSource,
    /// Where indexes are kept.
    pub index_dir: PathBuf,
    /// Passages that a search shows.
    pub n_passages: usize,
    /// How long a retriever may take for a query.
    pub timeout: Duration,
    /// How a file without splits is split.
    pub split_ratio: SplitRatio,
    /// See [`SplitRule`].
    pub split_rule: SplitRule,
    /// Decides the split.
    pub split_seed: u64,
    /// Whether there may be no test split.
    pub test_is_optional: bool,
    /// The most questions of train, val and test.
    pub limits: [Option<usize>; 3],
}

/// Questions, and a retriever to answer them with.
pub struct SearchWorld {
    splits: Splits<Vec<Item>>,
    retriever: Arc<dyn Retriever>,
    n_passages: usize,
}

impl SearchWorld {
    /// Reads the questions, and opens or builds the index; `progress` is told how many passages are indexed.
    ///
    /// # Errors
    ///
    /// Questions or passages that are not what they should be, or an index that cannot be written.
    pub fn load(config: &SearchConfig, progress: &mut dyn FnMut(usize)) -> Result<Self, EnvError> {
        let questions = questions(config)?;
        let retriever: Arc<dyn Retriever> = match &config.source {
            PassageSource::Questions => Arc::new(of_questions(config, &questions, progress)?),
            PassageSource::Corpus(path) => {
                let corpus = Corpus::find(path)?;
                let key = corpus.hash()?;
                let index =
                    StoredIndex::open_or_build(&config.index_dir, &key, || corpus.passages(), progress);
                Arc::new(LocalRetriever::new(Arc::new(index.map_err(build_error)?), key))
            }
            PassageSource::Server(address) => {
                Arc::new(HttpRetriever::new(address, config.timeout).map_err(configuration)?)
            }
            PassageSource::Command(command, directory) => {
                let made = CommandRetriever::new(command.clone(), directory.clone(), config.timeout);
                Arc::new(made.map_err(configuration)?)
            }
        };
        let splits = questions.map(|questions| questions.into_iter().map(item).collect());
        Ok(Self { splits, retriever, n_passages: config.n_passages })
    }

    /// The same questions with another retriever.
    pub fn with_retriever(self, retriever: Arc<dyn Retriever>) -> Self {
        Self { retriever, ..self }
    }
}

/// The questions of each split.
fn questions(config: &SearchConfig) -> Result<Splits<Vec<Question>>, EnvError> {
    let rule = RatioSplit { ratio: config.split_ratio, rule: config.split_rule, seed: config.split_seed };
    let split_by = |rule: RatioSplit, questions: Vec<Question>| {
        Splits::from(rule.split(questions, |question| &question.task_type))
    };
    let split = |questions: Vec<Question>| split_by(rule, questions);
    let mut splits = match &config.data {
        None => split(MadeUp::default().questions()),
        Some(path) => {
            let optional: &[Split] = if config.test_is_optional { &[Split::Test] } else { &[] };
            match find(path, optional)? {
                DataFiles::Whole(files) => {
                    let read =
                        files.iter().map(|file| read_questions(file)).collect::<Result<Vec<_>, _>>()?;
                    split(read.concat())
                }
                DataFiles::Parts(parts) => {
                    let mut splits = Splits::<Vec<Question>>::default();
                    for (part, file) in &parts {
                        splits[*part].extend(read_questions(file)?);
                    }
                    if !parts.iter().any(|(part, _)| *part == Split::Val) {
                        let whole = std::mem::take(&mut splits[Split::Train]);
                        let taken = split_by(train_and_val(rule, whole.len()), whole);
                        (splits.train, splits.val) = (taken.train, taken.val);
                    }
                    splits
                }
            }
        }
    };
    for (split, limit) in Split::ALL.into_iter().zip(config.limits) {
        splits[split].truncate(limit.unwrap_or(usize::MAX));
    }
    let mut known = BTreeSet::new();
    for question in splits.iter().flat_map(|(_, questions)| questions) {
        if let Some(fault) = ItemId::fault(&question.id) {
            return Err(configuration(format!("the id {:?} of a question {fault}", question.id)));
        }
        if !known.insert(question.id.clone()) {
            let id = &question.id;
            return Err(configuration(format!(
                "the id `{id}` of a question occurs twice; ids are unique over all splits"
            )));
        }
    }
    Ok(splits)
}

fn read_questions(file: &std::path::Path) -> Result<Vec<Question>, EnvError> {
    let records = read_records(file)?;
    records.iter().zip(1_usize..).map(|(record, number)| Question::read(record, number)).collect()
}

/// An index over the passages that come with the questions, each once.
fn of_questions(
    config: &SearchConfig,
    questions: &Splits<Vec<Question>>,
    progress: &mut dyn FnMut(usize),
) -> Result<LocalRetriever, EnvError> {
    let mut known = BTreeSet::new();
    let mut passages: Vec<Passage> = Vec::new();
    for passage in
        questions.iter().flat_map(|(_, questions)| questions).flat_map(|question| &question.passages)
    {
        if known.insert((&passage.title, &passage.text)) {
            passages.push(Passage { id: format!("passage-{}", passages.len() + 1), ..passage.clone() });
        }
    }
    if passages.is_empty() {
        let message = "the questions come without passages, and no other source is configured; name passages with \
                       `corpus`, a server with `retriever`, or a program with `retriever_command`";
        return Err(configuration(message));
    }
    let key = hex_sha256(json!(passages).to_string().as_bytes());
    let read = || passages.iter().cloned().map(Ok::<_, EnvError>);
    let index = StoredIndex::open_or_build(&config.index_dir, &key, read, progress).map_err(build_error)?;
    Ok(LocalRetriever::new(Arc::new(index), key))
}

fn build_error(error: BuildError<EnvError>) -> EnvError {
    match error {
        BuildError::Corpus(error) => error,
        BuildError::Store(StoreError::File { path, source }) => EnvError::ReadData { path, source },
        BuildError::Store(error) => configuration(error.to_string()),
    }
}

fn item(question: Question) -> Item {
    let Question { id, question, answers, task_type, support, .. } = question;
    let data = json!({"question": question, "answers": answers, "support": support});
    Item { id: id.into(), task_type, data: Arc::new(data) }
}

impl World for SearchWorld {
    fn name(&self) -> &str {
        "search-agent"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    fn settings(&self) -> Value {
        json!({"retriever": self.retriever.identity(), "passages": self.n_passages})
    }

    fn goal(&self, item: &Item) -> Option<String> {
        Some(item.data.get("question")?.as_str()?.to_owned())
    }

    fn instructions(&self) -> &str {
        INSTRUCTIONS
    }

    fn action_tags(&self) -> &'static [&'static str] {
        &["search", "answer"]
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        let text = |name: &str| item.data.get(name).and_then(Value::as_str);
        let answers = item.data.get("answers").and_then(Value::as_array).into_iter().flatten();
        let support = item.data.get("support").and_then(Value::as_array).into_iter().flatten();
        let question =
            text("question").ok_or_else(|| configuration(format!("item {} has no question", item.id)))?;
        Ok(Box::new(SearchEpisode {
            item: item.id.clone(),
            question: question.to_owned(),
            support: support.filter_map(Value::as_str).map(str::to_owned).collect(),
            answers: answers.filter_map(Value::as_str).map(str::to_owned).collect(),
            retriever: Arc::clone(&self.retriever),
            n_passages: self.n_passages,
            is_over: false,
        }))
    }
}

struct SearchEpisode {
    item: ItemId,
    question: String,
    answers: Vec<String>,
    /// The titles of the documents that are needed, where the data name them.
    support: Vec<String>,
    retriever: Arc<dyn Retriever>,
    n_passages: usize,
    is_over: bool,
}

#[async_trait]
impl Episode for SearchEpisode {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        self.is_over = false;
        Ok(Observation::new(format!("Question: {}", self.question)))
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        let unknown = |text: &str| Observation { understood: false, ..Observation::new(text) };
        if self.is_over {
            return Ok(Observation { done: true, ..unknown("The episode is over.") });
        }
        match argument(action) {
            Some(("search", query)) if !query.is_empty() => {
                let found = self.retriever.search(query, self.n_passages).await;
                let found = found.map_err(|message| EnvError::Broken { item: self.item.clone(), message })?;
                Ok(Observation::new(shown(&found)))
            }
            Some(("answer", answer)) if !answer.is_empty() => {
                self.is_over = true;
                let score = em_f1(answer, &self.answers);
                let won = score.hard >= 1.0;
                let reward = if won { 1.0 } else { score.soft };
                Ok(Observation { reward, done: true, won, ..Observation::new("The episode is over.") })
            }
            Some((name, _)) => Ok(unknown(&format!("Nothing is in the brackets of `{name}[…]`."))),
            None => Ok(unknown("That is not an action. Write `search[query]` or `answer[text]`.")),
        }
    }

    fn task(&self) -> Option<&str> {
        Some(&self.question)
    }

    /// A search for each document that is needed, then the answer.
    fn solution(&self) -> Vec<String> {
        let searches = self.support.iter().map(|title| format!("search[{title}]"));
        let answer = self.answers.first().map(|answer| format!("answer[{answer}]"));
        let solution: Vec<String> = searches.chain(answer).collect();
        if self.support.is_empty() { Vec::new() } else { solution }
    }
}

/// The form of an action and what is in its brackets.
fn argument(action: &str) -> Option<(&'static str, &str)> {
    let (name, rest) = action.trim().split_once('[')?;
    let name = ["search", "answer"].into_iter().find(|known| known.eq_ignore_ascii_case(name.trim()))?;
    Some((name, rest.trim_end().strip_suffix(']').unwrap_or(rest).trim()))
}

/// Passages as Search-R1 shows them.
fn shown(passages: &[Passage]) -> String {
    if passages.is_empty() {
        return "No passage was found.".to_owned();
    }
    let lines = passages.iter().zip(1..).map(|(passage, number)| match passage.title.is_empty() {
        true => format!("Doc {number}: {}", passage.text),
        false => format!("Doc {number}(Title: {}) {}", passage.title, passage.text),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn configuration(message: impl Into<String>) -> EnvError {
    EnvError::Configuration { message: message.into() }
}
