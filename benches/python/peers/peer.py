"""Runs another system in the worlds of search-bench; prints one line of JSON for each run.

usage: peer.py SERVER gepa|skillrl1 FAMILIES FIRST_SEED END_SEED CALLS N_TRAIN N_VAL N_TEST
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading


class World:
    """A world, played by a process of search-bench."""

    def __init__(self, server, family, seed, sizes):
        args = [server, "world", family, str(seed), *sizes]
        self.process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lock = threading.Lock()
        self.throws = 0
        self.calls = 0

    def ask(self, op, **question):
        with self.lock:
            self.process.stdin.write(json.dumps({"op": op, **question}) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def throw(self):
        # Each call has dice of its own.
        with self.lock:
            self.throws += 1
            self.calls += 1
            return f"call {self.throws}"

    def attempt(self, task, skill):
        return self.ask("attempt", id=task["id"], skill=skill, throw=self.throw())

    def optimizer(self, prompt):
        return self.ask("optimizer", prompt=prompt, throw=self.throw())["reply"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


INITIAL_SKILL = "# How to fill in forms\n\nFill in every field that is due.\n"


def run_gepa(world, seed, calls):
    import gepa
    from gepa.core.adapter import EvaluationBatch

    class Adapter:
        propose_new_texts = None

        def evaluate(self, batch, candidate, capture_traces=False):
            outcomes = [world.attempt(task, candidate["skill"]) for task in batch]
            traces = list(zip(batch, outcomes)) if capture_traces else None
            return EvaluationBatch(
                outputs=outcomes, scores=[outcome["hard"] for outcome in outcomes], trajectories=traces
            )

        def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
            def record(task, outcome):
                if outcome["turns"]:
                    said = "\n".join(f"[{role}] {text}" for role, text in outcome["turns"])
                    feedback = "right" if outcome["hard"] == 1 else "wrong"
                else:
                    said, feedback = outcome["answer"], f"The right answer is {outcome['reference']}"
                return {"Inputs": task["question"], "Generated Outputs": said, "Feedback": feedback}

            return {"skill": [record(task, outcome) for task, outcome in eval_batch.trajectories]}

    tasks = world.ask("tasks")
    result = gepa.optimize(
        seed_candidate={"skill": INITIAL_SKILL},
        trainset=tasks["train"],
        valset=tasks["val"],
        adapter=Adapter(),
        reflection_lm=lambda prompt: world.optimizer(prompt if isinstance(prompt, str) else json.dumps(prompt)),
        stop_callbacks=lambda state: world.calls >= calls,
        seed=seed,
    )
    return result.best_candidate["skill"], len(result.candidates) - 1, len(result.candidates) - 1


def run_skillrl1(world, seed, calls):
    from skillrl import SkillOptConfig, SkillOptTrainer
    from skillrl.envs.base import SkillEnv
    from skillrl.types import RolloutResult

    tasks = world.ask("tasks")

    class Env(SkillEnv):
        name = "search"

        def get_items(self, split):
            return tasks[split]

        def get_initial_skill(self):
            return INITIAL_SKILL

        def rollout_one(self, *, item, skill, target_client):
            outcome = world.attempt(item, skill)
            return RolloutResult(
                id=item["id"],
                hard=int(outcome["hard"]),
                soft=outcome["soft"],
                task_type=item["kind"],
                question=item["question"],
                reference_text=outcome["reference"],
                predicted_answer=outcome["answer"],
                conversation=[{"role": role, "content": text} for role, text in outcome["turns"]],
            )

    class Client:
        model = "search"

        def chat(self, *, system, user, **_):
            return world.optimizer(user), {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}

    with tempfile.TemporaryDirectory() as out:
        config = SkillOptConfig(out_root=out, seed=seed, eval_test=False, workers=1, verbose=False)
        trainer = SkillOptTrainer(config=config, env=Env(), optimizer_client=Client(), target_client=Client())
        trainer.train()
        with open(f"{out}/best_skill.md", encoding="utf-8") as file:
            skill = file.read()
    accepted = sum("accept" in str(row.get("action", "")) for row in trainer.history)
    return skill, len(trainer.history), accepted


def main():
    server, system, families, first, end, calls, *sizes = sys.argv[1:]
    runs = {"gepa": run_gepa, "skillrl1": run_skillrl1}
    for family in families.split(","):
        for seed in range(int(first), int(end)):
            world = World(server, family, seed, sizes)
            with contextlib.redirect_stdout(open(os.devnull, "w")):
                skill, candidates, accepted = runs[system](world, seed, int(calls))
            row = {"family": family, "seed": seed, "candidates": candidates, "accepted": accepted}
            print(json.dumps({**row, **world.ask("measure", skill=skill)}), flush=True)
            world.close()


main()
