//! A whole run whose target is a program: the skill as a package, traces, tokens, and nothing paid twice.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skillrl::assemble;
use skillrl::config::{Config, LoadedConfig};
use skillrl::pipeline::{NoEvents, StopSignal};
use std::path::Path;

/// A program that answers as Claude Code does: right if it finds the skill in its package and not in its prompt.
const PROGRAM: &str = r#"
prompt=$(cat)
echo "$prompt" >> "$LAB/prompts"
answer=unknown
if grep -q 'The answer is always blue.' .claude/skills/task-skill/SKILL.md; then answer=blue; fi
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
[skill]
initial = "skill.md"
[train]
epochs = 1
batch_size = 2
"#;

fn lab() -> (tempfile::TempDir, LoadedConfig) {
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
    write("skill.md", "# Colours\n\nThe answer is always blue.\n");
    // A program is looked for where it runs, which is a fresh directory: the path has to be whole.
    let command = format!("models.target.command=[\"sh\", \"{}\"]", dir.path().join("agent.sh").display());
    write("skillrl.toml", CONFIG);
    let loaded = Config::load(&dir.path().join("skillrl.toml"), &[command]).unwrap();
    loaded.check_paths().unwrap();
    (dir, loaded)
}

async fn train(loaded: &LoadedConfig) {
    let (trainer, dir) =
        assemble::trainer(loaded, std::sync::Arc::new(NoEvents), StopSignal::default()).unwrap();
    trainer.train(&dir).await.unwrap();
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
    assert!(prompts(dir.path()).contains("SKILL.md") && !prompts(dir.path()).contains("always blue"));
    // Every answer was right, as only one who has read the package can be.
    let steps = std::fs::read_to_string(run.join("history.json")).unwrap();
    assert!(steps.contains("\"rollout_hard\": 1.0"), "{steps}");
    assert!(steps.contains("\"prompt_tokens\": 200"), "the tokens of two calls: {steps}");
    // The run is over: nothing is asked again.
    train(&loaded).await;
    assert_eq!(prompts(dir.path()).matches("Colour").count(), n_calls);
}
