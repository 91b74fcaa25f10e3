//! The arithmetic of the estimate.

use super::*;
use skill_core::schedule::{EditBudget, EditBudgetSchedule};
use skill_pipeline::{EpochEnd, SlowUpdate};

#[test]
fn analysts_read_failures_and_successes_apart() {
    for (batch, minibatch, low, high) in [
        (0, 4, 0, 0),
        (1, 4, 1, 1),
        (4, 4, 1, 2),
        (5, 4, 2, 2),
        (10, 4, 3, 4),
        (40, 8, 5, 6),
        (41, 8, 6, 6),
        (42, 8, 6, 7),
        (3, 1, 3, 3),
        (3, 0, 3, 3),
        (2, 100, 1, 2),
    ] {
        assert_eq!(analyst_calls(batch, minibatch), Span { low, high }, "{batch} by {minibatch}");
        let calls = |failures: u64| {
            let group = |n_items: u64| n_items.div_ceil(minibatch.max(1));
            group(failures) + group(batch - failures)
        };
        let all: Vec<u64> = (0..=batch).map(calls).collect();
        assert_eq!((low, high), (*all.iter().min().unwrap(), *all.iter().max().unwrap()), "by trying all");
    }
}

#[test]
fn a_tree_of_merges_is_counted_call_by_call() {
    // 9 patches by 8: a group of 8, and one that passes; then a group of 2.
    let calls = most_tree_calls(17, 8);
    assert_eq!(calls, [0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3]);
    assert_eq!(most_tree_calls(5, 2), [0, 0, 1, 2, 3, 4]);
    assert_eq!(most_tree_calls(3, 0), [0, 0, 1, 2], "a merge takes two at least");
}

#[test]
fn merges_are_at_most_two_trees_and_the_last() {
    // 400 by 8 are at most 51 analysts: trees of 25 (4 calls) and 26 patches (5), and the last merge.
    for (batch, minibatch, merge_batch, high) in
        [(0, 4, 8, 0), (1, 4, 8, 0), (2, 1, 8, 1), (10, 4, 8, 3), (40, 8, 8, 3), (400, 8, 8, 10)]
    {
        assert_eq!(merge_calls(&[batch], minibatch, merge_batch), Span { low: 0, high }, "{batch}");
    }
}

#[test]
fn a_step_of_several_batches_merges_the_patches_of_all() {
    // Two batches of 2, an analyst for each item: up to 4 patches of failures, merged in pairs, or 2 and 2 and both.
    assert_eq!(merge_calls(&[2, 2], 1, 2), Span { low: 0, high: 3 });
    assert_eq!(merge_calls(&[40, 40], 8, 8), Span { low: 0, high: 5 });
    assert_eq!(merge_calls(&[], 8, 8), Span { low: 0, high: 0 });
}

fn split(n_items: u64, calls: u64, bytes: u64) -> SplitProbe {
    SplitProbe {
        n_items,
        calls_per_item: Span::new(1, calls),
        messages_per_call: Span::exactly(2),
        bytes_per_item: Span::new(bytes, bytes.saturating_mul(calls)),
    }
}

fn config(prices: &str) -> Config {
    let text = format!(
        "[env]\nkind = \"qa\"\ndata = \"d\"\n[models]\noptimizer = {{ kind = \"simulated\" }}\n\
         target = {{ kind = \"openai\", model = \"m\"{prices} }}\n"
    );
    Config::parse(&text, "test", &[]).unwrap().config
}

fn settings() -> TrainSettings {
    TrainSettings {
        epochs: 2,
        batch_size: 4,
        minibatch_size: 2,
        edit_budget: EditBudget::new(EditBudgetSchedule::Constant, 3, 3).unwrap(),
        epoch_end: EpochEnd::OFF,
        ..TrainSettings::default()
    }
}

fn probed() -> Probe {
    Probe {
        splits: [split(10, 1, 600), split(5, 1, 600), split(7, 1, 600)],
        max_target_tokens: Some(50),
        trajectory_bytes: Span::exactly(1000),
        max_reply_bytes: 100,
        analyst_bytes: Span::exactly(3000),
        merge_bytes: Span::new(2000, 9000),
        ranking_bytes: Span::new(1500, 6000),
        appendix_bytes: Span::default(),
        slow_update_bytes: Span::exactly(4000),
        meta_skill_bytes: Span::exactly(3500),
        rewrite_bytes: Span::new(900, 4000),
        skill_bytes: 600,
    }
}

fn stage<'estimate>(estimate: &'estimate Estimate, name: &str) -> &'estimate StageEstimate {
    estimate.stages.iter().find(|stage| stage.stage == name).unwrap()
}

#[test]
fn calls_are_exact_where_they_are_fixed_and_ranges_elsewhere() {
    let estimate = estimate(&probed(), &settings(), &config(""), Assumptions::default());
    assert_eq!(estimate.steps, 6);
    let calls: Vec<_> =
        estimate.stages.iter().map(|stage| (stage.stage, stage.calls.low, stage.calls.high)).collect();
    assert_eq!(
        calls,
        [
            ("baseline", 5, 5),
            ("rollout", 20, 20),
            // In each epoch two batches of 4 (2 to 3 analysts) and one of 2 (1 to 2).
            ("reflect", 10, 16),
            ("aggregate", 0, 10),
            ("select", 0, 6),
            ("evaluate", 0, 30),
            ("test_baseline", 7, 7),
            ("test_best", 0, 7),
        ]
    );
    assert_eq!((estimate.total.calls.low, estimate.total.calls.high), (42, 101));
    let without_test = TrainSettings { eval_test: false, ..settings() };
    let estimate = super::estimate(&probed(), &without_test, &config(""), Assumptions::default());
    assert_eq!(estimate.stages.len(), 6);
}

#[test]
fn tokens_follow_the_bytes_and_the_growing_skill() {
    let assumptions = Assumptions {
        bytes_per_token: [2.0, 4.0],
        tokens_per_message: Span::new(0, 10),
        bytes_per_edit: Span::new(0, 100),
        ..Assumptions::default()
    };
    let estimate = estimate(&probed(), &settings(), &config(""), assumptions);
    // 600 bytes are 150 to 300 tokens; two messages are 20 more.
    let baseline = stage(&estimate, "baseline");
    assert_eq!(baseline.input_tokens, Span { low: 5 * 150, high: 5 * 320 });
    assert_eq!(
        baseline.output_tokens,
        Span { low: 5, high: 5 * 50 },
        "bounded by the most that is asked for"
    );
    // Three edits a step: 300 bytes more in each; the batches are 4, 4 and 2, twice.
    let rollout = stage(&estimate, "rollout");
    let grown = 150 * (4 + 2 * 2 + 3 * 4 + 4 * 4 + 5 * 2);
    assert_eq!(rollout.input_tokens, Span { low: 20 * 150, high: 20 * 320 + grown });
    let best = stage(&estimate, "test_best");
    assert_eq!(best.input_tokens, Span { low: 0, high: 7 * (320 + 6 * 150) });
    // An analyst is 3000 bytes, and 1000 for each of 20 trajectories, to which the agent's words come.
    let reflect = stage(&estimate, "reflect");
    assert_eq!(reflect.input_tokens.low, (10 * 3000 + 20 * 1000) / 4);
    assert!(reflect.input_tokens.high > (16 * 3000 + 20 * 1100) / 2);
    assert_eq!(reflect.output_tokens, Span { low: 10 * 20, high: 16 * 1500 });
}

#[test]
fn the_skill_does_not_grow_for_ever() {
    let assumptions = Assumptions { max_growth_bytes: 700, ..Assumptions::default() };
    let growth: Vec<u64> =
        steps(&probed(), &settings(), assumptions).iter().map(|step| step.growth[1].high).collect();
    assert_eq!(growth, [300, 600, 700, 700, 700, 700]);
}

#[test]
fn an_agent_of_several_calls_makes_one_at_least() {
    let probe = Probe { splits: [split(10, 4, 600), split(5, 4, 600), split(7, 4, 600)], ..probed() };
    let estimate = estimate(&probe, &settings(), &config(""), Assumptions::default());
    let baseline = stage(&estimate, "baseline");
    assert_eq!(baseline.calls, Span { low: 5, high: 20 });
    assert_eq!(baseline.input_tokens.low, 5 * 600 / 5);
    assert_eq!(baseline.input_tokens.high, 5 * 2400 / 3 + 20 * 2 * 8);
}

#[test]
fn money_is_known_where_prices_are() {
    let assumptions = Assumptions::default();
    let estimate = estimate(&probed(), &settings(), &config(", price_input = 1000.0"), assumptions);
    let baseline = stage(&estimate, "baseline");
    let [low, high] = baseline.cost.unwrap();
    assert!((low - baseline.input_tokens.low as f64 / 1000.0).abs() < 1e-9);
    assert!((high - baseline.input_tokens.high as f64 / 1000.0).abs() < 1e-9);
    assert_eq!(stage(&estimate, "reflect").cost, None, "a simulated model has no price");
    let of_target: f64 = estimate.stages.iter().filter_map(|stage| stage.cost).map(|[_, high]| high).sum();
    assert!((estimate.total.cost.unwrap()[1] - of_target).abs() < 1e-9);
    let free = super::estimate(&probed(), &settings(), &config(""), assumptions);
    assert_eq!(free.total.cost, None);
}

#[test]
fn nothing_is_too_large() {
    let settings = TrainSettings { epochs: 3, batch_size: usize::MAX, ..settings() };
    let probe = Probe { splits: [split(u64::MAX / 2, 9, u64::MAX); 3], ..probed() };
    let small = Probe { splits: [split(3, 9, u64::MAX / 9); 3], ..probed() };
    assert_eq!(estimate(&small, &settings, &config(""), Assumptions::default()).steps, 3);
    assert_eq!(rollouts(&probe.splits[0], u64::MAX, Span::exactly(1)).bytes.high, u64::MAX);
    let empty = Probe::default();
    let estimate = estimate(&empty, &settings, &config(""), Assumptions::default());
    assert_eq!((estimate.steps, estimate.total.calls.high), (0, 0));
}

#[test]
fn the_ends_of_epochs_compare_a_sample_under_two_skills() {
    let epoch_end = EpochEnd { samples: 6, ..EpochEnd::default() };
    let calls = |settings: TrainSettings| -> Vec<(&'static str, Span)> {
        let found = estimate(&probed(), &settings, &config(""), Assumptions::default());
        let is_of_end = |stage: &StageEstimate| {
            ["rollout_prev", "rollout_curr", "slow_update", "slow_evaluate", "meta_skill"]
                .contains(&stage.stage)
        };
        found.stages.iter().filter(|stage| is_of_end(stage)).map(|stage| (stage.stage, stage.calls)).collect()
    };
    let of = |epochs, epoch_end| calls(TrainSettings { epochs, epoch_end, ..settings() });
    // Two of three epochs have something to compare with; both skills may be the same.
    let all = [
        ("rollout_prev", Span::exactly(12)),
        ("rollout_curr", Span::new(0, 12)),
        ("slow_update", Span::exactly(2)),
        ("slow_evaluate", Span::new(0, 10)),
        ("meta_skill", Span::exactly(2)),
    ];
    assert_eq!(of(3, epoch_end), all);
    assert_eq!(of(3, EpochEnd { slow_update: SlowUpdate::Off, ..epoch_end }), [all[0], all[1], all[4]]);
    assert_eq!(of(3, EpochEnd { meta_skill: false, ..epoch_end }), all[..4]);
    let changed = of(3, EpochEnd { pair_policy: skill_core::PairPolicy::Changed, ..epoch_end });
    assert_eq!((changed[0].1, changed[2].1), (Span::new(12, 20), Span::new(0, 2)));
    assert!(of(1, epoch_end).iter().all(|(_, calls)| *calls == Span::default()));
    assert_eq!(of(3, EpochEnd::OFF), []);
}

/// A planned search under a cap goes on until the cap ends it, or at once where nothing is to be gained.
#[test]
fn a_planned_search_is_estimated_up_to_its_caps_and_no_higher() {
    let prices = ", price_input = 0.25, price_output = 2.0";
    let optimizer = format!("{{ kind = \"openai\", model = \"o\"{prices} }}");
    let forecast_of = |budget: &str| {
        let text = format!(
            "[train]\nprotocol = \"auto\"\n[budget]\n{budget}\n[env]\nkind = \"qa\"\ndata = \"d\"\n\
             [models]\noptimizer = {optimizer}\ntarget = {{ kind = \"openai\", model = \"m\"{prices} }}\n"
        );
        let config = Config::parse(&text, "test", &[]).unwrap().config;
        let settings = crate::trainer::settings(&config).unwrap();
        let probe = Probe { splits: [20, 20, 20].map(|n_items| split(n_items, 1, 600)), ..probed() };
        let planned = estimate(&probe, &settings.foreseen([20; 3], 1.0), &config, Assumptions::default());
        (forecast(&probe, &settings, &config, Assumptions::default()), planned)
    };
    // By the tokens that a plan assumes, fewer steps fit than by those of short texts.
    let (of_money, planned) = forecast_of("money = 0.1");
    assert!(of_money.steps > 2 * planned.steps, "{} {}", of_money.steps, planned.steps);
    assert!(of_money.total.calls.high > 876, "{:?}", of_money.total);
    assert_eq!(of_money.total.cost.unwrap()[1], 0.1);
    assert_eq!(stage(&of_money, "rollout").calls.low, 0, "a perfect skill ends it");
    let (of_calls, planned) = forecast_of("calls = 300");
    assert_eq!(of_calls.steps, planned.steps);
    // Few searches end before half of their calls.
    assert_eq!((of_calls.total.calls.low, of_calls.total.calls.high), (150, 300));
    // Each of them has a reply of a token at least.
    assert!(of_calls.total.output_tokens.low >= 150, "{:?}", of_calls.total);
    // Far from its caps a search ends by its patience: hardly ever after more than ten times 24 proposals.
    let (patient, _) = forecast_of("calls = 1000000");
    assert_eq!((patient.steps, patient.high_end, of_calls.high_end), (240, HighEnd::Patience, HighEnd::Caps));
    assert!(patient.total.calls.high < 5_000, "{:?}", patient.total);
    assert_eq!(patient.total.calls.low, patient.total.calls.high / 10);
    let (rich, _) = forecast_of("money = 1000.0");
    assert_eq!((rich.steps, rich.total.calls), (240, patient.total.calls));
    assert!(rich.total.cost.unwrap()[1] < 20.0, "{:?}", rich.total.cost);
    let (of_tokens, _) = forecast_of("tokens = 200000");
    assert!(of_tokens.total.input_tokens.high <= 200_000 && of_tokens.steps > 0);
}
