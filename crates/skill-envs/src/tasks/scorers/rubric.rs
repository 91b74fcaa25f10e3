//! A judge model with a rubric.

use super::{Answer, AskingScorer, References, Scored, ScorerSpec, TaskScorer, Verdict, wrong};
use crate::error::EnvError;
use crate::score::Score;
use crate::verdict::{MOST_POINTS, Points, points_in};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skill_core::ItemId;
use skill_core::package::AgentText;
use skill_llm::{CallCtx, ChatModel, ChatRequest, PromptError, PromptTemplate, ResponseSchema};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of the judge's prompt.
pub const JUDGE_PROMPT_NAME: &str = "judge_rubric";

/// The judge's prompt; its variables are `rubric`, `task`, `references` and `answer`.
pub const JUDGE_PROMPT: &str = include_str!("../../../prompts/judge_rubric.md");

/// How often a judge is asked whose reply cannot be read, besides what a journal has of it: a process that resumes asks
/// on, so that one bad spell of a judge ends no run for good.
const JUDGE_ATTEMPTS: u32 = 3;

/// How much of a reply that cannot be read a message quotes.
const QUOTED_CHARACTERS: usize = 120;

/// Nothing is known of a reply without the judge.
pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["rubric", "rubric_file", "judge", "pass_score"],
    needs: &["rubric", "rubric_file"],
    is_judged: true,
    ..ScorerSpec::new(References::Values, &[], "A judge grades the answer by a rubric.")
};

/// How a judge scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RubricConfig {
    /// What a good answer is.
    pub rubric: String,
    /// The share of the points from which `hard` is 1.
    pub pass_score: f64,
    /// A template that replaces [`JUDGE_PROMPT`].
    pub prompt: Option<String>,
}

/// A rubric that is ready to be asked with.
#[derive(Debug, Clone)]
pub(crate) struct Rubric {
    config: RubricConfig,
    prompt: PromptTemplate,
    /// Whether a person was told that the judge is asked again: once is enough for a judge that never gives points.
    is_told: Arc<AtomicBool>,
}

/// What a judge is shown.
#[derive(Serialize)]
pub(crate) struct JudgedAnswer<'a> {
    pub(crate) task: &'a str,
    pub(crate) references: &'a [String],
    pub(crate) answer: &'a str,
}

/// What a judge says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) score: Score,
    pub(crate) points: f64,
    pub(crate) reason: String,
}

impl Rubric {
    pub(crate) fn new(config: RubricConfig) -> Result<Self, EnvError> {
        if config.rubric.trim().is_empty() {
            return Err(wrong("`rubric` is blank; expected what a good answer is"));
        }
        if !(0.0..=1.0).contains(&config.pass_score) {
            return Err(wrong("`pass_score` is not between 0 and 1"));
        }
        let source = config.prompt.as_deref().unwrap_or(JUDGE_PROMPT);
        let prompt = PromptTemplate::parse(JUDGE_PROMPT_NAME, source)?;
        let rubric = Self { config, prompt, is_told: Arc::default() };
        rubric.request(&JudgedAnswer { task: "t", references: &["r".to_owned()], answer: "a" })?;
        Ok(rubric)
    }

    /// What a good answer is, in the words of a person.
    pub(crate) fn text(&self) -> &str {
        self.config.rubric.trim()
    }

    pub(crate) fn settings(&self) -> Value {
        json!({
            "rubric": self.config.rubric,
            "pass_score": self.config.pass_score,
            "prompt": self.prompt.source(),
        })
    }

    /// Asks the judge.
    ///
    /// # Errors
    ///
    /// A judge that cannot be asked, or that does not come to a number of points: that is never a score.
    pub(crate) async fn judge(
        &self,
        judge: &dyn ChatModel,
        shown: &JudgedAnswer<'_>,
        item: &ItemId,
        call: &CallCtx,
    ) -> Result<Judgement, EnvError> {
        let request = self.request(shown)?;
        // The judge is not shown the skill.
        let call = call.child("judge").without::<AgentText>();
        let (mut last, mut n_asked) = (String::new(), 0);
        while n_asked < JUDGE_ATTEMPTS {
            let reply = judge.chat(&request, &call).await?;
            if let Some(judgement) = self.read(&reply.answer()) {
                return Ok(judgement);
            }
            last = reply.text.trim().chars().take(QUOTED_CHARACTERS).collect();
            if reply.is_recorded {
                continue;
            }
            n_asked += 1;
            if n_asked < JUDGE_ATTEMPTS && !self.is_told.swap(true, Ordering::Relaxed) {
                tracing::warn!("the judge's reply has no points from 0 to 10; asking again (told once)");
            }
        }
        let message = format!(
            "the judge gave no points from 0 to 10 in {JUDGE_ATTEMPTS} replies, the last of which begins {last:?}"
        );
        Err(EnvError::NoPoints { item: item.clone(), message })
    }

    fn request(&self, shown: &JudgedAnswer<'_>) -> Result<ChatRequest, PromptError> {
        // Text from outside cannot end the block in which it stands.
        let answer = shown.answer.replace("</answer>", "<\\/answer>");
        let task = shown.task.replace("</task>", "<\\/task>");
        let references: Vec<String> =
            shown.references.iter().map(|text| text.replace("</reference>", "<\\/reference>")).collect();
        let variables = json!({
            "rubric": self.config.rubric.trim(),
            "task": task.trim(),
            "references": references,
            "answer": answer.trim(),
        });
        let messages = self.prompt.render(variables)?;
        Ok(ChatRequest { response_schema: Some(schema()), ..ChatRequest::new(messages) })
    }

    fn read(&self, reply: &str) -> Option<Judgement> {
        let Points { points, reason } = points_in(reply)?;
        let soft = points / MOST_POINTS;
        let is_solved = soft >= self.config.pass_score;
        // The soft score stays the share of the points, so that a better answer counts for more there.
        let score = Score { hard: f64::from(u8::from(is_solved)), soft };
        Some(Judgement { score, points, reason })
    }
}

impl TaskScorer for Rubric {
    fn score(&self, _: &Answer<'_>) -> Scored<'_> {
        Scored::Asks(self)
    }

    fn own_settings(&self) -> Option<Value> {
        Some(self.settings())
    }

    fn own_reward(&self) -> Option<String> {
        Some(format!("A judge grades the answer by this rubric: {}", self.config.rubric))
    }

    fn expects(&self) -> Option<&'static str> {
        None
    }
}

#[async_trait]
impl AskingScorer for Rubric {
    async fn ask(
        &self,
        answer: &Answer<'_>,
        judge: Option<&dyn ChatModel>,
        call: &CallCtx,
    ) -> Result<Verdict, EnvError> {
        let judge = judge.ok_or_else(|| wrong("the scorer `rubric` needs a judge, and there is none"))?;
        let references = &answer.task.answers;
        let shown = JudgedAnswer { task: answer.asked, references, answer: answer.text };
        let Judgement { score, points, reason } =
            self.judge(judge, &shown, &answer.task.item.id, call).await?;
        let said = format!("the judge gave {points} of 10 points: {reason}");
        Ok(Verdict::new(score, said).with("judge", json!({"points": points, "reason": reason})))
    }
}

/// The shape of a judge's reply.
fn schema() -> ResponseSchema {
    ResponseSchema::new(
        "judgement",
        json!({
            "type": "object",
            "properties": {
                "reason": {"type": "string"},
                "points": {"type": "integer", "minimum": 0, "maximum": 10}
            },
            "required": ["reason", "points"],
            "additionalProperties": false
        }),
    )
}
