//! A scorer that is ready: from an answer to a score with a reason.

use super::command::{Program, ProgramFault};
use super::config::ScorerConfig;
use super::rubric::{JudgedAnswer, Rubric};
use super::task::Asked;
use crate::error::EnvError;
use crate::score::{
    ChoiceBy, Rule, Score, anls, apply_rules, chosen, contains, em_f1, exact, is_equal, json_fields,
    label_set, numeric, office_qa, parse_json_answer, pattern,
};
use regex::Regex;
use serde_json::{Map, Value, json};
use skill_core::decoration::folded;
use skill_core::json::Repair;
use skill_core::rollout::{MARKS_KEY, NO_NUMBER_KEY};
use skill_llm::{CallCtx, ChatModel, ChatReply, LlmError};

/// How many characters of an answer are in a reason.
const MAX_REPLY_CHARACTERS: usize = 80;
/// How many characters of a reference are in a reason.
const MAX_ANSWER_CHARACTERS: usize = 60;
/// How many references, fields or broken rules are in a reason.
const MAX_ANSWERS: usize = 3;

/// What an answer is worth, and why.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Verdict {
    pub(crate) score: Score,
    /// Why the answer is not right, as a sentence without its period.
    pub(crate) reason: String,
    /// What only this scorer knows.
    pub(crate) extras: Map<String, Value>,
}

/// What is scored.
pub(crate) struct Answer<'a> {
    pub(crate) task: Asked<'a>,
    /// What was extracted.
    pub(crate) text: &'a str,
    /// The reply without what the model thought, where the answer is its last line for want of anything better.
    pub(crate) whole: Option<&'a str>,
    /// What the answer is called in a reason: `reply` or `answer`.
    pub(crate) noun: &'a str,
    pub(crate) reply: &'a ChatReply,
    /// What the agent was asked.
    pub(crate) asked: &'a str,
}

/// A scorer that is ready.
#[derive(Debug, Clone)]
pub(crate) struct Scorer {
    config: ScorerConfig,
    rules: Vec<Rule>,
    pattern: Option<Regex>,
    rubric: Option<Rubric>,
    program: Option<Program>,
}

impl Scorer {
    /// Prepares a scorer.
    ///
    /// # Errors
    ///
    /// Settings that cannot be: a pattern that is none, a rule that is none, numbers out of range.
    pub(crate) fn new(config: ScorerConfig) -> Result<Self, EnvError> {
        let wrong = |message: String| EnvError::Configuration { message };
        let mut scorer =
            Self { rules: Vec::new(), pattern: None, rubric: None, program: None, config: config.clone() };
        match config {
            ScorerConfig::Exact { .. }
            | ScorerConfig::EmF1
            | ScorerConfig::Contains
            | ScorerConfig::LabelSet
            | ScorerConfig::Choice { .. }
            | ScorerConfig::OfficeQa
            | ScorerConfig::Regex { pattern: None } => {}
            ScorerConfig::Numeric(options) => {
                if ![options.tolerance, options.relative_tolerance].into_iter().all(is_tolerance) {
                    return Err(wrong("a tolerance is below 0".to_owned()));
                }
            }
            ScorerConfig::JsonFields { tolerance, .. } => {
                if !is_tolerance(tolerance) {
                    return Err(wrong("`tolerance` is below 0".to_owned()));
                }
            }
            ScorerConfig::Anls { threshold } => {
                if !(0.0..=1.0).contains(&threshold) {
                    return Err(wrong("`anls_threshold` is not between 0 and 1".to_owned()));
                }
            }
            ScorerConfig::Regex { pattern: Some(text) } => {
                let compiled = pattern(&text).map_err(|fault| {
                    wrong(format!("`pattern` is not a regular expression: `{text}`: {fault}"))
                })?;
                scorer.pattern = Some(compiled);
            }
            ScorerConfig::Rules { rules } => {
                let rules = rules.iter().enumerate().map(|(rule_idx, rule)| {
                    Rule::parse(rule)
                        .map_err(|error| wrong(format!("rule {} of `rules`: {error}", rule_idx + 1)))
                });
                scorer.rules = rules.collect::<Result<_, _>>()?;
            }
            ScorerConfig::Rubric(rubric) => scorer.rubric = Some(Rubric::new(rubric)?),
            ScorerConfig::Command(command) => scorer.program = Some(Program::new(command).map_err(wrong)?),
        }
        Ok(scorer)
    }

    pub(crate) fn config(&self) -> &ScorerConfig {
        &self.config
    }

    /// The rules of all items.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What decides a score.
    pub(crate) fn settings(&self) -> Value {
        let inner = match (&self.rubric, &self.program) {
            (Some(rubric), _) => Some(rubric.settings()),
            (None, Some(program)) => Some(program.settings()),
            (None, None) => None,
        };
        match inner {
            Some(Value::Object(mut settings)) => {
                settings.insert("kind".to_owned(), Value::from(self.config.as_str()));
                Value::Object(settings)
            }
            Some(_) | None => serde_json::to_value(&self.config).unwrap_or_default(),
        }
    }

    /// Scores an answer that is not empty.
    ///
    /// # Errors
    ///
    /// A judge that cannot be asked, or a program that gives no score: never a score of 0.
    pub(crate) async fn score(
        &self,
        answer: &Answer<'_>,
        judge: Option<&dyn ChatModel>,
        call: &CallCtx,
    ) -> Result<Verdict, EnvError> {
        if let Some(verdict) = self.compared(answer) {
            return Ok(verdict);
        }
        match &self.program {
            Some(program) => by_program(program, answer, call).await,
            None => self.by_judge(answer, judge, call).await,
        }
    }

    /// Scores an answer that is not empty; `None` where only a judge or a program can.
    pub(crate) fn compared(&self, answer: &Answer<'_>) -> Option<Verdict> {
        let (task, text) = (answer.task, answer.text);
        let references = &task.answers;
        let by_reference = |score: Score| Verdict {
            score,
            reason: unmatched(answer.noun, text, references),
            extras: Map::new(),
        };
        Some(match &self.config {
            ScorerConfig::Exact { ignore_case } => {
                let mut verdict = by_reference(exact(text, references, *ignore_case));
                if !is_equal(text, references, *ignore_case)
                    && references.iter().any(|reference| folded(reference) == folded(text))
                {
                    verdict.extras.insert(MARKS_KEY.to_owned(), Value::Bool(true));
                }
                verdict
            }
            ScorerConfig::LabelSet => by_reference(label_set(text, references)),
            ScorerConfig::EmF1 => by_reference(em_f1(text, references)),
            ScorerConfig::Contains => by_reference(contains(text, references)),
            ScorerConfig::Anls { threshold } => by_reference(anls(text, references, *threshold)),
            ScorerConfig::OfficeQa => by_reference(office_qa(text, references)),
            ScorerConfig::Numeric(options) => match numeric(text, references, options) {
                Some(score) => by_reference(score),
                None => Verdict {
                    reason: format!(
                        "the {} {} holds no number; expected {}",
                        answer.noun,
                        quoted(text, MAX_REPLY_CHARACTERS),
                        shown_references(references)
                    ),
                    extras: Map::from_iter([(NO_NUMBER_KEY.to_owned(), Value::Bool(true))]),
                    ..Verdict::default()
                },
            },
            ScorerConfig::Choice { by } => {
                let shown = quoted(text, MAX_REPLY_CHARACTERS);
                // Where no tag says which part is the answer, the explanation may be behind it.
                let named = chosen(text, &task.choices, *by).or_else(|| {
                    let whole = answer.whole.filter(|_| *by == ChoiceBy::Either)?;
                    chosen(whole, &task.choices, *by)
                });
                let score = if named == Some(task.correct) { Score::RIGHT } else { Score::default() };
                let named = match named.and_then(|index| task.choices.get(index)) {
                    Some(choice) => format!("the {} {shown} is choice {}", answer.noun, choice.label),
                    None => format!("the {} {shown} names no choice", answer.noun),
                };
                let right = task.choices.get(task.correct).map(|choice| {
                    format!("{} ({})", choice.label, quoted(&choice.text, MAX_ANSWER_CHARACTERS))
                });
                let reason = format!("{named}; expected {}", right.unwrap_or_default());
                Verdict { score, reason, extras: Map::new() }
            }
            ScorerConfig::Regex { .. } => self.by_pattern(answer),
            ScorerConfig::JsonFields { fields, tolerance, ignore_case } => {
                by_fields(answer, fields, *tolerance, *ignore_case)
            }
            ScorerConfig::Rules { .. } => self.by_rules(answer),
            ScorerConfig::Rubric(_) | ScorerConfig::Command(_) => return None,
        })
    }

    fn by_pattern(&self, answer: &Answer<'_>) -> Verdict {
        let patterns: Vec<&Regex> = self.pattern.iter().chain(&answer.task.patterns).collect();
        if patterns.iter().any(|pattern| pattern.is_match(answer.text)) {
            return Verdict { score: Score::RIGHT, ..Verdict::default() };
        }
        let shown: Vec<String> =
            patterns.iter().take(MAX_ANSWERS).map(|pattern| format!("`{pattern}`")).collect();
        let (noun, text) = (answer.noun, quoted(answer.text, MAX_REPLY_CHARACTERS));
        Verdict {
            reason: format!("the {noun} {text} does not match {}", shown.join(" or ")),
            ..Verdict::default()
        }
    }

    fn by_rules(&self, answer: &Answer<'_>) -> Verdict {
        let rules: Vec<Rule> = self.rules.iter().chain(&answer.task.rules).cloned().collect();
        let called: Vec<&str> = answer.reply.tool_calls.iter().map(|call| call.name.as_str()).collect();
        let verdict = apply_rules(&rules, answer.text, &called);
        let n_more = verdict.broken.len().saturating_sub(MAX_ANSWERS);
        let mut broken: Vec<String> = verdict.broken.into_iter().take(MAX_ANSWERS).collect();
        if n_more > 0 {
            broken.push(format!("{n_more} more rules are broken"));
        }
        let reason = format!("of the {}: {}", answer.noun, broken.join("; "));
        Verdict { score: verdict.score, reason, extras: Map::new() }
    }

    async fn by_judge(
        &self,
        answer: &Answer<'_>,
        judge: Option<&dyn ChatModel>,
        call: &CallCtx,
    ) -> Result<Verdict, EnvError> {
        let (Some(rubric), Some(judge)) = (&self.rubric, judge) else {
            let message = "the scorer `rubric` needs a judge, and there is none".to_owned();
            return Err(EnvError::Configuration { message });
        };
        let shown =
            JudgedAnswer { task: answer.asked, references: &answer.task.answers, answer: answer.text };
        let judgement = rubric.judge(judge, &shown, &answer.task.item.id, call).await?;
        let said = json!({"points": judgement.points, "reason": judgement.reason});
        Ok(Verdict {
            score: judgement.score,
            reason: format!("the judge gave {} of 10 points: {}", judgement.points, judgement.reason),
            extras: Map::from_iter([("judge".to_owned(), said)]),
        })
    }
}

async fn by_program(program: &Program, answer: &Answer<'_>, call: &CallCtx) -> Result<Verdict, EnvError> {
    let id = &answer.task.item.id;
    let input = json!({
        "version": super::command::PROTOCOL_VERSION,
        "id": id,
        "item": answer.task.item.data,
        "answer": answer.text,
        "reply": answer.reply.text,
        "references": answer.task.answers,
    });
    let scored = program.score(&input, &call.cancel).await.map_err(|fault| match fault {
        ProgramFault::Cancelled => EnvError::Model(LlmError::Cancelled),
        ProgramFault::Failed(message) => EnvError::Broken { item: id.clone(), message },
    })?;
    let extras = match scored.reason.is_empty() {
        true => Map::new(),
        false => Map::from_iter([("scorer_reason".to_owned(), Value::from(scored.reason.clone()))]),
    };
    let reason = match scored.reason.as_str() {
        "" => {
            format!("the scorer gave {} for {}", scored.score.hard, quoted(answer.text, MAX_REPLY_CHARACTERS))
        }
        reason => reason.to_owned(),
    };
    Ok(Verdict { score: scored.score, reason, extras })
}

/// Whether the number can be a tolerance; what is not a number is none.
fn is_tolerance(number: f64) -> bool {
    number >= 0.0
}

fn by_fields(answer: &Answer<'_>, fields: &[String], tolerance: f64, ignores_case: bool) -> Verdict {
    let Some(found) = parse_json_answer(answer.text) else {
        let text = quoted(answer.text, MAX_REPLY_CHARACTERS);
        return Verdict { reason: format!("the {} {text} holds no JSON", answer.noun), ..Verdict::default() };
    };
    let verdict = json_fields(&found.value, &answer.task.reference, fields, tolerance, ignores_case);
    let wrong: Vec<String> = verdict
        .fields
        .iter()
        .filter(|field| !field.is_right)
        .map(|field| match &field.found {
            Some(found) => format!(
                "`{}` is {}, expected {}",
                field.field,
                cut(&found.to_string(), MAX_ANSWER_CHARACTERS),
                cut(&field.expected.to_string(), MAX_ANSWER_CHARACTERS)
            ),
            None => format!("`{}` is missing", field.field),
        })
        .collect();
    let n_more = wrong.len().saturating_sub(MAX_ANSWERS);
    let mut reason = wrong.into_iter().take(MAX_ANSWERS).collect::<Vec<_>>().join("; ");
    if n_more > 0 {
        reason.push_str(&format!("; {n_more} more fields are wrong"));
    }
    if found.repairs.contains(&Repair::SeveralObjects) {
        reason.push_str("; there are several objects, of which the last whole one counts");
    }
    Verdict { score: verdict.score, reason, extras: Map::new() }
}

/// Why a text is not right that was compared with references.
pub(crate) fn unmatched(noun: &str, text: &str, references: &[String]) -> String {
    format!(
        "the {noun} {} matches no reference answer; expected {}",
        quoted(text, MAX_REPLY_CHARACTERS),
        shown_references(references)
    )
}

pub(crate) fn shown_references(references: &[String]) -> String {
    let shown: Vec<String> =
        references.iter().take(MAX_ANSWERS).map(|text| quoted(text, MAX_ANSWER_CHARACTERS)).collect();
    let mut shown = shown.join(" or ");
    if references.len() > MAX_ANSWERS {
        shown.push_str(&format!(" or one of {} more", references.len() - MAX_ANSWERS));
    }
    shown
}

/// A text on one line in quotation marks, cut to this many characters.
pub(crate) fn quoted(text: &str, max_characters: usize) -> String {
    format!("{:?}", cut(text, max_characters))
}

fn cut(text: &str, max_characters: usize) -> String {
    let mut shown: String = text.chars().take(max_characters).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
