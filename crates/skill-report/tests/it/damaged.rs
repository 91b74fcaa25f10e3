//! Runs whose files are not all there, or not whole: every reader says which file, and none panics.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::all_files::all_files;
use indexmap::IndexMap;
use skill_core::StepIdx;
use skill_llm::error::with_causes;
use skill_pipeline::RunReader;
use skill_pipeline::provenance::{StepEvidence, Version, blame};
use skill_report::{Report, ReportOptions, RunOverview, RunPhase, StepRow, Verdict, page};
use skillrl_bench::runs::{RunSize, make_run};
use std::error::Error;
use std::path::Path;

const SIZE: RunSize =
    RunSize { n_steps: 9, steps_per_epoch: 3, batch: 2, n_selection: 3, n_test: 2, reply_characters: 20 };

type Damage = (&'static str, fn(&Path, &[u8]));
type Asked = Result<(), Box<dyn Error>>;

/// What can have happened to a file.
const DAMAGES: [Damage; 6] = [
    ("missing", |path, _| std::fs::remove_file(path).unwrap()),
    ("empty", |path, _| std::fs::write(path, "").unwrap()),
    ("half", |path, bytes| std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap()),
    ("without its end", |path, bytes| std::fs::write(path, &bytes[..bytes.len().saturating_sub(3)]).unwrap()),
    ("something else", |path, _| std::fs::write(path, "[{\"what\": 1}]\n").unwrap()),
    ("no text", |path, _| std::fs::write(path, [0xff, 0xfe, 0x00, 0x80]).unwrap()),
];

/// What a person asks of a run, each with its outcome.
fn ask(dir: &Path) -> Vec<(&'static str, Asked)> {
    let look = |read: &dyn Fn(&RunReader) -> Asked| read(&RunReader::open(dir)?);
    vec![
        ("report", look(&|run| Ok(page(&Report::read(run, &ReportOptions::default())?.into()).map(drop)?))),
        (
            "verdict",
            look(&|run| Ok(Verdict::read(run, &ReportOptions::default(), |_| IndexMap::new()).map(drop)?)),
        ),
        ("blame", look(&|run| Ok(blame(run, Version::Best).map(drop)?))),
        ("skill", look(&|run| Ok(run.skill_after(StepIdx(8)).map(drop)?))),
        (
            "step",
            look(&|run| {
                for record in run.history()? {
                    StepRow::read(run, &record)?;
                    StepEvidence::read(run, record.step)?;
                }
                Ok(())
            }),
        ),
    ]
}

#[test]
fn a_file_that_is_missing_or_half_written_is_named_and_nothing_panics() {
    let room = skillrl_bench::runs::temporary_dir().unwrap();
    let dir = room.path().join("run");
    make_run(&dir, &SIZE).unwrap();
    let mut all = all_files(&dir);
    // One step that was accepted stands for all.
    all.retain(|path, _| !path.contains("/step_") || path.contains("/step_0008/"));
    let mut n_refused = 0;
    for (path, bytes) in &all {
        let file = &dir.join(path);
        let name = file.file_name().unwrap().to_string_lossy();
        for (damage, make) in DAMAGES {
            make(file, bytes);
            for (what, outcome) in ask(&dir) {
                if let Err(error) = outcome {
                    let said = with_causes(error.as_ref());
                    // What is not there may not be there yet.
                    let is_missing = ["holds no results", "nothing is measured yet", "no run in"];
                    let is_missing =
                        damage == "missing" && is_missing.iter().any(|words| said.contains(words));
                    let is_named = is_missing || said.contains(&*name);
                    assert!(is_named, "{what} with {} {damage}: {said}", file.display());
                    n_refused += 1;
                }
            }
            match RunOverview::read(&dir) {
                Ok(overview) if overview.phase == RunPhase::Damaged => {
                    assert!(overview.reason.is_some_and(|reason| reason.contains(&*name)), "{name} {damage}");
                }
                Ok(_) => {}
                Err(error) => {
                    assert!(name == "config.json" && damage == "missing", "{name} {damage}: {error}");
                }
            }
            std::fs::write(file, bytes).unwrap();
        }
        assert!(ask(&dir).iter().all(|(_, outcome)| outcome.is_ok()), "{name} is whole again");
    }
    assert!(n_refused > 100, "{n_refused}");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let room = skillrl_bench::runs::temporary_dir().unwrap();
    make_run(room.path(), &SIZE).unwrap();
    for name in ["config.json", "runtime_state.json", "summary.json"] {
        let path = room.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("\"format_version\": \"2.0\"", "\"format_version\": \"7.0\"", 1))
            .unwrap();
        let overview = RunOverview::read(room.path()).unwrap();
        assert_eq!(overview.phase, RunPhase::Damaged);
        let reason = overview.reason.unwrap();
        assert!(reason.contains(name) && reason.contains("has format version 7.0"), "{reason}");
        let (_, report) = ask(room.path()).swap_remove(0);
        assert!(with_causes(report.unwrap_err().as_ref()).contains(name));
        std::fs::write(&path, text).unwrap();
    }
}
