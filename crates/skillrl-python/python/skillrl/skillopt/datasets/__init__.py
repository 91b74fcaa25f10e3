"""Data loaders of adapters."""

from skillrl.skillopt.datasets.base import BaseDataLoader, BatchSpec, SplitDataLoader

__all__ = ["BaseDataLoader", "BatchSpec", "SplitDataLoader"]
