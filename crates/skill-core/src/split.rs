//! Splits of a data set into train, selection and test.
//!
//! The default ([`SplitRatio::Auto`]) takes its shares from the number of items and keeps the types of tasks in the
//! same proportions in all parts. Explicit shares are applied to a shuffle as SkillOpt does it.
//!
//! # Invariants
//!
//! - Explicit ratios give SkillOpt's numbers of items, for every size. Held by
//!   `counts_of_all_sizes_are_those_of_skillopt`.

use crate::random::PyRandom;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// From this number of items on the automatic split is 2:1:2, below it 1:1:1.
pub const AUTO_LARGE_FROM: usize = 400;

/// The turns in which the automatic split deals items, as indices of parts.
///
/// Any consecutive turns give each part its share, rounded up or down, and so does every start of the sequence, with
/// the rounding of [`SplitRule::Exact`].
const SMALL_TURNS: &[usize] = &[0, 1, 2];
const LARGE_TURNS: &[usize] = &[0, 2, 1, 0, 2];

/// The shares of train, selection and test; `"auto"` or three weights in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum SplitRatio {
    /// 1:1:1 below [`AUTO_LARGE_FROM`] items and 2:1:2 from there on, stratified by the type of task.
    #[default]
    Auto,
    /// These weights, without regard to types.
    Shares([u32; 3]),
}

impl SplitRatio {
    /// The name of [`Self::Auto`] in files.
    pub const AUTO: &'static str = "auto";

    /// The weights for this number of items.
    pub fn shares(self, n_items: usize) -> [u32; 3] {
        match self {
            Self::Auto if n_items < AUTO_LARGE_FROM => [1, 1, 1],
            Self::Auto => [2, 1, 2],
            Self::Shares(shares) => shares,
        }
    }
}

impl From<[u32; 3]> for SplitRatio {
    fn from(shares: [u32; 3]) -> Self {
        Self::Shares(shares)
    }
}

impl From<SplitRatio> for Value {
    fn from(ratio: SplitRatio) -> Self {
        match ratio {
            SplitRatio::Auto => Self::from(SplitRatio::AUTO),
            SplitRatio::Shares(shares) => Self::from(shares.to_vec()),
        }
    }
}

impl TryFrom<Value> for SplitRatio {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        if value.as_str() == Some(Self::AUTO) {
            return Ok(Self::Auto);
        }
        let message = format!("expected \"{}\" or three weights, found {value}", Self::AUTO);
        serde_json::from_value(value).map(Self::Shares).map_err(|_| message)
    }
}

/// How weights become whole numbers of items.
///
/// Under both rules each part gets its share rounded down, and the items that are left go, one each, to the parts with
/// the largest remainders. The rules differ where floating-point division reorders remainders that are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub enum SplitRule {
    /// 1: remainders are whole numbers. Runs that recorded no rule have this one.
    Exact,
    /// 2: remainders are 64-bit floating-point numbers, as in SkillOpt.
    #[default]
    Float,
}

impl SplitRule {
    /// The number in files.
    pub fn number(self) -> u64 {
        match self {
            Self::Exact => 1,
            Self::Float => 2,
        }
    }
}

impl From<SplitRule> for u64 {
    fn from(rule: SplitRule) -> Self {
        rule.number()
    }
}

impl TryFrom<u64> for SplitRule {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        match number {
            1 => Ok(Self::Exact),
            2 => Ok(Self::Float),
            other => Err(format!("expected the split rule 1 or 2, found {other}")),
        }
    }
}

/// A split by ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RatioSplit {
    /// The shares.
    pub ratio: SplitRatio,
    /// How explicit shares become whole numbers; the automatic split does not use it.
    pub rule: SplitRule,
    /// The seed of the shuffle.
    pub seed: u64,
}

impl Default for RatioSplit {
    /// The automatic split by the seed 42.
    fn default() -> Self {
        Self { ratio: SplitRatio::default(), rule: SplitRule::default(), seed: 42 }
    }
}

impl RatioSplit {
    /// Splits items into train, selection and test; `type_of` gives the type of an item, empty for none.
    ///
    /// The items are shuffled by CPython's `Random(seed)`. Explicit shares cut the shuffle into three consecutive
    /// parts with the sizes of [`split_counts`]. The automatic split deals the shuffled items to the parts in turn,
    /// type after type in the order of their names: each part gets its share of each type, rounded up or down, and
    /// the sizes of the parts are those of [`SplitRule::Exact`]. Each part keeps the order of the shuffle.
    pub fn split<T>(&self, items: Vec<T>, type_of: impl Fn(&T) -> &str) -> [Vec<T>; 3] {
        let mut rest = items;
        PyRandom::new(self.seed).shuffle(&mut rest);
        let shares = match self.ratio {
            SplitRatio::Auto => return deal(rest, type_of),
            SplitRatio::Shares(shares) => shares,
        };
        let mut sizes = split_counts(self.rule, rest.len(), &shares).into_iter();
        let mut next_size = || sizes.next().expect("each share has its size");
        let mut second = rest.split_off(next_size().min(rest.len()));
        let third = second.split_off(next_size().min(second.len()));
        [rest, second, third]
    }
}

impl RatioSplit {
    /// As [`split`](Self::split), with all items of a group in one part; items without a group are alone.
    ///
    /// The automatic split deals the first item of each group, and the others follow it. Explicit shares cut the shuffle
    /// where SkillOpt cuts it, whatever the groups are.
    ///
    /// ```
    /// use skill_core::RatioSplit;
    ///
    /// let asked = ["a", "b", "c", "a", "a"];
    /// let parts = RatioSplit::default().split_in_groups(asked.to_vec(), |_| "", |item| Some(item));
    /// assert_eq!(parts.iter().filter(|part| part.contains(&"a")).count(), 1);
    /// ```
    pub fn split_in_groups<T>(
        &self,
        items: Vec<T>,
        type_of: impl Fn(&T) -> &str,
        group_of: impl Fn(&T) -> Option<&str>,
    ) -> [Vec<T>; 3] {
        if self.ratio != SplitRatio::Auto {
            return self.split(items, type_of);
        }
        let mut rest = items;
        PyRandom::new(self.seed).shuffle(&mut rest);
        let mut leaders = Vec::new();
        let mut leader_of_group: BTreeMap<&str, usize> = BTreeMap::new();
        let mut leader_of: Vec<usize> = Vec::with_capacity(rest.len());
        for item in &rest {
            let known = group_of(item).and_then(|group| leader_of_group.get(group).copied());
            leader_of.push(known.unwrap_or(leaders.len()));
            if known.is_none() {
                if let Some(group) = group_of(item) {
                    leader_of_group.insert(group, leaders.len());
                }
                leaders.push(item);
            }
        }
        let parts = dealt(&leaders, |leader| type_of(leader));
        let part_of =
            leader_of.iter().map(|leader| *parts.get(*leader).expect("each leader was dealt")).collect();
        apart(rest, part_of)
    }
}

/// Deals items in turn, type after type; each part keeps the order of the items.
fn deal<T>(items: Vec<T>, type_of: impl Fn(&T) -> &str) -> [Vec<T>; 3] {
    let parts = dealt(&items, type_of);
    apart(items, parts)
}

/// The part of each item, as the index of one of the three.
fn dealt<T>(items: &[T], type_of: impl Fn(&T) -> &str) -> Vec<usize> {
    let turns = if items.len() < AUTO_LARGE_FROM { SMALL_TURNS } else { LARGE_TURNS };
    let mut by_type: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (item_idx, item) in items.iter().enumerate() {
        by_type.entry(type_of(item)).or_default().push(item_idx);
    }
    let order: Vec<usize> = by_type.into_values().flatten().collect();
    let mut part_of: Vec<(usize, usize)> = order.into_iter().zip(turns.iter().copied().cycle()).collect();
    part_of.sort_unstable();
    part_of.into_iter().map(|(_, part)| part).collect()
}

/// Items by their parts, in order.
fn apart<T>(items: Vec<T>, parts: Vec<usize>) -> [Vec<T>; 3] {
    let [mut train, mut selection, mut test] = [Vec::new(), Vec::new(), Vec::new()];
    for (item, part) in items.into_iter().zip(parts) {
        match part {
            0 => train.push(item),
            1 => selection.push(item),
            _ => test.push(item),
        }
    }
    [train, selection, test]
}

/// How many of `n_items` each part gets, by largest remainder.
///
/// Each part gets the whole share of its weight; what is left goes, one each, to the parts whose share was cut
/// most, and among equals to the heavier, then to the earlier one. The counts sum to `n_items`.
/// Weights that are all 0 count as equal, and no weights give no parts.
pub fn split_counts(rule: SplitRule, n_items: usize, ratio: &[u32]) -> Vec<usize> {
    let weights: Vec<u32> =
        if ratio.iter().all(|weight| *weight == 0) { vec![1; ratio.len()] } else { ratio.to_vec() };
    let total: u128 = weights.iter().copied().map(u128::from).sum();
    if total == 0 {
        return Vec::new();
    }
    let n_wide = n_items as u128;
    // A share is at most `n_items`, so that it always fits.
    let whole = |weight: u32| usize::try_from(n_wide * u128::from(weight) / total).unwrap_or(n_items);
    let mut counts: Vec<usize> = weights.iter().copied().map(whole).collect();
    let mut order: Vec<(usize, u32)> = weights.iter().copied().enumerate().collect();
    // The sorts are stable, so that the earlier of two equal parts stays first.
    match rule {
        SplitRule::Exact => {
            order.sort_by_key(|(_, weight)| Reverse((n_wide * u128::from(*weight) % total, *weight)));
        }
        SplitRule::Float => {
            // The products stay below 2^53 for all sizes that are in use, where f64 is exact.
            let remainder = |weight: u32| {
                let share = (n_wide * u128::from(weight)) as f64 / total as f64;
                share - share.trunc()
            };
            order.sort_by(|(_, left), (_, right)| {
                remainder(*right).total_cmp(&remainder(*left)).then_with(|| right.cmp(left))
            });
        }
    }
    let n_left = n_items.saturating_sub(counts.iter().sum());
    for (part, _) in order.into_iter().take(n_left) {
        if let Some(count) = counts.get_mut(part) {
            *count += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(n_items: usize, ratio: &[u32], expect: &[usize]) {
        for rule in [SplitRule::Exact, SplitRule::Float] {
            assert_eq!(split_counts(rule, n_items, ratio), expect, "{n_items} items by {ratio:?}, {rule:?}");
        }
    }

    #[track_caller]
    fn check_rules(n_items: usize, ratio: &[u32], exact: &[usize], float: &[usize]) {
        assert_eq!(split_counts(SplitRule::Exact, n_items, ratio), exact, "{n_items} items by {ratio:?}");
        assert_eq!(split_counts(SplitRule::Float, n_items, ratio), float, "{n_items} items by {ratio:?}");
    }

    #[test]
    fn counts_are_those_of_the_reference() {
        check(400, &[2, 1, 7], &[80, 40, 280]);
        check(3, &[1, 1, 1], &[1, 1, 1]);
        check(99, &[2, 1, 7], &[20, 10, 69]);
        check(174, &[4, 2, 4], &[70, 35, 69]);
    }

    #[test]
    fn counts_at_the_edges() {
        check(0, &[2, 1, 7], &[0, 0, 0]);
        check(1, &[2, 1, 7], &[0, 0, 1]);
        check(2, &[1, 1, 1], &[1, 1, 0]);
        check(1, &[1, 3], &[0, 1]);
        check(2, &[1, 3], &[0, 2]);
        check(5, &[0, 0, 1], &[0, 0, 5]);
        check(4, &[0, 0, 0], &[2, 1, 1]);
        check(5, &[3], &[5]);
        check(5, &[], &[]);
        check(usize::MAX, &[u32::MAX, u32::MAX], &[usize::MAX / 2 + 1, usize::MAX / 2]);
    }

    #[test]
    fn floating_remainders_are_ranked_as_skillopt_does() {
        check_rules(8, &[2, 1, 7], &[1, 1, 6], &[2, 1, 5]);
    }

    /// Counts of SkillOpt 0.2.0 (`skillopt.datasets.base._compute_split_counts`), recorded by running it: for each ratio
    /// the number of sizes that differ from exact remainders, the first few of them, and the SHA-256 of the counts of
    /// all sizes as lines `n a b c`.
    const RECORDED: &str = include_str!("../tests/data/skillopt-split-counts.json");

    #[test]
    fn counts_of_all_sizes_are_those_of_skillopt() {
        let recorded: Value = serde_json::from_str(RECORDED).unwrap();
        let max_size = usize::try_from(recorded["max_size"].as_u64().unwrap()).unwrap();
        let ratios = recorded["ratios"].as_array().unwrap();
        assert!(max_size >= 3000 && ratios.len() >= 10);
        for of_ratio in ratios {
            let ratio: Vec<u32> = serde_json::from_value(of_ratio["ratio"].clone()).unwrap();
            let mut lines = String::new();
            let mut differing = Vec::new();
            for n_items in 1..=max_size {
                let counts = split_counts(SplitRule::Float, n_items, &ratio);
                lines.push_str(&format!("{n_items} {} {} {}\n", counts[0], counts[1], counts[2]));
                if counts != split_counts(SplitRule::Exact, n_items, &ratio) {
                    differing.push(n_items);
                }
            }
            assert_eq!(crate::canonical::hex_sha256(lines.as_bytes()), of_ratio["sha256"], "{ratio:?}");
            assert_eq!(differing.len(), of_ratio["n_differing_from_exact"], "{ratio:?}");
            for sample in of_ratio["samples"].as_array().unwrap() {
                let numbers: Vec<usize> = serde_json::from_value(sample.clone()).unwrap();
                assert_eq!(split_counts(SplitRule::Float, numbers[0], &ratio), numbers[1..], "{ratio:?}");
            }
        }
    }

    fn ratio(shares: [u32; 3], seed: u64) -> RatioSplit {
        RatioSplit { ratio: shares.into(), rule: SplitRule::Exact, seed }
    }

    #[test]
    fn parts_are_consecutive_slices_of_the_shuffle() {
        let parts = ratio([5, 2, 3], 42).split((0..10).collect(), |_| "");
        assert_eq!(parts, [vec![7, 3, 2, 8, 5], vec![6, 9], vec![4, 0, 1]]);
        assert!(ratio([2, 1, 7], 42).split(Vec::<u8>::new(), |_| "").concat().is_empty());
    }

    #[track_caller]
    fn check_auto(
        n_by_type: &[(&'static str, usize)],
        expect: [usize; 3],
    ) -> [Vec<(&'static str, usize)>; 3] {
        let items = n_by_type.iter().flat_map(|(name, n_items)| (0..*n_items).map(move |idx| (*name, idx)));
        let parts = RatioSplit::default().split(items.collect(), |(name, _)| *name);
        assert_eq!(parts.each_ref().map(Vec::len), expect, "{n_by_type:?}");
        parts
    }

    #[test]
    fn the_automatic_split_takes_its_shares_from_the_number_of_items() {
        check_auto(&[("", 60)], [20, 20, 20]);
        check_auto(&[("", 399)], [133, 133, 133]);
        check_auto(&[("", 400)], [160, 80, 160]);
        check_auto(&[("", 401)], [161, 80, 160]);
        check_auto(&[("", 4)], [2, 1, 1]);
        check_auto(&[("", 0)], [0, 0, 0]);
    }

    #[test]
    fn the_automatic_split_is_stratified() {
        let parts = check_auto(&[("rare", 3), ("common", 50), ("", 7)], [20, 20, 20]);
        for part in &parts {
            assert_eq!(part.iter().filter(|(name, _)| *name == "rare").count(), 1);
        }
        // The order of a part is that of the shuffle: the types are mixed.
        let [train, ..] = &parts;
        assert!(!train.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn ratio_and_rule_are_read_as_they_are_written() {
        for (ratio, text) in [(SplitRatio::Auto, "\"auto\""), (SplitRatio::Shares([2, 1, 7]), "[2,1,7]")] {
            assert_eq!(serde_json::to_string(&ratio).unwrap(), text);
            assert_eq!(serde_json::from_str::<SplitRatio>(text).unwrap(), ratio);
        }
        for (rule, text) in [(SplitRule::Exact, "1"), (SplitRule::Float, "2")] {
            assert_eq!(serde_json::to_string(&rule).unwrap(), text);
            assert_eq!(serde_json::from_str::<SplitRule>(text).unwrap(), rule);
        }
        for text in ["\"Auto\"", "[1,2]", "[1,2,-3]", "7", "null"] {
            assert!(serde_json::from_str::<SplitRatio>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<SplitRule>("3").is_err());
    }

    proptest! {
        #[test]
        fn counts_sum_to_the_whole(n_items in 0_usize..100_000, ratio in prop::collection::vec(0_u32..1000, 1..6)) {
            for rule in [SplitRule::Exact, SplitRule::Float] {
                prop_assert_eq!(split_counts(rule, n_items, &ratio).iter().sum::<usize>(), n_items);
            }
        }

        #[test]
        fn each_count_is_within_one_of_its_share(n_items in 0_usize..100_000, ratio in prop::collection::vec(1_u32..1000, 1..6)) {
            let total: f64 = ratio.iter().copied().map(f64::from).sum();
            for rule in [SplitRule::Exact, SplitRule::Float] {
                for (count, weight) in split_counts(rule, n_items, &ratio).iter().zip(&ratio) {
                    let share = n_items as f64 * f64::from(*weight) / total;
                    prop_assert!((*count as f64 - share).abs() < 1.0 + 1e-6);
                }
            }
        }

        #[test]
        fn a_split_loses_and_doubles_nothing(n_items in 0_usize..300, shares: [u32; 3], seed: u64) {
            for split in [ratio(shares, seed), RatioSplit { seed, ..RatioSplit::default() }] {
                let mut all = split.split((0..n_items).collect(), |_| "").concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..n_items).collect::<Vec<_>>());
            }
        }

        #[test]
        fn a_group_is_in_one_part_and_without_groups_the_split_is_the_same(
            groups in prop::collection::vec(0_u32..40, 0..200),
            seed: u64,
        ) {
            let split = RatioSplit { seed, ..RatioSplit::default() };
            let named: Vec<(usize, String)> =
                groups.iter().enumerate().map(|(index, group)| (index, group.to_string())).collect();
            let parts = split.split_in_groups(named.clone(), |_| "", |(_, group)| Some(group));
            for group in &groups {
                let name = group.to_string();
                let n_parts = parts.iter().filter(|part| part.iter().any(|(_, other)| *other == name)).count();
                prop_assert_eq!(n_parts, 1);
            }
            let mut all = parts.concat();
            all.sort();
            prop_assert_eq!(all, named.clone());
            prop_assert_eq!(split.split_in_groups(named.clone(), |_| "", |_| None), split.split(named, |_| ""));
        }

        #[test]
        fn an_automatic_split_gives_each_part_its_share_of_each_type(
            sizes in prop::collection::vec(0_usize..200, 1..6),
            seed: u64,
        ) {
            let names = ["", "a", "b", "c", "d", "e"];
            let items: Vec<&str> =
                names.iter().zip(&sizes).flat_map(|(name, n_items)| std::iter::repeat_n(*name, *n_items)).collect();
            let n_items = items.len();
            let shares = SplitRatio::Auto.shares(n_items);
            let parts = RatioSplit { seed, ..RatioSplit::default() }.split(items, |name| name);
            let all = parts.each_ref().map(Vec::len).to_vec();
            prop_assert_eq!(all, split_counts(SplitRule::Exact, n_items, &shares));
            let total: u32 = shares.iter().sum();
            for (name, size) in names.iter().zip(&sizes) {
                for (part, weight) in parts.iter().zip(shares) {
                    let count = part.iter().filter(|item| *item == name).count() as f64;
                    let share = *size as f64 * f64::from(weight) / f64::from(total);
                    prop_assert!((count - share).abs() < 1.0, "{} of {}, share {}", count, size, share);
                }
            }
        }
    }
}
