"""The types that pass between adapters and the engine."""

from skillrl.skillopt.datasets.base import BatchSpec
from skillrl.types import Edit, GateAction, GateResult, Patch, RawPatch, RolloutResult

__all__ = ["BatchSpec", "Edit", "GateAction", "GateResult", "Patch", "RawPatch", "RolloutResult"]
