//! Journals that are larger than the memory: nothing reads one whole.

use crate::context::{Outcome, TestContext, code};

/// Far more than the program may have.
const JOURNAL_BYTES: u32 = 128 << 20;
const RESULT_BYTES: u32 = 1 << 20;
/// The memory that the program may ask for, in kilobytes.
const MOST_MEMORY_KB: u32 = 56 << 10;

fn with_large_journal() -> TestContext {
    let context = TestContext::with_finished_demo();
    let journal = context.path("demo/run/journal.sqlite");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let added =
        skillrl_bench::runs::add_results(&journal, JOURNAL_BYTES / RESULT_BYTES, RESULT_BYTES as usize);
    runtime.block_on(added).unwrap();
    assert!(journal.metadata().unwrap().len() > u64::from(JOURNAL_BYTES));
    context
}

/// The program with a limit on its memory.
fn run_with_limit(context: &TestContext, args: &[&str]) -> Outcome {
    context.run_within(&format!("ulimit -d {MOST_MEMORY_KB}"), args)
}

#[test]
fn a_large_journal_is_never_in_memory() {
    let context = with_large_journal();
    let commands: [&[&str]; 6] = [
        &["inspect", "demo/run/journal.sqlite"],
        &["journal", "list", "demo/run"],
        &["journal", "stats", "demo/run"],
        &["journal", "export", "demo/run", "--out", "calls.jsonl"],
        &["report", "demo/run"],
        // The run goes on: there is nothing left to do.
        &["train", "demo/skillrl.toml", "--quiet"],
    ];
    for args in commands {
        let outcome = run_with_limit(&context, args);
        assert_eq!(outcome.code, Some(code::SUCCESS), "{args:?}: {}", outcome.stderr);
    }
    let n_lines = context.read("calls.jsonl").lines().count();
    assert!(n_lines > (JOURNAL_BYTES / RESULT_BYTES) as usize, "{n_lines}");
    assert!(context.path("calls.jsonl").metadata().unwrap().len() > u64::from(JOURNAL_BYTES));
}

/// The trajectories, which hold the skill twice each, and their text are together more than the program may have.
#[test]
fn an_evaluation_keeps_no_trajectories_in_memory() {
    const ITEMS: usize = 220;
    const SKILL_BYTES: usize = 60 << 10;
    let model = "{ kind = \"simulated\" }";
    let context = TestContext::with_task(model, model);
    context.write_items("val", ITEMS);
    context.write("task/skill.md", &"- Be polite, and repeat what is asked.\n".repeat(SKILL_BYTES / 39));
    let outcome = run_with_limit(&context, &["eval", "task/skillrl.toml", "--out", "out", "--quiet"]);
    assert_eq!(outcome.code, Some(code::SUCCESS), "{}", outcome.stderr);
    let n_bytes = context.path("out/results.json").metadata().unwrap().len();
    assert!(3 * n_bytes > u64::from(MOST_MEMORY_KB) << 10, "{n_bytes}");
    assert_eq!(context.json("out/summary.json")["n"], ITEMS);
}
