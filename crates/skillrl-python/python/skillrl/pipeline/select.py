"""Select: keeps as many edits as the budget has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skillrl import _data, _native
from skillrl.pipeline._stage import described, told
from skillrl.types import Patch


def rank_and_select(
    *,
    optimizer_client: Any,
    skill_content: str,
    patch: Patch,
    max_edits: int,
    max_completion_tokens: int = 2048,
    prompt_overrides: Mapping[str, str] | None = None,
    verbose: bool = True,
) -> Patch:
    """Keep the ``max_edits`` edits that the optimizer ranks first; a patch that fits is returned without a call.

    What a client raises is raised here.
    """
    if len(patch.edits) <= max_edits:
        return patch
    stage = described(
        optimizer_client, max_completion_tokens=max_completion_tokens, prompt_overrides=prompt_overrides
    )
    selected, notes = _native.run_select(stage, _data.as_json(patch.to_dict()), skill_content, max(max_edits, 0))
    kept = Patch.from_dict(json.loads(selected))
    told(verbose, "select", notes, f"{len(patch.edits)} edits to {len(kept.edits)}")
    return kept
