//! Contents and usage as logs hold them: a field that this version does not know is an error.

use super::Content;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use skill_core::{ItemId, Usage};

/// A [`Content`] as it is written: a principle, a mistake or an episode.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenContent {
    title: Option<String>,
    principle: Option<String>,
    when_to_apply: Option<String>,
    description: Option<String>,
    why_it_happens: Option<String>,
    how_to_avoid: Option<String>,
    item: Option<ItemId>,
    goal: Option<String>,
    outcome: Option<String>,
    steps: Option<String>,
}

impl TryFrom<WrittenContent> for Content {
    type Error = &'static str;

    fn try_from(written: WrittenContent) -> Result<Self, Self::Error> {
        match written {
            WrittenContent {
                title: Some(title),
                principle: Some(principle),
                when_to_apply,
                description: None,
                why_it_happens: None,
                how_to_avoid: None,
                item: None,
                goal: None,
                outcome: None,
                steps: None,
            } => Ok(Self::Principle { title, principle, when_to_apply: when_to_apply.unwrap_or_default() }),
            WrittenContent {
                title: None,
                principle: None,
                when_to_apply: None,
                description: Some(description),
                why_it_happens,
                how_to_avoid,
                item: None,
                goal: None,
                outcome: None,
                steps: None,
            } => Ok(Self::Mistake {
                description,
                why_it_happens: why_it_happens.unwrap_or_default(),
                how_to_avoid: how_to_avoid.unwrap_or_default(),
            }),
            WrittenContent {
                title: None,
                principle: None,
                when_to_apply: None,
                description: None,
                why_it_happens: None,
                how_to_avoid: None,
                item: Some(item),
                goal: Some(goal),
                outcome: Some(outcome),
                steps: Some(steps),
            } => Ok(Self::Episode { item, goal, outcome, steps }),
            _ => Err(
                "the content is not a principle (`title`, `principle`), a mistake (`description`) or an episode \
                 (`item`, `goal`, `outcome`, `steps`)",
            ),
        }
    }
}

/// Reads a content whose fields are all known.
///
/// # Errors
///
/// An unknown field, one that is missing, or fields of both kinds of contents.
pub(crate) fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
    Content::try_from(WrittenContent::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// [`Usage`], of which other files may have more fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUsage {
    input: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    cache_written: u64,
    output: u64,
    #[serde(default)]
    reasoning: u64,
}

/// Reads tokens whose fields are all known.
///
/// # Errors
///
/// An unknown field, or a number that is missing.
pub(crate) fn usage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Usage, D::Error> {
    let WrittenUsage { input, cached, cache_written, output, reasoning } =
        WrittenUsage::deserialize(deserializer)?;
    Ok(Usage { input, cached, cache_written, output, reasoning })
}
