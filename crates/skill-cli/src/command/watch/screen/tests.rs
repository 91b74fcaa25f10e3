//! Screens of runs that train a document, a bank, or weights.

use super::*;
use crate::run_text::made;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use skillrl::bank::{Author, Bank, BankEvent, Basis, Content, Evidence, Occasion, SkillProvenance, Tier};
use skillrl::core::MeanScore;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::records::bank::RoundRecord;
use skillrl::pipeline::records::document::StepRecord;
use skillrl::pipeline::run_dir::live::{Pulse, Spend};
use skillrl::reports::{BankBrief, BankScore, Brief};

fn record(step: u32, action: &str, score: f64) -> StepRecord {
    serde_json::from_value(json!({
        "step": step, "epoch": 1, "step_in_epoch": step - 1, "batch_seed": 1, "batch_item_ids": ["a"],
        "rollout_hard": 0.5, "rollout_soft": 0.5, "rollout_n": 8, "n_failure_patches": 1,
        "n_success_patches": 1, "n_edits_merged": 3, "n_edits_ranked": 2, "edit_budget": 4,
        "apply_report": {"total": 2, "applied": 2, "skipped": 0}, "gate_metric": "hard",
        "candidate_gate_score": score, "action": action, "score_before": 0.4, "current_score": score,
        "best_score": score, "best_step": step, "tokens": {},
    }))
    .unwrap()
}

fn live() -> LiveState {
    let spend = Spend {
        calls: 1234,
        tokens: 567_890,
        money: 0.5,
        cap_money: Some(2.0),
        seconds: 90.0,
        ..Spend::default()
    };
    LiveState {
        format_version: "1.0".to_owned(),
        pid: 1,
        started_unix_ms: 0,
        updated_unix_ms: 60_000,
        total_steps: 12,
        finished_at_start: 0,
        finished_steps: 3,
        step: Some(skillrl::core::StepIdx(4)),
        stage: Some("evaluate".to_owned()),
        stage_started_unix_ms: 50_000,
        done: 20,
        done_at_once: 0,
        total: 40,
        bank: None,
        pulse: Pulse { in_flight: 8, limit: 16, waiting: 2, spend, ..Pulse::default() },
    }
}

fn overview() -> RunOverview {
    RunOverview {
        name: "demo".to_owned(),
        phase: RunPhase::Training,
        env: "qa".to_owned(),
        n_steps: 3,
        total_steps: Some(12),
        baseline: Some(0.225),
        current: Some(0.6),
        best: Some(0.6),
        best_step: Some(3),
        n_accepted: 2,
        live: Some(live()),
        ..RunOverview::unknown("demo/run".as_ref())
    }
}

fn shown(view: &RunView, [width, height]: [u16; 2], scrolled: usize, shows_skills: bool) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let failures = ["T-7 (step 4 / evaluate): the answer is \u{1b}[31m `A`\nand not `B`".to_owned()].into();
    let screen = Screen { view, failures: &failures, shows_skills, scrolled };
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal.backend().to_string()
}

fn drawn(width: u16, height: u16, scrolled: usize) -> String {
    let history =
        [record(1, "accept_new_best", 0.4), record(2, "reject", 0.4), record(3, "accept_new_best", 0.6)];
    let mut view = RunView::of_document(overview(), &history);
    view.warnings = vec!["step 2: \u{1b}[31mred".to_owned()];
    shown(&view, [width, height], scrolled, false)
}

#[test]
fn a_run_fills_a_terminal() {
    insta::assert_snapshot!("watch_120x24", drawn(120, 24, 0));
    insta::assert_snapshot!("watch_80x24", drawn(80, 24, 0));
    insta::assert_snapshot!("watch_200x50", drawn(200, 50, 0));
}

#[test]
fn a_narrow_terminal_shows_what_matters() {
    insta::assert_snapshot!("watch_40x12", drawn(40, 12, 0));
    // Nothing is too small.
    for (width, height) in [(1, 1), (5, 3), (200, 2)] {
        drawn(width, height, 0);
    }
}

#[test]
fn earlier_steps_come_into_view() {
    assert!(drawn(100, 24, 2).contains(" 1/12  ") && !drawn(100, 24, 2).contains(" 3/12  "));
}

fn trial(number: u32, skill: &str, title: &str, verdict: &str) -> Value {
    json!({
        "trial": number, "skill": skill, "title": title, "tier": "heat", "items": [],
        "preflight": null, "rollouts": 96, "fresh": null,
        "decision": {"verdict": verdict, "ground": "limit", "n_groups": 12, "numbers": made::trial()["numbers"]},
    })
}

fn round(number: u32, hard: f64) -> RoundRecord {
    serde_json::from_value(json!({
        "format_version": "1.0", "round": number, "rates": [], "weak": ["heat"],
        "proposed": ["hea_001"], "left_out": [], "notes": [],
        "trials": [
            trial(1, "hea_001", "Heat food before you put it down, and look \u{1b}[31m twice", "admit"),
            trial(2, "gen_001", "Be calm", "reject"),
        ],
        "admitted": ["hea_001"], "retired": [], "waiting": [], "n_active": 1,
        "validation": {
            "bank_version": "v", "score": {"hard": hard, "soft": hard}, "n": 4, "by_task_type": {},
            "shown": {"a": ["hea_001"], "b": ["hea_001"], "c": [], "d": []},
        },
        "tokens": {},
    }))
    .unwrap()
}

fn skills() -> Bank {
    let mut bank = Bank::new();
    for (tier, title) in [(Tier::General, "Be calm"), (Tier::of_type("heat"), "Heat food first")] {
        let skill = bank.next_skill(&tier);
        let content = Content::principle(title, "", "");
        let proposed =
            BankEvent::proposed(skill, tier, content, SkillProvenance::Person, Evidence::default());
        bank.record(0, Author::Person, proposed).unwrap();
    }
    let heat = bank.next_skill(&Tier::of_type("heat")).skill.as_str().replace("002", "001");
    let skill: skillrl::bank::SkillRef = serde_json::from_value(json!(heat)).unwrap();
    let utility = serde_json::from_value(json!({
        "difference": 0.125, "interval": [-0.03, 0.28], "with": [30, 48], "without": [24, 48], "informative_groups": 7,
    }));
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Person };
    let measured = BankEvent::Measured {
        skill,
        occasion: Occasion::AfterAdmission,
        utility: Some(utility.unwrap()),
        verdict: None,
        e_better: None,
        e_worse: None,
        p_better: None,
    };
    for event in [admitted, measured] {
        bank.record(0, Author::Person, event).unwrap();
    }
    bank
}

fn drawn_bank(width: u16, height: u16, scrolled: usize, shows_skills: bool) -> String {
    let mut progress = made::bank();
    progress.round = Some(2);
    progress.trials.push(serde_json::from_value(trial(7, "heat_003", "Wait", "undecided")).unwrap());
    let live = LiveState { total_steps: 3, bank: Some(Box::new(progress)), ..live() };
    let mut brief = BankBrief::default();
    (brief.last_round, brief.skills.active, brief.trials.admitted) = (Some(1), 1, 2);
    let score = |hard: f64| Some(BankScore::of(MeanScore { hard, soft: hard }, 4));
    (brief.baseline, brief.validation, brief.validation_round) = (score(0.25), score(0.5), Some(1));
    let overview = RunOverview {
        n_steps: 1,
        total_steps: Some(3),
        live: Some(live),
        brief: Some(Brief::Bank(Box::new(brief))),
        ..overview()
    };
    let rounds = vec![round(0, 0.25), round(1, 0.5)];
    let view = RunView::of_bank(overview, &rounds, &skills());
    shown(&view, [width, height], scrolled, shows_skills)
}

#[test]
fn a_run_of_a_bank_fills_a_terminal_with_rounds_or_with_skills() {
    insta::assert_snapshot!("watch_bank_120x24", drawn_bank(120, 24, 0, false));
    insta::assert_snapshot!("watch_bank_80x24", drawn_bank(80, 24, 0, false));
    insta::assert_snapshot!("watch_bank_skills_120x20", drawn_bank(120, 20, 0, true));
    insta::assert_snapshot!("watch_bank_skills_80x20", drawn_bank(80, 20, 0, true));
}

#[test]
fn nothing_is_too_small_for_a_bank_and_nothing_steers_the_terminal() {
    for (width, height) in [(1, 1), (5, 3), (40, 12), (200, 2)] {
        for shows_skills in [false, true] {
            assert!(!drawn_bank(width, height, 0, shows_skills).contains('\u{1b}'));
        }
    }
    // Earlier trials come into view.
    assert!(
        !drawn_bank(80, 20, 0, false).contains("  1 hea_001")
            || drawn_bank(80, 20, 5, false).contains("  1 hea_001")
    );
}

#[test]
fn a_run_that_fine_tunes_is_drawn_with_its_numbers_and_its_curve() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("sft");
    std::fs::create_dir(&run).unwrap();
    let write = |name: &str, text: String| std::fs::write(run.join(name), text).unwrap();
    let config = json!({"format_version": "2.0", "config": {"env": {"kind": "alfworld"}}, "identity": {}});
    write("config.json", config.to_string());
    write("examples.jsonl", String::new());
    let step = |step: u32| {
        json!({"step": step, "epoch": 1, "loss": 2.0 / f64::from(step), "learning_rate": 1e-4,
               "grad_norm": 0.5, "examples": 4, "tokens": 100, "targets": 10})
    };
    write("steps.jsonl", (1..=4).map(|n| format!("{}\n", step(n))).collect());
    let games = json!({"won": 3, "played": 10, "score": 0.3, "interval": [0.11, 0.6]});
    let validation = json!({"step": 4, "loss": 0.75, "targets": 10, "games": games});
    write("validation.jsonl", format!("{validation}\n"));
    let event = json!({"event": "sft_step_finished", "record": step(4), "seconds": 0.5,
                       "peak_memory": 2_000_000_000_u64});
    write("events.jsonl", format!("{event}\n"));
    let overview = skillrl::report::overview(&run).unwrap();
    assert_eq!(overview.sft().map(|sft| sft.step), Some(4));
    let view = RunView::read(&RunReader::open(&run).unwrap(), overview).unwrap();
    let shown = shown(&view, [120, 40], 0, false);
    for part in [
        "2.0000 → 0.5000",
        "3 of 10 won (11 to 60 %)",
        "200 tokens/s, 2.00 GB",
        "Loss by step",
        "     4  loss",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn a_run_of_reinforcement_learning_is_drawn_with_its_numbers_and_its_curve() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("rl");
    std::fs::create_dir(&run).unwrap();
    let write = |name: &str, text: String| std::fs::write(run.join(name), text).unwrap();
    let config = json!({"format_version": "2.0", "config": {"env": {"kind": "alfworld"}}, "identity": {}});
    write("config.json", config.to_string());
    let iteration = |number: u32| {
        json!({"iteration": number, "tasks": 2, "episodes": 8, "won": number, "reward": f64::from(number) / 8.0,
               "invalid_actions": 4, "groups_without_signal": 0.5, "rows": 4, "tokens": 900,
               "sampled_tokens": 160, "entropy": 1.0, "kl": 0.0125, "clipped": 0.3, "loss": 0.1,
               "grad_norm": 0.75, "steps": 1, "by_task_type": {"heat": [number, 8]}})
    };
    write("iterations.jsonl", (1..=4).map(|n| format!("{}\n", iteration(n))).collect());
    let games = json!({"won": 3, "played": 10, "score": 0.3, "interval": [0.11, 0.6]});
    write("validation.jsonl", format!("{}\n", json!({"iteration": 4, "games": games})));
    let event = json!({"event": "rl_iteration_finished", "record": iteration(4), "seconds": 2.0});
    write("events.jsonl", format!("{event}\n"));
    let overview = skillrl::report::overview(&run).unwrap();
    let view = RunView::read(&RunReader::open(&run).unwrap(), overview).unwrap();
    let shown = shown(&view, [120, 40], 0, false);
    for part in [
        "0.125 → 0.500",
        "1 of 8 → 4 of 8",
        "3 of 10 won (11 to 60 %)",
        "50 % of groups without signal",
        "80 tokens/s",
        "sign many tokens are clipped",
        "try lower the learning rate",
        "by iteration",
        "     4  4/8 won",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}
