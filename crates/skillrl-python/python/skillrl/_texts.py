"""Skills of several texts with names: one package for the engine, a dict for the caller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Union

#: A text, or texts by their names, also of several levels.
Skill = Union[str, Mapping[str, Any]]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*(/[A-Za-z0-9_][A-Za-z0-9_. -]*)*")
_MAIN = "SKILL.md"


class Texts:
    """The texts that are trained, and those beside them that stay as they are."""

    def __init__(self, skill: Skill, editable: Sequence[str] | None) -> None:
        self._given = skill
        if isinstance(skill, str):
            if editable is not None:
                raise ValueError("editable is for a dict of texts; skill is one text")
            _check("skill", skill)
            self.fixed: dict[str, str] = {}
            #: The texts that are trained, by the names of the files that the engine keeps them in.
            self.pairs = [(_MAIN, skill)]
            self._files: dict[str, str] = {}
            return
        if not isinstance(skill, Mapping):
            raise TypeError(f"skill is of type {type(skill).__name__}; give a text, or a dict of texts by name")
        texts: dict[str, str] = {}
        for name, text in _flat(skill, ""):
            if not _NAME.fullmatch(name) or name.strip() != name:
                raise ValueError(f"skill has the name {name!r}; names have letters, digits, '_', '-', '.' and spaces")
            if name.casefold() in map(str.casefold, texts):
                raise ValueError(f"skill has the name {name!r} twice")
            _check(f"skill[{name!r}]", text)
            texts[name] = text
        if not texts:
            raise ValueError("skill is an empty dict; give at least one text")
        chosen = list(texts) if editable is None else _chosen(editable, texts)
        self.fixed = {name: text for name, text in texts.items() if name not in chosen}
        files = [_MAIN, *(f"references/{name}.md" for name in chosen[1:])]
        self._files = dict(zip(chosen, files))
        self.pairs = [(file, texts[name]) for name, file in self._files.items()]

    def filled(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """What the caller gave, with the texts of these files."""
        read = dict(pairs)
        if not self._files:
            return read.get(_MAIN, "")
        now = {name: read.get(file, "") for name, file in self._files.items()}
        return _filled(self._given, "", {**self.fixed, **now})


def _flat(skill: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, text in skill.items():
        if not isinstance(name, str):
            raise TypeError(f"skill has the name {name!r}; names are texts")
        if isinstance(text, Mapping):
            yield from _flat(text, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", text


def _filled(given: Any, prefix: str, now: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: _filled(text, f"{prefix}{name}/", now) if isinstance(text, Mapping) else now[f"{prefix}{name}"]
        for name, text in given.items()
    }


def _chosen(editable: Sequence[str], texts: Mapping[str, str]) -> list[str]:
    if isinstance(editable, str):
        editable = [editable]
    for name in editable:
        if not any(_is_in(one, name) for one in texts):
            raise ValueError(f"editable names {name!r}; the texts are {', '.join(map(repr, texts))}")
    chosen = [one for one in texts if any(_is_in(one, name) for name in editable)]
    if not chosen:
        raise ValueError("editable is empty; name at least one text")
    return chosen


def _is_in(name: str, chosen: str) -> bool:
    return name == chosen or name.startswith(f"{chosen}/")


def _check(what: str, text: Any) -> None:
    if isinstance(text, PurePath):
        raise TypeError(f"{what} is a path; give the text: {text.name!r} read by `Path(...).read_text()`")
    if not isinstance(text, str):
        raise TypeError(f"{what} is of type {type(text).__name__}; give a text")
    if not text.strip():
        raise ValueError(f"{what} is empty; give the text that the agent has now")
    if "\n" not in text.strip() and re.fullmatch(r"[^\s]+\.(md|txt|prompt|j2|jinja2?)", text.strip()):
        raise ValueError(f"{what} is {text.strip()!r}, the name of a file; give its text: `Path(...).read_text()`")
