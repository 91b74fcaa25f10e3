//! Games that a policy won before and after its training, as a verdict.

use crate::verdict::{Outcome, Verdict};
use crate::words::{percent, points};
use skill_core::stats::shares_interval;
use skill_pipeline::records::sft::SftGames;

/// The verdict by games before and after, as if the two had played other games.
pub(super) fn of_games(before: SftGames, after: SftGames) -> Verdict {
    let share = |games: SftGames| games.won as f64 / games.played.max(1) as f64;
    let [low, high] = shares_interval([before.won, after.won], [before.played, after.played], crate::LEVEL);
    let outcome = match [low, high] {
        [low, _] if low > 0.0 => Outcome::Better,
        [_, high] if high < 0.0 => Outcome::Worse,
        _ => Outcome::Unclear,
    };
    let words = format!(
        "{} of games won instead of {} ({} of {}, {} of {} before; {}, 95 % interval {:+.1} to {:+.1})",
        percent(share(after)),
        percent(share(before)),
        after.won,
        after.played,
        before.won,
        before.played,
        points(share(after) - share(before)),
        100.0 * low,
        100.0 * high
    );
    Verdict::new(outcome, words).decided_by(share(after) - share(before), Some([low, high]))
}
