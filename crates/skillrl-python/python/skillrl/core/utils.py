"""JSON in replies, mean scores, hashes of skills."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from skillrl import _native
from skillrl.types import RolloutResult


def extract_json(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a reply: alone, in a fence or in prose; None if there is none, or more than one."""
    found = _native.extract_json(text or "")
    return None if found is None else json.loads(found)


def compute_score(results: Iterable[RolloutResult | Mapping[str, Any]]) -> tuple[float, float]:
    """The mean hard and soft scores; (0.0, 0.0) for no results."""
    rows = [one.to_dict() if isinstance(one, RolloutResult) else one for one in results]
    return _native.mean_score([(float(row.get("hard") or 0), float(row.get("soft") or 0)) for row in rows])


def skill_hash(content: str | None) -> str:
    """The first 16 digits of the SHA-256 of a skill."""
    return _native.skill_hash(content or "")
