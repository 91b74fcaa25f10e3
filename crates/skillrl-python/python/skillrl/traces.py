"""Recorded conversations and traces as tasks: the last user message is the input, the reply the reference.

>>> traces = skillrl.traces.read("traces.jsonl")
>>> skillrl.train_agent(run, traces.tasks, skill=traces.system, judge="rubric.md", ...)

Read are JSON and JSON Lines: chat ``messages``, ShareGPT, stored completions of OpenAI, exports of Langfuse and LangSmith,
and spans of OpenTelemetry's conventions for generative AI (OTLP as JSON). The shapes are those of their documentation.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, field
from typing import Any

from skillrl import _native


@dataclass
class Traces:
    """What a file of traces holds."""

    #: For each trace ``id``, ``text`` (the last user message), ``messages`` (the conversation before it) and ``reference``
    #: (the reply; empty if none is recorded).
    tasks: list[dict[str, Any]] = field(default_factory=list)
    #: The system prompt that most traces have: the text to start from.
    system: str = ""


def read(path: str | os.PathLike[str]) -> Traces:
    """Read the traces of a file; records without a question are left out with a warning."""
    found = json.loads(_native.read_traces(os.fspath(path)))
    if found["n_left_out"]:
        warnings.warn(f"{found['n_left_out']} records of {path} hold no question and are left out", stacklevel=2)
    if leaks := found["leaks"]:
        text = f"the answer is part of the input of {len(leaks)} of {len(found['tasks'])} traces, such as {leaks[0]!r}"
        warnings.warn(f"{text}: scores on these tell nothing; cut `messages` before it", stacklevel=2)
    return Traces(tasks=found["tasks"], system=found["system"])
