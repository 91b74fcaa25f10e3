//! The memory that fine-tuning takes, compared with what the machine has before weights are read.

use super::{SftRequest, method_of};
use crate::config::LoadedConfig;
use crate::error::Error;
use crate::policy::{LocalTarget, target_error};
use skill_pipeline::settings::SftSettings;
use skill_train::TrainError;
use skill_train::chat_model::{ModelFiles, available_memory, shown_bytes};
use skill_train::training_memory::{TrainingMemory, largest_models};
use std::fmt::Write as _;

/// The memory that a run is predicted to take, and what the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryForecast {
    /// What training takes.
    pub need: TrainingMemory,
    /// What is available, in bytes; `None` where nothing tells.
    pub available: Option<u64>,
    /// True if the base under an adapter keeps the bytes of its file: where no games are played along the way, which
    /// convert it with every token, or where f32 would not fit. Results are the same.
    pub base_is_compact: bool,
}

impl MemoryForecast {
    /// The forecast for the fine-tuning of a configuration, by the headers of its model.
    ///
    /// # Errors
    ///
    /// A target that does not run here, and files of the model that cannot be read.
    pub fn of_config(loaded: &LoadedConfig) -> Result<Self, Error> {
        let files = LocalTarget::open(&loaded.config.models.target)?.files;
        let (settings, method) = method_of(&loaded.config);
        let longest = settings.max_tokens.min(files.config().max_positions);
        let n_games = loaded.config.sft.as_ref().map_or(0, |sft| sft.games as usize);
        let pass = (n_tokens(&settings, longest), n_games);
        Ok(Self::new(&files, method.rank(), pass, available_memory()))
    }

    pub(super) fn of_request(files: &ModelFiles, request: &SftRequest, longest: usize) -> Self {
        let n_tokens = n_tokens(&request.settings, longest);
        Self::new(files, request.method.rank(), (n_tokens, request.n_games), available_memory())
    }

    fn new(
        files: &ModelFiles,
        rank: usize,
        (n_tokens, n_games): (usize, usize),
        available: Option<u64>,
    ) -> Self {
        let need = TrainingMemory::of(files.config(), rank, n_tokens);
        let forecast = Self { need, available, base_is_compact: false };
        if rank == 0 || (n_games > 0 && !forecast.is_too_much()) {
            return forecast;
        }
        let need = need.with_frozen_base(files.config(), files.n_frozen_bytes());
        Self { need, base_is_compact: true, ..forecast }
    }

    /// True if the machine is known to have less.
    pub fn is_too_much(&self) -> bool {
        self.available.is_some_and(|available| available < self.need.total())
    }

    /// Refuses what does not fit.
    pub(super) fn check(&self, files: &std::path::Path) -> Result<(), Error> {
        match self.available {
            Some(available) if self.is_too_much() => {
                let error =
                    TrainError::Memory { path: files.to_owned(), needed: self.need.total(), available };
                let mut message = format!("failed to {error}: {}", self.describe());
                message.push_str(
                    "; train an adapter (`sft.lora_rank`), or lower `sft.max_tokens` or `sft.batch_size`",
                );
                Err(target_error(message))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The numbers in words.
    pub fn describe(&self) -> String {
        let TrainingMemory { weights, gradients, optimizer, activations, .. } = self.need;
        let mut text = format!("about {} of memory", shown_bytes(self.need.total()));
        let parts = [
            (weights, "weights"),
            (gradients, "gradients"),
            (optimizer, "optimizer"),
            (activations, "activations"),
        ];
        let parts = parts.map(|(bytes, what)| format!("{} for {what}", shown_bytes(bytes)));
        let available = match self.available {
            Some(bytes) => format!("{} are available", shown_bytes(bytes)),
            None => "how much is available is not known here".to_owned(),
        };
        // Writing to a text cannot fail.
        let _ = write!(text, " ({}); {available}", parts.join(", "));
        text
    }
}

/// Tokens of the largest pass: what a pass is filled up to, or one longer example, but no more than a batch has.
fn n_tokens(settings: &SftSettings, longest: usize) -> usize {
    settings.micro_batch_tokens.max(longest).min(settings.batch_size.saturating_mul(longest))
}

/// What this machine can train, in words: its cores, its memory, and the largest models.
pub(crate) fn capacity() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match available_memory() {
        Some(available) => {
            let [full, adapter] = largest_models(available).map(in_millions);
            format!(
                "{cores} cores and {} of available memory train models of up to about {full} parameters in full, \
                 {adapter} with an adapter",
                shown_bytes(available)
            )
        }
        None => format!("{cores} cores; how much memory is available is not known here"),
    }
}

fn in_millions(parameters: u64) -> String {
    match parameters / 1_000_000 {
        millions if millions >= 10_000 => format!("{:.0} billion", parameters as f64 / 1e9),
        millions if millions >= 1_000 => format!("{:.1} billion", parameters as f64 / 1e9),
        millions => format!("{millions} million"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../skill-train/tests/data/own/chat-tiny");

    #[test]
    fn a_run_that_does_not_fit_is_refused_with_both_numbers() {
        let files = ModelFiles::open(Path::new(MODEL), None).unwrap();
        let fits = MemoryForecast::new(&files, 4, (512, 0), Some(u64::MAX));
        assert!(fits.check(Path::new(MODEL)).is_ok() && !fits.is_too_much());
        let unknown = MemoryForecast::new(&files, 4, (512, 0), None);
        assert!(unknown.check(Path::new(MODEL)).is_ok());
        let forecast = MemoryForecast::new(&files, 4, (512, 0), Some(1_000));
        let error = forecast.check(Path::new(MODEL)).unwrap_err();
        let said = skill_llm::error::with_causes(&error);
        for part in [
            format!("{} bytes", forecast.need.total()),
            "1000 are available".to_owned(),
            "lora_rank".to_owned(),
        ] {
            assert!(said.contains(&part), "{part}: {said}");
        }
    }

    #[test]
    fn a_base_is_compact_unless_games_are_played_and_there_is_room() {
        let files = ModelFiles::open(Path::new(MODEL), None).unwrap();
        let is_compact = |rank, n_games, available| {
            MemoryForecast::new(&files, rank, (512, n_games), Some(available)).base_is_compact
        };
        assert!(is_compact(4, 0, u64::MAX) && is_compact(4, 20, 1_000));
        assert!(!is_compact(4, 20, u64::MAX) && !is_compact(0, 0, 1_000));
    }

    #[test]
    fn a_pass_is_filled_up_and_no_larger_than_its_batch() {
        let mut settings = SftSettings::default();
        (settings.batch_size, settings.micro_batch_tokens) = (4, 4_096);
        for (longest, expected) in [(100, 400), (1_024, 4_096), (2_000, 4_096), (8_000, 8_000)] {
            assert_eq!(n_tokens(&settings, longest), expected, "{longest}");
        }
    }
}
