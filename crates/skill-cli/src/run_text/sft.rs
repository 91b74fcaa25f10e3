//! A run that fine-tunes in words, for `status` and `watch`.

use crate::table::{duration, grouped};
use skillrl::pipeline::records::sft::SftGames;
use skillrl::reports::SftBrief;

/// What there is to say, each with its name of at most six characters.
pub(crate) fn brief(brief: &SftBrief) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let (Some(first), Some(loss)) = (brief.first_loss, brief.loss) {
        lines.push(("loss", format!("{first:.4} → {loss:.4}")));
    }
    if let Some(last) = brief.validation_loss {
        let first = brief.first_validation_loss.map(|first| format!("{first:.4} → ")).unwrap_or_default();
        let best = brief.best_validation_loss.map(|best| format!(", lowest {best:.4}")).unwrap_or_default();
        lines.push(("valid", format!("{first}{last:.4}{best}")));
    }
    if let Some(last) = brief.games {
        let first = brief.first_games.map(|games| format!("{} → ", won(games))).unwrap_or_default();
        let [low, high] = last.interval.map(|share| share * 100.0);
        lines.push(("games", format!("{first}{} won ({low:.0} to {high:.0} %)", won(last))));
    }
    if let (Some(rate), Some(norm)) = (brief.learning_rate, brief.grad_norm) {
        lines.push(("rate", format!("{rate:.2e}, gradient norm {norm:.3}")));
    }
    if let Some(speed) = brief.tokens_per_second {
        let memory = brief.peak_memory.map(|bytes| format!(", {:.2} GB at its peak", bytes as f64 / 1e9));
        lines.push(("speed", format!("{speed:.0} tokens/s{}", memory.unwrap_or_default())));
    }
    let time = brief.seconds.map(|seconds| format!(", {}", duration((seconds * 1000.0) as i64)));
    lines.push(("spent", format!("{} tokens trained on{}", grouped(brief.tokens), time.unwrap_or_default())));
    lines
}

/// The losses in a few words, for a list of runs.
pub(crate) fn short(brief: &SftBrief) -> Option<String> {
    let validation = brief.validation_loss.map(|loss| format!(", validation {loss:.4}"));
    Some(format!("fine-tuning: loss {:.4}{}", brief.loss?, validation.unwrap_or_default()))
}

fn won(games: SftGames) -> String {
    format!("{} of {}", games.won, games.played)
}
