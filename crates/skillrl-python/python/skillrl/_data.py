"""Data of the caller as items: rows as dicts, dicts as JSON."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

# `json.dumps` makes an encoder for each call that has options.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def rows(data: Any, what: str) -> list[dict[str, Any]]:
    """The rows of a list, a DataFrame (pandas or polars), a data set or any other iterable of mappings."""
    if isinstance(data, (str, bytes)):
        raise TypeError(f"{what} is a text; give a list of dicts or a DataFrame")
    if hasattr(data, "to_dicts"):
        data = data.to_dicts()
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):
        data = data.to_dict("records")
    elif isinstance(data, Mapping):
        splits = ", ".join(map(repr, data))
        raise TypeError(f"{what} is a mapping of {splits}; give a list of dicts, or a mapping of train, val and test")
    read = []
    for number, row in enumerate(data, 1):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {number} of {what} is {_a(row)}; rows are dicts")
        read.append(row if isinstance(row, dict) else dict(row))
    return read


def is_missing(value: Any) -> bool:
    """True for None and for the NaN by which DataFrames say that there is no value."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")


def items(env: Any, splits: Mapping[str, str]) -> dict[str, list[tuple[str, str, None, Any]]]:
    """The items of an environment by split, each as id, category, None and the object, of which the engine makes JSON.

    ``splits`` maps the engine's names of splits to those by which the environment is asked.
    """
    seen: dict[str, str] = {}
    described: dict[str, list[tuple[str, str, None, Any]]] = {}
    changed = []
    for split, name in splits.items():
        found = env.get_items(name)
        if isinstance(found, (str, bytes, Mapping)) or not hasattr(found, "__iter__"):
            raise TypeError(f"get_items({name!r}) of {_name(env)} returned {_a(found)}; return a list of dicts")
        described[split] = []
        for number, item in enumerate(found, 1):
            if not isinstance(item, Mapping):
                raise TypeError(f"item {number} of the split {name!r} is {_a(item)}; items are dicts")
            given = item.get("id")
            id_ = f"{split}-{number}" if is_missing(given) or given == "" else str(given)
            if id_ in seen:
                changed.append((id_, seen[id_], split))
                id_ = _free(f"{split}:{id_}", seen)
            seen[id_] = split
            category = item.get("task_type")
            described[split].append((id_, "" if is_missing(category) else str(category), None, item))
    if changed:
        id_, first, second = changed[0]
        warnings.warn(
            f"{len(changed)} ids are there more than once, such as {id_!r} in {first} and in {second}; "
            "if these are the same items, the scores of held-out splits are optimistic",
            stacklevel=4,
        )
    return described


def _free(id_: str, seen: Mapping[str, str]) -> str:
    number, free = 2, id_
    while free in seen:
        free, number = f"{id_}#{number}", number + 1
    return free


def as_json(value: Any) -> str:
    """JSON of a value; what has no JSON of its own is written as its text, always in the same way."""
    try:
        return _encode(value)
    except (TypeError, ValueError):
        return _encode(_plain(value, ()))


def _plain(value: Any, around: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if is_missing(value):
        return None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if id(value) in around:
        raise ValueError("an item holds itself")
    around = (*around, id(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, around) for name, inner in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(inner, around) for inner in value), key=json.dumps)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(inner, around) for inner in value]
    if hasattr(value, "tolist"):
        # Scalars and arrays of numpy.
        return _plain(value.tolist(), around)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    text = str(value)
    # The default text of an object is its address, another one in each process.
    return f"<{type(value).__qualname__}>" if text == object.__repr__(value) else text


def _a(value: Any) -> str:
    return f"of type {type(value).__name__}"


def _name(value: Any) -> str:
    return type(value).__qualname__
