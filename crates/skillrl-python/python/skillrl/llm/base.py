"""The interface of clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class BaseLLMClient(ABC):
    """A model of the caller's own.

    ``chat`` may be a coroutine function (``async def``). The engine keeps each reply in the run's journal, so a run
    that is resumed does not ask for it again. What ``chat`` raises ends the run.
    """

    #: The name of the model, for records; a run is not resumed with another one.
    model: str = ""

    @abstractmethod
    def chat(
        self,
        *,
        system: str,
        user: str,
        max_completion_tokens: int = 4096,
        temperature: float | None = None,
        stage: str = "",
        retries: int = 3,
        **kwargs: Any,
    ) -> tuple[str, dict[str, Any]]:
        """Answer one prompt.

        ``stage`` says what the call is for: ``rollout``, ``analyst``, ``merge``, ``ranking`` and others.
        Returns the text and the tokens: ``prompt_tokens``, ``completion_tokens`` and, where there are some,
        ``cached_tokens``.
        """
