"""What all stages that ask an optimizer share."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from skillrl import _bridge
from skillrl.config import settings_json


def described(
    optimizer_client: Any,
    *,
    max_completion_tokens: int,
    prompt_overrides: Mapping[str, str] | None,
    workers: int = 1,
    extra_context: str = "",
) -> Any:
    """What a stage asks with, as the engine reads it."""
    client = _bridge.client(optimizer_client, "optimizer")
    section = client.section if client.is_native else {}
    return SimpleNamespace(
        client=client,
        sections=settings_json({"models": {"target": section}} if section else {}),
        max_tokens=max_completion_tokens,
        prompts=dict(prompt_overrides or {}),
        context=extra_context,
        workers=workers,
        **_bridge.calls(),
    )


def told(verbose: bool, stage: str, notes: list[str], summary: str) -> None:
    """Print what a stage did, and what was wrong with replies."""
    if verbose:
        for note in notes:
            print(f"    [{stage}] {note}")
        print(f"    [{stage}] {summary}")
