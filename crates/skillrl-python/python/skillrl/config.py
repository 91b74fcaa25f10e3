"""The settings of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from skillrl.errors import ConfigError

GateMetric = Literal["hard", "soft", "mixed"]
LRSchedulerMode = Literal["constant", "linear", "cosine"]

#: Which setting of the engine each field is.
_KEYS = {
    "num_epochs": "train.epochs",
    "batch_size": "train.batch_size",
    "minibatch_size": "train.minibatch_size",
    "merge_batch_size": "train.merge_batch_size",
    "edit_budget": "train.edit_budget",
    "min_edit_budget": "train.min_edit_budget",
    "lr_scheduler": "train.schedule",
    "gate_metric": "gate.metric",
    "gate_mixed_weight": "gate.mixed_weight",
    "failure_only": "train.failure_only",
    "workers": "run.workers",
    "seed": "run.seed",
    "eval_test": "eval.test",
    "optimizer_max_completion_tokens": "limits.max_reply_tokens",
    "max_calls": "budget.calls",
    "max_tokens": "budget.tokens",
    "max_money": "budget.money",
}

#: Those that change what a run takes, and not what it comes to: files are the same for any of their values.
_SPEED_AND_COST = ("workers", "max_calls", "max_tokens", "max_money")


@dataclass
class SkillOptConfig:
    """How to train; the defaults are the protocol of the SkillOpt paper.

    The first fields are those of skillrl 1.0. ``settings`` reaches every other setting of the engine by its name in
    the configuration file, such as ``{"gate.mode": "mcnemar", "train.slow_update": "off"}``.
    """

    #: Passes over the training split.
    num_epochs: int = 4
    #: Training items per step.
    batch_size: int = 40
    #: Trajectories that one analyst reads at a time.
    minibatch_size: int = 8
    #: Patches that are merged at a time, at least 2.
    merge_batch_size: int = 8

    #: Edits per step at the start: the learning rate.
    edit_budget: int = 4
    #: Edits per step at the end.
    min_edit_budget: int = 2
    #: How the edits per step fall: ``constant``, ``linear`` or ``cosine``.
    lr_scheduler: LRSchedulerMode = "cosine"

    #: ``hard``: the share of items solved. ``soft``: the mean graded score. ``mixed``: both.
    gate_metric: GateMetric = "hard"
    #: The weight ``w`` of soft in ``(1 - w) * hard + w * soft``.
    gate_mixed_weight: float = 0.5

    #: True if only failed trajectories are reflected on.
    failure_only: bool = False

    #: Model calls in flight at most.
    workers: int = 8
    #: Decides the order of the items.
    seed: int = 42
    #: The directory of the run; a run that is in it is resumed.
    out_root: str = "outputs/skillrl_run"

    #: The name by which the environment is asked for the items that the gate decides by.
    selection_split: str = "val"
    #: The name by which the environment is asked for the items of the final measurement.
    test_split: str = "test"
    #: True if the first and the best skill are measured on the test split at the end.
    eval_test: bool = True

    #: Without effect: the skill of every step is always kept.
    save_every_step: bool = True
    #: The most tokens of a reply of the optimizer.
    optimizer_max_completion_tokens: int = 4096
    #: True if progress is shown.
    verbose: bool = True

    #: For the caller: the engine does not read it, and ``setup`` of an adapter is given it with the other settings.
    extras: dict[str, Any] = field(default_factory=dict)

    #: The most requests that the run may send, over all its processes.
    max_calls: int | None = None
    #: The most tokens that the run may use, as far as clients report them.
    max_tokens: int | None = None
    #: The most money that the run may cost, by the prices of its clients.
    max_money: float | None = None
    #: Seconds that one call of ``rollout_one`` may take; of an adapter, for each item of a batch.
    rollout_timeout: float = 3600.0
    #: Seconds that one call of a client in Python may take.
    client_timeout: float = 600.0
    #: Further settings of the engine by dotted name; they count where they differ from a field.
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("batch_size", "minibatch_size", "num_epochs", "workers", "edit_budget", "min_edit_budget"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        _check("merge_batch_size", self.merge_batch_size, self.merge_batch_size >= 2, "at least 2")
        at_most = f"at most edit_budget, which is {self.edit_budget}"
        _check("min_edit_budget", self.min_edit_budget, self.min_edit_budget <= self.edit_budget, at_most)
        schedules = ("constant", "linear", "cosine", "autonomous")
        _check("lr_scheduler", self.lr_scheduler, self.lr_scheduler in schedules, f"one of {', '.join(schedules)}")
        metrics = ("hard", "soft", "mixed")
        _check("gate_metric", self.gate_metric, self.gate_metric in metrics, f"one of {', '.join(metrics)}")
        _check("gate_mixed_weight", self.gate_mixed_weight, 0 <= self.gate_mixed_weight <= 1, "between 0 and 1")
        for name in ("rollout_timeout", "client_timeout"):
            seconds = getattr(self, name)
            _check(name, seconds, 0 < seconds < math.inf, "a number of seconds above 0")
        for name in self.settings:
            _check("settings", name, name.count(".") >= 1, "named like \"gate.mode\"")

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> SkillOptConfig:
        """The configuration of a JSON object, such as the ``config.json`` of a run; other members are left out.

        ``config.json`` has what decides results; ``workers``, ``out_root``, ``verbose`` and caps have their defaults.
        """
        return cls(**{name: value for name, value in d.items() if name in cls.__dataclass_fields__})

    def _named(self, sections: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of skillrl 1.0 that decide results, with the values that these sections give them."""
        named = {name: value for name, value in flat(sections).items() if name not in _SPEED_AND_COST}
        return named | {"selection_split": self.selection_split, "test_split": self.test_split}

    def _sections(self) -> dict[str, Any]:
        """The sections of the configuration file that these settings are."""
        values = {key: getattr(self, name) for name, key in _KEYS.items()}
        values.update(self.settings)
        sections: dict[str, Any] = {}
        for key, value in values.items():
            *path, name = key.split(".")
            section = sections
            for part in path:
                section = section.setdefault(part, {})
            if value is not None:
                section[name] = value
        return sections


def _check(name: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}; it has to be {expected}")


def flat(sections: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of skillrl 1.0 by the sections of a configuration; a field whose setting is absent is left out."""
    found = {}
    for name, key in _KEYS.items():
        section, setting = key.split(".")
        if setting in (sections.get(section) or {}):
            found[name] = sections[section][setting]
    return found


def settings_json(sections: Mapping[str, Any]) -> str:
    """Sections of a configuration as JSON; a value that no setting can have is an error that names the setting."""
    pending: list[tuple[str, Any]] = [("", sections)]
    while pending:
        key, value = pending.pop()
        if isinstance(value, Mapping):
            pending += [(f"{key}.{name}" if key else str(name), one) for name, one in value.items()]
        elif isinstance(value, (list, tuple)):
            pending += [(f"{key}[{position}]", one) for position, one in enumerate(value)]
        elif value is None or (isinstance(value, float) and not math.isfinite(value)):
            raise ConfigError(f"{key} is {value}", "usage", f"leave {key} out where it has no value or no limit")
        elif not isinstance(value, (str, bool, int, float)):
            expected = "a setting is a text, a number, a bool, a list or a dict"
            raise ConfigError(f"{key} is of type {type(value).__name__}; {expected}", "usage")
    return json.dumps(sections)
