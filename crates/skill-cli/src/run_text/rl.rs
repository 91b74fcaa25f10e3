//! A run of reinforcement learning in words, for `status` and `watch`.

use crate::table::{duration, grouped};
use skillrl::pipeline::records::sft::SftGames;
use skillrl::pipeline::records::signs::RlFinding;
use skillrl::reports::RlBrief;

/// What there is to say, each with its name of at most six characters.
pub(crate) fn brief(brief: &RlBrief) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let (Some(first), Some(reward)) = (brief.first_reward, brief.reward) {
        lines.push(("return", format!("{first:.3} → {reward:.3}")));
    }
    if let (Some(first), Some(last)) = (brief.first_episodes, brief.episodes) {
        lines.push(("won", format!("{} → {} episodes", of(first), of(last))));
    }
    if brief.by_task_type.len() > 1 {
        let types = brief.by_task_type.iter().map(|(name, won)| format!("{name} {}", of(*won)));
        lines.push(("types", types.collect::<Vec<_>>().join(", ")));
    }
    if let Some(last) = brief.games {
        let first = brief.first_games.map(|games| format!("{} → ", won(games))).unwrap_or_default();
        let [low, high] = last.interval.map(|share| share * 100.0);
        lines.push(("games", format!("{first}{} won ({low:.0} to {high:.0} %)", won(last))));
    }
    if let (Some(groups), Some(kl), Some(clipped)) = (brief.groups_without_signal, brief.kl, brief.clipped) {
        let entropy = match (brief.first_entropy, brief.entropy) {
            (Some(first), Some(last)) => format!(", entropy {first:.3} → {last:.3}"),
            _ => String::new(),
        };
        lines.push((
            "policy",
            format!(
                "{:.0} % of groups without signal, KL {kl:.4}, {:.1} % clipped{entropy}",
                100.0 * groups,
                100.0 * clipped
            ),
        ));
    }
    if let (Some(first), Some(last)) = (brief.first_reply_tokens, brief.reply_tokens) {
        let invalid =
            brief.invalid_actions.map(|number| format!(", {number:.2} invalid actions")).unwrap_or_default();
        lines.push(("length", format!("{first:.0} → {last:.0} tokens an episode{invalid}")));
    }
    if let (Some(speed), Some(seconds)) = (brief.tokens_per_second, brief.iteration_seconds) {
        let norm = brief.grad_norm.map(|norm| format!(", gradient norm {norm:.3}")).unwrap_or_default();
        lines.push(("speed", format!("{speed:.0} tokens/s, {seconds:.1} s an iteration{norm}")));
    }
    let time = brief.seconds.map(|seconds| format!(", {}", duration((seconds * 1000.0) as i64)));
    lines.push((
        "spent",
        format!(
            "{} tokens sampled, {} trained on{}",
            grouped(brief.sampled_tokens),
            grouped(brief.tokens),
            time.unwrap_or_default()
        ),
    ));
    lines
}

/// The signs of a run that goes wrong, each followed by what to try, as lines like those of [`brief`].
pub(crate) fn signs(brief: &RlBrief) -> Vec<(&'static str, String)> {
    let lines = |found: &RlFinding| {
        let sign = format!("{}: {}", found.sign.as_str(), found.message);
        [("sign", sign), ("try", found.advice.to_owned())]
    };
    brief.signs.iter().flat_map(lines).collect()
}

/// The episodes won in a few words, for a list of runs.
pub(crate) fn short(brief: &RlBrief) -> Option<String> {
    let games = brief.games.map(|games| format!(", {} games", won(games))).unwrap_or_default();
    let signs: Vec<&str> = brief.signs.iter().map(|found| found.sign.as_str()).collect();
    let signs = if signs.is_empty() { String::new() } else { format!(", {}", signs.join(", ")) };
    Some(format!("reinforcement learning: {} episodes won{games}{signs}", of(brief.episodes?)))
}

fn of([won, played]: [usize; 2]) -> String {
    format!("{won} of {played}")
}

fn won(games: SftGames) -> String {
    format!("{} of {}", games.won, games.played)
}
