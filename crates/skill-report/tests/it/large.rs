//! Runs that are larger than a page: what is shown is bounded, and what is not shown is said.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use indexmap::IndexMap;
use skill_pipeline::RunReader;
use skill_report::{CautionKind, ItemOutcome, Report, ReportOptions, RunOverview, Verdict, page};
use skillrl_bench::runs::{RunSize, make_run};
use tempfile::TempDir;

const SIZE: RunSize =
    RunSize { n_steps: 60, steps_per_epoch: 6, batch: 2, n_selection: 30, n_test: 40, reply_characters: 200 };

fn made() -> (TempDir, RunReader) {
    let dir = skillrl_bench::runs::temporary_dir().unwrap();
    make_run(dir.path(), &SIZE).unwrap();
    let run = RunReader::open(dir.path()).unwrap();
    (dir, run)
}

fn few() -> ReportOptions {
    ReportOptions { max_steps: 10, max_items: 20, max_trajectories: 3, ..ReportOptions::default() }
}

#[test]
fn steps_beyond_the_most_are_left_out_and_said_so() {
    let (_dir, run) = made();
    let report = Report::read(&run, &few()).unwrap();
    let steps: Vec<u32> = report.steps.iter().map(|step| step.step).collect();
    // Those that were accepted, and the last of the others.
    assert_eq!(steps, [8, 16, 24, 32, 40, 48, 56, 58, 59, 60]);
    assert_eq!((report.n_steps, report.n_steps_left_out), (60, 50));
    assert!(report.steps.iter().all(|step| !step.is_cut && !step.diff.is_empty()));
    // The chart's lines are of all steps all the same.
    let course: Vec<u32> = report.course.iter().map(|point| point.step).collect();
    assert_eq!((course.first(), course.last()), (Some(&1), Some(&60)));
    let page = page(&report.clone().into()).unwrap();
    assert!(page.contains("10 of 60 steps are shown") && page.contains("<details id=\"step-56\">"));
    assert!(!page.contains("<details id=\"step-57\">"));
    // Of the skills that were measured those of the steps that are shown have a column.
    assert_eq!((report.items.columns.len(), report.items.n_columns_left_out), (11, 50));
    assert!(page.contains("50 measured skills are left out"));
}

#[test]
fn a_verdict_by_itself_is_that_of_the_report() {
    let (dir, run) = made();
    let costs = IndexMap::from([("test_baseline".to_owned(), 0.5), ("test_best".to_owned(), 8.0)]);
    let check = || {
        let mut report = Report::read(&run, &few()).unwrap();
        report.price(&costs);
        let verdict = Verdict::read(&run, &few(), |_| costs.clone()).unwrap();
        assert_eq!(verdict, report.verdict);
        verdict.cautions.into_iter().map(|caution| caution.kind).collect::<Vec<_>>()
    };
    assert!(!check().contains(&CautionKind::ChangedSkill));
    std::fs::write(dir.path().join("best_skill.md"), "# Changed by hand\n").unwrap();
    assert!(check().contains(&CautionKind::ChangedSkill));
}

#[test]
fn items_beyond_the_most_are_those_that_nothing_changed() {
    let (_dir, run) = made();
    let whole = Report::read(&run, &ReportOptions::default()).unwrap();
    assert_eq!((whole.items.rows.len(), whole.items.n_left_out), (30, 0));
    assert_eq!((whole.steps.len(), whole.n_steps_left_out), (60, 0));
    let n_won =
        |report: &Report| report.items.rows.iter().filter(|row| row.outcome == ItemOutcome::Won).count();
    assert!(n_won(&whole) > 0);
    let report = Report::read(&run, &ReportOptions { max_items: n_won(&whole), ..few() }).unwrap();
    assert_eq!(n_won(&report), report.items.rows.len());
    assert_eq!(report.items.rows.len() + report.items.n_left_out, 30);
    let ids: Vec<&String> = report.items.rows.iter().map(|row| &row.id).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert!(page(&report.clone().into()).unwrap().contains("items are left out for their number"));
}

#[test]
fn the_texts_of_steps_have_a_limit_and_what_was_accepted_comes_first() {
    let (_dir, run) = made();
    let read = |max_step_characters: usize| {
        let options = ReportOptions { max_step_characters, ..ReportOptions::default() };
        let report = Report::read(&run, &options).unwrap();
        let whole = report.steps.iter().filter(|step| !step.is_cut).map(|step| step.step);
        (whole.collect::<Vec<u32>>(), report)
    };
    // As among the steps that are shown: those that were accepted, and the last of the others.
    let (whole, _) = read(1_000);
    let accepted = [8, 16, 24, 32, 40, 48, 56];
    assert!(whole.len() > 1 && whole.len() < 7 && accepted.ends_with(&whole), "{whole:?}");
    let (whole, report) = read(3_000);
    assert!(whole.len() < 30 && whole.starts_with(&accepted[..6]), "{whole:?}");
    assert!(whole.ends_with(&[56, 57, 58, 59, 60]), "{whole:?}");
    assert!(
        report.steps.iter().filter(|step| step.is_cut).all(|step| step.diff.is_empty() && step.n_edits == 2)
    );
    let (small, large) = (
        page(&report.into()).unwrap(),
        page(&Report::read(&run, &ReportOptions::default()).unwrap().into()).unwrap(),
    );
    assert!(small.len() < large.len());
    assert!(small.contains("are left out for the size of this page"));
}

#[test]
fn a_page_does_not_grow_with_the_run() {
    let length = |n_steps: u32| {
        let dir = skillrl_bench::runs::temporary_dir().unwrap();
        make_run(dir.path(), &RunSize { n_steps, ..SIZE }).unwrap();
        let report = Report::read(&RunReader::open(dir.path()).unwrap(), &few()).unwrap();
        page(&report.clone().into()).unwrap().len()
    };
    let (short, long) = (length(30), length(120));
    assert!(long < short + short / 5, "{short} and {long}");
}

#[test]
fn a_run_in_short_says_what_its_history_says() {
    let (_dir, run) = made();
    let overview = RunOverview::read(run.path()).unwrap();
    let history = run.history().unwrap();
    assert_eq!(overview.baseline, Some(history[0].score_before));
    assert_eq!((overview.n_steps, overview.n_accepted), (60, 7));
    // A run that is not finished adds its steps up.
    std::fs::remove_file(run.path().join("summary.json")).unwrap();
    let calls: u64 = history.iter().flat_map(|record| record.tokens.values()).map(|used| used.calls).sum();
    assert_eq!(RunOverview::read(run.path()).unwrap().calls, calls + 30);
}
