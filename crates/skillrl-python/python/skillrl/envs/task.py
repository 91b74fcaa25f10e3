"""Rows of data, a prompt, and a function that scores."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Union

from skillrl import _native
from skillrl._data import is_missing, rows
from skillrl.envs.base import SkillEnv
from skillrl.types import RolloutResult

#: What a scorer returns: True or False, a grade in [0, 1], either of them with a reason, or a whole result.
Score = Union[bool, float, tuple[Union[bool, float], str], RolloutResult]
Scorer = Callable[[str, dict[str, Any]], Union[Score, Awaitable[Score]]]


class TaskEnv(SkillEnv):
    """Rows of data as tasks: a list of dicts, a DataFrame, or a mapping of splits to these.

    >>> env = TaskEnv(rows, prompt="{text}", answer="queue")
    >>> env = TaskEnv(frame, prompt=lambda row: row["text"], score=lambda reply, row: reply == row["queue"])

    ``score(reply, row)`` returns True or False, a grade between 0 and 1, or one of these with a reason; it may be a
    coroutine function. Without it a reply is right if it is the row's ``answer``, whatever the case.
    Data that has no splits is split at random, always in the same way, in thirds or 2:1:2 from 400 rows on.
    """

    def __init__(
        self,
        data: Any,
        *,
        prompt: str | Callable[[dict[str, Any]], str],
        score: Scorer | None = None,
        answer: str | None = None,
        task_type: str | None = None,
        name: str = "tasks",
        version: str = "",
        initial_skill: str = "",
        max_completion_tokens: int = 1024,
    ) -> None:
        if score is None and answer is None:
            raise ValueError("give `score`, a function, or `answer`, the name of the field with the right answer")
        self.name = name
        self._prompt, self._score, self._answer = prompt, score, answer
        self._initial_skill, self._version = initial_skill, version
        self.max_completion_tokens = max_completion_tokens
        if isinstance(data, Mapping) and {"train", "val"} <= set(data):
            self._splits = {split: self._read(data.get(split, ()), task_type, split) for split in ("train", "val", "test")}
        else:
            items = self._read(data, task_type, "the data")
            parts = _native.split([str(item.get("task_type") or "") for item in items])
            self._splits = {
                split: [items[position] for position in part] for split, part in zip(("train", "val", "test"), parts)
            }
        every = [item for split in self._splits.values() for item in split]
        self.task_types = sorted({str(item["task_type"]) for item in every if item.get("task_type")})
        if score is not None and inspect.iscoroutinefunction(score):
            self.rollout_one = self._rollout_async  # type: ignore[method-assign, assignment]

    def _read(self, data: Any, task_type: str | None, what: str) -> list[dict[str, Any]]:
        read = rows(data, what)
        if self._answer is not None:
            without = [number for number, row in enumerate(read, 1) if is_missing(row.get(self._answer))]
            if without:
                shown = ", ".join(map(str, without[:5])) + (", ..." if len(without) > 5 else "")
                fields = ", ".join(map(str, read[0])) if read else ""
                raise ValueError(
                    f"{len(without)} of {len(read)} rows of {what} have no {self._answer!r} (rows {shown}, from 1); "
                    f"drop them, or name another field: {fields}"
                )
        if task_type is not None:
            read = [{"task_type": "" if is_missing(row.get(task_type)) else str(row[task_type]), **row} for row in read]
        # A prompt that does not fit the rows is found before anything is paid for.
        for row in read[:1]:
            self._user(row)
        return read

    def _user(self, row: dict[str, Any]) -> str:
        if callable(self._prompt):
            return str(self._prompt(row))
        try:
            return self._prompt.format_map(row)
        except KeyError as error:
            raise ValueError(f"the prompt has {{{error.args[0]}}}; the fields are {', '.join(map(str, row))}") from None

    def get_items(self, split: str) -> Sequence[dict[str, Any]]:
        return self._splits.get(split, [])

    def get_initial_skill(self) -> str:
        return self._initial_skill

    def get_settings(self) -> Any:
        prompt = self._prompt if isinstance(self._prompt, str) else _name(self._prompt)
        score = None if self._score is None else _name(self._score)
        tokens = self.max_completion_tokens
        return {"prompt": prompt, "score": score, "answer": self._answer, "max_tokens": tokens, "version": self._version}

    def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: Any) -> RolloutResult:
        user = self._user(item)
        text, _usage = target_client.chat(
            system=skill, user=user, max_completion_tokens=self.max_completion_tokens, stage="rollout"
        )
        return self._result(item, text, self._scored(text, item))

    async def _rollout_async(self, *, item: dict[str, Any], skill: str, target_client: Any) -> RolloutResult:
        user = self._user(item)
        text, _usage = await target_client.chat(
            system=skill, user=user, max_completion_tokens=self.max_completion_tokens, stage="rollout"
        )
        score = self._scored(text, item)
        return self._result(item, text, await score if inspect.isawaitable(score) else score)

    def _scored(self, text: str, item: dict[str, Any]) -> Any:
        if self._score is not None:
            return self._score(text, item)
        said, expected = text.strip(), str(item[self._answer or ""]).strip()
        if said.casefold() == expected.casefold():
            return True
        return False, f"the answer is {said[:80]!r}; expected {expected[:80]!r}"

    def _result(self, item: dict[str, Any], text: str, score: Any) -> RolloutResult:
        if isinstance(score, RolloutResult):
            return score
        value, reason = score if isinstance(score, tuple) and len(score) == 2 else (score, "")
        grade = _grade(value, self._score)
        hard = int(grade >= 1)
        return RolloutResult(
            id=str(item.get("id", "")),
            hard=hard,
            soft=grade,
            fail_reason="" if hard else str(reason),
            predicted_answer=text.strip(),
            reference_text="" if self._answer is None else str(item[self._answer]),
        )


def _grade(value: Any, scorer: Any) -> float:
    if isinstance(value, bool):
        return float(value)
    try:
        grade = float(value)
    except (TypeError, ValueError):
        expected = "True or False, a grade between 0 and 1, one of these with a reason, or a RolloutResult"
        raise TypeError(f"the scorer {_name(scorer)} returned {value!r}; return {expected}") from None
    if not 0 <= grade <= 1:
        raise ValueError(f"the scorer {_name(scorer)} returned {value!r}; a grade is between 0 and 1")
    return grade


def _name(function: Any) -> str:
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", type(function).__name__)
    return f"{module}.{name}"


