"""Rollouts per second of the package `skillrl` that this interpreter has: the one of this workspace, or skillrl 1.0.

The target is a client in Python that sleeps, or, with `--server URL`, the package's own `OpenAIChatClient` against a
server that waits; nothing else takes time. `compare.py` runs this under both packages.

    python rollouts.py --in-flight 64 --items 4096
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from importlib.metadata import version
from typing import Any

from skillrl import SkillOptConfig, SkillOptTrainer
from skillrl.envs.qa import SimpleQAEnv
from skillrl.llm.base import BaseLLMClient


class Waiting(BaseLLMClient):
    """Answers after a while."""

    model = "waiting"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def chat(self, *, system: str, user: str, **_: Any) -> tuple[str, dict[str, int]]:
        time.sleep(self.seconds)
        return "I do not know.", {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}


class Silent(BaseLLMClient):
    """Proposes nothing, so that a run is its baseline and one rollout."""

    model = "silent"

    def chat(self, *, system: str, user: str, **_: Any) -> tuple[str, dict[str, int]]:
        return json.dumps({"reasoning": "", "edits": []}), {}


def items(split: str, n: int) -> list[dict[str, Any]]:
    return [{"id": f"{split}-{k}", "question": f"What is {k}?", "answers": [f"number {k}"]} for k in range(n)]


def main() -> None:
    """Measures once and prints a line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--items", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--server")
    asked = parser.parse_args()
    env = SimpleQAEnv(train_items=items("train", 1), val_items=items("val", asked.items), test_items=items("test", 1))
    client: Any = Waiting(asked.seconds)
    if asked.server:
        from skillrl.llm.openai_client import OpenAIChatClient

        client = OpenAIChatClient("small", base_url=asked.server, api_key="none")
    with tempfile.TemporaryDirectory() as directory:
        fields: dict[str, Any] = {"workers": asked.in_flight, "out_root": f"{directory}/run", "verbose": False}
        is_engine = "settings" in SkillOptConfig.__dataclass_fields__
        if is_engine:
            # The other package measures neither again.
            fields["settings"] = {"eval.fresh": False, "train.slow_update": "off", "train.meta_skill": False}
        config = SkillOptConfig(num_epochs=1, batch_size=1, eval_test=False, **fields)
        trainer = SkillOptTrainer(
            config=config, env=env, optimizer_client=Silent(), target_client=client, initial_skill="Be brief."
        )
        began = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - began
    measured = {
        "package": "skillrl-rs" if is_engine else "skillrl",
        "version": version("skillrl-rs" if is_engine else "skillrl"),
        "in_flight": asked.in_flight,
        "rollouts": asked.items + 1,
        "seconds": round(seconds, 3),
        "per_second": round((asked.items + 1) / seconds, 1),
        "limit": round(asked.in_flight / asked.seconds),
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
