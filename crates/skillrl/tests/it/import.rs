//! Coming from elsewhere: what is mapped, what is listed, and that our own readers take what comes out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::all_files::all_files;
use serde_json::{Value, json};
use skillrl::config::Config;
use skillrl::export::skill_at;
use skillrl::import::{ImportKind, ImportOptions, Imported, import};
use skillrl::pipeline::provenance::{LineOrigin, Version, blame};
use skillrl::pipeline::run_dir::{
    EvaluationDir, RunDir, RunStatus, read_config, read_finished_step, read_summary, run_status,
};
use skillrl::pipeline::{PipelineError, RunReader};
use skillrl::reports::RunOverview;
use skillrl::{Error, Failure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/import").join(path)
}

pub(crate) fn import_to(from: &Path, to: &Path) -> Result<Imported, Error> {
    import(&ImportOptions { from: from.to_owned(), to: to.to_owned(), candidate: None, force: false })
}

/// What is written and listed for a configuration; paths of this machine do not enter it.
fn import_config(name: &str) -> (String, Imported, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("skillrl.toml");
    let imported = import_to(&data("configs").join(name), &to).unwrap();
    let root = data("configs").canonicalize().unwrap();
    let text = std::fs::read_to_string(&to).unwrap().replace(&root.display().to_string(), "ROOT");
    (text, imported, dir)
}

fn shown(imported: &Imported) -> Value {
    let of = |list: &[skillrl::import::Unmapped]| -> Vec<String> {
        list.iter().map(|entry| format!("{} = {}: {}", entry.key, entry.value, entry.reason)).collect()
    };
    let mapped: Vec<String> =
        imported.mapped.iter().map(|mapped| format!("{} -> {}", mapped.key, mapped.to)).collect();
    json!({"mapped": mapped, "unmapped": of(&imported.unmapped), "idle": of(&imported.idle)})
}

#[test]
fn configurations_become_ours() {
    for name in ["searchqa.yaml", "officeqa.yaml", "alfworld_flat.yaml", "spreadsheet.yaml"] {
        let (text, imported, _dir) = import_config(name);
        assert_eq!(imported.kind, ImportKind::SkilloptConfig);
        insta::assert_snapshot!(format!("{name}.toml"), text);
        insta::assert_json_snapshot!(format!("{name}.lists"), shown(&imported));
    }
}

/// A server without an address is refused by its name, and never becomes the one that happens to be the default: its key
/// would go to somebody else.
#[test]
fn a_model_without_an_address_is_refused_and_listed() {
    let of_backend = |model: &str| {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("c.yaml"), dir.path().join("skillrl.toml"));
        std::fs::write(
            &from,
            format!("model: {{optimizer: m, target: m{model}}}\nenv: {{name: searchqa}}\n"),
        )
        .unwrap();
        let imported = import_to(&from, &to).unwrap();
        let text = std::fs::read_to_string(&to).unwrap();
        (skillrl::config::Config::parse(&text, "skillrl.toml", &[]), text, imported.missing)
    };
    let backends = [
        "",
        ", azure_openai_auth_mode: azure_cli",
        ", azure_openai_auth_mode: openai_compatible",
        ", backend: openai_compatible",
        ", backend: qwen_chat",
    ];
    for model in backends {
        let (config, text, missing) = of_backend(model);
        let error = config.expect_err(&text).to_string();
        assert!(error.contains("models.target") && error.contains("base_url"), "{model}: {error}\n{text}");
        let needs = |name: &str| missing.iter().any(|missing| missing.starts_with(name));
        assert!(needs("models.target.base_url") && needs("env.data"), "{model}: {missing:?}");
        assert!(!missing.iter().any(|missing| missing.contains("not complete")), "{missing:?}");
    }
    // With its address an Azure account is one of Azure.
    let (_, text, missing) = of_backend(", azure_openai_endpoint: \"https://a.openai.azure.com\"");
    assert_eq!(text.matches("provider = \"azure\"").count(), 2, "{text}");
    assert_eq!(text.matches("base_url = \"https://a.openai.azure.com/openai/v1\"").count(), 2, "{text}");
    let needed: Vec<&str> = missing.iter().filter_map(|missing| missing.split(':').next()).collect();
    assert_eq!(needed, ["AZURE_OPENAI_API_KEY", "env.data"]);
}

/// Every key that is set anywhere in the chain is mapped or listed.
#[test]
fn no_key_is_dropped() {
    for (name, keys) in [
        (
            "searchqa.yaml",
            vec![
                "model.backend",
                "model.target",
                "model.qwen_chat_enable_thinking",
                "train.seed",
                "env.workers",
                "env.max_turns",
                "human_feedback.timeout_seconds",
                "gradient.failure_only",
                "optimizer.slow_update_samples",
            ],
        ),
        (
            "alfworld_flat.yaml",
            vec![
                "env",
                "use_gate",
                "lr_scheduler",
                "slow_update_samples",
                "claude_code_exec_path",
                "max_steps",
            ],
        ),
    ] {
        let (_, imported, _dir) = import_config(name);
        let named: BTreeSet<&str> = imported
            .mapped
            .iter()
            .map(|mapped| mapped.key.as_str())
            .chain(imported.unmapped.iter().chain(&imported.idle).map(|entry| entry.key.as_str()))
            .collect();
        for key in keys {
            assert!(named.contains(key), "{name}: {key} is in none of {named:?}");
        }
    }
}

#[test]
fn an_imported_configuration_can_be_used() {
    let (text, imported, dir) = import_config("searchqa.yaml");
    assert!(!text.contains("very-secret"), "{text}");
    let written: Vec<String> = imported.written.iter().map(|path| below(dir.path(), path)).collect();
    let data = ["data/test/items.json", "data/train/items.json", "data/val/items.json"];
    assert_eq!(written, [&["skillrl.toml", "skill.md"][..], &data, &["skillrl.imported.md"]].concat());
    let list = std::fs::read_to_string(dir.path().join("skillrl.imported.md")).unwrap();
    assert!(!list.contains("very-secret"), "{list}");
    insta::assert_snapshot!("the_list", list);
    // It stands by itself: nothing in it names the place that it came from.
    assert!(!text.contains("ROOT"), "{text}");
    assert!(!format!("{imported:?}").contains("very-secret"));
    let loaded = Config::load(&dir.path().join("skillrl.toml"), &[]).unwrap();
    loaded.check_paths().unwrap();
    let env = skillrl::world::environment(&loaded, None).unwrap();
    assert_eq!(env.items(skillrl::envs::Split::Train).len(), 2);
    // The base of everything is complete but for what it leaves open itself.
    let (_, imported, dir) = import_config("officeqa.yaml");
    Config::load(&dir.path().join("skillrl.toml"), &[]).unwrap();
    let ids = std::fs::read_to_string(dir.path().join("split_ids/val.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&ids).unwrap(), json!(["UID-val"]));
    assert_eq!(imported.written.len(), 5);
}

fn below(dir: &Path, path: &Path) -> String {
    path.strip_prefix(dir).unwrap().to_string_lossy().replace('\\', "/")
}

/// Imports a configuration of this text: what is written, and the lists.
pub(crate) fn import_text(name: &str, text: &str) -> (toml::Table, Imported) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(name), text).unwrap();
    let imported = import_to(&dir.path().join(name), &dir.path().join("new")).unwrap();
    let written = std::fs::read_to_string(dir.path().join("new/skillrl.toml")).unwrap();
    (written.parse().unwrap(), imported)
}

pub(crate) fn named<'a>(list: &'a [skillrl::import::Unmapped], key: &str) -> Vec<&'a str> {
    list.iter().filter(|entry| entry.key == key).map(|entry| entry.reason.as_str()).collect()
}

/// What SkillOpt sends: a limit of 8,000 tokens, and no effort of reasoning.
#[test]
fn the_compatible_backend_keeps_its_limits() {
    let text = "model: {backend: openai_compatible, optimizer: o, target: t, reasoning_effort: medium, \
                openai_compatible_base_url: 'http://localhost:9/v1'}\nenv: {name: searchqa, data_path: d.json}\n";
    let (written, imported) = import_text("c.yaml", text);
    for role in ["optimizer", "target"] {
        let model = &written["models"][role];
        assert_eq!(model["kind"].as_str(), Some("openai"));
        assert_eq!(model["base_url"].as_str(), Some("http://localhost:9/v1"));
        assert_eq!(model["max_tokens"].as_integer(), Some(8_000));
        assert_eq!(model.get("reasoning_effort"), None);
    }
    assert_eq!(named(&imported.idle, "model.reasoning_effort").len(), 1);
    assert!(imported.mapped.iter().any(|mapped| mapped.key == "model.openai_compatible_base_url"));
}

/// A backend that is not known here is listed, and no server takes its place.
#[test]
fn an_unknown_backend_does_not_become_azure() {
    for backend in ["hermes", "no-such-thing"] {
        let text = format!(
            "model: {{backend: {backend}, optimizer: o, target: t}}\nenv: {{name: searchqa, data_path: d.json}}\n"
        );
        let (written, imported) = import_text("c.yaml", &text);
        for role in ["optimizer", "target"] {
            let model = &written["models"][role];
            assert_eq!(model["kind"].as_str(), Some("agent"), "{backend}: {model}");
            assert_eq!((model.get("api_key_env"), model.get("agent")), (None, None), "{backend}");
            assert_eq!(named(&imported.unmapped, &format!("{role} backend")).len(), 1, "{backend}");
        }
        let incomplete = imported.unmapped.iter().any(|entry| entry.reason.contains("is not complete yet"));
        assert!(incomplete, "{backend}: {:?}", imported.unmapped);
    }
    for (backend, kind) in
        [("azure", "openai"), ("azure_openai", "openai"), ("claude", "agent"), ("copilot", "agent")]
    {
        let text =
            format!("model: {{backend: {backend}, optimizer: o, target: t}}\nenv: {{name: searchqa}}\n");
        let (written, imported) = import_text("c.yaml", &text);
        assert_eq!(written["models"]["target"]["kind"].as_str(), Some(kind));
        assert!(named(&imported.unmapped, "target backend").is_empty(), "{backend}");
    }
}

/// Who decides the number of edits is said once.
#[test]
fn the_mode_of_control_is_mapped_or_listed() {
    for (mode, list, schedule) in [
        ("fixed", "idle", "linear"),
        ("autonomous", "mapped", "autonomous"),
        ("none", "unmapped", "linear"),
        ("other", "unmapped", "linear"),
    ] {
        let text = format!(
            "env: {{name: searchqa, data_path: d.json}}\noptimizer: {{lr_control_mode: {mode}, lr_scheduler: linear}}\n"
        );
        let (written, imported) = import_text("c.yaml", &text);
        assert_eq!(written["train"]["schedule"].as_str(), Some(schedule), "{mode}");
        const KEY: &str = "optimizer.lr_control_mode";
        let mapped = imported.mapped.iter().filter(|mapped| mapped.key == KEY).count();
        let found = [mapped, named(&imported.unmapped, KEY).len(), named(&imported.idle, KEY).len()];
        let expect = ["mapped", "unmapped", "idle"].map(|name| usize::from(name == list));
        assert_eq!(found, expect, "{mode}");
    }
}

/// A run here is none in the other program's directory, splits as SkillOpt does, and makes no calls that it does not.
#[test]
fn an_imported_configuration_is_the_same_run_in_a_directory_of_its_own() {
    for (out_root, dir) in [
        ("/abs/outputs/mine/", Some("runs/mine")),
        ("outputs\\searchqa", Some("runs/searchqa")),
        ("..", Some("runs/imported")),
        ("''", None),
    ] {
        let text = format!("env: {{name: searchqa, data_path: d.json, out_root: {out_root}}}\n");
        let (written, imported) = import_text("c.yaml", &text);
        let found = written.get("run").and_then(|run| run.get("dir")).and_then(|dir| dir.as_str());
        assert_eq!(found, dir, "{out_root}");
        assert_eq!(named(&imported.idle, "env.out_root").len(), usize::from(dir.is_some()));
        assert_eq!(written["eval"]["fresh"].as_bool(), Some(false));
        assert_eq!(written["env"]["split_ratio"], toml::Value::from(vec![2_i64, 1, 7]));
        assert_eq!(written["env"]["split_rule"].as_integer(), Some(2));
    }
}

/// `config.json` of a run of skillrl 1.0 holds its settings, and no candidate of GEPA.
#[test]
fn the_settings_of_a_skillrl_run_can_be_imported() {
    let text = std::fs::read_to_string(data("skillrl-1.0/config.json")).unwrap();
    let (written, imported) = import_text("config.json", &text);
    assert_eq!(imported.kind, ImportKind::SkillrlConfig);
    assert_eq!(written["run"]["dir"].as_str(), Some("runs/colours"));
    assert_eq!(written["train"]["edit_budget"].as_integer(), Some(2));
    assert_eq!(written["train"]["schedule"].as_str(), Some("cosine"));
    assert_eq!(written["train"]["slow_update"].as_str(), Some("off"));
    assert_eq!(written["models"]["optimizer"]["max_tokens"].as_integer(), Some(4_096));
    for missing in ["models", "environment"] {
        assert_eq!(named(&imported.unmapped, missing).len(), 1);
    }
    let listed: BTreeSet<&str> = imported
        .mapped
        .iter()
        .map(|mapped| mapped.key.as_str())
        .chain(imported.unmapped.iter().chain(&imported.idle).map(|entry| entry.key.as_str()))
        .collect();
    let settings: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    for key in settings.keys().filter(|key| *key != "extras") {
        assert!(listed.contains(key.as_str()), "{key} is in none of {listed:?}");
    }
    // Other files of runs are neither.
    for other in [json!({"version": "x", "total_steps": 3, "best_step": 1}), json!({"format_version": "1.0"})]
    {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("other.json"), other.to_string()).unwrap();
        import_to(&dir.path().join("other.json"), &dir.path().join("new")).unwrap_err();
    }
}

/// The flat form that a run keeps of its configuration is one too.
#[test]
fn the_configuration_of_a_run_can_be_imported() {
    let dir = tempfile::tempdir().unwrap();
    let imported = import_to(&data("skillopt-run/config.json"), &dir.path().join("new")).unwrap();
    assert_eq!(imported.kind, ImportKind::SkilloptConfig);
    let text = std::fs::read_to_string(dir.path().join("new/skillrl.toml")).unwrap();
    assert!(text.contains("batch_size = 2") && text.contains("preset = \"searchqa\""), "{text}");
    assert!(dir.path().join("new/imported.md").is_file());
}

/// What a refusal names, and its words: what is wrong, and what to do about it; nothing is written.
#[track_caller]
pub(crate) fn check_bad(from: &Path, names: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let error = import_to(from, &dir.path().join("new")).unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    let said = format!("{cause}\nhint: {}\n\n", error.hint());
    assert!(names.iter().all(|name| said.contains(name)), "{said}");
    assert_eq!(error.failure(), Failure::Usage);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    said.replace(env!("CARGO_MANIFEST_DIR"), "CRATE")
}

#[test]
fn a_bad_configuration_is_named_with_the_place_and_what_to_do() {
    let mut said = String::new();
    for (file, names) in [
        ("no_base.yaml", &["no_base.yaml", "`base/gone.yaml`", "`_base_`"][..]),
        ("two_bases.yaml", &["two_bases.yaml", "`_base_`"]),
        ("loop_a.yaml", &["`_base_`", "loop_a.yaml -> loop_b.yaml -> loop_a.yaml"]),
        ("broken.yaml", &["broken.yaml", "line "]),
        ("list.yaml", &["list.yaml"]),
        ("no_section.yaml", &["no_section.yaml", "`train`"]),
        ("wrong_type.yaml", &["wrong_type.yaml", "\"eight\"", "`train.batch_size`"]),
        ("wrong_flag.yaml", &["wrong_flag.yaml", "7", "`evaluation.eval_test`"]),
        ("gone.yaml", &["gone.yaml"]),
        ("initial.md", &["initial.md"]),
        (".", &["configs"]),
    ] {
        said.push_str(&check_bad(&data("configs").join(file), names));
    }
    insta::assert_snapshot!("bad_configurations", said.trim_end());
    // What is of the right kind and more than we take is listed.
    let (_, imported, _dir) = import_config("large.yaml");
    let listed = imported.unmapped.iter().find(|entry| entry.key == "batch_size").unwrap();
    assert!(listed.reason.starts_with("`train.batch_size` takes a whole number"), "{}", listed.reason);
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    for (name, bytes) in all_files(from) {
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_bad_run_is_named_with_the_place_and_what_to_do() {
    const RESULTS: &str = "steps/step_0001/rollout/results.jsonl";
    const WHOLE: &str = "{\"id\": \"t1\", \"hard\": 1, \"soft\": 1}";
    let bad: [(&str, String, &str, &str); 6] = [
        (RESULTS, format!("{WHOLE}\n{{\"id\": \n{WHOLE}\n"), "line 2, column ", "fix that line"),
        (RESULTS, format!("{WHOLE}\n{{\"id\": \n"), "line 2, column ", "fix that line"),
        ("history.json", "[{]".to_owned(), "history.json is not JSON: ", "fix the file"),
        ("history.json", "{}".to_owned(), "history.json", "fix the file"),
        (
            "steps/step_0001/rollout/predictions/t1/conversation.json",
            "7".to_owned(),
            "is not a list of turns",
            "fix the file",
        ),
        ("config.json", "{\"format_version\": \"1.0\"}".to_owned(), "run of this program", "use it as it is"),
    ];
    for (file, text, expect, advice) in bad {
        let dir = tempfile::tempdir().unwrap();
        copy_dir(&data("skillopt-run"), dir.path());
        std::fs::write(dir.path().join(file), text).unwrap();
        check_bad(dir.path(), &[expect, advice]);
    }
    // A last line that was being written when the run ended is listed, as is a result without an id.
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&data("skillopt-run"), &dir.path().join("from"));
    let text = format!("{WHOLE}\n{{\"hard\": NaN}}\n{{\"id\": ");
    std::fs::write(dir.path().join("from").join(RESULTS), text).unwrap();
    let imported = import_to(&dir.path().join("from"), &dir.path().join("to")).unwrap();
    let reason =
        |key: &str| imported.unmapped.iter().find(|entry| entry.key == key).map(|entry| entry.reason.clone());
    assert!(reason(&format!("{RESULTS}, line 3")).unwrap().contains("was being written"));
    assert!(reason(&format!("{RESULTS}, rows without `id`")).unwrap().contains("was left out"));
}

/// What every imported run can do.
fn check_run(name: &str, kind: ImportKind, last: u32) -> (tempfile::TempDir, Imported) {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("run");
    let imported = import_to(&data(name), &to).unwrap();
    assert_eq!(imported.kind, kind);
    assert_eq!(run_status(&to), RunStatus::Finished);
    assert_eq!(read_finished_step(&to).unwrap().map(|step| step.0), Some(last));
    assert!(read_config(&to).unwrap().unwrap().identity.contains_key("imported_from"));
    let run = RunDir::open(&to).unwrap();
    let state = run.read_state().unwrap().unwrap();
    assert_eq!(run.read_history(state.last_completed_step).unwrap().len(), last as usize);
    run.read_snapshot(state.last_completed_step, &state.current_skill_hash).unwrap();
    let best = skill_at(&to).unwrap();
    assert_eq!(best.hash(), state.best_skill_hash);
    for place in [EvaluationDir::Baseline, EvaluationDir::TestBaseline, EvaluationDir::TestBest] {
        let summary = run.read_evaluation(place).unwrap().unwrap();
        assert_eq!(run.read_results(place).unwrap().len(), summary.n);
    }
    // Whatever reads a run reads this one.
    let page = skillrl::report::write(&to, None).unwrap();
    assert!(std::fs::read_to_string(page).unwrap().contains("<details id=\"step-1\">"));
    let reader = RunReader::open(&to).unwrap();
    let blamed = blame(&reader, Version::Best).unwrap();
    assert_eq!(blamed.skill_hash, best.hash());
    assert!(blamed.lines.iter().any(|line| matches!(line.origin, LineOrigin::Edit { .. })), "{blamed:?}");
    assert!(to.join("imported.md").is_file());
    // A second import does not mix two runs.
    let again = import(&ImportOptions { from: data(name), to, candidate: None, force: true }).unwrap_err();
    assert!(again.to_string().contains("cannot import"));
    (dir, imported)
}

#[test]
fn a_run_of_skillrl_1_0_can_be_read() {
    let (dir, imported) = check_run("skillrl-1.0", ImportKind::SkillrlRun, 3);
    insta::assert_json_snapshot!("skillrl_run.lists", shown(&imported)["unmapped"]);
    let run = dir.path().join("run");
    let summary = read_summary(&run).unwrap().unwrap();
    // What it used is in none of its files, so it is unknown and not nothing.
    let overview = RunOverview::read(&run).unwrap();
    assert_eq!((overview.knows_calls(), overview.knows_tokens()), (false, false));
    let compared = skillrl::report::compare(&run, &run).unwrap();
    assert_eq!(compared.runs.map(|side| side.money), [None, None]);
    let page = std::fs::read_to_string(skillrl::report::write(&run, None).unwrap()).unwrap();
    assert!(page.contains("Calls<b>unknown</b>"), "{page}");
    assert_eq!((summary.env.as_str(), summary.total_accepts, summary.total_rejects), ("colours", 2, 1));
    assert_eq!((summary.baseline_test_hard, summary.test_hard), (Some(0.0), Some(1.0)));
    assert_eq!(summary.best_skill_hash, skill_at(&run).unwrap().hash());
    insta::assert_json_snapshot!("skillrl_run.step", read_history(&run)[1]);
}

#[test]
fn a_run_of_skillopt_can_be_read() {
    let (dir, imported) = check_run("skillopt-run", ImportKind::SkilloptRun, 2);
    insta::assert_json_snapshot!("skillopt_run.lists", shown(&imported)["unmapped"]);
    let run = dir.path().join("run");
    let history = read_history(&run);
    insta::assert_json_snapshot!("skillopt_run.step", history[1]);
    let summary = read_summary(&run).unwrap().unwrap();
    // mixed = (0 + 0.25) / 2
    assert_eq!((summary.baseline_selection_score, summary.env.as_str()), (0.125, "searchqa"));
    let overview = RunOverview::read(&run).unwrap();
    assert_eq!(
        (overview.env.as_str(), overview.knows_calls(), overview.knows_tokens()),
        ("searchqa", true, true)
    );
    assert_eq!(summary.extras["final_test_hard"], 0.5);
    assert_eq!(summary.token_summary.keys().collect::<Vec<_>>(), ["rollout"]);
    let text = std::fs::read_to_string(run.join("config.json")).unwrap();
    assert!(!text.contains("not-redacted-there"), "{text}");
    let rollouts = std::fs::read_to_string(run.join("steps/step_0001/rollout_results.json")).unwrap();
    assert!(rollouts.contains("\"7\"") && rollouts.contains("agent_ok"), "{rollouts}");
    // Trajectories and the analysts' patches are those of the files.
    let rollouts: Value = serde_json::from_str(&rollouts).unwrap();
    insta::assert_json_snapshot!("skillopt_run.conversation", rollouts[1]["trajectory"]["messages"]);
    let raw = RunReader::open(&run).unwrap().raw_patches(skillrl::core::StepIdx(1)).unwrap();
    insta::assert_json_snapshot!("skillopt_run.raw_patches", raw);
    // The score of a step is under the run's own metric.
    let report = serde_json::to_value(skillrl::report::read(&run).unwrap()).unwrap();
    insta::assert_json_snapshot!("skillopt_run.headline", report["headline"]["selection"]);
    // So are those of a comparison: mixed = (0.5 + 0.75) / 2.
    let path = run.join("steps/step_0001/selection_eval/results.json");
    let mut results: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    results[1]["soft"] = json!(0.5);
    std::fs::write(&path, results.to_string()).unwrap();
    let compared = skillrl::report::compare(&run, &run).unwrap();
    assert_eq!(compared.runs.map(|side| side.selection), [Some(0.625); 2]);
    assert_eq!(compared.selection.map(|both| [both.before, both.after]), Some([0.625; 2]));
}

pub(crate) fn read_history(run: &Path) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(run.join("history.json")).unwrap()).unwrap()
}

/// The calls of such a run were not recorded: it is refused by name, and nothing of it changes.
#[test]
fn an_imported_run_does_not_go_on() {
    let (dir, _) = check_run("skillrl-1.0", ImportKind::SkillrlRun, 3);
    let demo = dir.path().join("demo");
    std::fs::create_dir_all(&demo).unwrap();
    for file in skillrl::demo::FILES {
        let path = demo.join(file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.text).unwrap();
    }
    let before = std::fs::read(dir.path().join("run/history.json")).unwrap();
    let overrides = [format!("run.dir={}", dir.path().join("run").display())];
    let loaded = Config::load(&demo.join(skillrl::demo::CONFIG_FILE), &overrides).unwrap();
    let (trainer, path) = skillrl::trainer::document(
        &loaded,
        std::sync::Arc::new(skillrl::pipeline::NoEvents),
        skillrl::pipeline::StopSignal::default(),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(trainer.train(&path)).unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { .. }), "{error:?}");
    assert_eq!(std::fs::read(dir.path().join("run/history.json")).unwrap(), before);
}

#[test]
fn candidates_of_gepa_become_skills() {
    /// The files that come out, or the error.
    fn check(value: &Value, candidate: Option<usize>, to: &str) -> Result<Vec<(String, String)>, String> {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from.json");
        std::fs::write(&from, value.to_string()).unwrap();
        let options = ImportOptions { from, to: dir.path().join(to), candidate, force: false };
        let imported = import(&options).map_err(|error| {
            std::error::Error::source(&error).map(ToString::to_string).unwrap_or_else(|| error.to_string())
        })?;
        assert_eq!(imported.kind, ImportKind::GepaCandidate);
        let (list, skill) = imported.written.split_last().unwrap();
        assert!(below(dir.path(), list).ends_with("imported.md"));
        Ok(skill
            .iter()
            .map(|path| (below(dir.path(), path), std::fs::read_to_string(path).unwrap()))
            .collect())
    }
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let one = json!({"system_prompt": "Be brief.\n"});
    assert_eq!(check(&one, None, "s.md"), Ok(vec![file("s.md", "Be brief.\n")]));
    assert_eq!(check(&one, None, "new"), Ok(vec![file("new/skill/SKILL.md", "Be brief.\n")]));
    let two = json!({"query_writer": "Ask.", "Instructions": "Be brief.", "n": 7});
    assert_eq!(
        check(&two, None, "new"),
        Ok(vec![
            file("new/skill/SKILL.md", "Be brief."),
            file("new/skill/references/query-writer.md", "Ask.")
        ])
    );
    let several = json!([{"a": "first"}, {"a": "second"}]);
    assert!(check(&several, None, "s.md").unwrap_err().contains("2 candidates"));
    assert_eq!(check(&several, Some(1), "s.md"), Ok(vec![file("s.md", "second")]));
    assert!(check(&several, Some(2), "s.md").unwrap_err().contains("candidate 2"));
    let result = json!({"candidates": [{"a": "first"}, {"a": "second"}, {"a": "third"}], "val_aggregate_scores": [0.1, 0.9, 0.9], "parents": []});
    assert_eq!(check(&result, None, "s.md"), Ok(vec![file("s.md", "second")]));
    // A candidate without a score is not the best one; a score that is not a number may be.
    let scored = |scores: Value| json!({"candidates": [{"a": "first"}, {"a": "second"}], "val_aggregate_scores": scores});
    assert_eq!(check(&scored(json!([null, 0.1])), None, "s.md"), Ok(vec![file("s.md", "second")]));
    for scores in [json!([0.1, "0.9"]), json!([null, null]), json!("0.9"), json!({"0": 0.9})] {
        check(&scored(scores), None, "s.md").unwrap_err();
    }
    check(&json!({"candidates": several, "val_aggregate_scores": [[], 1]}), Some(1), "s.md").unwrap();
    assert!(check(&json!(7), None, "s.md").unwrap_err().contains("no candidate"));
    assert!(check(&json!({"a": 1}), None, "s.md").unwrap_err().contains("no text"));
    assert_eq!(check(&json!([{"a": "x"}]), None, "s.md"), Ok(vec![file("s.md", "x")]));
}

#[test]
fn a_state_that_only_python_reads_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("gepa_state.bin"), [0x80, 0x04]).unwrap();
    let error = import_to(dir.path(), &dir.path().join("out")).unwrap_err();
    assert!(error.hint().contains("result.to_dict()"), "{}", error.hint());
    // The candidates beside it can be read.
    std::fs::write(dir.path().join("candidates.json"), "[{\"prompt\": \"Be brief.\"}]").unwrap();
    import_to(dir.path(), &dir.path().join("out")).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("out/skill/SKILL.md")).unwrap(), "Be brief.");
}
