"""Traces of an agent in use as tasks: what people asked, and what was answered.

>>> traces = skillrl.traces.read("traces.jsonl")
>>> skillrl.train_agent(run, traces.tasks, skill=traces.system, judge="rubric.md", ...)

Read are JSON and JSON Lines: chat ``messages``, stored completions of OpenAI, exports of Langfuse and LangSmith, and
spans of OpenTelemetry's conventions for generative AI (OTLP as JSON). The shapes are those of their documentation.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: What a message's author is called.
_ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant",
    "ai": "assistant", "model": "assistant", "tool": "tool", "function": "tool",
    "SystemMessage": "system", "HumanMessage": "user", "AIMessage": "assistant", "ToolMessage": "tool",
}  # fmt: skip

#: An answer that is shorter is found in an input by chance.
_LEAST_ANSWER = 12


@dataclass
class Traces:
    """What a file of traces holds."""

    #: For each trace ``id``, ``text`` (what was asked last), ``messages`` (what was said before) and ``reference`` (what
    #: was answered; empty where that is not there).
    tasks: list[dict[str, Any]] = field(default_factory=list)
    #: The system prompt that most traces have: the text to start from.
    system: str = ""


def read(path: str | os.PathLike[str]) -> Traces:
    """Read the traces of a file; records without a question are left out with a warning."""
    found, n_left_out = Traces(), 0
    systems: Counter[str] = Counter()
    for number, record in enumerate(_records(Path(path)), 1):
        said = _conversation(record)
        asked = max((at for at, (role, text) in enumerate(said) if role == "user" and text), default=None)
        if asked is None:
            n_left_out += 1
            continue
        systems.update(text for role, text in said[:asked] if role == "system")
        before = [{"role": role, "content": text} for role, text in said[:asked] if role != "system"]
        replies = [text for role, text in said[asked:] if role == "assistant" and text]
        id_ = str(record.get("id") or record.get("span_id") or record.get("spanId") or f"trace-{number}")
        reference = replies[-1] if replies else ""
        found.tasks.append({"id": id_, "text": said[asked][1], "messages": before, "reference": reference})
    if not found.tasks:
        raise ValueError(f"{path} holds no conversation; read are chat messages, stored completions, Langfuse, LangSmith and OpenTelemetry")
    found.system = systems.most_common(1)[0][0] if systems else ""
    if n_left_out:
        warnings.warn(f"{n_left_out} records of {path} hold no question and are left out", stacklevel=2)
    leaks = [task["id"] for task in found.tasks if _holds_answer(task)]
    if leaks:
        text = f"the answer is part of the input of {len(leaks)} of {len(found.tasks)} traces, such as {leaks[0]!r}"
        warnings.warn(f"{text}: scores on these tell nothing; cut `messages` before it", stacklevel=2)
    return found


def _holds_answer(task: Mapping[str, Any]) -> bool:
    answer = str(task["reference"]).strip()
    said = "\n".join([task["text"], *(one["content"] for one in task["messages"])])
    return len(answer) >= _LEAST_ANSWER and answer in said


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Every object of a file that may be a trace."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        whole = [json.loads(text)]
    except ValueError:
        whole = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    whole.append(json.loads(line))
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None
    for value in whole:
        yield from _within(value)


def _within(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for one in value:
            yield from _within(one)
    elif isinstance(value, dict):
        if spans := value.get("resourceSpans"):
            for resource in spans:
                for scope in resource.get("scopeSpans", []):
                    yield from (span for span in scope.get("spans", []) if _attributes(span))
        elif isinstance(value.get("observations"), list) and value["observations"]:
            # A trace of Langfuse: its generations are the calls; the last one has the whole conversation.
            calls = [one for one in value["observations"] if one.get("type") == "GENERATION"]
            yield {**(calls or value["observations"])[-1], "id": value.get("id")}
        elif isinstance(value.get("data"), list) and not value.get("messages"):
            yield from _within(value["data"])
        elif isinstance(value.get("runs"), list):
            yield from _within(value["runs"])
        else:
            yield value


def _attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a span that are of generative AI, as plain values."""
    given = span.get("attributes") or {}
    if isinstance(given, list):
        given = {one["key"]: next(iter((one.get("value") or {}).values()), None) for one in given if "key" in one}
    return {name: value for name, value in given.items() if name.startswith("gen_ai.")}


def _conversation(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who said what, the reply last."""
    if attributes := _attributes(record):
        system = _texts(_parsed(attributes.get("gen_ai.system_instructions")))
        said = _messages(_parsed(attributes.get("gen_ai.input.messages") or attributes.get("gen_ai.prompt")))
        reply = _messages(_parsed(attributes.get("gen_ai.output.messages") or attributes.get("gen_ai.completion")), "assistant")
        return ([("system", system)] if system else []) + said + reply
    request, response = record.get("request"), record.get("response")
    given = record.get("messages") or record.get("inputs") or record.get("input")
    if given is None and isinstance(request, Mapping):
        given = request.get("messages") or request.get("input")
    answered = record.get("outputs") or record.get("output") or record.get("choices")
    if answered is None and isinstance(response, Mapping):
        answered = response.get("choices") or response.get("output")
    said = _messages(_parsed(given))
    instructions = request.get("instructions") if isinstance(request, Mapping) else record.get("instructions")
    if isinstance(instructions, str) and instructions:
        said = [("system", instructions), *said]
    return said + _messages(_parsed(answered), "assistant")


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _messages(value: Any, role: str = "user") -> list[tuple[str, str]]:
    """The messages in a value of any of these shapes; a plain text is one of this role."""
    if value is None:
        return []
    if isinstance(value, str):
        return [(role, value)]
    if isinstance(value, list):
        return [one for inner in value for one in _messages(inner, role)]
    if not isinstance(value, Mapping):
        return [(role, str(value))]
    # A reply of Chat Completions, a generation of LangChain, a serialised message of LangChain.
    for inner in ("message", "kwargs"):
        if isinstance(value.get(inner), Mapping):
            kind = value.get("id")
            name = kind[-1] if isinstance(kind, list) and kind else ""
            return _messages({"role": _ROLES.get(str(name), role), **value[inner]}, role)
    for inner in ("messages", "generations", "choices", "input", "question", "output", "answer"):
        if value.get(inner) is not None and "role" not in value:
            return _messages(value[inner], role)
    who = _ROLES.get(str(value.get("role") or value.get("type") or ""), role)
    return [(who, _texts(value.get("content") if value.get("content") is not None else value.get("parts") or value.get("text")))]


def _texts(value: Any) -> str:
    """The text of a content or of its parts."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _texts(value.get("text") if value.get("text") is not None else value.get("content"))
    if isinstance(value, list):
        return "\n".join(text for text in map(_texts, value) if text)
    return str(value)
