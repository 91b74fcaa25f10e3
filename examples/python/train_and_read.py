"""Drives `skillrl` from Python and reads what a run came to. Needs nothing but the standard library.

    python3 train_and_read.py CONFIG.toml [--set KEY=VALUE ...]

The program trains as a process of its own and says what happens as JSON Lines; its exit codes say what kind of end it
was. The run directory holds everything else as JSON and Markdown.
"""

import json
import pathlib
import subprocess
import sys

# The exit codes after which the same command resumes the run.
RESUMABLE = {5: "a provider failed for now", 8: "a cap is reached", 130: "stopped by the user"}


def train(arguments):
    """Trains, prints each step as it ends, and returns the run directory."""
    command = ["skillrl", "train", *arguments, "--json"]
    run_dir = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        for line in process.stdout:
            event = json.loads(line)
            kind = event["event"]
            if kind == "run_started":
                run_dir = pathlib.Path(event["dir"])
                print(f"{run_dir}: {event['total_steps']} steps, {event['finished_steps']} finished already")
            elif kind == "step_finished":
                print_step(event["record"])
            elif kind == "warning":
                print("warning:", event["message"])
    if process.returncode != 0:
        why = RESUMABLE.get(process.returncode)
        hint = f" ({why}; rerun the same command to resume)" if why else ""
        sys.exit(f"skillrl ended with {process.returncode}{hint}")
    return run_dir


def print_step(record):
    score = record.get("candidate_gate_score")
    measured = "not measured whole" if score is None else f"{score:.4f}"
    print(f"step {record['step']:>3}  {record['action']:<16} {record['score_before']:.4f} -> {measured}")


def read_json(run_dir, *parts):
    return json.loads(run_dir.joinpath(*parts).read_text(encoding="utf-8"))


def print_result(run_dir):
    """Says what the run came to: the scores, the items that were won and lost, and the skill."""
    summary = read_json(run_dir, "summary.json")
    print(f"\nselection: {summary['baseline_selection_score']:.4f} -> {summary['best_selection_score']:.4f}")
    if summary["test_hard"] is not None:
        print(f"test:      {summary['baseline_test_hard']:.4f} -> {summary['test_hard']:.4f}")
        before = {item["id"]: item["hard"] for item in read_json(run_dir, "test_eval_baseline", "results.json")}
        # Where no step found a better skill, the first one was measured once.
        best = run_dir / "test_eval_best" / "results.json"
        after = json.loads(best.read_text(encoding="utf-8")) if best.exists() else []
        won = [item["id"] for item in after if item["hard"] > before[item["id"]]]
        lost = [item["id"] for item in after if item["hard"] < before[item["id"]]]
        print(f"won {len(won)}, lost {len(lost)}" + (f": {', '.join(lost)}" if lost else ""))
    calls = sum(stage["calls"] for stage in summary["token_summary"].values())
    print(f"calls: {calls}")
    print(f"\n{(run_dir / 'best_skill.md').read_text(encoding='utf-8')}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print_result(train(sys.argv[1:]))
