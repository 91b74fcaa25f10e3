"""Data loaders: which tasks a batch has.

A loader plans batches of tasks, by items or by a seed alone. The shuffles, splits and seeds are those of SkillOpt.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: The directories of a split data set.
SPLIT_NAMES = ("train", "val", "test")

#: The names by which trainers ask for splits.
_SPLITS = {
    "train": "train",
    "val": "val",
    "selection": "val",
    "valid_seen": "val",
    "test": "test",
    "valid_unseen": "test",
}


@dataclass(slots=True)
class BatchSpec:
    """A batch that is wanted."""

    #: ``train`` or ``eval``.
    phase: str
    #: The split, by the name that the loader was asked for.
    split: str
    seed: int
    #: How many items or episodes.
    batch_size: int
    #: What the batch is made of: usually a list of items. Without it the seed decides.
    payload: object | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class BaseDataLoader(ABC):
    """Plans batches; of simulators the seed decides what is in them."""

    def setup(self, cfg: dict[str, Any]) -> None:
        """Prepare, with the settings of the run; an adapter's ``setup`` calls it."""

    def set_out_root(self, out_root: str) -> None:
        """Take the directory for files of the loader's own."""

    def state_dict(self) -> dict[str, Any]:
        """State that can be written as JSON. A resumed run plans all epochs again and does not ask for it."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take a state of ``state_dict``."""

    def get_train_size(self) -> int | None:
        """The number of training tasks, where it is known."""
        return None

    @staticmethod
    def make_base_seeds(steps_per_epoch: int, accumulation: int, seed: int) -> list[int]:
        """The seeds of the batches of an epoch, before they are shuffled."""
        return list(range(seed + 1, seed + 1 + steps_per_epoch * accumulation))

    @staticmethod
    def shuffle_epoch_seeds(base_seeds: list[int], epoch: int, seed: int) -> list[int]:
        """The seeds in the order of an epoch."""
        shuffled = list(base_seeds)
        random.Random(seed + epoch * 1000).shuffle(shuffled)
        return shuffled

    def plan_train_epoch(
        self, *, epoch: int, steps_per_epoch: int, accumulation: int, batch_size: int, seed: int, **kwargs: Any
    ) -> list[BatchSpec]:
        """The batches of an epoch, which counts from 1, in the order of its steps."""
        seeds = self.shuffle_epoch_seeds(self.make_base_seeds(steps_per_epoch, accumulation, seed), epoch, seed)
        return [self.build_train_batch(batch_size=batch_size, seed=one, **kwargs) for one in seeds]

    @abstractmethod
    def build_train_batch(self, batch_size: int, seed: int, **kwargs: Any) -> BatchSpec:
        """One training batch."""

    @abstractmethod
    def build_eval_batch(self, env_num: int, split: str, seed: int, **kwargs: Any) -> BatchSpec:
        """The batch of an evaluation; ``env_num`` limits it, and 0 does not."""


class SplitDataLoader(BaseDataLoader):
    """Items in three directories, or one file that is split by a ratio.

    ``split_mode="split_dir"`` reads ``split_dir/train``, ``val`` and ``test``. ``split_mode="ratio"`` reads
    ``data_path``, splits it by ``split_ratio`` and writes such directories below ``split_output_dir``, or else below
    the directory of the run.
    """

    def __init__(
        self,
        split_dir: str = "",
        data_path: str = "",
        split_mode: str = "ratio",
        split_ratio: str = "2:1:7",
        split_seed: int = 42,
        split_output_dir: str = "",
        seed: int = 42,
        limit: int = 0,
        **kwargs: Any,
    ) -> None:
        self.split_dir = split_dir
        self.data_path = data_path
        self.split_mode = split_mode
        self.split_ratio = split_ratio
        self.split_seed = int(split_seed)
        self.split_output_dir = split_output_dir
        self.seed = seed
        self.limit = limit
        self._splits: dict[str, list[dict[str, Any]]] = {}

    def setup(self, cfg: dict[str, Any]) -> None:
        """Read the items; what the constructor left empty is taken from the settings."""
        for name in ("split_mode", "split_dir", "data_path", "split_output_dir", "split_ratio"):
            setattr(self, name, str(getattr(self, name) or cfg.get(name) or ""))
        self.split_seed = int(self.split_seed or cfg.get("split_seed") or self.seed)
        self.split_mode = (self.split_mode or "ratio").strip().lower()
        self.split_ratio = self.split_ratio or "2:1:7"
        if self.split_mode not in ("ratio", "split_dir"):
            raise ValueError(f"split_mode is {self.split_mode!r}; use 'ratio' or 'split_dir'")
        if self.split_mode == "ratio":
            self.split_dir = str(self._split(cfg))
        if not self.split_dir:
            raise ValueError("split_dir is empty; name the directory that holds train/, val/ and test/")
        for name in SPLIT_NAMES:
            path = Path(self.split_dir) / name
            if not path.is_dir():
                raise ValueError(f"{self.split_dir} has no directory {name}/; the splits are {', '.join(SPLIT_NAMES)}")
            items = self.load_split_items(str(path))
            self._splits[name] = items[: self.limit] if self.limit else items

    def load_raw_items(self, data_path: str) -> list[dict[str, Any]]:
        """The items of a data set that is to be split: a JSON or JSON Lines file, or a directory with one."""
        path = Path(data_path)
        if path.is_dir():
            if any((path / name).is_dir() for name in SPLIT_NAMES):
                raise ValueError(f"{path} is split already; use split_mode='split_dir' with split_dir={data_path!r}")
            files = sorted(path.glob("*.json")) + sorted(path.glob("*.jsonl"))
            if len(files) != 1:
                raise ValueError(f"{path} holds {len(files)} JSON files; name the one that is the data set")
            path = files[0]
        return _read_items(path)

    def load_split_items(self, split_path: str) -> list[dict[str, Any]]:
        """The items of one split: the first JSON file of its directory, which holds a list."""
        files = sorted(Path(split_path).glob("*.json"))
        if not files:
            raise FileNotFoundError(f"{split_path} holds no .json file")
        items = json.loads(files[0].read_text(encoding="utf-8"))
        if not isinstance(items, list):
            raise ValueError(f"{files[0]} holds a {type(items).__name__}; the items of a split are a list")
        return items

    def write_split_items(self, split_path: str, items: list[dict[str, Any]]) -> None:
        """Write the items of one split, so that ``load_split_items`` reads them."""
        path = Path(split_path)
        path.mkdir(parents=True, exist_ok=True)
        (path / "items.json").write_text(json.dumps(items, ensure_ascii=False, indent=2), encoding="utf-8")

    @property
    def train_items(self) -> list[dict[str, Any]]:
        """The items to learn from."""
        return self._splits.get("train", [])

    @property
    def val_items(self) -> list[dict[str, Any]]:
        """The items that the gate decides by."""
        return self._splits.get("val", [])

    @property
    def test_items(self) -> list[dict[str, Any]]:
        """The items of the final measurement."""
        return self._splits.get("test", [])

    def get_split_items(self, split: str) -> list[dict[str, Any]]:
        """The items of a split by any of its names; an unknown name stands for the validation split."""
        return list(self._splits.get(_SPLITS.get(split, split), self.val_items))

    def get_train_size(self) -> int:
        return len(self.train_items)

    def plan_train_epoch(
        self, *, epoch: int, steps_per_epoch: int, accumulation: int, batch_size: int, seed: int, **kwargs: Any
    ) -> list[BatchSpec]:
        """One pass over the training split in shuffled order; a batch for which nothing is left is drawn again."""
        first = seed + epoch * 1000
        items = list(self.train_items)
        random.Random(first).shuffle(items)
        batches = []
        for number in range(steps_per_epoch * accumulation):
            part = items[number * batch_size : (number + 1) * batch_size]
            if not part:
                again = list(items)
                random.Random(first + number + 1).shuffle(again)
                part = again[:batch_size]
            batches.append(BatchSpec("train", "train", first + number + 1, len(part), part))
        return batches

    def build_train_batch(self, batch_size: int, seed: int, **kwargs: Any) -> BatchSpec:
        items = list(self.train_items)
        random.Random(seed).shuffle(items)
        items = items[:batch_size]
        return BatchSpec("train", "train", seed, len(items), items)

    def build_eval_batch(self, env_num: int, split: str, seed: int, **kwargs: Any) -> BatchSpec:
        items = self.get_split_items(split)
        items = items[:env_num] if env_num else items
        return BatchSpec("eval", split, seed, len(items), items)

    def _split(self, cfg: dict[str, Any]) -> Path:
        if not self.data_path.strip():
            raise ValueError("data_path is empty; split_mode='ratio' splits the data set that it names")
        ratio = _ratio(self.split_ratio)
        items = list(self.load_raw_items(self.data_path.strip()))
        if not items:
            raise ValueError(f"{self.data_path} holds no items")
        random.Random(self.split_seed).shuffle(items)
        counts = _counts(len(items), ratio)
        directory = self._split_directory(cfg)
        begin = 0
        for name, count in zip(SPLIT_NAMES, counts):
            self.write_split_items(str(directory / name), items[begin : begin + count])
            begin += count
        manifest = {
            "source_data_path": str(Path(self.data_path).resolve()),
            "split_mode": "ratio",
            "split_ratio": self.split_ratio,
            "split_seed": self.split_seed,
            "counts": dict(zip(SPLIT_NAMES, counts)),
        }
        (directory / "split_manifest.json").write_text(json.dumps(manifest, indent=2), encoding="utf-8")
        return directory

    def _split_directory(self, cfg: dict[str, Any]) -> Path:
        if self.split_output_dir:
            return Path(self.split_output_dir).resolve()
        name = str(cfg.get("env") or type(self).__name__.replace("DataLoader", "").lower())
        tag = self.split_ratio.replace(":", "-")
        root = Path(str(cfg.get("out_root") or ".")).resolve()
        return root / "_generated_splits" / f"{name}_{tag}_seed{self.split_seed}"


def _read_items(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8").strip()
    try:
        read = json.loads(text) if text else []
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(read, dict):
        read = read["data"] if isinstance(read.get("data"), list) else list(read.values())
    if not isinstance(read, list):
        raise ValueError(f"{path} holds a {type(read).__name__}; a data set is a list of items")
    return read


def _ratio(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in str(text).split(":")]
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"split_ratio is {text!r}; it is train:val:test in whole numbers above 0, such as '2:1:7'")
    return tuple(map(int, parts))


def _counts(total: int, ratio: tuple[int, ...]) -> list[int]:
    """Whole numbers of items in this ratio; the largest remainders are rounded up."""
    shares = [total * part / sum(ratio) for part in ratio]
    counts = [int(share) for share in shares]
    by_rest = sorted(range(3), key=lambda at: (shares[at] - counts[at], ratio[at]), reverse=True)
    for at in by_rest[: total - sum(counts)]:
        counts[at] += 1
    return counts
