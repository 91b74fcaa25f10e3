//! What a run will take: calls, tokens and money, by stage, as ranges, before anything is sent.
//!
//! [`probe`] renders the prompts that a run would send first; `estimate` is arithmetic over what it found. Where a
//! number of calls is fixed the range is that number. Elsewhere the low end is the luckiest run that can be, and the
//! high end the least lucky one: every step evaluated, every reply as long as [`Assumptions`] have it. Requests that are
//! sent again after a fault are not counted, and no prompt is taken to come from a provider's cache.
//!
//! # Invariants
//!
//! - What a run takes lies within its estimate. Held by `the_demo_takes_what_was_estimated`,
//!   `a_longer_run_of_other_settings_takes_what_was_estimated`.

mod bank;
mod caps;
mod epoch_end;
mod prepared;
mod probe;
mod turns;
mod weights;

pub use bank::{BankEstimate, BankStage, bank_estimate};
pub use caps::{ApproximateCap, approximate_caps};
pub use prepared::Prepared;
pub use probe::{Probe, SplitProbe, probe};
pub use weights::{WeightsEstimate, weights_estimate};

use crate::config::{Config, TrainMode};
use crate::cost::usage_cost;
use serde::Serialize;
use skill_core::rewrite::UpdateMode;
use skill_core::{BudgetControl, StepIdx, Usage, steps_per_epoch};
use skill_envs::{Env, Split};
use skill_pipeline::event::StageKind;
use skill_pipeline::records::arm::ArmSetting;
use skill_pipeline::{Protocol, Stage, TrainSettings};

/// A run of more steps is not estimated.
pub(crate) const MAX_STEPS: u64 = 1_000_000;

/// From the least that it may be to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Span {
    /// The least.
    pub low: u64,
    /// The most.
    pub high: u64,
}

impl Span {
    /// A range; the ends may be given in any order.
    pub fn new(low: u64, high: u64) -> Self {
        Self { low: low.min(high), high: high.max(low) }
    }

    /// A number that is known.
    pub fn exactly(number: u64) -> Self {
        Self { low: number, high: number }
    }

    /// Whether a number lies in the range.
    pub fn contains(self, number: u64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    fn plus(self, other: Self) -> Self {
        Self { low: self.low.saturating_add(other.low), high: self.high.saturating_add(other.high) }
    }

    /// Each end times that of the other.
    fn times(self, other: Self) -> Self {
        Self { low: self.low.saturating_mul(other.low), high: self.high.saturating_mul(other.high) }
    }
}

/// What is not known before a run, as ranges.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assumptions {
    /// Bytes of a prompt that make one token: few where text is dense, many in plain English.
    pub bytes_per_token: [f64; 2],
    /// Tokens that a message costs besides its text.
    pub tokens_per_message: Span,
    /// Tokens of an agent's reply, where nothing bounds it closer.
    pub target_reply_tokens: Span,
    /// Tokens of an optimizer's reply, where nothing bounds it closer.
    pub optimizer_reply_tokens: Span,
    /// Bytes that the skill gains for each edit of the edit budget, those of rejected candidates included.
    pub bytes_per_edit: Span,
    /// The most bytes that the skill gains in all.
    pub max_growth_bytes: u64,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            bytes_per_token: [3.0, 5.0],
            tokens_per_message: Span::new(0, 8),
            target_reply_tokens: Span::new(1, 300),
            optimizer_reply_tokens: Span::new(20, 1500),
            bytes_per_edit: Span::new(0, 100),
            max_growth_bytes: 8_000,
        }
    }
}

impl Assumptions {
    fn tokens(&self, bytes: Span, messages: Span) -> Span {
        let [few, many] = self.bytes_per_token;
        let divided = |bytes: u64, per_token: f64| (bytes as f64 / per_token.max(0.1)) as u64;
        Span { low: divided(bytes.low, many), high: divided(bytes.high, few) }
            .plus(messages.times(self.tokens_per_message))
    }
}

/// What one stage will take, over all steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageEstimate {
    /// The stage's name.
    pub stage: &'static str,
    /// Calls.
    pub calls: Span,
    /// Tokens of the prompts.
    pub input_tokens: Span,
    /// Tokens of the replies.
    pub output_tokens: Span,
    /// Money by the configured prices, least and most; `None` if the stage's model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<[f64; 2]>,
}

/// What a run will take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Steps of the run; of a planned search the most.
    pub steps: u32,
    /// Items of the three splits.
    pub items: [u64; 3],
    /// In the order in which the stages first run.
    pub stages: Vec<StageEstimate>,
    /// The sums.
    pub total: StageEstimate,
    /// What the ranges are based on.
    pub assumptions: Assumptions,
    /// What the high end assumes.
    #[serde(skip)]
    pub high_end: HighEnd,
}

/// What the high end of an estimate assumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HighEnd {
    /// Every step of the settings, with every item evaluated.
    AllSteps,
    /// Proposals of a planned search until its caps.
    Caps,
    /// Proposals of a planned search until nine of ten have ended by `train.patience`, which is before its caps.
    Patience,
}

impl Estimate {
    /// True if the steps are proposals of a planned search.
    pub fn is_planned(&self) -> bool {
        self.high_end != HighEnd::AllSteps
    }

    /// What the high end means, as one sentence.
    pub fn most(&self) -> &'static str {
        match self.high_end {
            HighEnd::AllSteps => "At the high end every step evaluates all items; few runs come near.",
            HighEnd::Caps => "A search ends at its caps at the latest.",
            HighEnd::Patience => {
                "Nine of ten simulated searches ended by `train.patience` before the high end, half of them before a quarter of it."
            }
        }
    }
}

/// What a step is, for the sums over steps.
struct Step {
    /// Rollouts of each micro-batch: its items, each as often as there are samples.
    batches: Vec<u64>,
    /// Bytes that the skill has gained before the step, and after it.
    growth: [Span; 2],
    /// Bytes of the optimizer's notes in each of its prompts.
    notes: Span,
}

impl Step {
    fn n_rollouts(&self) -> u64 {
        self.batches.iter().sum()
    }
}

/// Calls with what is sent in them.
#[derive(Default, Clone, Copy)]
struct Sent {
    calls: Span,
    messages: Span,
    bytes: Span,
}

impl Sent {
    fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.plus(other.calls),
            messages: self.messages.plus(other.messages),
            bytes: self.bytes.plus(other.bytes),
        }
    }

    /// Calls of the optimizer, each a system and a user message with so many bytes.
    fn optimizer(calls: Span, bytes: Span) -> Self {
        Self { calls, messages: calls.times(Span::exactly(2)), bytes }
    }
}

/// What a run with these settings will take; prices and caps are those of `config`.
///
/// A planned search goes on until a cap, its patience or a perfect score ends it: at the low end no stage has a step, and
/// the calls of all are half of those of the high end, each as short as those of the baseline; at the high end it makes as many steps as its caps leave room for
/// where texts are short. It exceeds no cap.
pub(crate) fn forecast(
    probe: &Probe,
    settings: &TrainSettings,
    config: &Config,
    assumptions: Assumptions,
) -> Estimate {
    let n_items = probe.splits.each_ref().map(|split| usize::try_from(split.n_items).unwrap_or(usize::MAX));
    let planned = settings.foreseen(n_items, 1.0);
    if !is_planned(config) {
        return estimate(probe, &planned, config, assumptions);
    }
    let without_steps = TrainSettings { epochs: 0, ..planned.clone() };
    let least = estimate(probe, &without_steps, config, assumptions);
    let calls_of_rollout = longest(probe, config, assumptions).splits[1].calls_per_item.high.max(1);
    let short = settings.foreseen_with(n_items, shortest(probe, settings, assumptions));
    let is_longer = |one: &TrainSettings, other: &TrainSettings| {
        n_steps(n_items[0], one).min(MAX_STEPS) > n_steps(n_items[0], other)
    };
    let longest = if is_longer(&short, &planned) { &short } else { &planned };
    // Without caps, a run has the calls of the paper's protocol, each rollout as long as it may be.
    let planned_calls = settings.planned_calls(n_items, calls_of_rollout as f64);
    let most = Estimate {
        high_end: match settings.search.likely_max_proposals() {
            Some(likely) if n_steps(n_items[0], longest) >= u64::from(likely) => HighEnd::Patience,
            Some(_) | None => HighEnd::Caps,
        },
        ..estimate(probe, longest, config, assumptions)
    };
    within_caps(least, most, config, planned_calls)
}

/// The tokens of the shortest rollout on a training task, and of the shortest call of the optimizer.
fn shortest(probe: &Probe, settings: &TrainSettings, assumptions: Assumptions) -> [Usage; 2] {
    let usage = |bytes: Span, reply: Span| Usage {
        input: assumptions.tokens(bytes, Span::default()).low,
        output: reply.low,
        ..Usage::default()
    };
    let reply_of = |stage| reply_tokens(stage, probe, settings, assumptions);
    [
        usage(probe.splits[0].bytes_per_item, reply_of(Stage::Rollout)),
        usage(probe.analyst_bytes, reply_of(Stage::Reflect)),
    ]
}

/// From the one estimate to the other, and no higher than the caps.
///
/// A planned search that its caps end spends about seven tenths of the calls that it may make, and hardly ever less than
/// half of them. Of those that end by their patience, one in ten makes less than a tenth of the high end.
fn within_caps(least: Estimate, most: Estimate, config: &Config, planned_calls: u64) -> Estimate {
    let mut caps = config.budget;
    if (caps.calls, caps.tokens, caps.money) == (None, None, None) {
        caps.calls = Some(planned_calls);
    }
    let low = |stage: &str| least.stages.iter().find(|low| low.stage == stage);
    let between = |low: Option<&StageEstimate>, high: StageEstimate| {
        let low_of = |part: fn(&StageEstimate) -> Span| low.map_or(0, |low| part(low).low);
        let span = |high: Span, part: fn(&StageEstimate) -> Span, cap: Option<u64>| {
            let low = low_of(part);
            Span { low, high: high.high.min(cap.unwrap_or(u64::MAX)).max(low) }
        };
        let low_cost = low.and_then(|low| low.cost).map_or(0.0, |[low, _]| low);
        StageEstimate {
            stage: high.stage,
            calls: span(high.calls, |stage| stage.calls, caps.calls),
            input_tokens: span(high.input_tokens, |stage| stage.input_tokens, caps.tokens),
            output_tokens: span(high.output_tokens, |stage| stage.output_tokens, caps.tokens),
            cost: high
                .cost
                .map(|[_, high]| [low_cost, high.min(caps.money.unwrap_or(f64::INFINITY)).max(low_cost)]),
        }
    };
    let Estimate { steps, items, stages, total, assumptions, high_end } = most;
    let stages = stages.into_iter().map(|high| between(low(high.stage), high)).collect();
    let mut total = between(Some(&least.total), total);
    let low_of_stages = total.calls.low;
    if high_end == HighEnd::Patience {
        total.calls.low = total.calls.low.max(total.calls.high / 10);
    } else {
        // It may go up to what it may spend, however much its stages are taken to need.
        total.calls.high = caps.calls.unwrap_or(total.calls.high).max(total.calls.low);
        total.calls.low = total.calls.low.max(total.calls.high / 2);
        total.cost = total.cost.map(|[low, high]| [low, caps.money.unwrap_or(high).max(low)]);
    }
    // The further calls are at least as long as those of the baseline, which have no skill.
    let factor = total.calls.low as f64 / low_of_stages.max(1) as f64;
    let scaled = |span: Span| Span { low: ((span.low as f64 * factor) as u64).min(span.high), ..span };
    total.input_tokens = scaled(total.input_tokens);
    total.output_tokens = scaled(total.output_tokens);
    total.cost = total.cost.map(|[low, high]| [(low * factor).min(high), high]);
    Estimate { steps, items, stages, total, assumptions, high_end }
}

/// What a run with these settings will take, up to [`MAX_STEPS`] steps; prices are those of `config`.
pub(crate) fn estimate(
    probe: &Probe,
    settings: &TrainSettings,
    config: &Config,
    assumptions: Assumptions,
) -> Estimate {
    let probe = &longest(probe, config, assumptions);
    let steps = steps(probe, settings, assumptions);
    let [train, val, test] = &probe.splits;
    let grown = steps.last().map_or(Span::default(), |step| step.growth[1]);
    let over_steps =
        |sent: &dyn Fn(&Step) -> Sent| steps.iter().fold(Sent::default(), |sum, step| sum.plus(sent(step)));

    // Each draw of an item is a rollout.
    let n_targets = config.train.targets().len().max(1) as u64;
    let repeats = (settings.evidence.selection_repeats as u64).saturating_mul(n_targets);
    let of_val = |growth: Span| rollouts(val, val.n_items.saturating_mul(repeats), growth);
    let mut sent = vec![
        (Stage::Baseline, of_val(Span::default())),
        (Stage::Rollout, over_steps(&|step| rollouts(train, step.n_rollouts(), step.growth[0]))),
        (Stage::Reflect, over_steps(&|step| analyses(probe, settings, step, assumptions))),
    ];
    if is_planned(config) {
        let [of_screening, of_comparisons] = settings.plays_beside(steps.len());
        let screened = rollouts(train, of_screening, grown);
        sent.push((Stage::Screen, up_to(screened)));
        sent.push((Stage::Evaluate, up_to(rollouts(val, of_comparisons.saturating_mul(repeats), grown))));
    } else {
        sent.extend([
            (Stage::Aggregate, over_steps(&|step| up_to(merges(probe, settings, step)))),
            (Stage::Select, over_steps(&|step| up_to(selection(probe, settings, step)))),
            (Stage::Update, over_steps(&|step| up_to(rewrites(probe, settings, step)))),
            (Stage::Evaluate, over_steps(&|step| up_to(of_val(step.growth[1])))),
        ]);
    }
    sent.retain(|(stage, sent)| *stage != Stage::Update || sent.calls.high > 0);
    if settings.skill_aware.is_some_and(|aware| aware.consolidate_above > 0) {
        let consolidation = |_: &Step| up_to(Sent::optimizer(Span::exactly(1), probe.appendix_bytes));
        sent.push((Stage::Appendix, over_steps(&consolidation)));
    }
    sent.extend(epoch_end::stages(probe, settings, &steps, assumptions, repeats));
    if settings.skill_aware.is_some() {
        // The last skill is measured where its last notes have not been.
        sent.push((Stage::FinalSelection, up_to(of_val(grown))));
    }
    if settings.evidence.fresh {
        sent.push((Stage::FreshBaseline, of_val(Span::default())));
        // As with the test: a best skill that is still the initial one is not measured twice.
        sent.push((Stage::FreshBest, up_to(of_val(grown))));
    }
    if settings.eval_test {
        let of_test = |growth: Span| rollouts(test, test.n_items.saturating_mul(n_targets), growth);
        sent.push((Stage::TestBaseline, of_test(Span::default())));
        // A best skill that is still the initial one is not measured twice.
        sent.push((Stage::TestBest, up_to(of_test(grown))));
        let pass = of_test(Span::default());
        match settings.no_skill {
            ArmSetting::On => sent.push((Stage::TestNoSkill, pass)),
            // Whether it takes little is known when the first pass is measured.
            ArmSetting::Auto if may_measure_arm(config, pass.calls.low) => {
                sent.push((Stage::TestNoSkill, up_to(pass)));
            }
            ArmSetting::Auto | ArmSetting::Off => {}
        }
        let request = Sent::optimizer(Span::exactly(1), one_shot_bytes(probe, assumptions));
        let one_shot = [(Stage::OneShot, request), (Stage::TestOneShot, of_test(grown))];
        match settings.one_shot {
            ArmSetting::On => sent.extend(one_shot),
            ArmSetting::Auto if may_measure_arm(config, pass.calls.low.saturating_add(1)) => {
                sent.extend(one_shot.map(|(stage, sent)| (stage, up_to(sent))));
            }
            ArmSetting::Auto | ArmSetting::Off => {}
        }
    }
    let stages: Vec<StageEstimate> = sent
        .into_iter()
        .map(|(stage, sent)| stage_estimate(stage, sent, probe, settings, config, assumptions))
        .collect();
    Estimate {
        steps: u32::try_from(steps.len()).unwrap_or(u32::MAX),
        items: [train.n_items, val.n_items, test.n_items],
        total: sum(&stages),
        stages,
        assumptions,
        high_end: if is_planned(config) { HighEnd::Caps } else { HighEnd::AllSteps },
    }
}

/// True if the steps are proposals of a planned search.
fn is_planned(config: &Config) -> bool {
    config.train.protocol == Protocol::Auto && config.train.mode == TrainMode::Document
}

/// The cost of `samples` rollouts of each item of a split with the initial skill.
pub fn estimate_passes(
    probe: &Probe,
    settings: &TrainSettings,
    config: &Config,
    assumptions: Assumptions,
    (split, n_samples): (Split, u64),
) -> StageEstimate {
    let probe = &longest(probe, config, assumptions);
    let [train, val, test] = &probe.splits;
    let items = match split {
        Split::Train => train,
        Split::Val => val,
        Split::Test => test,
    };
    let sent = rollouts(items, items.n_items.saturating_mul(n_samples), Span::default());
    stage_estimate(Stage::Baseline, sent, probe, settings, config, assumptions)
}

/// What was probed, with episodes as long as they may be.
fn longest(probe: &Probe, config: &Config, assumptions: Assumptions) -> Probe {
    match config.env.episode_turns() {
        Some(turns) => probe.with_turns(turns, assumptions),
        None => probe.clone(),
    }
}

fn stage_estimate(
    stage: Stage,
    sent: Sent,
    probe: &Probe,
    settings: &TrainSettings,
    config: &Config,
    assumptions: Assumptions,
) -> StageEstimate {
    let input_tokens = assumptions.tokens(sent.bytes, sent.messages);
    let output_tokens = sent.calls.times(reply_tokens(stage, probe, settings, assumptions));
    let cost = |input: u64, output: u64| {
        usage_cost(config, stage.as_str(), Usage { input, output, ..Usage::default() })
    };
    let cost = cost(input_tokens.low, output_tokens.low)
        .zip(cost(input_tokens.high, output_tokens.high))
        .map(|(low, high)| [low, high]);
    StageEstimate { stage: stage.as_str(), calls: sent.calls, input_tokens, output_tokens, cost }
}

/// True if a planned search under these caps may measure an additional arm of `calls` calls.
fn may_measure_arm(config: &Config, calls: u64) -> bool {
    let caps = config.budget;
    let has_cap = caps.calls.is_some() || caps.tokens.is_some() || caps.money.is_some();
    config.train.protocol == Protocol::Auto
        && has_cap
        && caps.calls.is_none_or(|cap| calls.saturating_mul(10) <= cap)
}

/// The same or less, down to nothing.
fn up_to(sent: Sent) -> Sent {
    Sent {
        calls: Span { low: 0, ..sent.calls },
        messages: Span { low: 0, ..sent.messages },
        bytes: Span { low: 0, ..sent.bytes },
    }
}

fn sum(stages: &[StageEstimate]) -> StageEstimate {
    let nothing = StageEstimate {
        stage: "total",
        calls: Span::default(),
        input_tokens: Span::default(),
        output_tokens: Span::default(),
        cost: None,
    };
    stages.iter().fold(nothing, |sum, stage| StageEstimate {
        stage: sum.stage,
        calls: sum.calls.plus(stage.calls),
        input_tokens: sum.input_tokens.plus(stage.input_tokens),
        output_tokens: sum.output_tokens.plus(stage.output_tokens),
        cost: match (sum.cost, stage.cost) {
            (Some([low, high]), Some([more_low, more_high])) => Some([low + more_low, high + more_high]),
            (cost, None) | (None, cost) => cost,
        },
    })
}

/// The settings of a run as far as they are known before it: a planned search has those of the plan that it would begin
/// with, if each rollout took one call.
pub fn foreseen(settings: &TrainSettings, env: &dyn Env) -> TrainSettings {
    settings.foreseen(Split::ALL.map(|split| env.items(split).len()), 1.0)
}

/// How many steps a run over these items has.
pub fn n_steps(n_train: usize, settings: &TrainSettings) -> u64 {
    let per_epoch = steps_per_epoch(n_train, settings.batch_size, settings.accumulation) as u64;
    per_epoch.saturating_mul(u64::from(settings.epochs))
}

/// The steps with their batches, and with a skill that grows by the edit budget of each, or not at all.
fn steps(probe: &Probe, settings: &TrainSettings, assumptions: Assumptions) -> Vec<Step> {
    let (n_train, batch_size) = (probe.splits[0].n_items, settings.batch_size.max(1) as u64);
    let accumulation = settings.accumulation.max(1) as u64;
    let per_epoch = n_train.div_ceil(batch_size.saturating_mul(accumulation));
    let total = per_epoch.saturating_mul(u64::from(settings.epochs)).min(MAX_STEPS);
    let total = u32::try_from(total).unwrap_or(u32::MAX);
    let mut growth = Span::default();
    (1..=total)
        .map(|number| {
            let in_epoch = u64::from(number - 1) % per_epoch.max(1);
            let batches = (in_epoch * accumulation..(in_epoch + 1) * accumulation).map(|batch_idx| {
                let n_items = match n_train.saturating_sub(batch_idx.saturating_mul(batch_size)) {
                    // A micro-batch without items left is filled again from the whole split.
                    0 => n_train.min(batch_size),
                    left => left.min(batch_size),
                };
                n_items.saturating_mul(settings.samples.max(1) as u64)
            });
            let batches = batches.collect();
            let before = growth;
            let edits = Span::new(0, u64::from(settings.edit_budget.at(StepIdx(number), total)));
            growth = growth.plus(edits.times(assumptions.bytes_per_edit));
            growth.high = growth.high.min(assumptions.max_growth_bytes);
            let epoch = u64::from(number - 1) / per_epoch.max(1) + 1;
            let guidance = epoch_end::guidance(epoch, settings);
            Step {
                batches,
                growth: [before.plus(guidance), growth.plus(guidance)],
                notes: epoch_end::notes(epoch, settings),
            }
        })
        .collect()
}

/// Rollouts of so many items of a split, with a skill that has grown.
fn rollouts(split: &SplitProbe, n_items: u64, growth: Span) -> Sent {
    let n_items = Span::exactly(n_items);
    let calls = n_items.times(split.calls_per_item);
    Sent {
        calls,
        messages: calls.times(split.messages_per_call),
        // The skill is in each call.
        bytes: n_items.times(split.bytes_per_item).plus(calls.times(growth)),
    }
}

/// One analyst per minibatch of failures and of successes, which are grouped apart.
fn analyses(probe: &Probe, settings: &TrainSettings, step: &Step, assumptions: Assumptions) -> Sent {
    let minibatch = settings.minibatch_size as u64;
    let of_batch = |batch: &u64| match settings.failure_only {
        false => analyst_calls(*batch, minibatch),
        true => Span::new(0, batch.div_ceil(minibatch.max(1))),
    };
    let calls = step.batches.iter().map(of_batch).fold(Span::default(), Span::plus);
    let n_read = if settings.failure_only {
        Span::new(0, step.n_rollouts())
    } else {
        Span::exactly(step.n_rollouts())
    };
    let trajectories = n_read.times(trajectory(probe, assumptions));
    let asked = calls.times(probe.analyst_bytes.plus(step.growth[0]).plus(step.notes));
    Sent::optimizer(calls, asked.plus(trajectories))
}

/// Bytes of the request of the one-shot arm, which shows up to 8 failures.
fn one_shot_bytes(probe: &Probe, assumptions: Assumptions) -> Span {
    probe.analyst_bytes.plus(Span::new(1, 8).times(trajectory(probe, assumptions)))
}

/// Bytes of one trajectory in a prompt.
fn trajectory(probe: &Probe, assumptions: Assumptions) -> Span {
    let reply = probe.target_reply(assumptions).high as f64 * assumptions.bytes_per_token[1];
    // The agent's words are there as its answer and as its turns; all are cut at a length.
    let n_replies = 1 + probe.splits[0].calls_per_item.high.max(1);
    probe.trajectory_bytes.plus(Span::new(0, ((reply * n_replies as f64) as u64).min(probe.max_reply_bytes)))
}

/// The calls of the analysts of one batch, by how it may fall into failures and successes.
fn analyst_calls(batch: u64, minibatch: u64) -> Span {
    let minibatch = minibatch.max(1);
    let calls = |failures: u64| failures.div_ceil(minibatch) + (batch - failures).div_ceil(minibatch);
    let low = batch.div_ceil(minibatch);
    Span::new(low, (0..=batch.min(minibatch)).map(calls).max().unwrap_or_default())
}

/// Two trees of merges and the merge of both, if every analyst proposes something.
fn merges(probe: &Probe, settings: &TrainSettings, step: &Step) -> Sent {
    let calls = merge_calls(&step.batches, settings.minibatch_size as u64, settings.merge_batch_size as u64);
    Sent::optimizer(calls, calls.times(probe.merge_bytes.plus(step.growth[0]).plus(step.notes)))
}

/// The calls of the mergers of one step, from none to the most.
fn merge_calls(batches: &[u64], minibatch: u64, merge_batch: u64) -> Span {
    let minibatch = minibatch.max(1);
    let most_patches: u64 = batches.iter().map(|batch| analyst_calls(*batch, minibatch).high).sum();
    let tree = most_tree_calls(most_patches, merge_batch);
    let tree =
        |n_patches: u64| usize::try_from(n_patches).ok().and_then(|n| tree.get(n)).copied().unwrap_or(0);
    let calls = |failed: u64, solved: u64| tree(failed) + tree(solved) + u64::from(failed > 0 && solved > 0);
    let most = match batches {
        [batch] => (0..=*batch)
            .map(|failures| calls(failures.div_ceil(minibatch), (batch - failures).div_ceil(minibatch)))
            .max(),
        // However several batches fall into failures and successes, there are no more patches than that.
        _ => (0..=most_patches).map(|failed| calls(failed, most_patches - failed)).max(),
    };
    Span::new(0, most.unwrap_or_default())
}

/// The most calls of a merge tree over at most so many patches, for each number of patches from 0.
fn most_tree_calls(n_patches: u64, merge_batch: u64) -> Vec<u64> {
    let merge_batch = merge_batch.max(2);
    let mut most = 0;
    (0..=n_patches)
        .map(|n_patches| {
            let (mut left, mut calls) = (n_patches, 0);
            while left > 1 {
                // A group of one patch passes without a call.
                calls += left / merge_batch + u64::from(left % merge_batch > 1);
                left = left.div_ceil(merge_batch);
            }
            most = calls.max(most);
            most
        })
        .collect()
}

/// A ranking, and before it the question of how many edits to apply where the optimizer decides that.
fn selection(probe: &Probe, settings: &TrainSettings, step: &Step) -> Sent {
    let calls = match settings.budget_control {
        _ if !settings.update_mode.has_budget() => 0,
        BudgetControl::Fixed | BudgetControl::None => 1,
        BudgetControl::Autonomous => 2,
    };
    let calls = Span::exactly(calls);
    Sent::optimizer(calls, calls.times(probe.ranking_bytes.plus(step.growth[0]).plus(step.notes)))
}

/// The call that rewrites the skill by suggestions.
fn rewrites(probe: &Probe, settings: &TrainSettings, step: &Step) -> Sent {
    let calls = match settings.update_mode {
        UpdateMode::Patch | UpdateMode::FullRewriteMinibatch => 0,
        UpdateMode::RewriteFromSuggestions => 1,
    };
    let calls = Span::exactly(calls);
    Sent::optimizer(calls, calls.times(probe.rewrite_bytes.plus(step.growth[0])))
}

fn reply_tokens(stage: Stage, probe: &Probe, settings: &TrainSettings, assumptions: Assumptions) -> Span {
    let argument = assumptions.optimizer_reply_tokens;
    let of_optimizer = |reply: Span| bounded(reply, Some(settings.max_reply_tokens));
    // A whole skill may be in the reply, or none where nothing is to change.
    let grown = Span::new(probe.skill_bytes, probe.skill_bytes.saturating_add(assumptions.max_growth_bytes));
    let skill = assumptions.tokens(grown, Span::default());
    let with_skill = Span { high: argument.high.saturating_add(skill.high), ..argument };
    let patches_are_skills = settings.update_mode == UpdateMode::FullRewriteMinibatch;
    let writes_a_skill = matches!(stage, Stage::Update | Stage::OneShot)
        || (patches_are_skills && matches!(stage, Stage::Reflect | Stage::Aggregate));
    match stage.kind() {
        StageKind::Optimizer if writes_a_skill => of_optimizer(with_skill),
        StageKind::Optimizer => of_optimizer(argument),
        StageKind::Training
        | StageKind::Trial
        | StageKind::Selection
        | StageKind::Fresh
        | StageKind::Test => probe.target_reply(assumptions),
    }
}

/// A range that ends at a limit.
fn bounded(span: Span, limit: Option<u32>) -> Span {
    let limit = limit.map_or(u64::MAX, u64::from);
    Span::new(span.low.min(limit), span.high.min(limit))
}

#[cfg(test)]
mod tests;
