"""Fields of a request besides its messages, its length and its temperature."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Mapping
from typing import Any

from skillrl import _native

#: What a request can hold.
FIELDS = ("top_p", "seed", "stop", "tools", "tool_choice", "parallel_tool_calls", "response_format")

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


def reply(said: _native._Reply, stage: str) -> tuple[str, dict[str, Any]]:
    """The text of a reply and its tokens, as clients return them, with tool calls if there are any."""
    text, prompt, completion, cached, calls = said
    tokens = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    told: dict[str, Any] = {**tokens, "cached_tokens": cached, "calls": 1, "stage": stage}
    return text, {**told, "tool_calls": json.loads(calls)} if calls else told
