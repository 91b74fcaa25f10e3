"""Aggregate: many patches become one, failures first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from skillrl import _data, _native
from skillrl.pipeline._stage import described, told
from skillrl.types import Patch, RawPatch


def merge_patches(
    *,
    optimizer_client: Any,
    skill_content: str,
    raw_patches: Sequence[RawPatch],
    batch_size: int = 8,
    workers: int = 8,
    max_completion_tokens: int = 4096,
    prompt_overrides: Mapping[str, str] | None = None,
    verbose: bool = True,
) -> Patch:
    """Merge the patches of failures and of successes, each by a tree of calls, then both.

    A single patch is returned without a call. A reply that cannot be used keeps all edits of its group. What a client
    raises is raised here.
    """
    stage = described(
        optimizer_client,
        max_completion_tokens=max_completion_tokens,
        prompt_overrides=prompt_overrides,
        workers=workers,
    )
    patches = _data.as_json([raw.to_dict() for raw in raw_patches])
    merged, notes = _native.run_merge(stage, patches, skill_content, batch_size)
    patch = Patch.from_dict(json.loads(merged))
    told(verbose, "aggregate", notes, f"{len(raw_patches)} patches to {len(patch.edits)} edits")
    return patch
