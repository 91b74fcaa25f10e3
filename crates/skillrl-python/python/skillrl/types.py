"""Data that passes between environments, clients and the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

EditOp = Literal["append", "insert_after", "replace", "delete"]
SourceType = Literal["failure", "success"]
GateAction = Literal["accept_new_best", "accept", "reject"]


def _without_nothing(pairs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in pairs.items() if value is not None and value != ""}


@dataclass
class Edit:
    """One change of a skill."""

    op: EditOp
    #: The new text; nothing for ``delete``.
    content: str = ""
    #: The text that is replaced or deleted, or after which the content is inserted.
    target: str = ""
    #: How many trajectories speak for it.
    support_count: int | None = None
    #: What kind of trajectories it was proposed for.
    source_type: SourceType | None = None
    #: At which level of merging it was made.
    merge_level: int | None = None
    #: What made it and what it is for, in the words of whoever proposed it.
    update_origin: str = ""
    update_target: str = ""

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Edit:
        """The edit of a JSON object; missing fields have their defaults."""
        return cls(
            op=d.get("op", "append"),
            content=d.get("content") or "",
            target=d.get("target") or "",
            support_count=d.get("support_count"),
            source_type=d.get("source_type"),
            merge_level=d.get("merge_level"),
            update_origin=d.get("update_origin") or "",
            update_target=d.get("update_target") or "",
        )

    def to_dict(self) -> dict[str, Any]:
        """The edit as a JSON object."""
        rest: dict[str, Any] = {"target": self.target, "support_count": self.support_count}
        rest |= {"source_type": self.source_type, "merge_level": self.merge_level}
        rest |= {"update_origin": self.update_origin, "update_target": self.update_target}
        return {"op": self.op, "content": self.content, **_without_nothing(rest)}


@dataclass
class Patch:
    """Edits that belong together."""

    edits: list[Edit] = field(default_factory=list)
    reasoning: str = ""
    ranking_details: dict[str, Any] | None = None

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Patch:
        """The patch of a JSON object; members of ``edits`` that are not objects are kept as they are."""
        edits = [Edit.from_dict(edit) if isinstance(edit, Mapping) else edit for edit in d.get("edits") or []]
        return cls(edits, d.get("reasoning") or "", d.get("ranking_details"))

    def to_dict(self) -> dict[str, Any]:
        """The patch as a JSON object."""
        edits = [edit.to_dict() if isinstance(edit, Edit) else edit for edit in self.edits]
        return {"reasoning": self.reasoning, "edits": edits, **_without_nothing({"ranking_details": self.ranking_details})}


@dataclass
class RawPatch:
    """What one analyst proposed."""

    patch: Patch
    source_type: SourceType = "failure"
    #: The trajectories that it read.
    batch_size: int = 0

    @classmethod
    def from_dict(cls, d: Mapping[str, Any] | None) -> RawPatch | None:
        """The proposal of a JSON object; ``None`` if there is none in it."""
        inner = d.get("patch", d) if d is not None else None
        if d is None or not isinstance(inner, Mapping):
            return None
        return cls(Patch.from_dict(inner), d.get("source_type", "failure"), int(d.get("batch_size", 0)))

    def to_dict(self) -> dict[str, Any]:
        """The proposal as a JSON object."""
        return {"patch": self.patch.to_dict(), "source_type": self.source_type, "batch_size": self.batch_size}


@dataclass
class GateResult:
    """What the gate decided."""

    action: GateAction
    current_skill: str
    current_score: float
    best_skill: str
    best_score: float
    best_step: int


class _Unset(float):
    """A score that nobody has given."""


@dataclass
class RolloutResult:
    """What came of one item: a score, and what explains it to the optimizer."""

    #: The item; the engine fills it in.
    id: str
    #: The strict score: 1 for a success, 0 for a failure.
    hard: float = 0
    #: The graded score in [0, 1]; without one, the strict score.
    soft: float = _Unset("nan")
    #: How many times the agent spoke.
    n_turns: int = 0
    #: Why the task failed, for the optimizer.
    fail_reason: str = ""
    #: The item's category.
    task_type: str = ""
    task_description: str = ""
    #: The answer that was scored.
    predicted_answer: str = ""
    question: str = ""
    #: A right answer; the optimizer is shown it, the agent is not.
    reference_text: str = ""
    target_system_prompt: str = ""
    target_user_prompt: str = ""
    #: The messages as ``{"role", "content"}``; without it the engine takes what it has recorded.
    conversation: list[dict[str, Any]] = field(default_factory=list)
    #: What only this environment knows.
    extras: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.soft, _Unset):
            self.soft = float(self.hard)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> RolloutResult:
        """The result of a JSON object; fields that are not known become ``extras``.

        ``id`` becomes a text, ``n_turns`` an int, ``soft`` a float (0 where it is missing, as in skillrl 1.0), and ``hard`` an int where it is a whole number, else a float.
        """
        known = {name: value for name, value in d.items() if name in cls.__dataclass_fields__ and value is not None}
        extras = {**known.pop("extras", {})}
        extras |= {name: value for name, value in d.items() if name not in cls.__dataclass_fields__}
        hard = float(known.pop("hard", 0))
        scores: dict[str, Any] = {"hard": int(hard) if hard.is_integer() else hard, "soft": float(known.pop("soft", 0.0))}
        turns = int(known.pop("n_turns", 0))
        return cls(id=str(known.pop("id", "")), n_turns=turns, **scores, **known, extras=extras)

    def to_dict(self) -> dict[str, Any]:
        """The result as a JSON object, without fields that are empty."""
        scores = {"id": self.id, "hard": self.hard, "soft": self.soft}
        names = (name for name in self.__dataclass_fields__ if name not in scores and name != "extras")
        return {**scores, **{name: value for name in names if (value := getattr(self, name))}, **self.extras}
