//! A whole run whose target is a program: the skill as a package, traces, tokens, and nothing paid twice.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skillrl::config::{Config, LoadedConfig};
use skillrl::llm::ErrorClass;
use skillrl::pipeline::{NoEvents, PipelineError, StopSignal};
use skillrl::trainer;
use std::path::Path;

/// A program that answers as Claude Code does: right if it finds the skill in its package and not in its prompt.
const PROGRAM: &str = r#"
prompt=$(cat)
echo "$prompt" >> "$LAB/prompts"
answer=unknown
if grep -qs 'The answer is always blue.' .claude/skills/*/SKILL.md .claude/skills/*/references/*; then answer=blue; fi
case "$prompt" in *'The answer is always'*) answer='the skill is in the prompt' ;; esac
echo "{\"type\": \"result\", \"subtype\": \"success\", \"is_error\": false, \"result\": \"$answer\",
       \"usage\": {\"input_tokens\": 10, \"cache_read_input_tokens\": 90, \"output_tokens\": 1}}"
"#;

const CONFIG: &str = r#"
[run]
dir = "run"
[models.target]
kind = "agent"
agent = "claude"
model = "sonnet"
command = ["sh", "agent.sh"]
skill_as = "package"
price_input = 1.0
[models.optimizer]
kind = "simulated"
flaw_rate = 0.0
[env]
kind = "qa"
data = "data"
[train]
epochs = 1
batch_size = 2
"#;

const SKILL: (&str, &str) = ("skill.md", "# Colours\n\nThe answer is always blue.\n");

/// A folder with these files, a program and a configuration; `more` is at its end.
fn lab_with(files: &[(&str, &str)], more: &str) -> (tempfile::TempDir, LoadedConfig) {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let program = format!("LAB='{}'\n{PROGRAM}", dir.path().display());
    write("agent.sh", &program);
    for split in ["train", "val", "test"] {
        let items: Vec<String> = (0..2)
            .map(|item_idx| {
                format!(
                    r#"{{"id": "{split}-{item_idx}", "question": "Colour {split} {item_idx}?", "answers": ["blue"]}}"#
                )
            })
            .collect();
        write(&format!("data/{split}/items.json"), &format!("[{}]", items.join(",")));
    }
    for (name, text) in files {
        write(name, text);
    }
    // A program is looked for where it runs, which is a fresh directory: the path has to be whole.
    let command = format!("models.target.command=[\"sh\", \"{}\"]", dir.path().join("agent.sh").display());
    write("skillrl.toml", &format!("{CONFIG}{more}"));
    let loaded = Config::load(&dir.path().join("skillrl.toml"), &[command]).unwrap();
    loaded.check_paths().unwrap();
    (dir, loaded)
}

fn lab() -> (tempfile::TempDir, LoadedConfig) {
    lab_with(&[SKILL], "[skill]\ninitial = \"skill.md\"\n")
}

async fn try_train(loaded: &LoadedConfig) -> Result<(), PipelineError> {
    let (trainer, dir) =
        trainer::document(loaded, std::sync::Arc::new(NoEvents), StopSignal::default()).unwrap();
    trainer.train(&dir).await.map(|_| ())
}

async fn train(loaded: &LoadedConfig) {
    try_train(loaded).await.unwrap();
}

fn prompts(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("prompts")).unwrap()
}

#[tokio::test]
async fn a_program_trains_with_the_skill_as_a_package() {
    let (dir, loaded) = lab();
    train(&loaded).await;
    let run = dir.path().join("run");
    let n_traces = std::fs::read_dir(run.join("agent_traces")).unwrap().count();
    let n_calls = prompts(dir.path()).matches("Colour").count();
    assert!(n_calls >= 2);
    assert_eq!(n_traces, n_calls, "each call has its trace");
    assert!(!prompts(dir.path()).contains("SKILL.md") && !prompts(dir.path()).contains("always blue"));
    // Every answer was right, as only one who has read the package can be.
    let steps = std::fs::read_to_string(run.join("history.json")).unwrap();
    assert!(steps.contains("\"rollout_hard\": 1.0"), "{steps}");
    assert!(steps.contains("\"prompt_tokens\": 200"), "the tokens of two calls: {steps}");
    // The run is over: nothing is asked again.
    train(&loaded).await;
    assert_eq!(prompts(dir.path()).matches("Colour").count(), n_calls);
}

/// A skill with front matter, and a folder whose rule is in a reference file.
const SKILLS: [&[(&str, &str)]; 2] = [
    &[(
        "skill/SKILL.md",
        "---\nname: skill\ndescription: Names colours.\n---\n\n# Colours\n\nThe answer is always blue.\n",
    )],
    &[
        ("skill/SKILL.md", "---\nname: skill\ndescription: Names colours.\n---\n\n# Colours\n"),
        ("skill/references/rule.md", "# Rule\n\nThe answer is always blue.\n"),
    ],
];

#[tokio::test]
async fn front_matter_and_folders_become_packages_too() {
    for files in SKILLS {
        let (dir, loaded) = lab_with(files, "[skill]\ninitial = \"skill\"\n");
        train(&loaded).await;
        let prompts = prompts(dir.path());
        assert!(!prompts.contains("SKILL.md") && !prompts.contains("always blue"), "{prompts}");
        let steps = std::fs::read_to_string(dir.path().join("run/history.json")).unwrap();
        assert!(steps.contains("\"rollout_hard\": 1.0"), "{steps}");
    }
}

#[tokio::test]
async fn a_prompt_that_changes_the_skill_ends_the_run_before_anything_is_sent() {
    let prompt = "{% block system %}{{ skill | replace('The', 'An') }}{% endblock %}\n\
                  {% block user %}{{ question }}{% endblock %}\n";
    let (dir, loaded) = lab_with(
        &[SKILL, ("mine/rollout_qa.md", prompt)],
        "[skill]\ninitial = \"skill.md\"\n[prompts]\ndir = \"mine\"\n",
    );
    let error = try_train(&loaded).await.unwrap_err();
    let PipelineError::Rollout { source: skillrl::envs::EnvError::Model(source), .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.class(), ErrorClass::Configuration);
    assert!(!dir.path().join("prompts").exists(), "nothing was sent");
}
