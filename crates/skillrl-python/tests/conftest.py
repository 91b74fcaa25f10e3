"""A world without a network: the agent answers in capitals once its skill says so."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

import skillrl
from skillrl.envs import SimpleQAEnv
from skillrl.llm import BaseLLMClient

RULE = "Answer in capitals."


class Agent(BaseLLMClient):
    """The target: it waits, and answers as its skill says."""

    model = "agent"

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.calls = 0
        self.at_once = 0
        self.most_at_once = 0
        self._lock = threading.Lock()

    def chat(self, *, system: str, user: str, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        with self._lock:
            self.calls += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.seconds)
        with self._lock:
            self.at_once -= 1
        word = "hello"
        return (word.upper() if RULE in system else word), {"prompt_tokens": 10, "completion_tokens": 2}


class Optimizer(BaseLLMClient):
    """The optimizer: it proposes the rule."""

    model = "optimizer"

    def __init__(self) -> None:
        self.stages: list[str] = []

    def chat(self, *, system: str, user: str, stage: str = "", **kwargs: Any) -> tuple[str, dict[str, Any]]:
        self.stages.append(stage)
        edits = [{"op": "append", "content": f"- {RULE}"}]
        return json.dumps({"reasoning": "r", "edits": edits}), {"prompt_tokens": 100, "completion_tokens": 20}


class Shout(skillrl.envs.SkillEnv):
    """Right is what is said in capitals."""

    name = "shout"

    def __init__(self, n: int = 4) -> None:
        self.n = n

    def get_items(self, split: str) -> list[dict[str, Any]]:
        return [{"id": f"{split}-{number}", "text": f"say hello {number}"} for number in range(self.n)]

    def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: Any) -> skillrl.RolloutResult:
        text, _usage = target_client.chat(system=skill, user=item["text"])
        is_right = text.isupper()
        reason = "" if is_right else "not in capitals"
        return skillrl.RolloutResult(id=item["id"], hard=int(is_right), soft=float(is_right), fail_reason=reason)


@pytest.fixture
def config(tmp_path: Any) -> Any:
    """Settings of a short run in a directory of the test."""

    def make(**fields: Any) -> skillrl.SkillOptConfig:
        defaults = {"num_epochs": 1, "batch_size": 4, "out_root": str(tmp_path / "run"), "verbose": False}
        return skillrl.SkillOptConfig(**{**defaults, **fields})

    return make


@pytest.fixture
def train(config: Any) -> Any:
    """Trains, with clients that need no network unless others are given."""

    def run(env: Any = None, *, target: Any = None, optimizer: Any = None, skill: str = "Be brief.", **fields: Any) -> Any:
        trainer = skillrl.SkillOptTrainer(
            config=config(**fields),
            env=Shout() if env is None else env,
            target_client=Agent() if target is None else target,
            optimizer_client=Optimizer() if optimizer is None else optimizer,
            initial_skill=skill,
        )
        return trainer.train()

    return run


@pytest.fixture
def qa() -> SimpleQAEnv:
    """Three questions."""
    items = [{"id": name, "question": f"{name}?", "answers": ["HELLO"]} for name in "abc"]
    return SimpleQAEnv(train_items=items[:1], val_items=items[1:2], test_items=items[2:])
