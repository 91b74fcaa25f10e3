"""A run that was made, as an object."""

from __future__ import annotations

import html
import importlib
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skillrl import _native
from skillrl.config import flat


# Split, skill and directory of the evaluations that every run has.
_EVALUATIONS = (
    ("validation", "first", "baseline_selection_eval"),
    ("test", "first", "test_eval_baseline"),
    ("test", "best", "test_eval_best"),
)


def pandas(user: str) -> Any:
    """The package pandas, which is optional."""
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError(f"{user} needs pandas: pip install pandas") from error


class Verdict(dict[str, Any]):
    """What a run came to; as a text it is one line, with its items and its interval.

    ``outcome`` is the decision, such as ``"better"``, ``"worse"``, ``"worse than no skill"`` or ``"cannot tell"``;
    ``words`` are its numbers; ``difference`` and ``interval`` are fractions, and missing where nothing decides;
    ``arms`` are the skills that were measured on the test split (none, initial, one-shot, trained), each with ``score``,
    ``interval`` and what the trained skill has more; ``missing_arms`` names the command that adds one that was left out;
    ``cautions`` are what to know before trusting the numbers, the weightiest first, each with ``kind`` and ``words``.
    """

    def __init__(self, line: str, fields: dict[str, Any]):
        super().__init__(fields)
        self._line = line

    @property
    def outcome(self) -> str:
        """The decision in a few words."""
        return str(self["outcome"])

    def __str__(self) -> str:
        return self._line


def _percent(score: float) -> str:
    return f"{100 * score:.1f} %"


class Run(dict[str, Any]):
    """What a run came to: the fields of its ``summary.json``, its files, and a display for notebooks.

    >>> run = Run.open("outputs/qa_demo")
    >>> run["test_hard"], run.best_skill
    """

    def __init__(self, directory: str | os.PathLike[str], summary: dict[str, Any], spent: dict[str, Any] | None = None):
        super().__init__(summary)
        if isinstance(sections := summary.get("config"), dict):
            self["config"] = {**flat(sections), **sections}
        # Its text is :attr:`best_skill`, and one name is not two things.
        if isinstance(made := self.pop("best_skill", None), dict):
            self["best_skill_origin"] = made.get("origin")
        #: The directory.
        self.dir = Path(directory)
        #: What the run has spent, over all its processes: calls, tokens and money, which is None without prices.
        self.spent = spent or {}

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Run:
        """A finished run from its directory."""
        path = Path(directory) / "summary.json"
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist: {directory} holds no run, or one that is not finished")
        spent = json.loads(_native.spent(str(directory)))
        return cls(directory, json.loads(path.read_text(encoding="utf-8")), spent)

    @property
    def best_skill(self) -> str:
        """The skill to deploy."""
        return self._text("best_skill.md")

    @property
    def current_skill(self) -> str:
        """The skill that was accepted last."""
        return self._text("current_skill.md")

    @property
    def initial_skill(self) -> str:
        """The skill that the run started from."""
        return self._text("skills/skill_v0000.md")

    @property
    def history(self) -> list[dict[str, Any]]:
        """The record of each step."""
        records: list[dict[str, Any]] = json.loads(self._text("history.json"))
        return records

    @property
    def runtime_state(self) -> dict[str, Any]:
        """The state after the last step: scores, steps and hashes of the current and of the best skill."""
        state: dict[str, Any] = json.loads(self._text("runtime_state.json"))
        return state

    def to_pandas(self, what: str = "items") -> Any:
        """A part of the run as a pandas data frame.

        ``"items"`` has a row for each item that the first and the best skill were measured on, ``"proposals"`` one for
        each step with its candidate and its decision, and ``"calls"`` one for each stage with its calls and tokens.
        """
        if what not in ("items", "proposals", "calls"):
            raise ValueError(f"what is 'items', 'proposals' or 'calls', not {what!r}")
        frame = pandas("Run.to_pandas")
        if what == "proposals":
            return frame.json_normalize(self.history)
        if what == "calls":
            stages = self.get("token_summary") or {}
            return frame.DataFrame([{"stage": stage, **used} for stage, used in stages.items()])
        rows = []
        for split, skill, name in _EVALUATIONS:
            path = self.dir / name / "results.json"
            if path.is_file():
                results = json.loads(path.read_text(encoding="utf-8"))
                rows += [{"split": split, "skill": skill, **result} for result in results]
        return frame.DataFrame(rows)

    def report(self) -> Path:
        """Write the report, one HTML page, and return its path."""
        return Path(_native.report(str(self.dir)))

    def _text(self, name: str) -> str:
        return (self.dir / name).read_text(encoding="utf-8")

    @property
    def verdict(self) -> Verdict:
        """What the run came to, as every other medium says it."""
        line, fields = _native.verdict(str(self.dir))
        return Verdict(line, json.loads(fields))

    def _verdict(self) -> str:
        try:
            return str(self.verdict)
        except (OSError, RuntimeError, ValueError) as error:
            return f"no verdict ({error})"

    def _steps(self) -> str:
        proposals = (self.get("search") or {}).get("proposals")
        if proposals:
            return "{fixed} of {made} proposals fixed tasks they came from; {accepted} accepted".format(**proposals)
        counts = {name: self.get(f"total_{name}", 0) for name in ("steps", "accepts", "rejects", "skips")}
        steps = "{steps} steps: {accepts} accepted, {rejects} rejected, {skips} skipped".format(**counts)
        n_empty = self.get("total_empty_replies", 0)
        return f"{steps}, {n_empty} empty replies of the optimizer" if n_empty else steps

    def __repr__(self) -> str:
        return f"Run({str(self.dir)!r}: {self._verdict()}; {self._steps()})"

    def _repr_html_(self) -> str:
        """The display in notebooks: verdict, cautions, score of each step, best skill."""
        escape = html.escape
        rows = []
        try:
            history, skill = self.history, self.best_skill
        except (OSError, ValueError):
            history, skill = [], ""
        for record in history:
            score, bounds = record.get("candidate_gate_score"), record.get("selection_interval")
            shown = "" if score is None else _percent(score)
            if score is None and bounds:
                shown = f"≤ {_percent(bounds[1])}"
            best = record.get("best_score")
            result = str(record.get("action", "")).replace("_", " ")
            cells = (record.get("step"), result, shown, "" if best is None else _percent(best))
            rows.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
        head = "".join(f"<th>{name}</th>" for name in ("step", "result", "candidate", "best"))
        spent = ""
        if self.spent.get("calls"):
            spent = f" · {self.spent['calls']} calls, {self.spent.get('tokens', 0)} tokens"
        try:
            cautions = [f"<li>{escape(caution['words'])}</li>" for caution in self.verdict["cautions"]]
        except (OSError, RuntimeError, ValueError):
            cautions = []
        return (
            f"<div><p><b>{escape(self._verdict())}</b><br>{escape(self._steps())}{escape(spent)} · "
            f"<code>{escape(str(self.dir))}</code></p>"
            f"{'<ul>' + ''.join(cautions) + '</ul>' if cautions else ''}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<details><summary>best skill</summary><pre>{escape(skill)}</pre></details></div>"
        )


def trained(described: Any, directory: str | None, on_events: Callable[[list[str]], None]) -> Run:
    """Make the run that is described."""
    made = json.loads(_native.train(described, on_events))
    if made["no_report"]:
        # The run is as good without its page.
        warnings.warn(f"the report of the run could not be written: {made['no_report']}", stacklevel=2)
    return Run(directory or made["dir"], made["summary"], made["spent"])
