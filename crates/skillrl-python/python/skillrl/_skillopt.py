"""The package ``skillopt``, where it is imported: its models are asked through the engine while an adapter trains."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from skillrl.skillopt import model

_ANSWER = (
    "{skill_section}Do the task below. Reason briefly, then give the final answer, as short as the task allows, "
    "inside <answer> and </answer>."
)
_ANALYST = (
    "You improve the skill of an AI agent, a Markdown document that it reads before each task. Read the trajectories, "
    "find {what}, and propose edits of the skill that are general, short, and free of the answers of single tasks.\n\n"
    'Reply with one JSON object: {{"failure_summary": [{{"failure_type": "a short name", "count": 1, "description": ".."}}], '
    '"patch": {{"reasoning": "..", "edits": [{{"op": "append", "target": "", "content": "- One rule."}}]}}}}\n'
    "`op` is append, insert_after, replace or delete; `target` is a text that the skill holds once, copied exactly."
)
#: Texts for prompts that the package loads and does not have: its releases on the Python Package Index have none.
_PROMPTS = {
    "rollout_system": _ANSWER,
    "analyst_error": _ANALYST.format(what="why tasks failed"),
    "analyst_success": _ANALYST.format(what="what made tasks succeed and the skill does not say"),
}


class _Client:
    """A client of OpenAI's SDK, as far as the package uses it, whose calls go to a model of the run."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.chat = self.completions = self

    def create(self, *, messages: list[dict[str, Any]], model: str = "", **fields: Any) -> Any:
        """Ask with a conversation; returns a completion."""
        return _completion(self.role, messages, fields)


def _completion(role: str, messages: list[dict[str, Any]], fields: dict[str, Any]) -> Any:
    tokens = fields.pop("max_completion_tokens", None) or fields.pop("max_tokens", None)
    for name in ("max_tokens", "timeout", "reasoning_effort"):
        fields.pop(name, None)
    message, usage = model.ask(role, messages, tokens, **fields)
    choice = model._Record(index=0, message=message, finish_reason="tool_calls" if message["tool_calls"] else "stop")
    return model._Record(choices=[choice], usage=model._Record(usage))


def _module(name: str) -> Any:
    """A module of the package, where the package is imported: adapters may import the module only when they run."""
    if "skillopt" not in sys.modules:
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def has_exec_target() -> bool:
    """True if the package starts programs as its target, whose calls do not pass through the engine."""
    settings = _module("skillopt.model.backend_config")
    return settings is not None and bool(settings.is_target_exec_backend())


def is_generic(name: str, text: str) -> bool:
    """True for a prompt of the package that it has for every environment."""
    prompts = _module("skillopt.prompts")
    if prompts is None:
        return False
    try:
        return bool(prompts.load_prompt(name) == text)
    except OSError:
        return False


@contextmanager
def routed() -> Iterator[None]:
    """Have calls of ``skillopt.model`` go through the engine, and missing prompts be there; afterwards all is as before."""
    before: list[tuple[Any, str, Any]] = []
    added: list[str] = []
    prompts = _module("skillopt.prompts")
    cache = getattr(prompts, "_cache", None)

    def put(of: Any, name: str, value: Any) -> None:
        before.append((of, name, getattr(of, name)))
        setattr(of, name, value)

    try:
        _route(put)
        if prompts is not None and isinstance(cache, dict):
            for name, text in _PROMPTS.items():
                path = os.path.join(prompts._PROMPTS_DIR, f"{name}.md")
                if path not in cache and not os.path.isfile(path):
                    cache[path] = text
                    added.append(path)
        yield
    finally:
        for of, name, value in reversed(before):
            setattr(of, name, value)
        for path in added:
            if isinstance(cache, dict):
                cache.pop(path, None)


def _route(put: Callable[[Any, str, Any], None]) -> None:
    settings, openai = _module("skillopt.model.backend_config"), _module("skillopt.model.azure_openai")
    if openai is None:
        return
    if settings is not None:
        # Whatever server they were asked on: the clients of the trainer answer.
        put(settings, "OPTIMIZER_BACKEND", "openai_chat")
        if not settings.is_target_exec_backend():
            put(settings, "TARGET_BACKEND", "openai_chat")
    clients = {role: _Client(role) for role in ("target", "optimizer")}
    for role, client in clients.items():
        if hasattr(openai, f"_{role}_client"):
            put(openai, f"_{role}_client", client)

    def role_of(client: Any) -> str:
        return client.role if isinstance(client, _Client) else "optimizer"

    def record(stage: str, usage: dict[str, Any]) -> None:
        tracker = getattr(openai, "tracker", None)
        if tracker is not None:
            tracker.record(stage, usage["prompt_tokens"], usage["completion_tokens"])

    def chat(
        client: Any, deployment: str, system: str, user: str, max_completion_tokens: int, retries: int, stage: str, *_: Any, **__: Any
    ) -> tuple[str, dict[str, Any]]:
        message, usage = model.ask(role_of(client), model._texts(system, user), max_completion_tokens)
        record(stage, usage)
        return message["content"], usage

    def chat_messages(
        client: Any,
        deployment: str,
        messages: list[dict[str, Any]],
        max_completion_tokens: int,
        retries: int,
        stage: str,
        *_: Any,
        tools: Any = None,
        tool_choice: Any = None,
        return_message: bool = False,
        **__: Any,
    ) -> tuple[Any, dict[str, Any]]:
        fields = {"tools": tools, "tool_choice": tool_choice if tools else None}
        message, usage = model.ask(role_of(client), messages, max_completion_tokens, **fields)
        record(stage, usage)
        return (message if return_message else message["content"]), usage

    for name, function in (("_chat_impl", chat), ("_chat_messages_impl", chat_messages)):
        if hasattr(openai, name):
            put(openai, name, function)
