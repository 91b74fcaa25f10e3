"""The editor: applies edits to a skill, one after the other, without a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from skillrl import _native
from skillrl.types import Edit, Patch

#: How a target is found: ``exact`` to the byte, as in skillrl 1.0; ``folded`` also as a reader sees it, as runs do.
Anchors = Literal["exact", "folded"]

_FIELDS = ("op", "content", "target", "file")


def apply_edit(skill: str, edit: Edit | Mapping[str, Any], *, anchors: Anchors = "exact") -> str:
    """Apply one edit; one that cannot be applied leaves the skill as it is."""
    return apply_patch(skill, {"edits": [edit]}, anchors=anchors)


def apply_patch(
    skill: str,
    patch: Patch | Mapping[str, Any],
    *,
    anchors: Anchors = "exact",
    drop_duplicates: bool = False,
) -> str:
    """Apply the edits of a patch in order."""
    return apply_patch_with_report(skill, patch, anchors=anchors, drop_duplicates=drop_duplicates)[0]


def apply_patch_with_report(
    skill: str,
    patch: Patch | Mapping[str, Any],
    *,
    anchors: Anchors = "exact",
    drop_duplicates: bool = False,
) -> tuple[str, list[dict[str, Any]]]:
    """Apply the edits of a patch in order; also returns a row for each edit: index from 1, op, target, status.

    The defaults are the rules of skillrl 1.0; ``anchors="folded", drop_duplicates=True`` are those of a run. Edits
    without content are skipped, and no edit changes a protected region. An edit that is not an object has a row with
    the status ``error`` and the field ``error``; the others are applied.
    """
    if anchors not in ("exact", "folded"):
        raise ValueError(f"anchors is {anchors!r}; it is \"exact\" or \"folded\"")
    edits = patch.edits if isinstance(patch, Patch) else patch.get("edits") or []
    plain: list[dict[str, str]] = []
    broken: dict[int, dict[str, Any]] = {}
    for index, edit in enumerate(edits, start=1):
        try:
            plain.append(_plain(edit))
        except (AttributeError, TypeError, ValueError) as error:
            broken[index] = {"index": index, "op": "", "target": "", "status": "error", "error": str(error)}
    changed, applied = _native.apply_patch(skill, json.dumps(plain), anchors == "folded", drop_duplicates)
    rows = iter(json.loads(applied))
    indices = range(1, len(plain) + len(broken) + 1)
    return changed, [broken.get(index) or {**next(rows), "index": index} for index in indices]


def _plain(edit: Edit | Mapping[str, Any]) -> dict[str, str]:
    given = edit.to_dict() if isinstance(edit, Edit) else edit
    if not isinstance(given, Mapping):
        raise TypeError(f"an edit is an object, not of type {type(given).__name__}")
    found = {name: given.get(name) for name in _FIELDS}
    return {"op": "", **{name: str(value) for name, value in found.items() if value is not None}}
