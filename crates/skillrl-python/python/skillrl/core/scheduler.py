"""Schedules of the edit budget: how many edits a step may apply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from skillrl import _native


class LRScheduler(ABC):
    """The edit budget by step, from ``max_lr`` edits to ``min_lr`` edits over ``total_steps`` steps."""

    def __init__(self, max_lr: int, min_lr: int, total_steps: int) -> None:
        self.max_lr = int(max_lr)
        self.min_lr = int(min_lr)
        self.total_steps = max(int(total_steps), 1)
        self._current_step = 0

    @abstractmethod
    def _compute_lr(self, step: int) -> int:
        """The budget of a step, which counts from 1."""

    def step(self) -> int:
        """Go to the next step and return its budget."""
        self._current_step += 1
        return self._compute_lr(self._current_step)

    def get_lr(self, step: int) -> int:
        """The budget of a step, which counts from 1; after the last step it stays."""
        return self._compute_lr(step)

    def state_dict(self) -> dict[str, Any]:
        """The step, for ``load_state_dict``."""
        return {"current_step": self._current_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume at the step of a ``state_dict``."""
        self._current_step = int(state.get("current_step") or 0)

    def _of(self, schedule: str, step: int) -> int:
        return _native.edit_budget(schedule, self.max_lr, self.min_lr, self.total_steps, step)


class ConstantScheduler(LRScheduler):
    """``max_lr`` at every step."""

    def _compute_lr(self, step: int) -> int:
        return self._of("constant", step)


class LinearScheduler(LRScheduler):
    """``max_lr + (min_lr - max_lr) * step / total_steps``, rounded half to even."""

    def _compute_lr(self, step: int) -> int:
        return self._of("linear", step)


class CosineScheduler(LRScheduler):
    """``min_lr + (max_lr - min_lr) * (1 + cos(pi * step / total_steps)) / 2``, rounded half to even."""

    def _compute_lr(self, step: int) -> int:
        return self._of("cosine", step)


_SCHEDULERS: dict[str, type[LRScheduler]] = {
    "constant": ConstantScheduler,
    "linear": LinearScheduler,
    "cosine": CosineScheduler,
}


def build_scheduler(mode: str = "cosine", max_lr: int = 4, min_lr: int = 2, total_steps: int = 8) -> LRScheduler:
    """The scheduler of this name: ``constant``, ``linear`` or ``cosine``."""
    if mode not in _SCHEDULERS:
        raise ValueError(f"unknown scheduler {mode!r}; use {', '.join(_SCHEDULERS)}")
    return _SCHEDULERS[mode](max_lr, min_lr, total_steps)
