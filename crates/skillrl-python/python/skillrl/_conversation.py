"""Conversations in the forms of SkillOpt: as messages, and back in files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_ROLES = ("system", "user", "assistant", "tool")


def messages(conversation: Iterable[Any]) -> list[dict[str, str]]:
    """Records of turns, tool calls and steps as messages of role and content."""
    said = []
    for record in conversation:
        if not isinstance(record, dict):
            said.append(("assistant", record))
        elif record.get("type") == "tool_call":
            said += [("assistant", record.get("cmd")), ("user", record.get("obs"))]
        elif "action" in record and "env_feedback" in record:
            thought = record.get("reasoning")
            action = f"{thought}\n{record['action']}" if thought else record["action"]
            said += [("assistant", action), ("user", record["env_feedback"])]
        else:
            role = str(record.get("role") or "assistant")
            said.append((role if role in _ROLES else "assistant", record.get("content")))
    return [{"role": role, "content": "" if text is None else _text(text)} for role, text in said]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def conversation_of(directory: Path) -> list[dict[str, str]]:
    """The messages in ``conversation.json`` of an item's directory; none if it cannot be read."""
    try:
        read = json.loads((directory / "conversation.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return messages(read) if isinstance(read, list) else []


def text_of(directory: Path, name: str) -> str:
    """A text file of an item's directory; empty if it cannot be read."""
    try:
        return (directory / name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
