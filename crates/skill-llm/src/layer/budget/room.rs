//! The room that caps leave: what is spent and reserved, and whether one more attempt fits.

use super::{BudgetCaps, Spent};
use crate::attempt::Bounds;
use crate::error::{LlmError, Shortfall};
use crate::layer::amount::{Amount, money_of, units_of};
use crate::layer::limits::AttemptSize;
use skill_core::Usage;
use skill_core::usage::grouped;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The fewest tokens that a reply is limited to.
const LEAST_REPLY_TOKENS: u64 = 16;

/// What a run has spent and reserved.
#[derive(Debug)]
pub(super) struct Ledger {
    /// What is used for good.
    pub(super) spent: Amount,
    /// What attempts under way may use.
    reserved: Amount,
    under_way: usize,
    /// What is kept for later.
    aside: Amount,
    /// What this process has used.
    own: Amount,
    /// What others have spent on the runs that were begun here, by their journals.
    before: HashMap<String, (Amount, Duration)>,
    begun: Instant,
    exhausted: Option<Exhausted>,
}

/// The cap that was reached.
#[derive(Debug, Clone)]
pub(super) struct Exhausted {
    what: &'static str,
    spent: String,
    cap: String,
    next: Option<String>,
}

impl From<Exhausted> for LlmError {
    fn from(exhausted: Exhausted) -> Self {
        let Exhausted { what, spent, cap, next } = exhausted;
        Self::BudgetExhausted {
            what,
            spent: spent.into(),
            cap: cap.into(),
            next: next.map(|next| Box::new(Shortfall(next))),
            failed: None,
        }
    }
}

/// What an attempt may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) bounds: Bounds,
    /// Units of money that a model without prices is expected to report.
    pub(super) reported: u128,
    /// The limit on its reply where what is left of a cap sets one.
    pub(super) limit: Option<CapLimit>,
}

impl Grant {
    /// All that it reserves.
    pub(super) fn amount(&self, attempt: &AttemptSize) -> Amount {
        let amount = Amount::of(self.bounds.reserved, &attempt.prices);
        Amount { units: amount.units.saturating_add(self.reported), ..amount }
    }
}

/// A limit on a reply that follows from what is left of a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapLimit {
    pub(super) tokens: u64,
    /// The cap.
    what: &'static str,
}

/// Whether an attempt may be sent.
pub(super) enum Room {
    Enough(Grant),
    WhenOthersSettle,
    Never(Exhausted),
}

/// A cap that an attempt would pass.
struct Passed {
    what: &'static str,
    cap: String,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            spent: Amount::default(),
            reserved: Amount::default(),
            under_way: 0,
            aside: Amount::default(),
            own: Amount::default(),
            before: HashMap::new(),
            begun: Instant::now(),
            exhausted: None,
        }
    }

    /// Adds what a run had spent before, once. Where it is begun again here, only what others have spent meanwhile is new.
    pub(super) fn begin(&mut self, run: &str, spent: Spent) {
        let Spent { calls, tokens, money, time } = spent;
        let all = Amount { calls, tokens, units: units_of(money) };
        let is_alone = self.before.keys().all(|known| known == run);
        let (counted, known_time) = self.before.get(run).copied().unwrap_or_default();
        let is_known = self.before.contains_key(run);
        let new = all.minus(counted).minus(if is_known { self.own } else { Amount::default() });
        self.spent = self.spent.plus(new);
        // What this process has taken until now is in the time of a run that is the only one here.
        let time = if is_alone || !is_known { time } else { known_time };
        self.before.insert(run.to_owned(), (counted.plus(new), time));
        if is_alone {
            self.begun = Instant::now();
        }
    }

    pub(super) fn time(&self) -> Duration {
        let before =
            self.before.values().map(|(_, time)| *time).fold(Duration::ZERO, Duration::saturating_add);
        before.saturating_add(self.begun.elapsed())
    }

    /// When the cap on time is reached.
    pub(super) fn time_is_up(&self, caps: &BudgetCaps) -> Option<Instant> {
        let left = caps.time?.saturating_sub(self.time());
        Instant::now().checked_add(left)
    }

    pub(super) fn set_aside(&mut self, aside: Amount) {
        self.aside = aside;
        // With less set aside there may be room again.
        self.exhausted = None;
    }

    /// Reserves for an attempt, if there is room. `least` is the shortest reply worth a request, `None` where the model takes
    /// no limit.
    pub(super) fn reserve(
        &mut self,
        caps: &BudgetCaps,
        attempt: &AttemptSize,
        (bounds, reported): (Bounds, u128),
        least: Option<u64>,
    ) -> Room {
        if let Some(exhausted) = &self.exhausted {
            return Room::Never(exhausted.clone());
        }
        let time = self.time();
        if let Some(cap) = caps.time.filter(|cap| time >= *cap) {
            let shown = |time: Duration| match time.as_secs_f64() {
                seconds if seconds < 10.0 => format!("{seconds:.1} s"),
                seconds => format!("{seconds:.0} s"),
            };
            // Time does not come back, regardless of who settles.
            let exhausted = Exhausted { what: "time", spent: shown(time), cap: shown(cap), next: None };
            self.exhausted = Some(exhausted.clone());
            return Room::Never(exhausted);
        }
        let whole = Grant { bounds, reported, limit: None };
        let own = whole.amount(attempt);
        let Some(passed) = self.passed(caps, own) else {
            return self.grant(attempt, whole);
        };
        if self.under_way > 0 {
            return Room::WhenOthersSettle;
        }
        if let Some(grant) = self.limited(caps, attempt, whole, least) {
            return self.grant(attempt, grant);
        }
        let exhausted = self.exhausted(&passed, own, caps);
        self.exhausted = Some(exhausted.clone());
        Room::Never(exhausted)
    }

    fn grant(&mut self, attempt: &AttemptSize, grant: Grant) -> Room {
        self.reserved = self.reserved.plus(grant.amount(attempt));
        self.under_way += 1;
        Room::Enough(grant)
    }

    /// Gives back what was reserved, and counts what was used.
    pub(super) fn settle(&mut self, reserved: Amount, used: Amount) {
        self.reserved = self.reserved.minus(reserved);
        self.under_way = self.under_way.saturating_sub(1);
        self.spent = self.spent.plus(used);
        self.own = self.own.plus(used);
    }

    /// The first cap that one more attempt would pass.
    fn passed(&self, caps: &BudgetCaps, own: Amount) -> Option<Passed> {
        let wanted = self.spent.plus(self.reserved).plus(self.aside).plus(own);
        let passed =
            |cap: Option<u64>, wanted: u64| cap.filter(|cap| wanted > *cap).map(|cap| cap.to_string());
        if let Some(cap) = passed(caps.calls, wanted.calls) {
            return Some(Passed { what: "calls", cap });
        }
        if let Some(cap) = passed(caps.tokens, wanted.tokens) {
            return Some(Passed { what: "tokens", cap });
        }
        let cap = caps.money.filter(|cap| wanted.units > units_of(*cap))?;
        Some(Passed { what: "money", cap: format!("${cap:.4}") })
    }

    /// The attempt with a shorter reply, where that fits into what is left; nothing else is under way.
    fn limited(
        &self,
        caps: &BudgetCaps,
        attempt: &AttemptSize,
        whole: Grant,
        least: Option<u64>,
    ) -> Option<Grant> {
        let Grant { bounds, reported, .. } = whole;
        let without_reply = Usage { output: 0, ..bounds.reserved };
        let own = Grant { bounds: Bounds { reserved: without_reply, ..bounds }, ..whole }.amount(attempt);
        if self.passed(caps, own).is_some() {
            return None;
        }
        let wanted = self.spent.plus(self.aside).plus(own);
        let of_tokens = caps.tokens.map_or(u64::MAX, |cap| cap.saturating_sub(wanted.tokens));
        let of_money = caps
            .money
            .map_or(u64::MAX, |cap| attempt.prices.reply_tokens(units_of(cap).saturating_sub(wanted.units)));
        let tokens = of_tokens.min(of_money).min(bounds.reserved.output);
        let bounded = |output: u64| Bounds {
            reserved: Usage { output, ..bounds.reserved },
            unanswered: Usage { output: bounds.unanswered.output.min(output), ..bounds.unanswered },
        };
        let least = least?.max(LEAST_REPLY_TOKENS);
        let what = if of_tokens <= of_money { "tokens" } else { "money" };
        let limit = CapLimit { tokens, what };
        (tokens >= least).then(|| Grant { bounds: bounded(tokens), reported, limit: Some(limit) })
    }

    /// What to say of a cap: what is used of it, what the next request may take, and what is left.
    fn exhausted(&self, passed: &Passed, own: Amount, caps: &BudgetCaps) -> Exhausted {
        let taken = self.spent.plus(self.aside);
        let (spent, next) = match passed.what {
            "calls" => (self.spent.calls.to_string(), None),
            "tokens" => {
                let left = caps.tokens.unwrap_or_default().saturating_sub(taken.tokens);
                let next = format!("the next request may use {} tokens, and {left} are left", own.tokens);
                (self.spent.tokens.to_string(), Some(next))
            }
            _ => {
                let left = units_of(caps.money.unwrap_or_default()).saturating_sub(taken.units);
                let next = format!(
                    "the next request may cost {} (at most {} tokens), and {} is left",
                    dollars(own.units),
                    grouped(own.tokens),
                    dollars(left)
                );
                (format!("${:.4}", money_of(self.spent.units)), Some(next))
            }
        };
        Exhausted { what: passed.what, spent, cap: passed.cap.clone(), next }
    }

    /// What to say of a reply that was cut by the limit that a cap had set.
    pub(super) fn cut(&mut self, caps: &BudgetCaps, limit: CapLimit) -> Exhausted {
        let CapLimit { tokens, what } = limit;
        let (spent, cap) = match what {
            "money" => {
                let cap = caps.money.unwrap_or_default();
                (format!("${:.4}", money_of(self.spent.units)), format!("${cap:.4}"))
            }
            _ => (self.spent.tokens.to_string(), caps.tokens.unwrap_or_default().to_string()),
        };
        let next = Some(format!("the last reply did not fit into the {tokens} tokens that were left for it"));
        let exhausted = Exhausted { what, spent, cap, next };
        self.exhausted = Some(exhausted.clone());
        exhausted
    }
}

/// Small amounts with as many digits as tell them apart.
fn dollars(units: u128) -> String {
    let amount = money_of(units);
    if amount < 0.01 { format!("${amount:.6}") } else { skill_core::usage::dollars(amount) }
}
