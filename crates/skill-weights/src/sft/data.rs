//! The examples of a run, in two parts that share no task.

use super::demos::Played;
use super::rows::{Row, rows};
use crate::policy::PolicyText;
use skill_core::canonical::RunningSha256;
use skill_core::random::Dice;
use skill_core::{ItemId, RolloutResult};
use skill_pipeline::error::PipelineError;
use skill_pipeline::records::sft::{ExampleLine, SftCounts};
use skill_pipeline::settings::SftSettings;
use skill_train::examples::{LeftOut, SftExample};
use std::collections::BTreeSet;

/// Examples with where they come from.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SftData {
    /// What is trained on.
    pub train: Vec<SftExample>,
    /// What is only measured: examples of other tasks.
    pub validation: Vec<SftExample>,
    /// A line for each example of `train`, then for each of `validation`.
    pub lines: Vec<ExampleLine>,
    /// What was used and what was not.
    pub counts: SftCounts,
}

impl SftData {
    /// The examples of these rollouts.
    ///
    /// The tasks of the validation part follow from the seed and their ids, so that a task keeps its part when
    /// demonstrations are added.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Example`] for a rollout that the template or the tokenizer refuses, and
    /// [`PipelineError::NoExamples`] where nothing is left to train on.
    pub fn new(played: &Played, text: &PolicyText, settings: &SftSettings) -> Result<Self, PipelineError> {
        settings.validate()?;
        let held_out = validation_items(&played.results, settings);
        let mut data = Self { counts: played.counts, ..Self::default() };
        let (mut of_train, mut of_validation) = (Vec::new(), Vec::new());
        for result in &played.results {
            if of_train.len() + of_validation.len() >= settings.max_examples {
                data.counts.used -= 1;
                data.counts.not_needed += 1;
                continue;
            }
            let rows = rows(result, text, settings.max_tokens).map_err(|source| PipelineError::Example {
                item: result.id.clone(),
                source: Box::new(source),
            })?;
            let is_validation = held_out.contains(&result.id);
            for Row { turns, example } in rows {
                match example {
                    Ok(example) => {
                        data.counts.cut += usize::from(example.cut);
                        let line = line_of(result, is_validation, turns, &example);
                        let part = if is_validation { &mut of_validation } else { &mut of_train };
                        part.push((line, example));
                    }
                    Err(LeftOut::CutAway) => data.counts.cut_away += 1,
                    Err(_) => data.counts.empty += 1,
                }
            }
        }
        for (line, example) in of_train {
            data.lines.push(line);
            data.train.push(example);
        }
        for (line, example) in of_validation {
            data.lines.push(line);
            data.validation.push(example);
        }
        data.keep_at_most(settings.max_examples);
        if data.train.is_empty() {
            return Err(PipelineError::NoExamples {
                counts: Box::new(data.counts),
                notes: played.notes.clone(),
            });
        }
        Ok(data)
    }

    /// Takes examples away from the end of the training part.
    fn keep_at_most(&mut self, max_examples: usize) {
        let n_over = (self.train.len() + self.validation.len()).saturating_sub(max_examples);
        let kept = self.train.len().saturating_sub(n_over);
        self.lines.drain(kept..self.train.len());
        self.train.truncate(kept);
    }

    /// Tokens of the training part, and those of them that are learnt.
    pub fn n_tokens(&self) -> [u64; 2] {
        let tokens = self.train.iter().map(|example| example.tokens.len() as u64).sum();
        let targets = self.train.iter().map(|example| example.n_targets() as u64).sum();
        [tokens, targets]
    }

    /// The hash of all examples with their parts: two runs with the same hash train on the same tokens.
    pub fn hash(&self) -> String {
        let mut hash = RunningSha256::default();
        for (part, examples) in [("train", &self.train), ("validation", &self.validation)] {
            hash.update(part.as_bytes());
            for example in examples {
                hash.update(&(example.tokens.len() as u64).to_le_bytes());
                for (token, weight) in example.tokens.iter().zip(&example.weights) {
                    hash.update(&token.to_le_bytes());
                    hash.update(&weight.to_le_bytes());
                }
            }
        }
        hash.hex()
    }
}

fn line_of(
    result: &RolloutResult,
    validation: bool,
    [first, last]: [usize; 2],
    example: &SftExample,
) -> ExampleLine {
    ExampleLine {
        item: result.id.clone(),
        validation,
        skills: result.trajectory.shown_parts.iter().map(ToString::to_string).collect(),
        turns: [first + 1, last + 1],
        tokens: example.tokens.len(),
        targets: example.n_targets(),
        cut: example.cut,
    }
}

/// The tasks of the validation part: as many as the share asks for, and at least one of each part where there are two.
fn validation_items(results: &[RolloutResult], settings: &SftSettings) -> BTreeSet<ItemId> {
    let items: BTreeSet<&ItemId> = results.iter().map(|result| &result.id).collect();
    if settings.validation_share <= 0.0 || items.len() < 2 {
        return BTreeSet::new();
    }
    let dice = Dice::new(settings.seed, &["validation part"]);
    let mut thrown: Vec<(f64, &ItemId)> =
        items.into_iter().map(|item| (dice.unit(item.as_str()), item)).collect();
    thrown.sort_by(|(a, item_a), (b, item_b)| a.total_cmp(b).then_with(|| item_a.cmp(item_b)));
    let asked = (settings.validation_share * thrown.len() as f64).round() as usize;
    let n_held_out = asked.clamp(1, thrown.len() - 1);
    thrown.into_iter().take(n_held_out).map(|(_, item)| item.clone()).collect()
}
