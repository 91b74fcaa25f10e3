"""The adapter of an environment that works on whole batches."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillrl.skillopt import model
from skillrl.skillopt.datasets.base import BaseDataLoader, BatchSpec
from skillrl.types import RolloutResult

Item = dict[str, Any]


class EnvAdapter(ABC):
    """Connects an environment to the trainer: builds batches, runs the agent on them, and may reflect on the results.

    ``SkillOptTrainer(env=adapter, ...)`` calls ``setup`` once, and then ``build_env_from_batch`` and ``rollout`` for
    each batch. Models are asked by the functions of :mod:`skillrl.skillopt.model`. The engine reflects, unless
    ``reflect`` is overridden.
    """

    def setup(self, cfg: dict[str, Any]) -> None:
        """Prepare, with a copy of the settings of the run, before anything is measured."""
        self._cfg = dict(cfg)

    def get_dataloader(self) -> BaseDataLoader | None:
        """The loader that plans the batches, if there is one."""
        return None

    def requires_ray(self) -> bool:
        """Without effect: rollouts on several machines go by NATS."""
        return False

    @abstractmethod
    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> Any:
        """What ``rollout`` works on in training, such as a list of items."""

    @abstractmethod
    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> Any:
        """What ``rollout`` works on in an evaluation; ``env_num`` limits it, and 0 does not."""

    @abstractmethod
    def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> list[dict[str, Any]]:
        """Run the agent on a batch with this skill, and return a row for each item.

        A row has ``id``, ``hard`` (0 or 1) and ``soft`` (between 0 and 1), and may have more. The conversation of an
        item is in ``conversation``, or in ``out_dir/predictions/ID/conversation.json``. ``out_dir`` is empty at first.
        """

    @abstractmethod
    def get_task_types(self) -> list[str]:
        """The categories of the tasks."""

    def build_env_from_batch(self, batch: BatchSpec, **kwargs: Any) -> Any:
        """What ``rollout`` works on, for a batch of the loader."""
        if batch.phase == "train":
            return self.build_train_env(batch_size=batch.batch_size, seed=batch.seed, **kwargs)
        return self.build_eval_env(env_num=batch.batch_size, split=batch.split, seed=batch.seed, **kwargs)

    def reflect(
        self, results: list[dict[str, Any]], skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[dict[str, Any] | None]:
        """Propose edits after a batch: a dict with ``patch`` and ``source_type`` for each proposal.

        This one asks the engine's analysts, with the attributes ``minibatch_size``, ``edit_budget``, ``failure_only``
        and ``analyst_workers``.
        """
        from skillrl.pipeline import run_minibatch_reflect

        prompts = {"analyst_error": self.get_error_minibatch_prompt(), "analyst_success": self.get_success_minibatch_prompt()}
        patches = run_minibatch_reflect(
            rollout_results=[_result(row, kwargs.get("prediction_dir")) for row in results],
            current_skill=skill_content,
            optimizer_client=_Optimizer(),
            minibatch_size=getattr(self, "minibatch_size", 8),
            edit_budget=getattr(self, "edit_budget", 4),
            failure_only=getattr(self, "failure_only", False),
            workers=getattr(self, "analyst_workers", 8),
            seed=kwargs.get("random_seed") or 42,
            prompt_overrides={name: text for name, text in prompts.items() if text is not None},
            extra_context="\n\n".join(
                text for name in ("step_buffer_context", "meta_skill_context") if (text := kwargs.get(name))
            ),
            verbose=False,
        )
        return [patch.to_dict() for patch in patches]

    def get_error_minibatch_prompt(self) -> str | None:
        """The system message for analysts of failures; None for that of the engine."""
        return None

    def get_success_minibatch_prompt(self) -> str | None:
        """The system message for analysts of successes; None for that of the engine."""
        return None

    # Helpers.

    def build_reference_text(self, item: Item) -> str:
        """What the optimizer may see of an item's right answer, and the agent may not."""
        return str(item.get("reference_text") or "").strip()

    def get_reference_metadata(self, item: Item) -> dict[str, Any]:
        """The fields of the reference, and its beginning."""
        text = self.build_reference_text(item)
        return {"fields": ["reference_text"] if text else [], "preview": text[:400]}

    def attach_reference_context(self, results: list[dict[str, Any]], items: Sequence[Item] | None) -> list[dict[str, Any]]:
        """The rows with the references of their items."""
        by_id = _by_id(items)
        attached = []
        for row in results:
            item = by_id.get(str(row.get("id")))
            text = self.build_reference_text(item) if item else ""
            attached.append({**row, "reference_text": text} if text else dict(row))
        return attached

    def select_representative_items(
        self,
        results: list[dict[str, Any]],
        items: Sequence[Item] | None,
        *,
        n_failures: int,
        n_successes: int,
        seed: int | None = None,
    ) -> list[Item]:
        """Some failed and some solved items of a batch, of as many categories as possible."""
        by_id = _by_id(items)
        pairs = [(row, by_id[str(row.get("id"))]) for row in results if str(row.get("id")) in by_id]
        shuffle = random.Random(seed)
        chosen: list[Item] = []
        for is_solved, quota in ((False, n_failures), (True, n_successes)):
            pool = [pair for pair in pairs if bool(pair[0].get("hard")) == is_solved]
            if quota <= 0 or not pool:
                continue
            shuffle.shuffle(pool)
            seen = {str(item["id"]) for item in chosen}
            chosen += [item for item in _diverse(pool, quota) if str(item["id"]) not in seen]
        return chosen


class _Optimizer:
    """The optimizer of the run, as a client."""

    model = "optimizer"

    def chat(
        self, *, system: str, user: str, max_completion_tokens: int = 4096, stage: str = "analyst"
    ) -> tuple[str, dict[str, Any]]:
        return model.chat_optimizer(system, user, max_completion_tokens, stage=stage)


def _by_id(items: Sequence[Item] | None) -> dict[str, Item]:
    return {str(item["id"]): item for item in items or () if isinstance(item, Mapping) and item.get("id") is not None}


def _diverse(pool: list[tuple[dict[str, Any], Item]], quota: int) -> list[Item]:
    """The first items of the pool, those of new categories before others."""
    picked: dict[str, Item] = {}
    categories = set()
    for row, item in pool:
        category = str(row.get("task_type") or item.get("task_type") or item.get("subtype") or "unknown")
        if category not in categories and len(picked) < quota and str(item["id"]) not in picked:
            categories.add(category)
            picked[str(item["id"])] = item
    for _, item in pool:
        if len(picked) < quota:
            picked.setdefault(str(item["id"]), item)
    return list(picked.values())


def _result(row: Mapping[str, Any], prediction_dir: str | None) -> RolloutResult:
    from skillrl._conversation import conversation_of

    result = RolloutResult.from_dict(row)
    if not result.conversation and prediction_dir:
        result.conversation = conversation_of(Path(prediction_dir) / str(row.get("id")))
    return result
