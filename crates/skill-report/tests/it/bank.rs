//! The report of a run that trains a bank: what it came to, its trials, its skills, and what they were shown to.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skill_bank::{Occasion, State};
use skill_core::Gate;
use skill_llm::error::with_causes;
use skill_pipeline::RunReader;
use skill_report::{
    AnyReport, BankItemOutcome, BankReport, CautionKind, Outcome, Report, ReportOptions, RunComparison,
    RunOverview, RunPhase, TrainedKind, TrialPhase, comparison_page, content, page,
};
use skillrl_bench::runs::{BankRunSize, RunSize, make_bank_run, make_run};
use std::path::Path;
use tempfile::TempDir;

const SIZE: BankRunSize = BankRunSize { n_rounds: 3, n_selection: 30, n_test: 40, is_finished: true };

fn made(size: BankRunSize) -> (TempDir, RunReader) {
    let dir = skillrl_bench::runs::temporary_dir().unwrap();
    make_bank_run(dir.path(), &size).unwrap();
    let run = RunReader::open(dir.path()).unwrap();
    (dir, run)
}

fn report(run: &RunReader) -> BankReport {
    BankReport::read(run, &ReportOptions::default()).unwrap()
}

#[test]
fn a_finished_run_is_read_whole() {
    let (_dir, run) = made(SIZE);
    let report = report(&run);
    assert_eq!((report.phase, report.total_rounds, report.rounds.len()), (RunPhase::Finished, Some(2), 3));
    // The scores with their intervals, item by item.
    let test = report.test.as_ref().unwrap();
    let paired = test.paired.as_ref().unwrap();
    assert_eq!((test.before.n, test.after.n, paired.n), (40, 40, 40));
    assert!(test.after.hard > test.before.hard && paired.counts.wins > 0);
    let [low, high] = paired.difference_interval;
    assert!(low < test.difference() && test.difference() < high);
    let (verdict, line) = (&report.verdict, report.verdict.line());
    assert_eq!((verdict.outcome, verdict.interval), (Outcome::Better, Some([low, high])), "{line}");
    assert!(line.contains("40 test items") && line.contains("95 % interval"), "{line}");
    // A list of runs has the same verdict without the rest of the report.
    let overview = RunOverview::of_files(run.path()).unwrap();
    assert_eq!(overview.verdict.unwrap().line(), line);
    // Each round has its validation, and what it rose by.
    for round in &report.rounds {
        let validation = round.validation.unwrap();
        let rise = validation.hard - report.baseline.unwrap().hard;
        assert_eq!((round.rise, validation.n), (Some(rise), 30));
        assert!(validation.interval[0] <= validation.hard && validation.hard <= validation.interval[1]);
        assert_eq!((round.n_trials, round.trial_rollouts), (2, 128));
    }
    assert_eq!(report.last_validation().unwrap().0, 2);
    // Trials with what decided them.
    assert_eq!((report.tried.all, report.tried.admitted, report.tried.rejected), (6, 3, 3));
    assert_eq!(report.trial_rollouts, 6 * 64);
    let first = &report.trials[0];
    assert_eq!((first.phase, first.rollouts, first.max_rollouts), (TrialPhase::Admitted, Some(64), Some(64)));
    let measured = first.measured.unwrap();
    assert_eq!((measured.with, measured.without), ([32, 32], [8, 32]));
    assert!(measured.e_better.unwrap() > 20.0 && measured.p_better.unwrap() < 0.05);
    assert!(first.fresh.is_some() && report.trials[1].fresh.is_none());
    assert_eq!(first.power[0].chance, 0.5);
    // Calls, of the stages and together.
    let calls: u64 = report.stages.iter().map(|stage| stage.used.calls).sum();
    assert_eq!(report.total.as_ref().unwrap().used.calls, calls);
    assert_eq!(report.sent.requests, calls);
}

#[test]
fn a_skill_has_its_worth_its_evidence_and_how_often_it_was_shown() {
    let (_dir, run) = made(SIZE);
    let report = report(&run);
    assert_eq!((report.counts.active, report.counts.retired, report.counts.unmeasured), (3, 3, 0));
    let first = report.skill("gen_001").unwrap();
    assert_eq!((first.state, first.occasion), (State::Active, Some(Occasion::AfterAdmission)));
    // It was admitted in round 0, and six of eight training rollouts of each later round were shown it.
    assert_eq!((first.shown_in_training, first.training_rollouts), (12, 24));
    assert_eq!((first.shown_in_validation, first.shown_in_test), (Some([30, 30]), Some([40, 40])));
    let version = &first.versions[0];
    assert_eq!(version.evidence.items[0].as_str(), "train-00000");
    assert_eq!(version.texts[1], ("principle", "Read the whole question before you answer.".to_owned()));
    let occasions: Vec<Occasion> = version.measurements.iter().map(|(_, occasion, _)| *occasion).collect();
    assert_eq!(occasions, [Occasion::Trial, Occasion::AfterAdmission]);
    let retired = report.skills.iter().find(|skill| skill.state == State::Retired).unwrap();
    assert_eq!((retired.shown_in_training, retired.shown_in_validation), (0, Some([0, 30])));
}

#[test]
fn an_item_has_its_outcome_over_the_rounds_and_what_it_was_shown() {
    let (_dir, run) = made(SIZE);
    let items = report(&run).items;
    assert_eq!(items.columns, ["without", "round 0", "round 1", "round 2"]);
    let (selection, test): (Vec<_>, Vec<_>) = items.rows.iter().partition(|row| row.split == "selection");
    assert_eq!((selection.len(), test.len(), items.n_left_out), (30, 40, 0));
    for row in &selection {
        let solved = |place: usize| row.cells.chars().nth(place) == Some('+');
        let expect = match (solved(0), solved(3)) {
            (false, true) => BankItemOutcome::Won,
            (true, false) => BankItemOutcome::Lost,
            (false, false) => BankItemOutcome::Never,
            (true, true) => BankItemOutcome::Kept,
        };
        assert_eq!((row.outcome, row.cells.len(), row.shown.len()), (Some(expect), 4, 3), "{row:?}");
    }
    assert!(selection.iter().any(|row| row.outcome == Some(BankItemOutcome::Won)));
    assert!(test.iter().all(|row| row.cells.len() == 2));
}

#[test]
fn a_run_in_progress_has_the_trials_of_the_round_under_way() {
    let (_dir, run) = made(BankRunSize { is_finished: false, ..SIZE });
    let report = report(&run);
    assert_ne!(report.phase, RunPhase::Finished);
    assert!(report.test.is_none() && report.selection.is_some());
    let open = report.open_trial().unwrap();
    assert_eq!((open.trial, open.round, open.max_rollouts), (7, 3, Some(64)));
    assert_eq!((report.tried.all, report.counts.waiting), (7, 1));
    assert_eq!(report.verdict.outcome, Outcome::Unfinished);
    let kinds: Vec<CautionKind> = report.verdict.cautions.iter().map(|caution| caution.kind).collect();
    assert!(kinds.contains(&CautionKind::Untested), "{kinds:?}");
    assert!(page(&report.clone().into()).unwrap().contains(">open<"));
}

#[test]
fn a_run_without_results_of_items_has_scores_without_a_paired_interval() {
    let (dir, run) = made(SIZE);
    for evaluation in ["baseline_selection_eval", "test_eval_baseline", "test_eval_best"] {
        std::fs::remove_dir_all(dir.path().join(evaluation)).unwrap();
    }
    for round in 0..3 {
        std::fs::remove_dir_all(dir.path().join(format!("rounds/round_{round:04}/selection_eval"))).unwrap();
    }
    let report = report(&run);
    let test = report.test.as_ref().unwrap();
    assert!(test.paired.is_none() && test.after.hard > test.before.hard);
    assert!(test.after.interval[0] < test.after.hard);
    // Without an interval nothing is called better.
    assert_eq!((report.verdict.outcome, report.verdict.interval), (Outcome::Unclear, None));
    // What each item was shown is in the records of the rounds.
    assert_eq!((report.items.rows.len(), report.items.rows[0].shown.len()), (30, 3));
    page(&report.clone().into()).unwrap();
}

#[test]
fn a_page_shows_text_as_text_and_fetches_nothing() {
    let (_dir, run) = made(SIZE);
    let report = report(&run);
    let page = page(&report.clone().into()).unwrap();
    assert!(page.contains("Look at part 0 of &lt;b&gt;it&lt;&#x2f;b&gt;") && !page.contains("<b>it</b>"));
    assert!(page.contains("names &lt;i&gt;train-00007") && !page.contains("<i>train"));
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Every skill that is named has a place to which its name leads.
    for skill in &report.skills {
        assert!(page.contains(&format!("<details id=\"skill-{}\"", skill.id)), "{}", skill.id);
    }
    for trial in &report.trials {
        assert!(page.contains(&format!("href=\"#skill-{}\"", trial.skill.skill)), "{}", trial.skill);
    }
    // The same without the page around it.
    let content = content(&report.clone().into()).unwrap();
    assert!(page.contains(&content) || !content.contains("<html"), "the content is not a page");
}

#[test]
fn a_page_of_a_large_bank_says_what_it_leaves_out() {
    let (_dir, run) = made(BankRunSize { n_rounds: 8, ..SIZE });
    let options = ReportOptions {
        max_skills: 10,
        max_trials: 5,
        max_items: 7,
        max_trajectories: 2,
        ..Default::default()
    };
    let report = BankReport::read(&run, &options).unwrap();
    assert_eq!((report.skills.len(), report.n_skills_left_out), (10, 6));
    let n_active = report.skills.iter().filter(|skill| skill.state == State::Active).count();
    assert_eq!(n_active, 8, "active skills come first");
    let trials: Vec<u32> = report.trials.iter().map(|trial| trial.trial).collect();
    assert_eq!((trials, report.n_trials_left_out, report.tried.all), ((12..=16).collect(), 11, 16));
    assert_eq!((report.items.rows.len(), report.items.n_left_out), (14, 30 + 40 - 14));
    let page = page(&report.clone().into()).unwrap();
    for said in ["11 earlier trials are left out", "6 skills are left out", "56 items are left out"] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn a_file_that_is_not_whole_is_named() {
    for file in [
        "bank_summary.json",
        "rounds/round_0001/record.json",
        "bank/log.jsonl",
        "test_eval_best/results.json",
    ] {
        let (dir, run) = made(SIZE);
        let path = dir.path().join(file);
        std::fs::write(&path, "{\"half\": ").unwrap();
        match BankReport::read(&run, &ReportOptions::default()) {
            // A line that was not written whole is not part of a log.
            Ok(_) => assert_eq!(file, "bank/log.jsonl"),
            Err(error) => {
                let said = with_causes(&error);
                let name = Path::new(file).file_name().unwrap().to_str().unwrap();
                assert!(said.contains(name), "{file}: {said}");
            }
        }
    }
}

fn any(run: &RunReader, trains: TrainedKind) -> AnyReport {
    match trains {
        TrainedKind::Bank => report(run).into(),
        TrainedKind::Document => Report::read(run, &ReportOptions::default()).unwrap().into(),
    }
}

#[test]
fn banks_are_compared_with_each_other_and_with_documents_on_the_items_of_both() {
    let (_dir, first) = made(SIZE);
    let (_other, second) = made(BankRunSize { n_rounds: 1, ..SIZE });
    let document = skillrl_bench::runs::temporary_dir().unwrap();
    let size = RunSize {
        n_steps: 9,
        steps_per_epoch: 3,
        batch: 2,
        n_selection: 30,
        n_test: 20,
        reply_characters: 20,
    };
    make_run(document.path(), &size).unwrap();
    let document = RunReader::open(document.path()).unwrap();
    let first = (&first, &any(&first, TrainedKind::Bank));
    let second = (&second, &any(&second, TrainedKind::Bank));
    let document = (&document, &any(&document, TrainedKind::Document));
    for (other, n_test, trains) in [(second, 40, TrainedKind::Bank), (document, 20, TrainedKind::Document)] {
        let compared = RunComparison::of([first, other], Gate::default()).unwrap();
        let [bank, side] = &compared.runs;
        assert_eq!((bank.trains, side.trains), (TrainedKind::Bank, trains));
        assert_eq!((bank.n_steps, bank.n_accepted, bank.n_candidates), (3, 3, 6));
        assert_eq!(bank.best_skill, "a bank of 3 skills");
        let [low, high] = bank.test_interval.unwrap();
        assert!(low < bank.test.unwrap() && bank.test.unwrap() < high);
        assert!(bank.test_before.unwrap() < bank.test.unwrap() && side.test_interval.is_some());
        // What both have measured is compared item by item, with an interval.
        let test = compared.test.as_ref().unwrap();
        assert_eq!((test.n, compared.selection.as_ref().unwrap().n), (n_test, 30));
        assert!(test.difference_interval[0] <= test.difference);
        assert_eq!(compared.items.len(), n_test);
        let page = comparison_page(&compared, [first.1, other.1]).unwrap();
        for said in
            ["3 rounds", "3 of 6 trials admitted", "a bank of 3 skills", "with the bank after each round"]
        {
            assert!(page.contains(said), "{said}");
        }
        assert!(page.contains("&lt;b&gt;it") && !page.contains("<b>it"));
    }
}

/// Takes a member out of the record of a round.
fn without(dir: &Path, round: u32, change: impl FnOnce(&mut serde_json::Value)) {
    let path = dir.join(format!("rounds/round_{round:04}/record.json"));
    let mut record: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut record);
    record.as_object_mut().unwrap().remove("checksum");
    std::fs::write(path, record.to_string()).unwrap();
}

#[test]
fn rounds_without_validation_and_types_without_items_are_shown() {
    let (dir, run) = made(SIZE);
    let rate = serde_json::json!({"task_type": "of train alone", "successes": 1, "rollouts": 4,
        "interval": [0.05, 0.7], "is_weak": true});
    for round in 0..3 {
        without(dir.path(), round, |record| {
            record["rates"].as_array_mut().unwrap().push(rate.clone());
            if round > 0 {
                record["validation"] = serde_json::Value::Null;
            }
        });
    }
    let report = report(&run);
    assert!(report.rounds[0].validation.is_some() && report.rounds[1].validation.is_none());
    let page = page(&report.clone().into()).unwrap();
    assert!(!page.contains("data-left-out"));
    assert_eq!(page.matches("<td>of train alone</td>").count(), 3);
    assert_eq!(page.matches("<td class=\"faint\">not measured</td></tr>").count(), 0);
    assert_eq!(page.matches("<td class=\"faint\">not measured</td>").count(), 2);
}

#[test]
fn a_run_that_ended_anywhere_has_a_page() {
    // In the order in which a run writes them: what is removed was not written yet.
    let written = [
        "test_eval_best",
        "test_eval_baseline",
        "bank_summary.json",
        "rounds/round_0002",
        "rounds/round_0001",
        "rounds/round_0000",
        "baseline_selection_eval",
        "bank",
    ];
    let (dir, run) = made(SIZE);
    for path in written {
        let path = dir.path().join(path);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        let page = page(&report(&run).into()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!page.contains("data-left-out") && page.contains("</html>"), "{}", path.display());
        let listed = RunOverview::read(dir.path()).unwrap();
        assert_ne!(listed.phase, RunPhase::Damaged, "{}: {:?}", path.display(), listed.reason);
    }
}
