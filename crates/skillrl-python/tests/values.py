"""Prints what the functions of `skillrl` return for many arguments: run by this package and by skillrl 1.0, it prints the same.

Left out is what differs on purpose: edits without content, empty skills, replies with several objects, and rankings
that cannot be read.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

from skillrl.core import (
    apply_patch,
    apply_patch_with_report,
    build_scheduler,
    compute_score,
    evaluate_gate,
    extract_json,
    select_gate_score,
    skill_hash,
)
from skillrl.pipeline import merge_patches, rank_and_select, run_minibatch_reflect
from skillrl.types import Edit, Patch, RawPatch, RolloutResult

dice = random.Random(7)
WORDS = ["ship", "port", "date", "answer", "short", "whole", "number", "never", "always", "first"]


class Client:
    """Answers as it is told, and remembers what it was shown."""

    model = "scripted"

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.shown: list[str] = []

    def chat(self, *, system: str, user: str, **_: Any) -> tuple[str, dict[str, Any]]:
        self.shown.append(user)
        return self.reply, {}


def line() -> str:
    return "- " + " ".join(dice.choice(WORDS) for _ in range(dice.randint(2, 5)))


def skills() -> list[Any]:
    made: list[Any] = []
    for _ in range(150):
        lines = [line() for _ in range(dice.randint(1, 6))]
        skill = "# Rules\n\n" + "\n".join(lines) + dice.choice(["", "\n", "\n\n"])
        edits = []
        for _ in range(dice.randint(1, 4)):
            op = dice.choice(["append", "insert_after", "replace", "delete", "rename"])
            target = dice.choice([dice.choice(lines), "- not there", "", dice.choice(lines)[2:6]])
            edits.append(Edit(op=op, content=line(), target="" if op == "append" else target))  # type: ignore[arg-type]
        patch = Patch(edits)
        changed, rows = apply_patch_with_report(skill, patch)
        assert changed == apply_patch(skill, patch.to_dict())
        fields = ("index", "op", "status")
        made.append([changed, [[row[field] for field in fields] for row in rows], skill_hash(changed)])
    return made


def schedules() -> list[Any]:
    made = []
    for mode in ("constant", "linear", "cosine"):
        for top, low, steps in ((4, 2, 8), (10, 1, 7), (5, 5, 3), (6, 2, 1), (100, 1, 30)):
            scheduler = build_scheduler(mode, top, low, steps)
            budgets = [scheduler.step() for _ in range(steps + 2)]
            made.append([mode, top, low, budgets, scheduler.state_dict(), scheduler.get_lr(2)])
    return made


def decisions() -> list[Any]:
    made = []
    for _ in range(60):
        hard, soft, current, best = (dice.randint(0, 8) / 8 for _ in range(4))
        metric = dice.choice(["hard", "soft", "mixed"])
        result = evaluate_gate(
            candidate_skill="c",
            cand_hard=hard,
            cand_soft=soft,
            current_skill="a",
            current_score=min(current, best),
            best_skill="b",
            best_score=max(current, best),
            best_step=2,
            global_step=5,
            metric=metric,  # type: ignore[arg-type]
            mixed_weight=0.25,
        )
        made.append([vars(result), select_gate_score(hard, soft, metric, 0.25)])  # type: ignore[arg-type]
    rows = [{"hard": dice.randint(0, 1), "soft": dice.randint(0, 4) / 4} for _ in range(9)]
    made.append([compute_score(rows), compute_score([]), compute_score([RolloutResult.from_dict({"id": 1, **row}) for row in rows])])
    return made


def replies() -> list[Any]:
    inner = json.dumps({"a": {"b": [1, 2]}, "c": "x}y"})
    texts = [inner, f"```json\n{inner}\n```", f"```\n{inner}\n```", f"Here: {inner} done.", "no object", "", "[1, 2]", "{"]
    return [extract_json(text) for text in texts]


def raw(source: Any, number: int) -> RawPatch:
    return RawPatch(Patch([Edit("append", f"- {source} {number}", support_count=number)]), source, 2)


def stages() -> list[Any]:
    made: list[Any] = []
    for reply in (json.dumps({"edits": [{"op": "append", "content": "- merged"}]}), "nothing"):
        for failures, successes, size in ((0, 0, 8), (1, 0, 8), (1, 1, 8), (5, 2, 2), (9, 9, 4)):
            client = Client(reply)
            patches = [raw("failure", n) for n in range(failures)] + [raw("success", n) for n in range(successes)]
            merged = merge_patches(
                optimizer_client=client,  # type: ignore[arg-type]
                skill_content="# S\n",
                raw_patches=patches,
                batch_size=size,
                workers=1,
                verbose=False,
            )
            edits = [[edit.content, edit.merge_level, edit.source_type] for edit in merged.edits]
            made.append([edits, len(client.shown)])
    for indices, budget in (([3, 1, 1, 9], 2), ([0], 3), ([4, 3, 2, 1, 0], 4), ([], 9)):
        client = Client(json.dumps({"selected_indices": indices}))
        patch = Patch([Edit("append", f"- {n}") for n in range(5)])
        kept = rank_and_select(
            optimizer_client=client,  # type: ignore[arg-type]
            skill_content="# S\n",
            patch=patch,
            max_edits=budget,
            verbose=False,
        )
        made.append([[edit.content for edit in kept.edits], len(client.shown)])
    for seed in (0, 42, 1043):
        results = [RolloutResult(id=f"item{n:02}", hard=int(n % 3 == 0), soft=0.0) for n in range(14)]
        reply = json.dumps({"edits": [{"op": "append", "content": f"- {n}"} for n in range(5)]})
        client = Client(reply)
        patches = run_minibatch_reflect(
            rollout_results=results,
            current_skill="# S\n",
            optimizer_client=client,  # type: ignore[arg-type]
            minibatch_size=4,
            edit_budget=3,
            workers=1,
            seed=seed,
            verbose=False,
        )
        made.append([[patch.to_dict() for patch in patches], [re.findall(r"item\d\d", shown) for shown in client.shown]])
    return made


print(json.dumps([skills(), schedules(), decisions(), replies(), stages()], sort_keys=True))
