"""Fields of a request besides its messages, its length and its temperature."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Mapping
from typing import Any

from skillrl import _native

#: What a request can hold.
FIELDS = ("messages", "top_p", "seed", "stop", "tools", "tool_choice", "parallel_tool_calls", "response_format")

_told: set[str] = set()
_lock = threading.Lock()


def further(arguments: Mapping[str, Any]) -> str | None:
    """Keyword arguments of ``chat`` as fields of the request, as JSON; others are left out with one warning each."""
    for name in arguments:
        if name in FIELDS:
            continue
        with _lock:
            is_new = name not in _told
            _told.add(name)
        if is_new:
            text = f"`{name}` is left out: of further arguments a request holds {', '.join(FIELDS)}"
            warnings.warn(f"{text}; others are settings of the client", stacklevel=4)
    fields = {name: arguments[name] for name in FIELDS if arguments.get(name) is not None}
    return json.dumps(fields) if fields else None


def messages(system: str, user: str, told: Any) -> tuple[list[tuple[str, str]], list[dict[str, Any]] | None]:
    """The messages of a request as pairs of role and text, or as dicts where one of them is more than that."""
    pairs = [(role, str(text)) for role, text in (("system", system), ("user", user)) if text]
    read = [message(one) for one in told or ()]
    if all(is_plain(one) for one in read):
        return pairs + [(str(one["role"]), str(one["content"])) for one in read], None
    # Calls of tools, their results and parts: the engine reads them as they are.
    return [], [{"role": role, "content": text} for role, text in pairs] + read


def message(one: Any) -> dict[str, Any]:
    """A message as a dict: one of an SDK has a method for it."""
    if isinstance(one, Mapping):
        return dict(one)
    dump = getattr(one, "model_dump", None)
    if not callable(dump):
        raise TypeError(f"a message is of type {type(one).__name__}; messages are dicts of role and content")
    dumped: dict[str, Any] = dump(exclude_none=True)
    return dumped


def is_plain(one: Mapping[str, Any]) -> bool:
    """True for a message of role and text alone."""
    is_text = isinstance(one.get("content"), str) and one.get("role") in ("system", "developer", "user", "assistant")
    return is_text and not one.get("tool_calls")


def reply(said: _native._Reply, stage: str) -> tuple[str, dict[str, Any]]:
    """The text of a reply and its tokens, as clients return them, with tool calls if there are any."""
    text, prompt, completion, cached, calls = said
    tokens = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    told: dict[str, Any] = {**tokens, "cached_tokens": cached, "calls": 1, "stage": stage}
    return text, {**told, "tool_calls": json.loads(calls)} if calls else told
