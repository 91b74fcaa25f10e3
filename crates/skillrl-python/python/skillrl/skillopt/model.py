"""The models of the run, for adapters: they are asked here while a rollout or a reflection is under way.

Calls go through the clients of the trainer. They are kept in the journal of the run, counted and capped.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from skillrl import _native, _request, _threads
from skillrl.errors import ModelError

_work: _Work | None = None
_lock = threading.Lock()


class _Work:
    """A rollout or reflection that is under way."""

    def __init__(self, target: _native.Agent, optimizer: _native.Agent) -> None:
        self.agents = {"target": target, "optimizer": optimizer}
        self.n_calls = 0


@contextmanager
def work(target: _native.Agent, optimizer: _native.Agent) -> Iterator[_Work]:
    """Have these answer meanwhile."""
    global _work
    made = _Work(target, optimizer)
    with _lock:
        before, _work = _work, made
    try:
        yield made
    finally:
        with _lock:
            _work = before


class _Record(dict[str, Any]):
    """A JSON object whose members are attributes too, as in the SDK of OpenAI."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The object as plain dicts."""
        plain: dict[str, Any] = json.loads(json.dumps(self))
        return plain


def ask(role: str, messages: list[dict[str, Any]], max_tokens: int | None, **fields: Any) -> tuple[_Record, dict[str, Any]]:
    """Ask a model of the run; returns the message of its reply, and the tokens."""
    with _lock:
        under_way = _work
        if under_way is not None:
            under_way.n_calls += 1
    if under_way is None:
        hint = "ask models in `rollout` and `reflect`, and wait for the replies before these return"
        raise ModelError("no rollout or reflection is under way", "usage", hint)
    agent = under_way.agents[role]
    temperature = fields.pop("temperature", None)
    plain = all(
        message.get("role") in ("system", "user", "assistant") and isinstance(message.get("content"), str)
        for message in messages
    ) and not any("tool_calls" in message for message in messages)
    further = _request.further({name: value for name, value in fields.items() if value is not None})
    pairs: list[tuple[str, str]] = []
    if plain:
        pairs = [(message["role"], message["content"]) for message in messages if message["content"]]
    else:
        further = json.dumps({**json.loads(further or "{}"), "messages": messages})
    if further is not None and not agent.is_native:
        raise TypeError("tools and images are for clients of servers, such as OpenAIChatClient")
    text, prompt, completion, _cached, calls = _threads.reply(agent.ask(pairs, max_tokens, temperature, None, further))
    tool_calls = json.loads(calls, object_hook=_Record) if calls else None
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return _Record(role="assistant", content=text, tool_calls=tool_calls), usage


def _texts(system: str, user: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": text} for role, text in (("system", system), ("user", user))]


def chat_target(
    system: str,
    user: str,
    max_completion_tokens: int = 16384,
    retries: int = 5,
    stage: str = "target",
    reasoning_effort: str | None = None,
    timeout: int | None = None,
) -> tuple[str, dict[str, Any]]:
    """Ask the target. The last four arguments are without effect: the client has their settings."""
    message, usage = ask("target", _texts(system, user), max_completion_tokens)
    return message["content"], usage


def chat_optimizer(
    system: str,
    user: str,
    max_completion_tokens: int = 16384,
    retries: int = 5,
    stage: str = "optimizer",
    reasoning_effort: str | None = None,
    timeout: int | None = None,
) -> tuple[str, dict[str, Any]]:
    """Ask the optimizer, as :func:`chat_target` asks the target."""
    message, usage = ask("optimizer", _texts(system, user), max_completion_tokens)
    return message["content"], usage


def chat_target_messages(
    messages: list[dict[str, Any]],
    max_completion_tokens: int = 16384,
    retries: int = 5,
    stage: str = "target",
    reasoning_effort: str | None = None,
    *,
    tools: list[dict[str, Any]] | None = None,
    tool_choice: str | Mapping[str, Any] | None = None,
    return_message: bool = False,
    timeout: int | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Ask the target with a conversation; returns the text of the reply, or with ``return_message`` its message."""
    message, usage = ask("target", messages, max_completion_tokens, tools=tools, tool_choice=tool_choice)
    return (message if return_message else message["content"]), usage


def chat_optimizer_messages(
    messages: list[dict[str, Any]],
    max_completion_tokens: int = 16384,
    retries: int = 5,
    stage: str = "optimizer",
    reasoning_effort: str | None = None,
    *,
    tools: list[dict[str, Any]] | None = None,
    tool_choice: str | Mapping[str, Any] | None = None,
    return_message: bool = False,
    timeout: int | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Ask the optimizer, as :func:`chat_target_messages` asks the target."""
    message, usage = ask("optimizer", messages, max_completion_tokens, tools=tools, tool_choice=tool_choice)
    return (message if return_message else message["content"]), usage


def get_target_backend() -> str:
    """The name by which SkillOpt knows a target that is asked over HTTP."""
    return "openai_chat"


def get_optimizer_backend() -> str:
    """The name by which SkillOpt knows an optimizer that is asked over HTTP."""
    return "openai_chat"


def is_target_exec_backend() -> bool:
    """False: a program as the target is a setting of its client."""
    return False
