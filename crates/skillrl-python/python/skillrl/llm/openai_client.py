"""Clients of servers, which the engine asks itself."""

from __future__ import annotations

import os
from typing import Any

from skillrl import _native, _request
from skillrl.config import settings_json
from skillrl.llm.base import BaseLLMClient


class ChatClient(BaseLLMClient):
    """A model behind a server of any provider that the engine knows.

    ``ChatClient("anthropic/claude-sonnet-4-5")`` takes the key from the provider's usual variable. Further keyword
    arguments are keys of a model's section in the configuration file, such as ``temperature``, ``max_tokens``,
    ``requests_per_minute``, ``price_input`` and ``extra_body``.
    """

    def __init__(self, model: str, *, api_key: str | None = None, **section: Any) -> None:
        provider, separator, name = model.partition("/")
        if separator and not {"provider", "base_url", "kind"} & section.keys():
            section = {"provider": provider, **section}
            model = name
        self.model = model
        self._api_key = api_key
        self._section: dict[str, Any] = {"model": model, **{k: v for k, v in section.items() if v is not None}}
        self._native: _native.Model | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None}

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
        """Answer one prompt, outside of a run: nothing is kept.

        ``messages`` follow ``system`` and ``user``, in the form of OpenAI: calls of tools, their results and parts are
        sent as they are. Further arguments are fields of the request, such as ``top_p``, ``seed``, ``stop`` and ``tools``; one that it
        does not have is left out with a warning.
        """
        pairs, told = _request.messages(system, user, messages)
        fields = {**kwargs, "messages": told} if told else kwargs
        further = _request.further(fields) if fields else None
        if self._native is None:
            sections = settings_json({"models": {"target": self._section}})
            self._native = _native.Model(sections, self._api_key)
        said = self._native.chat(pairs, max_completion_tokens, temperature, further)
        return _request.reply(said, stage)


class OpenAIChatClient(ChatClient):
    """A model behind OpenAI's interface, at OpenAI, at Azure or at any server that speaks alike.

    The key is ``api_key``, or in the variable ``OPENAI_API_KEY`` (``AZURE_OPENAI_API_KEY`` at Azure); a server
    elsewhere may need none. The address is ``base_url``, or in the variable ``OPENAI_BASE_URL``.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        azure_endpoint: str | None = None,
        api_version: str | None = None,
        default_temperature: float | None = None,
        timeout: float = 120.0,
        **section: Any,
    ) -> None:
        self.default_temperature = default_temperature
        self.timeout = timeout
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        variable = "OPENAI_API_KEY"
        section = {"kind": "openai", "temperature": default_temperature, "timeout_s": max(1, round(timeout)), **section}
        if azure_endpoint:
            base_url = f"{azure_endpoint.rstrip('/')}/openai/deployments/{model}"
            if azure_endpoint.rstrip("/").endswith("/v1"):
                base_url = azure_endpoint
            section = {**section, "api_version": api_version or "2024-12-01-preview", "key_header": "api-key"}
            section.setdefault("max_tokens_field", "max_completion_tokens")
            if os.environ.get("AZURE_OPENAI_API_KEY"):
                variable = "AZURE_OPENAI_API_KEY"
        if base_url:
            section["base_url"] = base_url
        is_key_needed = not base_url or "api.openai.com" in base_url or azure_endpoint
        if api_key is None and (is_key_needed or os.environ.get(variable)):
            section.setdefault("api_key_env", variable)
        super().__init__(model, api_key=api_key, **section)
