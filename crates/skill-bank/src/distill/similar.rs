//! Skills that say nearly the same, by the cosine of their vectors.

use super::DistillError;
use crate::retrieve::{SkillVectors, vectors_of};
use skill_llm::{CallCtx, EmbeddingModel, LlmError};
use std::sync::Arc;

/// The pairs of places, the lower one first, whose texts have at least this cosine; the most similar pairs first.
///
/// # Errors
///
/// [`DistillError::Model`]: a model that cannot be called, or vectors that cannot be compared.
pub(crate) async fn neighbours(
    model: &dyn EmbeddingModel,
    texts: &[String],
    threshold: f64,
    call: &CallCtx,
) -> Result<Vec<(usize, usize)>, DistillError> {
    if texts.len() < 2 {
        return Ok(Vec::new());
    }
    let failed = |source| DistillError::Model { place: call.place.to_string(), source };
    let unusable = |error: crate::error::BankError| {
        failed(LlmError::InvalidReply { provider: model.id().provider.clone(), message: error.to_string() })
    };
    let texts = texts.iter().map(|text| Arc::from(text.as_str())).collect();
    let vectors = vectors_of(model, texts, call).await.map_err(failed)?.map_err(unusable)?;
    let all = SkillVectors::new(vectors.iter().map(|vector| Some(vector.as_slice()))).map_err(unusable)?;
    let mut found = Vec::new();
    for (second, vector) in vectors.iter().enumerate() {
        let cosines = all.similarities(vector).map_err(unusable)?;
        for (first, cosine) in cosines.into_iter().flatten().enumerate().take(second) {
            if f64::from(cosine) >= threshold {
                found.push((cosine, first, second));
            }
        }
    }
    found.sort_by(|left, right| right.0.total_cmp(&left.0));
    Ok(found.into_iter().map(|(_, first, second)| (first, second)).collect())
}
