//! Episodes as long as a world allows: an agent that does nothing is sent away before that.

use super::probe::{Probe, SplitProbe};
use super::{Assumptions, Span};
use crate::config::EpisodeTurns;
use skill_pipeline::settings::MAX_TURN_CHARS;

/// Bytes of an observation that no episode of a probe has shown, such as a page of results.
const OBSERVATION_BYTES: u64 = 1_000;

impl Probe {
    /// What was found, with episodes that may take all turns: each prompt holds the earlier turns, of which the probe has
    /// seen the first ones without a reply.
    pub(super) fn with_turns(&self, turns: EpisodeTurns, assumptions: Assumptions) -> Self {
        let reply = self.target_reply(assumptions).high as f64 * assumptions.bytes_per_token[1];
        let of_split = |split: &SplitProbe| of_split(split, turns, reply as u64);
        let probed = self.splits[0].calls_per_item.high.max(1);
        let most = turns.most.max(probed);
        let characters = (4 * MAX_TURN_CHARS) as u64;
        Self {
            splits: [&self.splits[0], &self.splits[1], &self.splits[2]].map(of_split),
            trajectory_bytes: Span {
                high: self.trajectory_bytes.high.saturating_add((most - probed).saturating_mul(characters)),
                ..self.trajectory_bytes
            },
            max_reply_bytes: self.max_reply_bytes.saturating_add((most - 1).saturating_mul(characters)),
            ..self.clone()
        }
    }
}

fn of_split(split: &SplitProbe, turns: EpisodeTurns, reply_bytes: u64) -> SplitProbe {
    let probed = split.calls_per_item.high;
    if probed == 0 {
        return *split;
    }
    let most = turns.most.max(probed);
    let first = split.bytes_per_item.low;
    let seen = split.bytes_per_item.high.saturating_sub(first.saturating_mul(probed));
    let per_turn = seen.checked_div(shown_turns(probed, turns.history)).unwrap_or(first);
    let per_turn = per_turn.max(OBSERVATION_BYTES).saturating_add(reply_bytes);
    // A page that an agent comes to may be longer than the first one, and is in its own prompt too.
    let bytes = most
        .saturating_mul(first.saturating_add(OBSERVATION_BYTES))
        .saturating_add(shown_turns(most, turns.history).saturating_mul(per_turn));
    let messages = 2 + 2 * turns.history.min(most - 1);
    SplitProbe {
        n_items: split.n_items,
        calls_per_item: Span { high: most, ..split.calls_per_item },
        messages_per_call: Span {
            high: split.messages_per_call.high.max(messages),
            ..split.messages_per_call
        },
        bytes_per_item: Span { high: split.bytes_per_item.high.max(bytes), ..split.bytes_per_item },
    }
}

/// How many earlier turns the prompts of so many calls hold together.
fn shown_turns(calls: u64, history: u64) -> u64 {
    let growing = calls.min(history.saturating_add(1));
    let whole = calls - growing;
    (growing.saturating_mul(growing.saturating_sub(1)) / 2).saturating_add(whole.saturating_mul(history))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_hold_the_turns_before_them_up_to_the_history() {
        for (calls, history, expect) in [(1, 10, 0), (3, 10, 3), (4, 2, 5), (5, 0, 0), (50, 10, 445)] {
            let counted: u64 = (0..calls).map(|earlier: u64| earlier.min(history)).sum();
            assert_eq!((shown_turns(calls, history), counted), (expect, expect), "{calls} {history}");
        }
    }

    #[test]
    fn an_episode_may_take_all_its_turns_and_its_prompts_grow() {
        let probed = SplitProbe {
            n_items: 4,
            calls_per_item: Span::new(1, 10),
            messages_per_call: Span::new(2, 20),
            // Each prompt has 3,000 bytes more than the one before it.
            bytes_per_item: Span::new(600, 10 * 600 + 45 * 3_000),
        };
        let found = of_split(&probed, EpisodeTurns { most: 50, history: 10 }, 500);
        assert_eq!(found.calls_per_item, Span::new(1, 50));
        assert_eq!(found.messages_per_call, Span::new(2, 22));
        assert_eq!(found.bytes_per_item, Span::new(600, 50 * 1_600 + 445 * 3_500));
        let none = SplitProbe::default();
        assert_eq!(of_split(&none, EpisodeTurns { most: 50, history: 10 }, 500), none);
    }
}
