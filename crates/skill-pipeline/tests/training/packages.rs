//! Runs whose skill is a folder.

use super::files;
use super::world::{Job, edits_in};
use parking_lot::Mutex;
use serde_json::json;
use skill_core::carried::CarriedFile;
use skill_core::package::PackageFault;
use skill_core::{SkillDoc, SkillPackage};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, Role, Usage};
use skill_pipeline::{PipelineError, Summary, Trainer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const MAIN: &str = "---\nname: words\ndescription: Knows words.\n---\n# Words\n\n- base\n";

fn package() -> Result<SkillDoc, PackageFault> {
    let mut package = SkillPackage {
        main: MAIN.to_owned(),
        references: BTreeMap::from([("references/rules.md".to_owned(), "# Rules\n".to_owned())]),
        ..SkillPackage::default()
    };
    package.carry("scripts/run.sh", CarriedFile::new(*b"#!/bin/sh\n", true));
    package.document()
}

/// Puts the words that are missing into the reference file, and tries what is not allowed.
fn optimizer(seen: Arc<Mutex<Vec<ChatRequest>>>) -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::from_fn("optimizer", move |request: &ChatRequest, _: &CallCtx| {
        seen.lock().push(request.clone());
        let prompt = request.text_of(Role::User);
        let missing = prompt.lines().find_map(|line| line.strip_prefix("Why it failed: missing: "));
        let edits = match missing {
            Some(word) => json!([
                {"op": "append", "file": "references/rules.md", "target": "", "content": format!("- rule {word}")},
                {"op": "append", "file": "scripts/run.sh", "target": "", "content": "rm -r /"},
            ]),
            None => edits_in(&prompt).into(),
        };
        let reply = json!({"reasoning": "r", "edits": edits, "selected_indices": [0, 1], "no_change": false});
        Ok(ChatReply::text(reply.to_string(), Usage::default()))
    }))
}

fn run(dir: &Path, stop_after: u32, seen: &Arc<Mutex<Vec<ChatRequest>>>) -> Result<Summary, PipelineError> {
    let further = Box::new(|trainer: Trainer| trainer.with_initial_skill(package().unwrap()));
    Job { stop_after, optimizer: optimizer(Arc::clone(seen)), further, ..Job::default() }.run(dir)
}

#[test]
fn a_folder_is_trained_and_comes_out_as_a_folder() {
    let (dir, seen) = (tempfile::tempdir().unwrap(), Arc::default());
    let summary = run(dir.path(), u32::MAX, &seen).unwrap();
    assert!(summary.total_accepts > 0 && summary.test_hard > summary.baseline_test_hard, "{summary:?}");
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
    let best = SkillPackage::of(&SkillDoc::new(read("best_skill.md")));
    assert_eq!((best.main.as_str(), read("best_skill/SKILL.md").as_str()), (MAIN, MAIN));
    assert!(best.references["references/rules.md"].contains("- rule "), "{best:?}");
    assert_eq!(read("best_skill/references/rules.md"), best.references["references/rules.md"]);
    assert_eq!(read("best_skill/scripts/run.sh"), "#!/bin/sh\n");
    assert_eq!(read("skill_files/scripts/run.sh"), "#!/bin/sh\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode =
            |path: &str| std::fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("best_skill/scripts/run.sh"), mode("best_skill/SKILL.md")), (0o755, 0o644));
    }
    let report = read("steps/step_0001/edit_apply_report.json");
    assert!(
        report.contains("skipped_file_not_editable") && report.contains("\"references/rules.md\""),
        "{report}"
    );

    // The optimizer is shown the files and asked to name one; hashes and programs are not its business.
    let seen = seen.lock();
    let first = seen.first().unwrap();
    let prompt = first.text_of(Role::User);
    let of_program = prompt.lines().find(|line| line.starts_with("- `scripts/run.sh`")).unwrap();
    assert!(of_program.contains("cannot be edited"), "{prompt}");
    assert!(prompt.contains("<!-- SKILL_FILE: references/rules.md -->") && !prompt.contains("SKILL_CARRIED"));
    let schema = first.response_schema.as_ref().unwrap().schema.to_string();
    assert!(schema.contains("\"file\":{\"type\":\"string\"}"), "{schema}");
}

#[test]
fn a_folder_that_is_trained_in_parts_comes_out_the_same() {
    let (whole, seen) = (tempfile::tempdir().unwrap(), Arc::default());
    run(whole.path(), u32::MAX, &seen).unwrap();
    for stop_after in [1, 3] {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), stop_after, &seen).unwrap_err();
        run(dir.path(), u32::MAX, &seen).unwrap();
        assert_eq!(files(dir.path()), files(whole.path()), "stopped after step {stop_after}");
    }
}
