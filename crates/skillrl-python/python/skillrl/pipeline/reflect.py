"""Reflect: analysts read minibatches of trajectories and propose edits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from skillrl import _data, _native
from skillrl.pipeline._stage import described, told
from skillrl.types import RawPatch, RolloutResult


def run_minibatch_reflect(
    *,
    rollout_results: Sequence[RolloutResult],
    current_skill: str,
    optimizer_client: Any,
    minibatch_size: int = 8,
    edit_budget: int = 4,
    failure_only: bool = False,
    workers: int = 8,
    seed: int = 42,
    max_completion_tokens: int = 4096,
    prompt_overrides: Mapping[str, str] | None = None,
    extra_context: str = "",
    verbose: bool = True,
) -> list[RawPatch]:
    """Ask one analyst for each minibatch of failures and of successes.

    Returns a patch of at most ``edit_budget`` edits for each analyst whose reply has one: failures first, each in the
    order of the minibatches, which ``seed`` decides. ``extra_context`` is shown in every prompt. What a client raises
    is raised here.
    """
    stage = described(
        optimizer_client,
        max_completion_tokens=max_completion_tokens,
        prompt_overrides=prompt_overrides,
        workers=workers,
        extra_context=extra_context,
    )
    results = _data.as_json([result.to_dict() for result in rollout_results])
    budget = max(edit_budget, 1)
    found, notes = _native.run_reflect(stage, results, current_skill, minibatch_size, budget, failure_only, seed)
    patches = [patch for patch in map(RawPatch.from_dict, json.loads(found)) if patch is not None]
    n_edits = sum(len(raw.patch.edits) for raw in patches)
    told(verbose, "reflect", notes, f"{len(patches)} patches with {n_edits} edits")
    return patches
