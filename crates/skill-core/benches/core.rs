//! How fast the core is where its speed is promised: `cargo bench -p skill-core`.
//!
//! One module per promise. To add one, write the module; divan finds what is marked `#[divan::bench]`.
//!
//! - [`json`]: 1 MB of hostile text is read in under 50 ms, and twice the text takes twice the time;
//! - [`editor`]: a patch of 16 edits on a skill of 100 kB takes less than 1 ms;
//! - [`plan`]: an epoch plan of 100,000 items takes less than 50 ms;
//! - [`gate`]: the exact sum over 10,000 items takes less than 1 ms, and feeding them to early rejection less than 2 ms;
//! - [`trials`]: a question about the power of a trial takes less than 50 ms.

fn main() {
    divan::main();
}

/// JSON extraction from texts that are made to be slow to read.
mod json {
    use divan::counter::BytesCount;
    use divan::{Bencher, black_box};
    use serde_json::Value;
    use skill_core::json::{extract, extract_json, read_patch};
    use std::fmt;

    /// The sizes over which the time must grow in proportion.
    const SIZES: [usize; 3] = [256 * 1024, 512 * 1024, 1024 * 1024];

    /// A text that is one piece over and over.
    #[derive(Clone, Copy)]
    struct Hostile {
        name: &'static str,
        start: &'static str,
        piece: &'static str,
        size: usize,
    }

    impl fmt::Display for Hostile {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{} {} kB", self.name, self.size / 1024)
        }
    }

    impl Hostile {
        fn text(self) -> String {
            let mut text = self.start.to_owned();
            text.push_str(&self.piece.repeat(self.size / self.piece.len()));
            text
        }
    }

    /// A name, how the text starts, and the piece that is repeated.
    const KINDS: [(&str, &str, &str); 25] = [
        ("open braces", "", "{"),
        ("open brackets", "", "["),
        ("quotes", "", "\""),
        ("quotes in a string", "{\"a\":\"", "\""),
        ("backslashes in a string", "{\"a\":\"", "\\\\"),
        ("nested members", "", "[{\"a\":"),
        ("fence openings", "", "```json"),
        ("fenced openings", "", "```json\n{\"a\":"),
        ("missing commas", "", "{\"a\":\"b\" \"c\""),
        ("quoted words in a string", "{\"a\":\"", "say \"b\", then "),
        ("quotes and blanks", "{\"a\":\"", "\"          "),
        ("quotes and comments", "{\"a\":\"", "\"/*"),
        ("open comments", "", "{/*"),
        ("empty objects", "", "{}"),
        ("small objects", "", "{\"a\":1}"),
        ("broken objects", "", "{\"a\":@"),
        ("single quotes", "", "{'a':'"),
        ("broken keys", "", "{\"a\":1,@"),
        ("trailing commas", "{\"a\":[", "1,,"),
        ("nested lists of objects", "", "[{\"a\":[{},"),
        ("closing tags", "", "</think>\n{"),
        ("many members", "{\"a\":{", "\"b\":1 "),
        ("joined strings", "{\"a\":", "\"b\"\n"),
        ("curly quotes", "{“a”:“", "“b”, "),
        ("quoted objects", "", "{\"a\":\"x\"}\" "),
    ];

    fn hostile() -> Vec<Hostile> {
        let kind = |(name, start, piece)| SIZES.map(|size| Hostile { name, start, piece, size });
        KINDS.into_iter().flat_map(kind).collect()
    }

    /// A good reply of a megabyte, for comparison.
    fn reply() -> String {
        let edit = r#"{"op": "append", "target": "", "content": "Read the \"header\" before the cell.\nThen answer."}"#;
        let edits = vec![edit; 1024 * 1024 / (edit.len() + 1)].join(",");
        format!("Here:\n```json\n{{\"patch\": {{\"reasoning\": \"r\", \"edits\": [{edits}]}}}}\n```\n")
    }

    #[divan::bench(args = hostile(), sample_count = 5, sample_size = 1)]
    fn extract_json_from(bencher: Bencher, hostile: Hostile) {
        let text = hostile.text();
        bencher.counter(BytesCount::of_str(&text)).bench(|| extract_json(black_box(&text)));
    }

    #[divan::bench(args = hostile(), sample_count = 5, sample_size = 1)]
    fn extract_fitting_from(bencher: Bencher, hostile: Hostile) {
        let text = hostile.text();
        let fits = |value: &Value| value.get("edits").is_some();
        bencher.counter(BytesCount::of_str(&text)).bench(|| extract(black_box(&text), fits));
    }

    #[divan::bench(sample_count = 10)]
    fn read_good_patch(bencher: Bencher) {
        let text = reply();
        bencher.counter(BytesCount::of_str(&text)).bench(|| read_patch(black_box(&text)));
    }

    #[divan::bench(sample_count = 10)]
    fn read_cut_patch(bencher: Bencher) {
        let text = reply();
        let cut = text.trim_end_matches(['\n', '`', '}', ']', '"', '.']).to_owned();
        bencher.counter(BytesCount::of_str(&cut)).bench(|| read_patch(black_box(&cut)));
    }
}

/// Patches on a long skill: 16 edits of 100 kB take less than 1 ms; where no anchor is there to the letter, less
/// than 50 ms.
mod editor {
    use divan::{Bencher, black_box};
    use skill_core::{Edit, EditOp, SkillDoc, apply_patch};

    const LINES: usize = 1_300;

    /// 100 kB of rules with a protected region at the end.
    fn long_skill() -> SkillDoc {
        let rule = |line_idx: usize| {
            format!(
                "- Rule {line_idx:04}: look twice at the record before you write the answer to the card.\n"
            )
        };
        let mut text = String::from("# Skill\n\n");
        text.extend((0..LINES).map(rule));
        text.push_str("\n<!-- SLOW_UPDATE_START -->\nGuidance.\n<!-- SLOW_UPDATE_END -->\n");
        assert!(text.len() >= 100_000, "{}", text.len());
        SkillDoc::new(text)
    }

    /// Four of each operation, with anchors near the end of the text.
    fn edits() -> Vec<Edit> {
        (0..4)
            .flat_map(|edit_idx| {
                let anchor = |offset: usize| format!("- Rule {:04}:", LINES - 1 - 4 * edit_idx - offset);
                [
                    Edit::append(format!("- New rule {edit_idx}.")),
                    Edit::new(EditOp::InsertAfter, anchor(0), format!("- Inserted {edit_idx}.")),
                    Edit::new(EditOp::Replace, anchor(1), format!("- Replaced {edit_idx}:")),
                    Edit::new(EditOp::Delete, anchor(2), ""),
                ]
            })
            .collect()
    }

    /// The same with anchors that a model did not copy to the letter.
    fn drifted_edits() -> Vec<Edit> {
        let drifted = edits().into_iter().map(|mut edit| {
            edit.target = edit.target.replace("- Rule", "* Rule");
            edit
        });
        drifted.collect()
    }

    /// Anchors that are nowhere, with a text that is near.
    fn missed_edits() -> Vec<Edit> {
        let missed = (0..16).map(|edit_idx| {
            let anchor = format!("- Rule {:04}: look twice at the recorded answers.", LINES - 1 - edit_idx);
            Edit::new(EditOp::Replace, anchor, "- x")
        });
        missed.collect()
    }

    #[divan::bench]
    fn sixteen_drifted_edits_of_100_kb(bencher: Bencher) {
        let (skill, edits) = (long_skill(), drifted_edits());
        let (_, report) = apply_patch(&skill, &edits);
        assert!(report.iter().all(|row| row.status.is_applied()), "{report:?}");
        bencher.bench_local(|| apply_patch(black_box(&skill), black_box(&edits)));
    }

    #[divan::bench]
    fn sixteen_missed_edits_of_100_kb(bencher: Bencher) {
        let (skill, edits) = (long_skill(), missed_edits());
        let (_, report) = apply_patch(&skill, &edits);
        assert!(report.iter().all(|row| row.nearest.is_some()), "{report:?}");
        bencher.bench_local(|| apply_patch(black_box(&skill), black_box(&edits)));
    }

    /// One long word over and over, and an anchor that nearly fits everywhere.
    #[divan::bench(args = [64 * 1024, 128 * 1024, 256 * 1024])]
    fn hostile_anchor(bencher: Bencher, size: usize) {
        let skill = SkillDoc::new("aa * ` \" ".repeat(size / 9));
        let edits =
            [Edit::new(EditOp::Replace, "aa * ` \" ".repeat(2000) + "b", "x"), Edit::append("aa aa b")];
        bencher.bench_local(|| apply_patch(black_box(&skill), black_box(&edits)));
    }

    #[divan::bench]
    fn sixteen_edits_of_100_kb(bencher: Bencher) {
        let (skill, edits) = (long_skill(), edits());
        let (_, report) = apply_patch(&skill, &edits);
        assert!(report.iter().all(|row| row.status.is_applied()), "{report:?}");
        bencher.bench_local(|| apply_patch(black_box(&skill), black_box(&edits)));
    }
}

/// Epoch plans: 100,000 items take less than 50 ms.
mod plan {
    use divan::black_box;
    use skill_core::{EpochIdx, plan_train_epoch, steps_per_epoch};

    #[divan::bench]
    fn epoch_of_100_000_items() -> usize {
        let steps = steps_per_epoch(100_000, 40, 1);
        plan_train_epoch(black_box(100_000), EpochIdx(1), steps, 1, 40, 42).len()
    }
}

/// The gate in exact arithmetic: 10,000 items of a skill are added up in less than 1 ms.
mod gate {
    use divan::{Bencher, black_box};
    use skill_core::{
        EarlyRejection, EarlyVerdict, FlipCounts, Gate, GateMetric, ItemId, ItemScore, PyRandom,
        evaluation_order,
    };

    const N_ITEMS: usize = 10_000;

    /// Graded scores of which the soft one has all its digits, and hard ones of which nine in ten are 1.
    fn scores(seed: u64) -> Vec<ItemScore> {
        let mut random = PyRandom::new(seed);
        (0..N_ITEMS)
            .map(|_| ItemScore { hard: f64::from(u8::from(random.random() < 0.9)), soft: random.random() })
            .collect()
    }

    /// Every digit of these is far below that of ordinary scores.
    fn tiny_scores(seed: u64) -> Vec<ItemScore> {
        let tiny = |score: f64| f64::from_bits(score.to_bits() >> 12);
        scores(seed)
            .into_iter()
            .map(|score| ItemScore { hard: tiny(score.hard), soft: tiny(score.soft) })
            .collect()
    }

    fn gate(metric: GateMetric) -> Gate {
        Gate { metric, mixed_weight: 0.3 }
    }

    #[divan::bench(args = GateMetric::ALL)]
    fn total(bencher: Bencher, metric: GateMetric) {
        let scores = scores(1);
        bencher.bench_local(|| gate(metric).total(black_box(&scores)));
    }

    #[divan::bench(args = GateMetric::ALL)]
    fn total_of_tiny_scores(bencher: Bencher, metric: GateMetric) {
        let scores = tiny_scores(1);
        bencher.bench_local(|| gate(metric).total(black_box(&scores)));
    }

    #[divan::bench(args = GateMetric::ALL)]
    fn push_to_the_last_item(bencher: Bencher, metric: GateMetric) {
        let candidate = scores(1);
        let current = vec![ItemScore::default(); N_ITEMS];
        bencher.bench_local(|| {
            let mut rejection = EarlyRejection::new(gate(metric), black_box(&current));
            for score in black_box(&candidate) {
                rejection.push(*score);
            }
            assert_eq!((rejection.n_seen(), rejection.verdict()), (N_ITEMS, EarlyVerdict::Open));
            rejection.interval()
        });
    }

    #[divan::bench]
    fn evaluation_order_of_10_000_items(bencher: Bencher) {
        let ids: Vec<ItemId> =
            (0..N_ITEMS).map(|item_idx| ItemId::new(format!("item-{item_idx:05}"))).collect();
        let (candidate, current) = (scores(1), scores(2));
        let mut flips = FlipCounts::default();
        let seen = candidate.iter().copied().zip(current.iter().copied());
        flips.record(ids.iter().zip(seen).map(|(id, (candidate, current))| (id, candidate, current)));
        bencher.bench_local(|| evaluation_order(black_box(&ids), black_box(&current), &flips));
    }
}

mod trials {
    use divan::{Bencher, black_box};
    use skill_core::stats::stratified::{GroupShape, TaskPrior, TrialPower, TrialRule};

    const END: TrialRule = TrialRule::FixedEnd { alpha: 0.05 };
    const ANY: TrialRule = TrialRule::AnyTime { threshold: 20.0, groups_per_look: 16 };

    fn power(rule: TrialRule) -> TrialPower {
        TrialPower {
            prior: TaskPrior::default(),
            shape: GroupShape::halves(8),
            rule,
            max_informative_groups: None,
            seed: 1,
        }
    }

    #[divan::bench]
    fn chance_at_the_end(bencher: Bencher) {
        bencher.bench_local(|| black_box(power(END)).chance_to_admit(0.05, 160));
    }

    #[divan::bench]
    fn chance_at_any_time(bencher: Bencher) {
        bencher.bench_local(|| black_box(power(ANY)).chance_to_admit(0.05, 160));
    }

    #[divan::bench]
    fn rollouts_that_are_never_enough(bencher: Bencher) {
        bencher.bench_local(|| black_box(power(ANY)).rollouts_needed(0.0, 0.8));
    }
}
