//! Files of a run that exist and cannot be read: an error with the file or a caution, and never an absent number.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use skill_core::{Gate, GateMetric};
use skill_pipeline::records::{ConfigFile, RunIdentity};
use skill_pipeline::run_dir::{JOURNAL_FILE, RunDir, Sent};
use skill_pipeline::{PipelineError, RunReader};
use skill_report::watch::{Caps, Runs, Terms, TermsRead};
use skill_report::{
    AnyReport, CautionKind, ReportError, ReportOptions, RunComparison, RunOverview, RunPhase, RunRow, runs_in,
};
use skillrl_bench::runs::{BankRunSize, RunSize, make_bank_run, make_run, temporary_dir};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Its eighth step makes the best skill.
const SIZE: RunSize =
    RunSize { n_steps: 8, batch: 1, n_selection: 3, n_test: 2, ..RunSize::RUN_OF_10_000_STEPS };

fn report(dir: &Path) -> Result<AnyReport, ReportError> {
    AnyReport::read(&RunReader::open(dir)?, &ReportOptions::default())
}

/// A run compared with itself, by a report of before.
fn compare(dir: &Path, report: &AnyReport) -> Result<RunComparison, ReportError> {
    let run = RunReader::open(dir)?;
    RunComparison::of([(&run, report); 2], Gate::default())
}

/// Replaces the configuration of a run.
fn set_config(dir: &Path, config: Value, identity: RunIdentity) {
    RunDir::open(dir).unwrap().write_config(&ConfigFile::new(config, identity), None).unwrap();
}

/// Makes a run one of another program, which may not have kept all files.
fn make_imported(dir: &Path) {
    let config = RunReader::open(dir).unwrap().config().config.clone();
    set_config(dir, config, [("imported_from".to_owned(), json!("SkillOpt"))].into_iter().collect());
}

fn is_named<T>(read: Result<T, ReportError>, file: &str) -> bool {
    match read {
        Err(ReportError::Run(PipelineError::Corrupt { path, .. } | PipelineError::RunDir { path, .. })) => {
            path.ends_with(file)
        }
        _ => false,
    }
}

#[test]
fn results_that_are_lost_or_damaged_are_an_error_with_their_file() {
    let dir = temporary_dir().unwrap();
    make_run(dir.path(), &SIZE).unwrap();
    let whole = report(dir.path()).unwrap();
    for (evaluation, is_compared) in [
        ("baseline_selection_eval", false),
        ("steps/step_0008/selection_eval", true),
        ("test_eval_baseline", false),
        ("test_eval_best", true),
    ] {
        let (file, folder) = (format!("{evaluation}/results.json"), dir.path().join(evaluation));
        for damage in ["lost", "lost with its folder", "cut", "a directory"] {
            let aside = dir.path().join("aside");
            fs::create_dir(&aside).unwrap();
            for name in ["results.json", "summary.json"] {
                fs::copy(folder.join(name), aside.join(name)).unwrap();
            }
            let results = dir.path().join(&file);
            match damage {
                "lost" => fs::remove_file(&results).unwrap(),
                "cut" => fs::write(&results, "[{").unwrap(),
                "a directory" => fs::remove_file(&results).and_then(|()| fs::create_dir(&results)).unwrap(),
                _ => fs::remove_dir_all(&folder).unwrap(),
            }
            assert!(is_named(report(dir.path()), &file), "{file} {damage}");
            assert_eq!(is_named(compare(dir.path(), &whole), &file), is_compared, "{file} {damage}");
            drop(fs::remove_dir_all(&folder));
            fs::rename(&aside, &folder).unwrap();
        }
    }
    assert_eq!(report(dir.path()).unwrap(), whole);
}

/// The results of the initial skill are not those of the best one.
#[test]
fn an_imported_run_that_kept_no_results_of_its_best_skill_is_paired_with_none() {
    let dir = temporary_dir().unwrap();
    make_run(dir.path(), &SIZE).unwrap();
    make_imported(dir.path());
    let of_file = |report: &AnyReport| {
        report.verdict().cautions.iter().filter(|caution| caution.kind == CautionKind::DamagedFile).count()
    };
    let whole = report(dir.path()).unwrap();
    assert_eq!((of_file(&whole), compare(dir.path(), &whole).unwrap().items_split), (0, "test"));
    fs::remove_dir_all(dir.path().join("test_eval_best")).unwrap();
    let without = report(dir.path()).unwrap();
    let compared = compare(dir.path(), &without).unwrap();
    assert_eq!((of_file(&without), compared.items_split, compared.test), (1, "selection", None));
    fs::remove_dir_all(dir.path().join("steps/step_0008/selection_eval")).unwrap();
    let compared = compare(dir.path(), &report(dir.path()).unwrap()).unwrap();
    assert_eq!((compared.selection, compared.items.len()), (None, 0));
}

#[test]
fn the_gate_of_an_unfinished_run_is_that_of_its_configuration() {
    let dir = temporary_dir().unwrap();
    make_run(dir.path(), &SIZE).unwrap();
    fs::remove_file(dir.path().join("summary.json")).unwrap();
    for (config, identity, expect) in [
        (json!({"env": {"kind": "made"}}), None, Some(GateMetric::Hard)),
        (json!({"gate": {"metric": "soft"}}), None, Some(GateMetric::Soft)),
        (json!({"gate": {"metric": "hard"}}), Some("mixed"), Some(GateMetric::Mixed)),
        (json!({"gate": {"metric": "median"}}), None, None),
        (json!({"gate": {"metric": 7}}), None, None),
        (json!({"gate": {"metric": "mixed", "mixed_weight": "half"}}), None, None),
    ] {
        let identity = identity.map(|metric| ("gate.metric".to_owned(), json!(metric)));
        set_config(dir.path(), config.clone(), identity.into_iter().collect());
        let overview = RunOverview::read(dir.path()).unwrap();
        let found = (overview.phase != RunPhase::Damaged).then_some(overview.metric);
        assert_eq!(found, expect, "{config}: {:?}", overview.reason);
    }
}

/// A cap of 7 calls, and one price for everything.
struct Fixed;

impl Terms for Fixed {
    fn caps(&self) -> Caps {
        Caps { calls: Some(7), ..Caps::default() }
    }

    fn money(&self, _: &Sent) -> Option<f64> {
        Some(0.5)
    }
}

#[tokio::test]
async fn a_journal_or_a_configuration_that_cannot_be_read_is_a_caution_wherever_spend_is_shown() {
    let dir = temporary_dir().unwrap();
    let (document, bank) = (dir.path().join("document"), dir.path().join("bank"));
    make_run(&document, &SIZE).unwrap();
    make_bank_run(&bank, &BankRunSize { n_rounds: 2, n_selection: 2, n_test: 1, is_finished: true }).unwrap();
    let of_terms: [fn(&RunReader) -> TermsRead; 2] =
        [|_| Ok(Some(Box::new(Fixed))), |_| Err("no prices".to_owned())];
    for is_damaged in [false, true] {
        for run in [&document, &bank] {
            if is_damaged {
                fs::write(run.join(JOURNAL_FILE), [b'x'; 4096]).unwrap();
            }
            let overview = RunOverview::read(run).unwrap();
            let n_named =
                |cautions: &[String]| cautions.iter().filter(|words| words.contains(JOURNAL_FILE)).count();
            let n_expected = usize::from(is_damaged);
            assert_eq!(n_named(&overview.cautions), n_expected, "{overview:?}");
            assert_eq!(n_named(&RunRow::read(&overview).notes), n_expected);
            let report = report(run).unwrap();
            let cautions: Vec<String> = report
                .verdict()
                .cautions
                .iter()
                .filter(|caution| caution.kind == CautionKind::DamagedFile)
                .map(|caution| caution.words.clone())
                .collect();
            assert_eq!((n_named(&cautions), cautions.len()), (n_expected, n_expected));
        }
        for (terms_of, is_priced) in of_terms.into_iter().zip([true, false]) {
            let runs = Arc::new(Runs::open(dir.path(), terms_of).unwrap());
            let listing = runs.fresh().await;
            let (_, row) = listing.find("document").unwrap();
            let spent = row.spent.as_ref().unwrap();
            assert_eq!(
                (spent.money, spent.caps.calls),
                if is_priced { (Some(0.5), Some(7)) } else { (None, None) }
            );
            assert!(spent.requests > 0, "the calls of its results are known");
            assert_eq!(row.files.cautions.len(), usize::from(is_damaged) + usize::from(!is_priced));
            assert_eq!(row.files.cautions, spent.cautions);
        }
    }
}

#[test]
fn a_directory_that_cannot_be_read_is_not_one_without_runs() {
    let dir = temporary_dir().unwrap();
    let place = |name: &str| dir.path().join(name);
    make_run(&place("x/one"), &RunSize { n_steps: 1, ..SIZE }).unwrap();
    fs::write(place("file"), "").unwrap();
    assert_eq!(runs_in(dir.path()).unwrap(), [place("x/one")]);
    for absent in ["none", "file", "file/below"] {
        assert_eq!(runs_in(&place(absent)).unwrap(), [] as [&Path; 0], "{absent}");
    }
    #[cfg(unix)]
    {
        let circle = place("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let error = runs_in(&circle).unwrap_err();
        assert!(matches!(&error, PipelineError::RunDir { path, .. } if *path == circle), "{error:?}");
        // Links below it are not followed.
        assert_eq!(runs_in(dir.path()).unwrap().len(), 1);
    }
}
