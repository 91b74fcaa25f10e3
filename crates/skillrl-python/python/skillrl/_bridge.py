"""What the engine is told of environments and clients, and what they are told of it."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Union

from skillrl import _data, _loop, _native, _request, _threads
from skillrl.config import SkillOptConfig, settings_json
from skillrl.llm.base import BaseLLMClient
from skillrl.llm.openai_client import ChatClient
from skillrl.types import RolloutResult

_PACKAGE = str(Path(__file__).parent)


def described(config: SkillOptConfig, world: Any, optimizer: Any, target: Any, skill: str | None) -> Any:
    """A run as ``_native.train`` reads it; ``world`` is what ``environment`` says of it."""
    sections = config._sections()
    clients = {role: client(one, role) for role, one in (("target", target), ("optimizer", optimizer))}
    natives = {role: one.section for role, one in clients.items() if one.is_native}
    if natives:
        sections.setdefault("models", {}).update(natives)
    if not world.items["test"] and config.eval_test:
        sections["eval"]["test"] = False
    if skill is not None:
        world.initial_skill = skill
    return SimpleNamespace(
        **clients,
        settings=settings_json(sections),
        named_settings=json.dumps(config._named(sections)),
        env=world,
        out=str(Path(config.out_root)),
        rollout_timeout=float(config.rollout_timeout),
        client_timeout=float(config.client_timeout),
        file=None,
        rubric=None,
        **calls(),
    )


def described_file(path: str, settings: Mapping[str, Any]) -> Any:
    """The run of a configuration file as ``_native.train`` reads it."""
    changed = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    return SimpleNamespace(file=path, set=changed, **calls())


def calls() -> dict[str, Any]:
    """What the engine calls back besides clients and environments."""
    return {"describe": describe, "submit": _loop.submit, "spawn": _threads.spawn}


def describe(error: BaseException) -> str:
    """An error with its traceback, less the frames of this package at its beginning."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames = frames.tb_next
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    return f"{said}\n{''.join(traceback.format_exception(type(error), error, frames)).rstrip()}"


# Clients.


#: Text, tokens of the prompt, of the reply, cached ones, and tool calls as JSON.
_Said = tuple[str, int, int, int, Union[str, None]]


def client(one: Any, role: str) -> Any:
    """A client as the engine reads it."""
    if isinstance(one, ChatClient) and type(one).chat is ChatClient.chat:
        return SimpleNamespace(is_native=True, section=one._section, api_key=one._api_key)
    chat = getattr(one, "chat", None)
    if not callable(chat):
        chat = one if callable(one) else None
    if chat is None:
        expected = "a client with a method `chat`, or a function of `system` and `user`"
        raise TypeError(f"{role}_client is of type {type(one).__name__}; give {expected}")
    name = type(one).__qualname__ if chat is not one else getattr(one, "__qualname__", type(one).__qualname__)
    module = getattr(type(one) if chat is not one else one, "__module__", "")
    parameters = getattr(one, "parameters", None)
    is_async = inspect.iscoroutinefunction(chat) or inspect.iscoroutinefunction(getattr(chat, "__call__", None))
    return SimpleNamespace(
        is_native=False,
        api_key=None,
        call=_call(chat, name),
        is_async=is_async,
        provider=f"python:{module}.{name}",
        model=str(getattr(one, "model", "") or name),
        parameters=_data.as_json(parameters() if callable(parameters) else parameters),
    )


def taken(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Those keyword arguments that a function takes."""
    names = _parameters(function)
    return arguments if names is None else {name: value for name, value in arguments.items() if name in names}


def _parameters(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names of the arguments that a function takes; None if it takes any."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return None if takes_all else frozenset(parameters)


def _call(chat: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of the engine's arguments that calls ``chat`` with those that it takes."""
    names = _parameters(chat)

    def arguments(
        system: str, user: str, messages: Any, max_tokens: int, temperature: Any, stage: str, extra: Any, tools: Any
    ) -> dict[str, Any]:
        offered = {"system": system, "user": user, "max_completion_tokens": max_tokens, "temperature": temperature}
        offered |= {"stage": stage, "retries": 3, **(extra or {})}
        if messages is not None:
            offered["messages"] = json.loads(messages)
        if tools is not None:
            offered.setdefault("tools", json.loads(tools))
        return offered if names is None else {key: value for key, value in offered.items() if key in names}

    def call(*given: Any) -> Any:
        said = chat(**arguments(*given))
        return _said_later(said, name) if inspect.isawaitable(said) else _said(said, name)

    return call


async def _said_later(said: Any, name: str) -> _Said:
    return _said(await said, name)


def _said(said: Any, name: str) -> _Said:
    """Text and tokens of what a client returned."""
    usage: Any = {}
    if isinstance(said, (tuple, list)) and len(said) == 2:
        said, usage = said
    if said is None:
        said = ""
    if not isinstance(said, str) or not isinstance(usage, (Mapping, type(None))):
        raise TypeError(f"`chat` of {name} returned {said!r:.80}; return a text, or a text and a dict of tokens")
    usage = usage or {}
    if not said and usage.get("error"):
        # An outage is not an answer: an empty one would be scored.
        raise RuntimeError(f"{name} has no reply: {usage['error']}")
    prompt, completion, cached = (usage.get(f"{kind}_tokens") or 0 for kind in ("prompt", "completion", "cached"))
    calls = usage.get("tool_calls")
    tokens = max(0, int(prompt)), max(0, int(completion)), max(0, int(cached))
    return (said, *tokens, _data.as_json(calls) if calls else None)


# Environments.


def environment(env: Any, config: SkillOptConfig, target: Any, prompts: Mapping[str, str] | None) -> Any:
    """An environment as the engine reads it."""
    if not callable(getattr(env, "get_items", None)) or not callable(getattr(env, "rollout_one", None)):
        raise TypeError(f"env is of type {type(env).__name__}; give a SkillEnv: it has `get_items` and `rollout_one`")
    name = str(getattr(env, "name", "") or type(env).__qualname__)
    is_async = inspect.iscoroutinefunction(env.rollout_one)
    splits = {"train": "train", "val": config.selection_split, "test": config.test_split}
    own = getattr(env, "get_settings", None)
    settings = {"class": f"{type(env).__module__}.{type(env).__qualname__}", "settings": own() if callable(own) else None}
    initial = getattr(env, "get_initial_skill", None)
    return SimpleNamespace(
        is_adapter=False,
        name=name,
        items=_data.items(env, splits),
        settings=_data.as_json(settings),
        initial_skill=initial() if callable(initial) else None,
        prompts=_prompts(prompts or {}),
        rollout=_rollout(env, target, is_async),
        is_async=is_async,
        serves=bool(getattr(env, "endpoint", False)),
        max_errors=None,
        # A cap holds for calls that pass the engine alone.
        needs_calls=any(name in (config._sections().get("budget") or {}) for name in ("calls", "money")),
    )


def _prompts(prompts: Mapping[str, str]) -> dict[str, str]:
    """Prompts as templates; a text without blocks takes the place of the system message, as in skillrl 1.0."""
    for name, text in prompts.items():
        if not isinstance(text, str):
            raise TypeError(f"prompt_overrides[{name!r}] is of type {type(text).__name__}; give a text")
    return dict(prompts)


def _rollout(env: Any, target: Any, is_async: bool) -> Callable[..., Any]:
    what = f"`rollout_one` of {type(env).__qualname__}"

    def rollout(item: Any, skill: str, agent: _native.Agent) -> str:
        made = env.rollout_one(item=item, skill=skill, target_client=TargetClient(agent, target))
        return (type(made) is RolloutResult and _native.plain_result(made)) or _result(made, what)

    async def rollout_async(item: Any, skill: str, agent: _native.Agent) -> str:
        made = await env.rollout_one(item=item, skill=skill, target_client=AsyncTargetClient(agent, target))
        return _result(made, what)

    return rollout_async if is_async else rollout


def _result(made: Any, what: str) -> str:
    """A result as JSON; one that is none is an error, and no score."""
    if not isinstance(made, (RolloutResult, Mapping)):
        raise TypeError(f"{what} returned {made!r:.80}; return a RolloutResult")
    result = made.to_dict() if isinstance(made, RolloutResult) else dict(made)
    for name in ("hard", "soft"):
        score = result.get(name, 0)
        if not isinstance(score, (int, float)) and hasattr(score, "item"):
            score = score.item()
        if not isinstance(score, (bool, int, float)) or not 0 <= score <= 1 or math.isnan(score):
            raise ValueError(f"{what} returned {name}={score!r}; it is a number between 0 and 1")
        result[name] = float(score)
    if "conversation" in result:
        result["conversation"] = [_message(one, what) for one in result["conversation"] or []]
    result["id"] = str(result.get("id", ""))
    for name in _TEXTS:
        if name in result:
            result[name] = _text(result[name])
    return _data.as_json(result)


_TEXTS = ("fail_reason", "task_type", "task_description", "predicted_answer", "question", "reference_text")


def _message(message: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(message, (dict, Mapping)) or not isinstance(message.get("role"), str):
        raise ValueError(f"{what} returned the message {message!r:.80}; messages are dicts of role and content")
    return message


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


class _Target(BaseLLMClient):
    """The target of one rollout: its calls are kept in the journal, counted and capped.

    Attributes that are not of the interface are those of the client that the trainer was given.
    """

    def __init__(self, agent: _native.Agent, client: Any) -> None:
        self._agent = agent
        self._client = client
        self.model = str(getattr(client, "model", ""))

    @property
    def base_url(self) -> str:
        """Where clients of OpenAI find the target during this rollout; of environments with ``endpoint = True``."""
        return self._address("base_url", 0)

    @property
    def anthropic_base_url(self) -> str:
        """Where clients of Anthropic find the target during this rollout."""
        return self._address("anthropic_base_url", 1)

    @property
    def api_key(self) -> str:
        """The key for both addresses, good for this rollout alone."""
        return self._address("api_key", 2)

    def _address(self, name: str, at: int) -> str:
        """A field of the address that is served; without one, that of the client that the trainer was given."""
        if (address := self._agent.address) is not None:
            return address[at]
        if hasattr(self._client, name):
            own: str = getattr(self._client, name)
            return own
        raise RuntimeError("no address is served: set `endpoint = True` in the class of the environment")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_client"], name)

    def _request(
        self, system: str, user: str, messages: Any, kwargs: dict[str, Any]
    ) -> tuple[list[tuple[str, str]], tuple[str, dict[str, Any]] | None, str | None]:
        pairs, told = _request.messages(system, user, messages)
        if self._agent.is_native:
            fields = {**kwargs, "messages": told} if told else kwargs
            return pairs, None, _request.further(fields) if fields else None
        further = json.dumps({"messages": told}) if told else None
        if not kwargs:
            return pairs, None, further
        digest = hashlib.sha256(_data.as_json(dict(sorted(kwargs.items()))).encode()).hexdigest()[:16]
        return pairs, (digest, kwargs), further


class TargetClient(_Target):
    """The target of a rollout in a thread."""

    def chat(
        self,
        *,
        system: str = "",
        user: str = "",
        messages: Any = None,
        max_completion_tokens: int | None = 4096,
        temperature: float | None = None,
        stage: str = "",
        retries: int = 3,
        **kwargs: Any,
    ) -> tuple[str, dict[str, Any]]:
        pairs, extra, further = self._request(system, user, messages, kwargs)
        asked = self._agent.ask(pairs, max_completion_tokens, temperature, extra, further)
        return _request.reply(_threads.reply(asked), stage)


class AsyncTargetClient(_Target):
    """The target of a rollout in an event loop."""

    async def chat(  # type: ignore[override]
        self,
        *,
        system: str = "",
        user: str = "",
        messages: Any = None,
        max_completion_tokens: int | None = 4096,
        temperature: float | None = None,
        stage: str = "",
        retries: int = 3,
        **kwargs: Any,
    ) -> tuple[str, dict[str, Any]]:
        pairs, extra, further = self._request(system, user, messages, kwargs)
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Any] = loop.create_future()

        def settle(said: Any, error: BaseException | None) -> None:
            if waiting.done():
                return
            if error is None:
                waiting.set_result(said)
            else:
                waiting.set_exception(error)

        def done(said: Any, error: BaseException | None) -> None:
            loop.call_soon_threadsafe(settle, said, error)

        self._agent.start(done, pairs, max_completion_tokens, temperature, extra, further)
        return _request.reply(await waiting, stage)
