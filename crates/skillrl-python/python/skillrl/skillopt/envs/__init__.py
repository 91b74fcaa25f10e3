"""Adapters of environments."""

from skillrl.skillopt.envs.base import EnvAdapter

__all__ = ["EnvAdapter"]
