"""The interface of environments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from skillrl.llm.base import BaseLLMClient
from skillrl.types import RolloutResult


class SkillEnv(ABC):
    """Tasks of the caller's own.

    ``rollout_one`` is called from several threads at once; it may be a coroutine function (``async def``), which is
    given a client whose ``chat`` is awaited. What it raises ends the run and is never a score.
    """

    #: Categories of items, for reports.
    task_types: Sequence[str] = ()
    #: The name in records.
    name: str = "skill_env"
    #: True if the target is served to other clients: ``target_client.base_url`` and ``target_client.api_key``.
    endpoint: bool = False

    @abstractmethod
    def get_items(self, split: str) -> Sequence[dict[str, Any]]:
        """The items of a split: ``train``, ``val`` or ``test``."""

    @abstractmethod
    def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: BaseLLMClient) -> RolloutResult:
        """Have the agent work on one item with this skill, and score what it did."""

    def get_initial_skill(self) -> str:
        """The skill to start from where the trainer is given none."""
        return ""

    def get_task_types(self) -> list[str]:
        """Categories of items, for reports."""
        return list(self.task_types)

    def get_settings(self) -> Any:
        """Everything besides the items that decides a score, as JSON.

        A run is not resumed with another value. Changes of the code are not noticed: name a version here.
        """
        return None
