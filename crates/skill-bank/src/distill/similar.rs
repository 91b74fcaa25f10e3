//! Skills that say nearly the same, by the cosine of their vectors.

use super::DistillError;
use crate::skill::Content;
use skill_llm::{CallCtx, EmbeddingModel, EmbeddingRequest};

/// The text of a skill that is embedded: its parts that are not empty, joined by `. `, as the paper does.
pub(crate) fn text_of(content: &Content) -> String {
    let parts = content.texts().into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(". ")
}

/// The pairs of places, the lower one first, whose texts have at least this cosine; the most similar pairs first.
pub(crate) async fn neighbours(
    model: &dyn EmbeddingModel,
    texts: &[String],
    threshold: f64,
    call: &CallCtx,
) -> Result<Vec<(usize, usize)>, DistillError> {
    if texts.len() < 2 {
        return Ok(Vec::new());
    }
    let error = |source| DistillError::Model { place: call.place.to_string(), source };
    let reply = model.embed(&EmbeddingRequest::new(texts.iter().cloned()), call).await.map_err(error)?;
    let mut found = Vec::new();
    for (second, vector) in reply.vectors.iter().enumerate() {
        for (first, other) in reply.vectors.iter().enumerate().take(second) {
            let cosine = cosine(other, vector);
            if cosine >= threshold {
                found.push((cosine, first, second));
            }
        }
    }
    found.sort_by(|left, right| right.0.total_cmp(&left.0));
    Ok(found.into_iter().map(|(_, first, second)| (first, second)).collect())
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let dot = |left: &[f32], right: &[f32]| {
        left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum::<f64>()
    };
    let norms = (dot(left, left) * dot(right, right)).sqrt();
    if norms > 0.0 { dot(left, right) / norms } else { 0.0 }
}
