"""Adapters and data loaders of SkillOpt, which train on this engine.

``SkillOptTrainer(env=adapter, ...)`` takes an adapter of these classes, one of the package ``skillopt``, and any object
with their methods. See ``docs/coming-from.md``.
"""

from skillrl.skillopt.datasets.base import BaseDataLoader, BatchSpec, SplitDataLoader
from skillrl.skillopt.envs.base import EnvAdapter
from skillrl.skillopt.types import Edit, GateAction, GateResult, Patch, RawPatch, RolloutResult

__all__ = [
    "BaseDataLoader",
    "BatchSpec",
    "Edit",
    "EnvAdapter",
    "GateAction",
    "GateResult",
    "Patch",
    "RawPatch",
    "RolloutResult",
    "SplitDataLoader",
]
