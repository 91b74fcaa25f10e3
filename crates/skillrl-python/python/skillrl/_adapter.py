"""What the engine is told of adapters, which work on whole batches, and what they are told of it."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from skillrl import _bridge, _conversation, _data, _skillopt
from skillrl.config import SkillOptConfig
from skillrl.errors import ConfigError, RunError
from skillrl.skillopt import model
from skillrl.skillopt.datasets.base import BaseDataLoader, BatchSpec
from skillrl.skillopt.envs.base import EnvAdapter
from skillrl.types import RolloutResult

#: The directory of the run in which adapters and loaders write.
DIRECTORY = "adapter_files"

#: By which names adapters and loaders are asked for the splits of the engine, unless the settings name others.
_SPLITS = {"val": "valid_seen", "test": "valid_unseen"}

#: Fields of a row that results have; all others are extras.
_FIELDS = frozenset(name for name in RolloutResult.__dataclass_fields__ if name != "extras")

#: Attributes of an adapter that decide no score.
_FREE = re.compile(r"workers|analyst_workers|verbose|.*(_dir|_path|timeout)$")

#: The methods by which an adapter replaces prompts.
_PROMPTS = {"analyst_error": "get_error_minibatch_prompt", "analyst_success": "get_success_minibatch_prompt"}

_under_way = threading.Lock()


def is_adapter(env: Any) -> bool:
    """True for what has the methods of an adapter, and works on batches."""
    names = ("rollout", "build_train_env", "build_eval_env")
    return not callable(getattr(env, "rollout_one", None)) and all(callable(getattr(env, name, None)) for name in names)


def settings_of(adapter: Any) -> Any:
    """What of an adapter decides scores: its class, and its settings or else its plain attributes."""
    own = getattr(adapter, "get_settings", None)
    if callable(own):
        settings = own()
    else:
        named = getattr(adapter, "__dict__", {}).items()
        plain = {k: v for k, v in named if v is None or isinstance(v, (str, bool, int, float))}
        settings = {k: v for k, v in plain.items() if not k.startswith("_") and not _FREE.fullmatch(k)}
    return {"class": f"{type(adapter).__module__}.{type(adapter).__qualname__}", "settings": settings}


@contextmanager
def running() -> Iterator[None]:
    """A run of an adapter: models are asked through the engine meanwhile, also by the package ``skillopt``."""
    if not _under_way.acquire(blocking=False):
        hint = "train one after the other, or in processes of their own"
        raise RunError("another run with an adapter is under way in this process", "usage", hint)
    try:
        with _skillopt.routed():
            yield
    finally:
        _under_way.release()


class Adapter:
    """An adapter with its loader, its items and its batches."""

    def __init__(self, adapter: Any, config: SkillOptConfig, settings: Any) -> None:
        self.adapter = adapter
        self.config = config
        self.settings = settings
        self.name = type(adapter).__qualname__
        self.out = Path(config.out_root).resolve() / DIRECTORY
        self.cfg = _cfg(config, self.name, self.out)
        self.has_cap = any(name in (config._sections().get("budget") or {}) for name in ("calls", "tokens", "money"))
        self.n_uncounted = 0
        if self.has_cap and _skillopt.has_exec_target():
            raise ConfigError(f"{self._uncounted('skillopt.model has a program as its target')}", "usage", _UNCAPPED)
        self._hook("setup", copy.deepcopy(self.cfg))
        self.loader = self._hook("get_dataloader") if hasattr(adapter, "get_dataloader") else None
        #: The objects of items by the engine's ids; None for one that only a seed decides.
        self.objects: dict[str, Any] = {}
        self.specs: dict[tuple[int, tuple[str, ...]], Any] = {}
        self.eval_ids: dict[str, list[str]] = {}
        self.epochs, train = self._planned()
        splits = {"train": train, "val": self._evaluated("val"), "test": []}
        if config.eval_test:
            splits["test"] = self._evaluated("test")
        self.items = self._described(splits)

    # What is there.

    def _planned(self) -> tuple[list[list[tuple[int, list[Any]]]], list[Any]]:
        """The micro-batches of each epoch with their seeds and items, and all items of training."""
        cfg, steps = self.cfg, self._steps_per_epoch()
        n = steps * cfg["accumulation"]
        epochs, items = [], list(_list(getattr(self.loader, "train_items", None)) or [])
        known = {_id(item) for item in items}
        for epoch in range(1, self.config.num_epochs + 1):
            if self.loader is None:
                seeds = BaseDataLoader.make_base_seeds(steps, cfg["accumulation"], cfg["seed"])
                seeds = BaseDataLoader.shuffle_epoch_seeds(seeds, epoch, cfg["seed"])
                specs = [BatchSpec("train", "train", seed, self.config.batch_size) for seed in seeds]
            else:
                specs = self._hook(
                    "plan_train_epoch",
                    of=self.loader,
                    epoch=epoch,
                    steps_per_epoch=steps,
                    accumulation=cfg["accumulation"],
                    batch_size=self.config.batch_size,
                    seed=cfg["seed"],
                    out_root=str(self.out),
                )
            if _list(specs) is None or len(specs) != n:
                given = f"{len(specs)} batches" if _list(specs) is not None else f"{specs!r:.80}"
                raise self._wrong("plan_train_epoch", f"returned {given}; return a list of {n} batches", of=self.loader)
            planned = []
            for number, spec in enumerate(specs, 1):
                payload = _list(spec.payload)
                if payload is None:
                    payload = [_Slot(int(spec.seed), position) for position in range(int(spec.batch_size))]
                if not payload:
                    raise self._wrong("plan_train_epoch", f"gave no items for batch {number} of epoch {epoch}", of=self.loader)
                for item in payload:
                    if _id(item) not in known:
                        items.append(item)
                        known.add(_id(item))
                planned.append((int(spec.seed), payload))
                self.specs.setdefault((int(spec.seed), tuple(_id(item) for item in payload)), spec)
            epochs.append(planned)
        return epochs, items

    def _steps_per_epoch(self) -> int:
        size = None
        if self.loader is not None:
            size = self._hook("get_train_size", of=self.loader) if hasattr(self.loader, "get_train_size") else None
            if size is None and (items := _list(getattr(self.loader, "train_items", None))) is not None:
                size = len(items)
            if size == 0 and not self.cfg["train_size"]:
                raise RunError(f"the train split of {self.name} has no items", "data", "give the split at least one item")
        configured = int(self.cfg["train_size"] or 0)
        if configured and size and configured != size:
            raise ConfigError(f"train_size is {configured}, and the loader has {size} training tasks", "usage")
        if not (size := configured or size):
            hint = 'set it by SkillOptConfig(extras={"train_size": ..}), or have the loader tell it by `get_train_size`'
            raise ConfigError(f"the number of training tasks of {self.name} is not known", "usage", hint)
        return math.ceil(size / (self.config.batch_size * int(self.cfg["accumulation"])))

    def _evaluated(self, split: str) -> list[Any]:
        """The items of a split, or their places where only the adapter knows them."""
        asked, env_num = self._split(split), int(self.cfg[f"{'sel' if split == 'val' else 'test'}_env_num"] or 0)
        if self.loader is not None:
            spec = self._hook(
                "build_eval_batch", of=self.loader, env_num=env_num, split=asked, seed=self.cfg["seed"], out_root=str(self.out)
            )
            items, n = _list(spec.payload), int(spec.batch_size)
        else:
            env = self._hook("build_eval_env", env_num=env_num, split=asked, seed=self.cfg["seed"], out_root=str(self.out))
            items = _list(env)
            if items is None or not all(isinstance(item, Mapping) for item in items):
                n, items = (len(env) if hasattr(env, "__len__") else env_num), None
                close = getattr(env, "close", None)
                if callable(close):
                    close()
            else:
                n = len(items)
        if items is None and n == 0:
            hint = f'set SkillOptConfig(extras={{"{"sel" if split == "val" else "test"}_env_num": ..}})'
            raise ConfigError(f"{self.name} does not say how many tasks its split {asked!r} has", "usage", hint)
        return [_Slot(0, position) for position in range(n)] if items is None else items

    def _described(self, splits: Mapping[str, list[Any]]) -> dict[str, list[tuple[str, str, str, Any]]]:
        """The items as the engine reads them, by ids of its own where splits share some."""
        ids: dict[str, dict[str, str]] = {}
        for split, items in splits.items():
            seen = ids[split] = {}
            for number, item in enumerate(items, 1):
                if not isinstance(item, (Mapping, _Slot)):
                    text = f"item {number} of the split {split!r} is of type {type(item).__name__}; items are dicts"
                    raise RunError(text, "data")
                if isinstance(item, Mapping) and (_data.is_missing(item.get("id")) or item["id"] == ""):
                    raise RunError(f"item {number} of the split {split!r} has no `id`", "data", "give each item an id")
                if _id(item) in seen:
                    hint = "rows are matched to items by id: give each item its own"
                    raise RunError(f"the split {split!r} has the id {_id(item)!r} twice", "data", hint)
                seen[_id(item)] = ""
        described: dict[str, list[tuple[str, str, str, Any]]] = {}
        taken: dict[str, str] = {}
        shared = []
        for split, items in splits.items():
            described[split] = []
            for item in items:
                id_ = f"{split}-{_id(item)}" if isinstance(item, _Slot) else _id(item)
                if id_ in taken:
                    shared.append((id_, taken[id_], split))
                    id_ = _data._free(f"{split}:{id_}", taken)
                taken[id_] = split
                ids[split][_id(item)] = id_
                self.objects[id_] = item
                category = item.get("task_type") if isinstance(item, Mapping) else None
                data = _data.as_json(item if isinstance(item, Mapping) else {"seed": item.seed, "position": item.position})
                described[split].append((id_, "" if _data.is_missing(category) else str(category), data, item))
            self.eval_ids[split] = [row[0] for row in described[split]]
        if shared:
            id_, first, second = shared[0]
            text = f"{len(shared)} items are in two splits, such as {id_!r} in {first} and in {second}"
            warnings.warn(f"{text}: the scores of held-out splits are optimistic", stacklevel=6)
        of_train = ids["train"]
        self.plan = [[(seed, [of_train[_id(item)] for item in items]) for seed, items in epoch] for epoch in self.epochs]
        return described

    # Work of the engine.

    def rollout(self, told: str, skill: str, target: Any, optimizer: Any) -> str:
        """The results of a batch, as JSON."""
        batch = json.loads(told)
        out = self._directory(batch["place"])
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        items = [self.objects[one] for one in batch["ids"]]
        with model.work(target, optimizer) as work:
            env = self._built(batch, items)
            extra = {"use_eval_feedback": True} if batch["stage"] == "rollout" else {}
            rows = _call(self.adapter.rollout, env, skill, str(out), **extra)
        results = [
            self._result(row, id_, out) for row, id_ in zip(self._chosen(self._plain(rows), items, batch), batch["ids"])
        ]
        if work.n_calls == 0:
            self._note_uncounted(batch["place"])
            for result in results:
                result["extras"]["calls_not_counted"] = True
        return _data.as_json(results)

    def reflect(self, told: str, skill: str, target: Any, optimizer: Any) -> str:
        """The proposals of the adapter for a batch, as JSON."""
        batch = json.loads(told)
        out = self._directory(batch["place"])
        place = batch["place"].replace(" / reflect", " / rollout", 1).removesuffix("own") + "all items"
        predictions = self._directory(place) / "predictions"
        patches = out / "patches"
        shutil.rmtree(patches, ignore_errors=True)
        patches.mkdir(parents=True)
        rows = [self._row(result, predictions) for result in batch["results"]]
        with model.work(target, optimizer):
            made = _call(
                self.adapter.reflect,
                rows,
                skill,
                str(out),
                prediction_dir=str(predictions),
                patches_dir=str(patches),
                random_seed=batch["seed"],
                step_buffer_context=batch["memory"],
                meta_skill_context=batch["meta_skill"],
            )
        if _list(made) is None:
            expected = "return a list of patches, which is empty where there is nothing to change"
            raise TypeError(f"`reflect` of {self.name} returned {made!r:.80}; {expected}")
        proposals = []
        for number, patch in enumerate(made, 1):
            patch = patch.to_dict() if hasattr(patch, "to_dict") else patch
            if patch is None:
                continue
            if not isinstance(patch, Mapping):
                expected = 'a patch is a dict such as {"patch": {"edits": [..]}, "source_type": "failure"}, or None'
                raise TypeError(f"`reflect` of {self.name} returned {patch!r:.80} as patch {number}; {expected}")
            size = patch.get("batch_size")
            proposals.append(
                {
                    "json": _data.as_json(patch),
                    "source_type": "success" if patch.get("source_type") == "success" else "failure",
                    "batch_size": size if isinstance(size, int) and size > 0 else None,
                }
            )
        return json.dumps(proposals)

    def _built(self, batch: Mapping[str, Any], items: list[Any]) -> Any:
        """What the adapter works on for these items."""
        if batch["split"] == "train":
            return self._built_train(batch, items)
        split = batch["split"]
        is_whole = len(items) == len(self.eval_ids[split])
        asked = {
            "env_num": int(self.cfg[f"{'sel' if split == 'val' else 'test'}_env_num"] or 0),
            "split": self._split(split),
            "seed": self.cfg["seed"],
            "out_root": str(self.out),
        }
        if self.loader is None:
            env = _call(self.adapter.build_eval_env, **asked)
            if is_whole or isinstance(items[0], _Slot) or _list(env) is None:
                return env
            return [item for item in env if _id(item) in set(map(_id, items))]
        if is_whole or isinstance(items[0], _Slot):
            spec = _call(self.loader.build_eval_batch, **asked)
        else:
            spec = BatchSpec("eval", asked["split"], asked["seed"], len(items), list(items))
        return self._built_of(spec)

    def _built_train(self, batch: Mapping[str, Any], items: list[Any]) -> Any:
        seed = batch["seed"]
        if seed is None:
            # Items that the engine has chosen, such as those of a comparison: the same for both of its skills.
            seed = self.cfg["seed"] + 2000 * (batch["step"] or 0)
        spec = self.specs.get((seed, tuple(map(_id, items)))) if self.loader is not None else None
        if spec is None:
            spec = BatchSpec("train", "train", seed, len(items), None if isinstance(items[0], _Slot) else list(items))
        elif _list(spec.payload) is not None:
            # An adapter may take items out of the list that it is given.
            spec = copy.copy(spec)
            spec.payload = list(spec.payload)
        if self.loader is None:
            return _call(self.adapter.build_train_env, batch_size=len(items), seed=seed, out_root=str(self.out))
        if spec.payload is None and batch["seed"] is None:
            spec = _call(self.loader.build_train_batch, batch_size=len(items), seed=seed, out_root=str(self.out))
        return self._built_of(spec)

    def _built_of(self, spec: Any) -> Any:
        build = getattr(self.adapter, "build_env_from_batch", None)
        if callable(build):
            return _call(build, spec, out_root=str(self.out))
        return EnvAdapter.build_env_from_batch(self.adapter, spec, out_root=str(self.out))

    def _plain(self, rows: Any) -> dict[str, dict[str, Any]]:
        """The rows of the adapter by their ids."""
        what = f"`rollout` of {self.name}"
        if _list(rows) is None:
            raise TypeError(f"{what} returned {rows!r:.80}; return a list of rows")
        by_id: dict[str, dict[str, Any]] = {}
        for number, row in enumerate(rows, 1):
            row = row.to_dict() if hasattr(row, "to_dict") else row
            if not isinstance(row, Mapping):
                raise TypeError(f"{what} returned {row!r:.80} as row {number}; rows are dicts")
            for name in ("id", "hard"):
                if _data.is_missing(row.get(name)):
                    of = f" of item {row.get('id')!r}" if name == "hard" else ""
                    raise ValueError(f"{what} returned row {number}{of} without `{name}`; a row has `id`, `hard` and `soft`")
            if str(row["id"]) in by_id:
                raise ValueError(f"{what} returned two rows of item {str(row['id'])!r}; return one for each item")
            by_id[str(row["id"])] = dict(row)
        return by_id

    def _chosen(self, rows: dict[str, dict[str, Any]], items: list[Any], batch: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of the items, in their order; each item has one, and there are no others."""
        what = f"`rollout` of {self.name}"
        if isinstance(items[0], _Slot):
            # In the order of ids, which is the same whenever the same tasks come back.
            ordered = [rows[one] for one in sorted(rows)]
            is_train = batch["split"] == "train"
            places = range(len(items)) if is_train else [item.position for item in items]
            n = len(items) if is_train else len(self.eval_ids[batch["split"]])
            if len(ordered) != n:
                raise ValueError(f"{what} returned {len(ordered)} rows for {n} tasks")
            return [ordered[place] for place in places]
        keys = [_id(item) for item in items]
        missing = [key for key in keys if key not in rows]
        unknown = [key for key in rows if key not in set(keys)]
        if missing or unknown:
            told = f"no row of item {missing[0]!r}" if missing else f"a row of {unknown[0]!r}, which is none of its items"
            raise ValueError(f"{what} returned {told} ({len(rows)} rows for {len(keys)} items)")
        return [rows[key] for key in keys]

    def _result(self, row: dict[str, Any], id_: str, out: Path) -> dict[str, Any]:
        files = out / "predictions" / str(row["id"])
        fields = {name: value for name, value in row.items() if name in _FIELDS and value is not None}
        extras = {name: value for name, value in row.items() if name not in _FIELDS and name != "extras"}
        extras |= row.get("extras") or {}
        if str(row["id"]) != id_:
            extras["row_id"] = str(row["id"])
        said = fields.pop("conversation", None)
        fields["conversation"] = _conversation.messages(said) if _list(said) else _conversation.conversation_of(files)
        for name in ("target_system_prompt", "target_user_prompt"):
            fields[name] = fields.get(name) or _conversation.text_of(files, f"{name}.txt")
        fields.setdefault("soft", fields["hard"])
        fields["n_turns"] = max(0, int(fields.get("n_turns") or 0))
        result: dict[str, Any] = json.loads(_bridge._result(fields, f"`rollout` of {self.name}"))
        return {**result, "id": id_, "extras": extras}

    def _row(self, result: dict[str, Any], predictions: Path) -> dict[str, Any]:
        """A result as the row that the adapter has returned, with its conversation in its file."""
        extras = dict(result.get("extras") or {})
        said = [
            {"role": message["role"], "content": message.get("content", "")}
            for message in (result.get("trajectory") or {}).get("messages") or []
        ]
        row_id = str(extras.pop("row_id", result["id"]))
        file = predictions / row_id / "conversation.json"
        if said and not file.exists() and Path(row_id).name == row_id:
            # The run was resumed elsewhere, or the rows had it.
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(said, ensure_ascii=False), encoding="utf-8")
        known = {name: result[name] for name in _FIELDS if name != "conversation" and result.get(name)}
        hard = result["hard"]
        scores = {"hard": int(hard) if float(hard).is_integer() else hard, "soft": result["soft"]}
        return {**extras, **known, **scores, "id": row_id}

    def _directory(self, place: str) -> Path:
        parts = [re.sub(r"[^A-Za-z0-9]+", "_", part).strip("_") for part in place.split(" / ")[:-1]]
        return self.out.joinpath(*parts)

    # What goes wrong.

    def _split(self, split: str) -> str:
        """The name by which adapter and loader know a split of the engine."""
        named = {"val": self.config.selection_split, "test": self.config.test_split}.get(split, split)
        return _SPLITS.get(named, named)

    def _hook(self, name: str, *args: Any, of: Any = None, **kwargs: Any) -> Any:
        """Call a method before the run; what it raises is an error of the run."""
        one = self.adapter if of is None else of
        try:
            return _call(getattr(one, name), *args, **kwargs)
        except RunError:
            raise
        except Exception as error:
            text = f"`{name}` of {type(one).__qualname__} raised {_bridge.describe(error)}"
            raise RunError(text, "callback", "fix the function; the same call then begins or resumes the run") from error

    def prompts(self) -> dict[str, str]:
        """The prompts of the adapter for the engine's analysts."""
        prompts = {}
        for name, getter in _PROMPTS.items():
            text = self._hook(getter) if callable(getattr(self.adapter, getter, None)) else None
            if isinstance(text, str) and not _skillopt.is_generic(name, text):
                prompts[name] = text
        return prompts

    def _wrong(self, name: str, why: str, of: Any) -> RunError:
        return RunError(f"`{name}` of {type(self.adapter if of is None else of).__qualname__} {why}", "data")

    def _note_uncounted(self, place: str) -> None:
        text = self._uncounted(f"{self.name} asked no model through the engine at {place}")
        if self.has_cap:
            raise ConfigError(text, "usage", _UNCAPPED)
        if self.n_uncounted == 0:
            warnings.warn(f"{text}: see `run.spent[\"uncounted_batches\"]`", stacklevel=2)
        self.n_uncounted += 1

    @staticmethod
    def _uncounted(why: str) -> str:
        return f"{why}: what it asks by other ways is neither counted nor kept"


_UNCAPPED = "ask models by `skillrl.skillopt.model` or `skillopt.model`, or take the caps away"


class _Slot:
    """The place of a task that only the adapter knows: a seed, and a position in its batch."""

    def __init__(self, seed: int, position: int) -> None:
        self.seed, self.position = seed, position

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Slot) and _id(self) == _id(other)

    def __hash__(self) -> int:
        return hash(_id(self))


def _id(item: Any) -> str:
    if isinstance(item, _Slot):
        return f"{item.seed}-{item.position}" if item.seed else str(item.position)
    return str(item.get("id", "")) if isinstance(item, Mapping) else ""


def _list(value: Any) -> list[Any] | None:
    return list(value) if isinstance(value, (list, tuple)) else None


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call with those keyword arguments that the function takes."""
    return function(*args, **_bridge.taken(function, kwargs))


def _cfg(config: SkillOptConfig, name: str, out: Path) -> dict[str, Any]:
    """The settings under the names of SkillOpt, for ``setup``; ``extras`` of the configuration are among them."""
    train = config._sections().get("train") or {}
    fields = {k: v for k, v in config.to_dict().items() if k not in ("extras", "settings", "out_root")}
    return {
        **fields,
        "env": name,
        "out_root": str(out),
        "accumulation": int(train.get("accumulation") or 1),
        "analyst_workers": config.workers,
        "skill_update_mode": train.get("update_mode") or "patch",
        "train_size": 0,
        "sel_env_num": 0,
        "test_env_num": 0,
        **copy.deepcopy(config.extras),
    }


def _is_default(function: Any) -> bool:
    defaults = [EnvAdapter.reflect]
    real = getattr(sys.modules.get("skillopt.envs.base"), "EnvAdapter", None)
    if real is not None:
        defaults.append(real.reflect)
    return function is None or getattr(function, "__func__", function) in defaults


def environment(adapter: Any, config: SkillOptConfig, prompts: Mapping[str, str] | None, settings: Any) -> Any:
    """An adapter as the engine reads it."""
    made = Adapter(adapter, config, settings)
    reflect = None if _is_default(getattr(adapter, "reflect", None)) else made.reflect
    given = dict(prompts or {}) if reflect else {**made.prompts(), **(prompts or {})}
    initial = getattr(adapter, "get_initial_skill", None)
    return SimpleNamespace(
        is_adapter=True,
        name=str(getattr(adapter, "name", "") or made.name),
        items=made.items,
        settings=_data.as_json(settings),
        initial_skill=initial() if callable(initial) else None,
        prompts=_bridge._prompts(given),
        batch=made.rollout,
        reflect=reflect,
        epochs=made.plan,
        adapter=made,
    )
