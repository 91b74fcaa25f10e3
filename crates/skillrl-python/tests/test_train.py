"""A run from end to end, with clients and environments in Python."""

from __future__ import annotations

import json
import os
from typing import Any

from conftest import RULE, Agent, Optimizer, Shout

import skillrl


def test_the_engine_trains_with_clients_and_an_environment_in_python(train: Any) -> None:
    optimizer = Optimizer()
    run = train(optimizer=optimizer)
    assert (run["baseline_test_hard"], run["test_hard"]) == (0.0, 1.0)
    assert run["best_selection_score"] == 1.0
    assert RULE in run.best_skill and run.best_skill.startswith("Be brief.")
    assert {"analyst"} <= set(optimizer.stages)
    assert run.history[0]["action"] == "accept_new_best"
    assert run.spent["calls"] > 0 and run.spent["tokens"] > 0
    json.dumps(run)
