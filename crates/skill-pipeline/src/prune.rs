//! Pruning: rules are taken out of a skill one by one, and a removal stays unless it lowers the score.
//!
//! Each removal is measured on the validation split in the same draws as the skill itself. To stay it has to reach the
//! score of the skill that it was made to, or that of the skill that the pruning began with if that is higher, less a
//! margin: many small losses do not add up, and what a removal gains is not lost to the next one. It is given up as soon
//! as it cannot reach that any more, with the outcome of the whole evaluation; it stays after a whole evaluation alone.
//!
//! Nothing is kept here between two calls: what was measured is in the journal of the context, so that the same call
//! goes on where another one stopped, and decides the same.

use crate::error::PipelineError;
use crate::event::Event;
use crate::identity::check_not_empty;
use crate::provenance::LineOrigin;
use crate::records::FORMAT_VERSION;
use crate::records::evaluation::CandidateEvaluation;
use crate::records::paired::PairedRecord;
use crate::settings::EarlyStop;
use crate::stage::StageCtx;
use crate::stage::evaluate::{CandidatePlan, Drawn, draw_of, evaluate, evaluate_candidate};
use crate::stage::rollout::Rollouts;
use crate::stage::silence::check_spoken;
use crate::stage::silence::{Spoken, check_target_speaks, empty_replies};
use serde::Serialize;
use skill_core::exact::round_6;
use skill_core::rules::{SkillRule, skill_rules, without_rules};
use skill_core::{
    EarlyRejection, FlipCounts, Gate, GateRule, ItemId, ItemScore, MeanScore, NonInferiority, RolloutResult,
    SkillDoc, SkillHash, evaluation_order,
};
use skill_envs::Split;
use skill_envs::source::document;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How a skill is pruned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PruneSettings {
    /// What a score is, and how much lower it may be.
    pub rule: NonInferiority,
    /// Whether a removal is given up as soon as it is decided.
    pub early_stop: EarlyStop,
    /// The seed of random sign flips, where differences are graded.
    pub seed: u64,
}

/// A rule to try to take out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleToTry {
    /// Its index among the rules of the skill.
    pub rule_idx: usize,
    /// What put it into the skill, where that is known.
    pub origin: Option<LineOrigin>,
}

/// What became of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleDecision {
    /// It was taken out.
    Removed,
    /// Without it the score is lower by more than the margin.
    Kept,
}

/// A rule, what became of it, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleRecord {
    /// Its number in the skill, from 1.
    pub rule: usize,
    /// Its first and its last line in the skill that the pruning began with, from 1.
    pub lines: [usize; 2],
    /// Its text.
    pub text: String,
    /// What put it into the skill, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<LineOrigin>,
    /// What became of it.
    pub decision: RuleDecision,
    /// The skill without it.
    pub candidate_hash: SkillHash,
    /// The score that the skill without it had to reach.
    pub least_score: f64,
    /// The score of the skill without it; absent if not every item was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The same if the items that were not measured gave nothing, and if they gave everything; absent if none is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score_interval: Option<[f64; 2]>,
    /// Draws that were measured until it was decided.
    pub n_seen: usize,
    /// Draws of the validation split.
    pub n: usize,
    /// The skill without it against the one with it.
    pub paired: PairedRecord,
    /// Items that the skill does better without it.
    pub won: Vec<ItemId>,
    /// Items that it does worse without it.
    pub lost: Vec<ItemId>,
}

/// `prune.json`: what a pruning came to, as far as it has come.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PruneRecord {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// The environment's name.
    pub env: String,
    /// The metric of the gate.
    pub gate_metric: String,
    /// How much lower the score may be.
    pub margin: f64,
    /// Whether every rule was tried.
    pub is_finished: bool,
    /// The skill that the pruning began with.
    pub skill_before: SkillHash,
    /// The skill as it is now.
    pub skill_after: SkillHash,
    /// The lengths of both, in characters.
    pub skill_len: [usize; 2],
    /// The score of the skill that the pruning began with.
    pub score_before: f64,
    /// The score of the skill as it is now. It has a small selection bias.
    pub score_after: f64,
    /// The skill as it is now against the one that the pruning began with, on the same items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paired: Option<PairedRecord>,
    /// Rules of the skill.
    pub n_rules: usize,
    /// Rules that were taken out.
    pub n_removed: usize,
    /// The rules that were tried, in this order.
    pub rules: Vec<RuleRecord>,
}

/// Prunes a skill: tries to take out the rules in this order; `told` hears of each decision.
///
/// # Errors
///
/// An attempt that cannot be made ends the pruning, as does an error of `told`; what was decided before was told.
pub async fn prune(
    rollouts: &Rollouts,
    skill: &SkillDoc,
    order: &[RuleToTry],
    settings: &PruneSettings,
    ctx: &StageCtx<'_>,
    mut told: impl FnMut(&PruneRecord, &SkillDoc) -> Result<(), PipelineError>,
) -> Result<(SkillDoc, PruneRecord), PipelineError> {
    let env = rollouts.env();
    check_not_empty(env, Split::Val)?;
    let evaluation = evaluate(rollouts, Split::Val, &document(skill), ctx).await?;
    check_spoken(&evaluation.results, ctx.stage)?;
    warn_of_empty_replies(&evaluation.results, ctx);
    let spoken = Spoken::among(&evaluation.results, env, Split::Val, skill);
    let first: Vec<ItemScore> = evaluation.results.iter().map(ItemScore::from).collect();
    let rules = skill_rules(skill);
    let mut pruning = Pruning {
        skill,
        is_taken: vec![false; rules.len()],
        rules,
        draws: evaluation.results.iter().map(draw_of).collect(),
        current: first.clone(),
        first,
        flips: FlipCounts::default(),
        settings,
        repeats: ctx.draws.per_item.max(1),
    };
    let mut record = pruning.begin(env.name());
    let mut pruned = skill.clone();
    for tried in order {
        let Some((candidate, order, rejection)) = pruning.candidate(tried.rule_idx) else { continue };
        let plan = CandidatePlan { order, rejection, known: &BTreeMap::new(), risk: None };
        let evaluation = evaluate_candidate(rollouts, Split::Val, &document(&candidate), plan, ctx).await?;
        check_target_speaks(rollouts, spoken, (&candidate, &evaluation.results), ctx).await?;
        warn_of_empty_replies(&evaluation.results, ctx);
        let row = pruning.decide(*tried, &candidate, &evaluation);
        if row.decision == RuleDecision::Removed {
            record.n_removed += 1;
            record.skill_after = candidate.hash();
            let [before, _] = record.skill_len;
            record.skill_len = [before, candidate.n_chars()];
            record.score_after = row.score.unwrap_or(record.score_after);
            record.paired = pruning.against_first();
            pruned = candidate;
        }
        record.rules.push(row);
        told(&record, &pruned)?;
    }
    record.is_finished = true;
    told(&record, &pruned)?;
    Ok((pruned, record))
}

fn warn_of_empty_replies(results: &[RolloutResult], ctx: &StageCtx<'_>) {
    if let Some(warning) = empty_replies(results) {
        ctx.events.emit(&Event::warning(None, warning, None));
    }
}

/// A pruning on its way.
struct Pruning<'run> {
    skill: &'run SkillDoc,
    rules: Vec<SkillRule>,
    /// Which rules were taken out, or are not retried.
    is_taken: Vec<bool>,
    /// The draws of the validation split, those of an item side by side.
    draws: Vec<Drawn>,
    /// What the skill that the pruning began with scored in them.
    first: Vec<ItemScore>,
    /// What the skill as it is now scored in them.
    current: Vec<ItemScore>,
    flips: FlipCounts,
    settings: &'run PruneSettings,
    repeats: usize,
}

impl Pruning<'_> {
    /// The record before anything was tried.
    fn begin(&self, env: &str) -> PruneRecord {
        let (hash, length) = (self.skill.hash(), self.skill.n_chars());
        let score = self.score(&self.first);
        PruneRecord {
            format_version: FORMAT_VERSION.to_owned(),
            env: env.to_owned(),
            gate_metric: self.gate().metric.as_str().to_owned(),
            margin: self.settings.rule.margin,
            is_finished: false,
            skill_before: hash.clone(),
            skill_after: hash,
            skill_len: [length, length],
            score_before: score,
            score_after: score,
            paired: None,
            n_rules: self.rules.len(),
            n_removed: 0,
            rules: Vec::new(),
        }
    }

    fn gate(&self) -> Gate {
        self.settings.rule.gate
    }

    fn score(&self, scores: &[ItemScore]) -> f64 {
        self.gate().score(MeanScore::of(scores.iter().map(|score| (score.hard, score.soft))))
    }

    /// The higher of the two scores that a removal is compared with.
    fn bar(&self) -> &[ItemScore] {
        let is_higher = self.gate().total(&self.current) > self.gate().total(&self.first);
        if is_higher { &self.current } else { &self.first }
    }

    /// The skill without one more rule, and how it is measured; `None` if there is no such rule any more.
    fn candidate(&self, rule_idx: usize) -> Option<(SkillDoc, Vec<usize>, Option<EarlyRejection>)> {
        if *self.is_taken.get(rule_idx)? {
            return None;
        }
        let is_taken =
            |idx: usize| idx == rule_idx || self.is_taken.get(idx).is_some_and(|is_taken| *is_taken);
        let candidate = without_rules(self.skill, &self.rules, is_taken);
        let (order, rejection) = match self.settings.early_stop {
            EarlyStop::Exact => {
                let ids: Vec<ItemId> = self.draws.iter().map(|(id, _)| id.clone()).collect();
                let order = evaluation_order(&ids, &self.current, &self.flips);
                (order, Some(self.settings.rule.early(self.bar())))
            }
            EarlyStop::Off => ((0..self.draws.len()).collect(), None),
        };
        Some((candidate, order, rejection))
    }

    /// What becomes of the rule.
    fn decide(
        &mut self,
        tried: RuleToTry,
        candidate: &SkillDoc,
        evaluation: &CandidateEvaluation,
    ) -> RuleRecord {
        let seen: BTreeMap<Drawn, ItemScore> =
            evaluation.results.iter().map(|result| (draw_of(result), ItemScore::from(result))).collect();
        let known: Vec<Option<ItemScore>> = self.draws.iter().map(|draw| seen.get(draw).copied()).collect();
        let whole: Option<Vec<ItemScore>> = known.iter().copied().collect();
        let is_removed = whole.as_ref().is_some_and(|scores| self.settings.rule.holds(scores, self.bar()));
        let rule = self.rules.get(tried.rule_idx);
        let lines = rule.map_or(0..0, |rule| rule.lines.clone());
        let (won, lost) = self.flipped(&known);
        let record = RuleRecord {
            rule: tried.rule_idx + 1,
            lines: [lines.start + 1, lines.end],
            text: rule.map(|rule| rule.text.clone()).unwrap_or_default(),
            origin: tried.origin,
            decision: if is_removed { RuleDecision::Removed } else { RuleDecision::Kept },
            candidate_hash: candidate.hash(),
            least_score: round_6(self.score(self.bar()) - self.settings.rule.margin),
            score: whole.as_ref().map(|scores| self.score(scores)),
            score_interval: evaluation.left_out.map(|interval| [interval.low, interval.high]),
            n_seen: evaluation.results.len(),
            n: self.draws.len(),
            paired: self.paired(&known, evaluation),
            won,
            lost,
        };
        let seen = self.draws.iter().zip(&known).zip(&self.current);
        self.flips.record(seen.filter_map(|(((id, _), known), current)| Some((id, (*known)?, *current))));
        if let (true, Some(scores)) = (is_removed, whole) {
            self.current = scores;
            if let Some(place) = self.is_taken.get_mut(tried.rule_idx) {
                *place = true;
            }
        }
        record
    }

    /// The skill as it is now against the one that the pruning began with.
    fn against_first(&self) -> Option<PairedRecord> {
        let rule = GateRule { repeats: self.repeats, ..GateRule::strict(self.gate()) };
        let paired = rule.compare(&self.current, &self.first)?;
        Some(PairedRecord::of(&rule, &paired, self.settings.seed))
    }

    /// The evidence: the skill without the rule against the one with it.
    fn paired(&self, known: &[Option<ItemScore>], evaluation: &CandidateEvaluation) -> PairedRecord {
        let rule = GateRule { repeats: self.repeats, ..GateRule::strict(self.gate()) };
        let whole: Option<Vec<ItemScore>> = known.iter().copied().collect();
        let compared = whole.and_then(|scores| rule.compare(&scores, &self.current));
        if let Some(paired) = compared {
            return PairedRecord::of(&rule, &paired, self.settings.seed);
        }
        let counts = rule.counts_of_known(known, &self.current);
        let current = self.score(&self.current);
        let bounds = evaluation.left_out.map(|interval| [interval.low, interval.high]);
        PairedRecord {
            wins: counts.wins,
            losses: counts.losses,
            ties: counts.ties,
            bounds: bounds.map(|bounds| bounds.map(|score| round_6(score - current))),
            ..PairedRecord::empty(&rule, self.draws.len() / self.repeats)
        }
    }

    /// The items that the candidate does better, and those that it does worse, in the draws that were measured.
    fn flipped(&self, known: &[Option<ItemScore>]) -> (Vec<ItemId>, Vec<ItemId>) {
        let (mut won, mut lost) = (Vec::new(), Vec::new());
        let items = self
            .draws
            .chunks(self.repeats)
            .zip(known.chunks(self.repeats))
            .zip(self.current.chunks(self.repeats));
        for ((draws, known), current) in items {
            let both = known.iter().zip(current).filter_map(|(known, current)| Some(((*known)?, *current)));
            let (ours, theirs): (Vec<ItemScore>, Vec<ItemScore>) = both.unzip();
            let Some((id, _)) = draws.first() else { continue };
            match self.gate().total(&ours).cmp(&self.gate().total(&theirs)) {
                Ordering::Greater => won.push(id.clone()),
                Ordering::Less => lost.push(id.clone()),
                Ordering::Equal => {}
            }
        }
        (won, lost)
    }
}
