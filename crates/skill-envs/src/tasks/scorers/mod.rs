//! The scorers by their names: from an answer to a score with a reason.
//!
//! A scorer is a file here with its [`ScorerSpec`] and its [`TaskScorer`], a row in the table below, and a variant of
//! [`ScorerConfig`] with its settings. Nothing outside of this folder asks which scorer it has.

mod anls;
mod answer;
pub(in crate::tasks) mod choice;
pub mod command;
mod contains;
mod em_f1;
mod exact;
mod json_fields;
mod label_set;
mod numeric;
mod office_qa;
mod regex;
mod rubric;
mod rules;

pub use anls::DEFAULT_ANLS_THRESHOLD;
pub(crate) use answer::{Answer, Verdict, quoted, shown_references};
pub use command::CommandConfig;
pub use rubric::{JUDGE_PROMPT, JUDGE_PROMPT_NAME, RubricConfig};
pub(crate) use rubric::{JudgedAnswer, Rubric};

use super::answers::answers_of;
use super::task::{Asked, Task};
use crate::answerable::ReplyForm;
use crate::error::EnvError;
use crate::score::{ChoiceBy, NumericOptions, Rule};
use answer::{MAX_ANSWER_CHARACTERS, MAX_ANSWERS, cut};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_llm::{CallCtx, ChatModel};
use std::borrow::Cow;
use std::sync::Arc;

/// The table of scorers. A row has the kind with its settings, the name in configurations, the file with the
/// specification, and the scorer that is made from the settings.
macro_rules! scorers {
    ($($(#[$meta:meta])* $kind:ident $settings:tt = $name:literal in $file:ident => $ready:expr;)+) => {
        skill_core::named_enum! {
            /// How an answer is scored.
            pub enum ScorerKind {
                $($(#[$meta])* $kind = $name,)+
            }
        }

        impl ScorerKind {
            /// The facts about the scorer of this name.
            pub fn spec(self) -> &'static ScorerSpec {
                match self {
                    $(Self::$kind => &$file::SPEC,)+
                }
            }
        }

        impl ScorerConfig {
            /// The scorer's name.
            pub fn kind(&self) -> ScorerKind {
                match self {
                    $(Self::$kind { .. } => ScorerKind::$kind,)+
                }
            }

            fn ready(self) -> Result<Arc<dyn TaskScorer>, EnvError> {
                match self {
                    $(Self::$kind $settings => Ok(Arc::new($ready)),)+
                }
            }
        }
    };
}

scorers! {
    /// Exact match and F1 as SQuAD has them.
    EmF1 {} = "em_f1" in em_f1 => em_f1::EmF1;
    /// The answer contains a reference.
    Contains {} = "contains" in contains => contains::Contains;
    /// Equality.
    Exact { ignore_case } = "exact" in exact => exact::Exact { ignore_case };
    /// Several labels, all of which belong.
    LabelSet {} = "label_set" in label_set => label_set::LabelSet;
    /// Which choice is named.
    Choice { by } = "choice" in choice => choice::ByChoice(by);
    /// Numbers.
    Numeric(options) = "numeric" in numeric => numeric::Numeric(options);
    /// Similarity of texts.
    Anls { threshold } = "anls" in anls => anls::Anls(threshold);
    /// A pattern is found.
    Regex { pattern } = "regex" in regex => regex::ByPattern::new(pattern.as_deref())?;
    /// Fields of a JSON object.
    JsonFields { fields, tolerance, ignore_case } = "json_fields" in json_fields =>
        json_fields::JsonFields { fields, tolerance, ignore_case };
    /// Rules.
    Rules { rules } = "rules" in rules => rules::Rules::new(&rules)?;
    /// A judge with a rubric.
    Rubric(config) = "rubric" in rubric => Rubric::new(config)?;
    /// A program.
    Command(config) = "command" in command => command::Program::new(config)?;
    /// As SkillOpt scores OfficeQA.
    OfficeQa {} = "officeqa" in office_qa => office_qa::OfficeQa;
}

/// How an answer is scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ScorerConfig {
    /// Equality, see [`crate::score::exact`].
    Exact {
        /// Whether case does not count.
        ignore_case: bool,
    },
    /// SQuAD's exact match and F1, see [`crate::score::em_f1`].
    EmF1,
    /// Whether a reference is in the answer, see [`crate::score::contains`].
    Contains,
    /// Which labels are named, all of which belong, see [`crate::score::label_set`].
    LabelSet,
    /// Which choice is named, see [`crate::score::choice`].
    Choice {
        /// By what.
        by: ChoiceBy,
    },
    /// Numbers, see [`crate::score::numeric`].
    Numeric(NumericOptions),
    /// Similarity of texts, see [`crate::score::anls`].
    Anls {
        /// The normalized distance from which an answer is worth nothing.
        threshold: f64,
    },
    /// Whether a pattern is found in the answer.
    Regex {
        /// The pattern; `None` takes the references as patterns.
        pattern: Option<String>,
    },
    /// Fields of a JSON object, see [`crate::score::json_fields`].
    JsonFields {
        /// The fields; empty for all that the reference has.
        fields: Vec<String>,
        /// The greatest difference of numbers.
        tolerance: f64,
        /// Whether case does not count.
        ignore_case: bool,
    },
    /// Rules, see [`crate::score::Rule::parse`]; an item may have further ones.
    Rules {
        /// The rules of all items.
        rules: Vec<Value>,
    },
    /// A judge model with a rubric.
    Rubric(RubricConfig),
    /// A program.
    Command(CommandConfig),
    /// As SkillOpt scores OfficeQA, see [`crate::score::office_qa`].
    OfficeQa,
}

impl ScorerConfig {
    /// The name in the configuration.
    pub fn as_str(&self) -> &'static str {
        self.kind().as_str()
    }
}

/// The facts about a scorer that hold however it is set.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScorerSpec {
    /// The settings that it looks at, of those that not all scorers do.
    pub keys: &'static [&'static str],
    /// Settings of which it needs one.
    pub needs: &'static [&'static str],
    /// The comparison in a few words, for a person who chooses; `None` if it is not one of the usual scorers.
    pub summary: Option<&'static str>,
    /// True if it asks a judge.
    pub is_judged: bool,
    references: References,
    /// The forms in which a right answer has to score 1, as far as that is known without a model and a program; in a
    /// sentence it has to where the whole reply is the answer.
    forms: &'static [ReplyForm],
    /// The reward, as a sentence.
    reward: &'static str,
}

impl ScorerSpec {
    const fn new(references: References, forms: &'static [ReplyForm], reward: &'static str) -> Self {
        Self { keys: &[], needs: &[], summary: None, is_judged: false, references, forms, reward }
    }
}

/// A right answer has to score 1 in every form.
const ANY_FORM: &[ReplyForm] = &[ReplyForm::Requested, ReplyForm::Bold, ReplyForm::Sentence];
/// A right answer has to score 1 if nothing is said besides.
const ALONE: &[ReplyForm] = &[ReplyForm::Requested, ReplyForm::Bold];

/// The role of an item's references for a scorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum References {
    /// Texts, of which an answer has to repeat one word for word.
    Words,
    /// Texts that are compared in some other way.
    Texts,
    /// The parts of one answer.
    Parts,
    /// Values that are not compared as texts.
    Values,
    /// No answers: a reply that repeats one is not right.
    NoAnswers,
}

/// A verdict, or the scorer that has to request one.
pub(crate) enum Scored<'a> {
    /// The verdict.
    Known(Verdict),
    /// A judge or a program.
    Asks(&'a dyn AskingScorer),
}

/// A scorer that is ready, with what it needs.
pub(crate) trait TaskScorer: std::fmt::Debug + Send + Sync {
    /// Scores an answer that is not empty.
    fn score(&self, answer: &Answer<'_>) -> Scored<'_>;

    /// The fault of settings that no scorer can have.
    fn problem(&self) -> Option<&'static str> {
        None
    }

    /// The settings that decide a score, if they are not those that were configured.
    fn own_settings(&self) -> Option<Value> {
        None
    }

    /// The reward, if it depends on the settings.
    fn own_reward(&self) -> Option<String> {
        None
    }

    /// The value that the answer field has to have; `None` if items can be scored without one.
    fn expects(&self) -> Option<&'static str> {
        Some("a text or a list of texts")
    }

    /// Reads the answer field, which has this name, into the task.
    fn read_reference(&self, task: &mut Task, name: &str, value: &Value) -> Result<(), String> {
        task.answers = match self.expects() {
            Some(_) => not_blank(name, answers_of(name, value)?)?,
            None => any_texts(name, value),
        };
        Ok(())
    }

    /// Why an item cannot be scored by an agent with or without tools; `None` if it can.
    fn fault(&self, _task: &Task, _offers_tools: bool) -> Option<&'static str> {
        None
    }

    /// By what an answer names a choice; `None` if there are no choices.
    fn choice_by(&self) -> Option<ChoiceBy> {
        None
    }

    /// A right answer, for those who read trajectories.
    fn reference_text(&self, task: &Task) -> String {
        reference_text(task, &[])
    }

    /// Members of an object that an answer has to have.
    fn members(&self, _tasks: &[Asked<'_>]) -> Vec<String> {
        Vec::new()
    }

    /// The answer with the marks that models write around it, where these are not asterisks.
    fn marked(&self, _answer: &str) -> Option<String> {
        None
    }
}

/// A scorer that asks a judge or a program.
#[async_trait]
pub(crate) trait AskingScorer: Send + Sync {
    /// Scores an answer that is not empty.
    ///
    /// # Errors
    ///
    /// A judge that cannot be asked, or a program that gives no score: never a score of 0.
    async fn ask(
        &self,
        answer: &Answer<'_>,
        judge: Option<&dyn ChatModel>,
        call: &CallCtx,
    ) -> Result<Verdict, EnvError>;
}

/// A scorer that is ready, with its configuration.
#[derive(Debug, Clone)]
pub(crate) struct Scorer {
    config: ScorerConfig,
    ready: Arc<dyn TaskScorer>,
}

impl std::ops::Deref for Scorer {
    type Target = dyn TaskScorer;

    fn deref(&self) -> &Self::Target {
        self.ready.as_ref()
    }
}

impl Scorer {
    /// Prepares a scorer.
    ///
    /// # Errors
    ///
    /// Invalid settings: a pattern or a rule that does not parse, numbers out of range.
    pub(crate) fn new(config: ScorerConfig) -> Result<Self, EnvError> {
        let ready = config.clone().ready()?;
        match ready.problem() {
            None => Ok(Self { config, ready }),
            Some(problem) => Err(wrong(problem)),
        }
    }

    /// The scorer's name.
    pub(crate) fn kind(&self) -> ScorerKind {
        self.config.kind()
    }

    fn references(&self) -> References {
        self.kind().spec().references
    }

    /// What decides a score.
    pub(crate) fn settings(&self) -> Value {
        let Some(mut settings) = self.ready.own_settings() else {
            return serde_json::to_value(&self.config).expect("texts and numbers are values of JSON");
        };
        if let Value::Object(fields) = &mut settings {
            fields.insert("kind".to_owned(), self.kind().as_str().into());
        }
        settings
    }

    /// What it rewards, as a sentence.
    pub(crate) fn reward(&self) -> String {
        self.ready.own_reward().unwrap_or_else(|| self.kind().spec().reward.to_owned())
    }

    /// Scores an answer that is not empty.
    ///
    /// # Errors
    ///
    /// As [`AskingScorer::ask`].
    pub(crate) async fn verdict(
        &self,
        answer: &Answer<'_>,
        judge: Option<&dyn ChatModel>,
        call: &CallCtx,
    ) -> Result<Verdict, EnvError> {
        match self.ready.score(answer) {
            Scored::Known(verdict) => Ok(verdict),
            Scored::Asks(scorer) => scorer.ask(answer, judge, call).await,
        }
    }

    /// True if the answer is known to be right without a model and a program.
    pub(crate) fn accepts(&self, answer: &Answer<'_>) -> bool {
        match self.ready.score(answer) {
            Scored::Known(verdict) => verdict.score.hard >= 1.0,
            Scored::Asks(_) => false,
        }
    }

    /// True if right answers in this form have to score 1; `is_whole` if the whole reply is the answer.
    pub(crate) fn has_to_accept(&self, form: ReplyForm, is_whole: bool) -> bool {
        self.kind().spec().forms.contains(&form) && (is_whole || form != ReplyForm::Sentence)
    }

    /// True if an answer has to repeat a reference word for word.
    pub(crate) fn compares_words(&self) -> bool {
        self.references() == References::Words
    }

    /// The class labels of an item; `None` if its references are not texts that other items can share.
    pub(crate) fn labels<'a>(&self, task: &'a Task) -> Option<&'a [String]> {
        match (self.references(), task.answers.as_slice()) {
            (References::Parts, labels) | (References::Words | References::Texts, labels @ [_]) => {
                Some(labels)
            }
            // Numbers, fields, patterns and rules are not compared as texts.
            (References::Words | References::Texts | References::Values | References::NoAnswers, _) => None,
        }
    }

    /// The answer that replies are compared with, where it is one text.
    pub(crate) fn label(&self, task: &Task) -> Option<String> {
        self.labels(task).filter(|_| self.references() != References::Parts)?.first().cloned()
    }

    /// The answers that are right, where they are known.
    pub(crate) fn right_answers<'a>(&self, task: &'a Task) -> Cow<'a, [String]> {
        match self.references() {
            References::Parts => Cow::Owned(vec![task.answers.join(", ")]),
            References::Words | References::Texts | References::Values | References::NoAnswers => {
                Cow::Borrowed(&task.answers)
            }
        }
    }

    /// The first answer that is right; `None` as well if references are no answers.
    pub(crate) fn right_answer(&self, task: &Task) -> Option<String> {
        let answers = self.right_answers(task);
        answers.first().filter(|_| self.references() != References::NoAnswers).cloned()
    }
}

/// References, at least one and none of them blank.
fn not_blank(name: &str, answers: Vec<String>) -> Result<Vec<String>, String> {
    if answers.is_empty() {
        return Err(format!("has no answer; `{name}` must hold at least one"));
    }
    if answers.iter().any(|answer| answer.trim().is_empty()) {
        return Err(format!("has a blank answer in `{name}`; leave it out"));
    }
    Ok(answers)
}

/// References of any shape as text, for people who read trajectories.
fn any_texts(name: &str, value: &Value) -> Vec<String> {
    let mut answers = answers_of(name, value).unwrap_or_else(|_| vec![value.to_string()]);
    answers.retain(|answer| !answer.trim().is_empty());
    answers
}

/// The references of a task, and the rules for all items and for this one.
fn reference_text(task: &Task, rules: &[Rule]) -> String {
    let rules: Vec<String> = rules.iter().chain(&task.rules).map(|rule| rule.source().to_string()).collect();
    let mut parts = task.answers.clone();
    if !rules.is_empty() {
        parts.push(format!("rules: {}", rules.join(", ")));
    }
    parts.join(" | ")
}

fn wrong(message: impl Into<String>) -> EnvError {
    EnvError::Configuration { message: message.into() }
}
