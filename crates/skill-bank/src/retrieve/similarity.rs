//! Similarity of goals and skills: vectors, cosines, rankings, and thresholds that belong to a model.

use crate::error::BankError;
use crate::skill::Content;
use serde::{Deserialize, Serialize};
use skill_llm::{CallCtx, EmbeddingModel, EmbeddingRequest, LlmError};
use std::sync::Arc;

/// The text of a skill that is embedded: title, principle and when to apply it, without blanks around them, empty ones
/// left out, joined by `". "`; of an episode its goal. `None` for a mistake and for a skill without text: these have no
/// vector.
///
/// It is the text that the SkillRL paper's code embeds.
pub fn embedding_text(content: &Content) -> Option<String> {
    match content {
        Content::Principle { .. } => Some(whole_text(content)).filter(|text| !text.is_empty()),
        Content::Mistake { .. } => None,
        Content::Episode { goal, .. } => Some(goal.trim().to_owned()).filter(|text| !text.is_empty()),
    }
}

/// The texts of a skill or a mistake in the form of [`embedding_text`].
pub(crate) fn whole_text(content: &Content) -> String {
    let texts = content.texts().map(str::trim);
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join(". ")
}

/// The vectors of texts, one for each, in requests that the model takes.
///
/// # Errors
///
/// That of the model, and inside of it [`BankError::BadVectors`] if it gives another number of vectors.
pub(crate) async fn vectors_of(
    model: &dyn EmbeddingModel,
    texts: Vec<Arc<str>>,
    call: &CallCtx,
) -> Result<Result<Vec<Vec<f32>>, BankError>, LlmError> {
    let mut vectors = Vec::with_capacity(texts.len());
    for batch in texts.chunks(model.max_texts().max(1)) {
        let reply = model.embed(&EmbeddingRequest::new(batch.iter().cloned()), call).await?;
        if reply.vectors.len() != batch.len() {
            return Ok(Err(bad(format!(
                "there are {} vectors for {} texts",
                reply.vectors.len(),
                batch.len()
            ))));
        }
        vectors.extend(reply.vectors);
    }
    Ok(Ok(vectors))
}

/// The similarity that a skill must exceed. It is a property of the embedding model: another model needs another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The model's id, as [`ModelId`](skill_llm::ModelId) writes it.
    pub model: String,
    /// The cosine that a skill must exceed, in `-1..=1`.
    pub value: f64,
}

/// The most similar of a pool: those above `delta`, at most `k`, the most similar first, ties in the order of the pool.
///
/// With all skills of a bank as the pool this is the rule of the SkillRL paper and of krill.
pub fn top_k_over(
    similarities: &[Option<f32>],
    pool: impl IntoIterator<Item = usize>,
    delta: f64,
    k: usize,
) -> Vec<usize> {
    let similarity = |skill_idx: usize| similarities.get(skill_idx).copied().flatten();
    let with_similarity = pool.into_iter().filter_map(|skill_idx| Some((skill_idx, similarity(skill_idx)?)));
    let mut passing: Vec<(usize, f32)> =
        with_similarity.filter(|(_, cosine)| f64::from(*cosine) > delta).collect();
    passing.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    passing.into_iter().map(|(skill_idx, _)| skill_idx).take(k).collect()
}

/// The vectors of the skills of a view, normalised.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SkillVectors {
    /// The numbers of all vectors, one vector after the other.
    numbers: Vec<f32>,
    /// The place of each skill's vector among them; `None` for a skill without one.
    places: Vec<Option<usize>>,
    length: usize,
}

impl SkillVectors {
    /// The vectors of skills, in the order of the bank; `None` for a skill without one.
    ///
    /// # Errors
    ///
    /// [`BankError::BadVectors`]: vectors of several lengths, or one that is zero or not finite.
    pub fn new<'a>(vectors: impl IntoIterator<Item = Option<&'a [f32]>>) -> Result<Self, BankError> {
        let mut new = Self::default();
        for vector in vectors {
            let place = vector.map(|vector| new.push(vector)).transpose()?;
            new.places.push(place);
        }
        Ok(new)
    }

    fn push(&mut self, vector: &[f32]) -> Result<usize, BankError> {
        if self.length == 0 {
            self.length = vector.len();
        }
        let place = self.numbers.len();
        self.numbers.extend(normalised(vector, self.length)?);
        Ok(place)
    }

    /// The cosine of a goal with each skill, in the order of the bank; `None` for a skill without a vector.
    ///
    /// # Errors
    ///
    /// [`BankError::BadVectors`]: a goal of another length, zero or not finite.
    pub fn similarities(&self, goal: &[f32]) -> Result<Vec<Option<f32>>, BankError> {
        let length = if self.length == 0 { goal.len() } else { self.length };
        let goal = normalised(goal, length)?;
        let of = |place: &usize| self.numbers.get(*place..place + self.length).map(|own| dot(own, &goal));
        Ok(self.places.iter().map(|place| place.as_ref().and_then(of)).collect())
    }
}

fn bad(message: impl Into<String>) -> BankError {
    BankError::BadVectors { message: message.into() }
}

/// A vector of this length with the norm 1.
fn normalised(vector: &[f32], length: usize) -> Result<Vec<f32>, BankError> {
    if vector.len() != length || length == 0 {
        return Err(bad(format!("a vector has {} numbers where {length} were expected", vector.len())));
    }
    let norm = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    if !norm.is_finite() || norm == 0.0 {
        return Err(bad("a vector is zero or holds a number that is not finite"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "a number of a unit vector fits")]
    Ok(vector.iter().map(|number| (f64::from(*number) / norm) as f32).collect())
}

/// The scalar product, in lanes of their own so that the processor adds several at once.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (one, one_rest) = one.as_chunks::<LANES>();
    let (other, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (one, other) in one.iter().zip(other) {
        for ((sum, one), other) in sums.iter_mut().zip(one).zip(other) {
            *sum += one * other;
        }
    }
    let rest: f32 = one_rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f32>() + rest
}
