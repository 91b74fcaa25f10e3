"""Train and measure the prompts of an agent that is a function of the caller's.

>>> best = skillrl.train_agent(run, tasks, skill=PROMPT, model="gpt-5-mini", optimizer="gpt-5", budget=2, out="runs/shop")
"""

from __future__ import annotations

import inspect
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Union

from skillrl import _bridge, _data, _native
from skillrl._progress import progress
from skillrl._texts import Skill, Texts
from skillrl.config import settings_json
from skillrl.errors import ConfigError
from skillrl.llm.openai_client import ChatClient, OpenAIChatClient
from skillrl.run import Run, Verdict, trained
from skillrl.types import RolloutResult

#: Seconds that one call of the agent may take, unless told otherwise.
TIMEOUT = 1800.0

#: The caps of a budget by their names.
CAPS = ("calls", "tokens", "money")

_RETURNS = "return True or False, a number from 0 to 1, one of these with a reason, Failed(reason) or a RolloutResult"


class Failed(Exception):
    """The agent failed its task: raise or return it. ``reason`` is what the optimizer reads."""

    def __init__(self, reason: object = "") -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class Model:
    """The model of one rollout, served on this machine: give its fields to the client of the agent.

    Calls are answered by the model that is trained for, recorded in the run's journal, counted and capped. The key is
    good for this rollout alone.
    """

    __slots__ = ("anthropic_base_url", "api_key", "base_url", "name")

    def __init__(self, address: tuple[str, str, str, str]) -> None:
        #: The base URL for clients of OpenAI: Chat Completions and Responses.
        self.base_url = address[0]
        #: The base URL for clients of Anthropic: Messages.
        self.anthropic_base_url = address[1]
        #: The key for both.
        self.api_key = address[2]
        #: The name of the model that answers, whatever name is asked for.
        self.name = address[3]

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which clients and programs find their model."""
        return {
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_BASE": self.base_url,
            "OPENAI_API_KEY": self.api_key,
            "ANTHROPIC_BASE_URL": self.anthropic_base_url,
            "ANTHROPIC_API_KEY": self.api_key,
        }

    def __repr__(self) -> str:
        return f"Model({self.name!r}, base_url={self.base_url!r})"


#: An agent: ``run(task, skill, model)`` returns a score.
Agent = Callable[[dict[str, Any], Any, Model], Any]


class _Outcome:
    """What a run came to, beside its texts."""

    run: Run

    @property
    def verdict(self) -> Verdict:
        """What the run came to."""
        return self.run.verdict

    @property
    def spent(self) -> dict[str, Any]:
        """Calls, tokens and money of the run."""
        return self.run.spent

    def report(self) -> Path:
        """Write the report, one HTML page, and return its path."""
        return self.run.report()

    def _repr_html_(self) -> str:
        return self.run._repr_html_()


class TrainedTexts(dict[str, Any], _Outcome):
    """The trained texts by their names, with the run that made them."""


class TrainedText(str, _Outcome):
    """The trained text, with the run that made it."""


def train_agent(
    run: Agent,
    tasks: Any,
    *,
    skill: Skill,
    model: Any,
    optimizer: Any = None,
    budget: float | Mapping[str, float] | None = None,
    out: str | os.PathLike[str],
    judge: str | os.PathLike[str] | None = None,
    judge_model: Any = None,
    pass_score: float = 0.8,
    editable: Sequence[str] | None = None,
    workers: int = 8,
    on_error: str = "fail",
    max_errors: float = 0.5,
    timeout: float = TIMEOUT,
    version: str = "",
    seed: int = 42,
    verbose: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> TrainedText | TrainedTexts:
    """Train the prompts of an agent, and return them; the same call resumes a run that is in ``out``.

    ``run(task, skill, model)`` has the agent work on one task, with the texts of ``skill`` and a client of ``model``,
    and returns a score: True or False, a number from 0 to 1, one of these with a reason, or ``Failed(reason)``. It may
    be ``async def``. ``skill`` is a text, or a dict of texts with names (also one in another); ``editable`` names those
    that may change, by default all. ``tasks`` is a list of dicts, a DataFrame, the path of a data file, or a mapping of
    ``train``, ``val`` and, if there is one, ``test`` to these. With ``judge``, a rubric or the path of one, what ``run``
    returns is the answer, and a model gives the score.

    ``budget`` is a cap on money, or a dict of caps on ``calls``, ``tokens`` and ``money``. With ``on_error="fail"`` an
    exception of ``run`` is a failed task, up to a share ``max_errors`` of the tasks; with ``"stop"`` it ends the run.
    ``settings`` reaches every other setting by its name, such as ``{"gate.mode": "mcnemar"}``.
    """
    texts = Texts(skill, editable)
    described = _described(
        run, _splits(tasks), texts,
        model=model, optimizer=model if optimizer is None else optimizer, budget=budget, out=out, judge=judge,
        judge_model=judge_model, pass_score=pass_score, workers=workers, on_error=on_error, max_errors=max_errors,
        timeout=timeout, version=version, seed=seed, settings=settings,
    )  # fmt: skip
    made = trained(described, os.fspath(out), progress(verbose, described.protocol))
    best = texts.filled(_native.skill_texts(made.best_skill))
    result: TrainedText | TrainedTexts = TrainedText(best) if isinstance(best, str) else TrainedTexts(best)
    result.run = made
    return result


class Measured(dict[str, Any]):
    """What a skill is worth on tasks: ``hard`` and ``soft`` with the interval of ``hard``, and each result.

    With ``against``, or with a bank, there is ``compared``: difference, its interval, and how many tasks improved and
    regressed.
    """

    #: Calls, tokens and money of the measurement.
    spent: dict[str, Any]

    def __repr__(self) -> str:
        low, high = self["interval"]
        text = f"{100 * self['hard']:.1f} % of {len(self['results'])} tasks ({100 * low:.1f} to {100 * high:.1f} %)"
        if compared := self.get("compared"):
            low, high = (100 * bound for bound in compared["interval"])
            text += f"; {100 * compared['difference']:+.1f} points ({low:+.1f} to {high:+.1f})"
            text += f", {compared['improved']} improved, {compared['regressed']} regressed"
        return f"Measured({text})"


def eval_agent(
    run: Agent,
    tasks: Any,
    *,
    skill: Skill,
    model: Any,
    against: Skill | None = None,
    budget: float | Mapping[str, float] | None = None,
    out: str | os.PathLike[str] | None = None,
    judge: str | os.PathLike[str] | None = None,
    judge_model: Any = None,
    pass_score: float = 0.8,
    workers: int = 8,
    on_error: str = "fail",
    max_errors: float = 0.5,
    timeout: float = TIMEOUT,
    version: str = "",
    verbose: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> Measured:
    """Measure an agent on all tasks, in the way of ``train_agent``; ``against`` is a skill to compare with.

    With ``out``, the same call goes on where it stopped, and asks for no reply twice.
    """
    skills = [Texts(one, None) for one in (against, skill) if one is not None]
    texts = skills[-1]
    if [file for file, _ in skills[0].pairs] != [file for file, _ in texts.pairs]:
        raise ValueError("against has texts of other names than skill")
    rows = _rows(tasks, "tasks")
    described = _described(
        run, {"train": [], "val": rows, "test": []}, texts,
        model=model, optimizer=model, budget=budget, out="", judge=judge, judge_model=judge_model,
        pass_score=pass_score, workers=workers, on_error=on_error, max_errors=max_errors, timeout=timeout,
        version=version, seed=42, settings=settings,
    )  # fmt: skip
    described.out = None if out is None else os.fspath(out)
    made = json.loads(_native.evaluate(described, [one.pairs for one in skills], progress(verbose)))
    measured = Measured(made["arms"][-1])
    measured.spent = made["spent"]
    return measured


def eval_file(
    path: str | os.PathLike[str],
    *,
    skill: str | os.PathLike[str] | None = None,
    bank: str | os.PathLike[str] | None = None,
    split: str | None = None,
    against: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    verbose: bool = True,
    **settings: Any,
) -> Measured:
    """Measure by a configuration file, as ``skillrl eval`` does.

    ``skill`` is the path of a skill, by default the best one of the run of the file, else its initial one. With ``bank``
    the split is measured without and with this bank: ``compared`` is the difference, and ``without`` the scores without
    it. ``split`` is ``train``, ``val`` or ``test``, by default ``val``. ``against`` is the ``out`` of an earlier
    measurement of a skill.

    With ``out``, the same call goes on where it stopped, and asks for no reply twice. ``settings`` take the place of
    keys of the file, with ``__`` for the dot.
    """
    if bank is not None and against is not None:
        raise ValueError("against is for skills; a bank is compared with no bank")
    changed = {name.replace("__", "."): value for name, value in settings.items()}
    described = _bridge.described_file(os.fspath(path), changed)
    for name, value in {"skill": skill, "bank": bank, "against": against, "out": out}.items():
        setattr(described, name, None if value is None else os.fspath(value))
    described.split = split
    made = json.loads(_native.evaluate_file(described, progress(verbose)))
    spent = made.pop("spent")
    measured = Measured(made)
    measured.spent = spent
    return measured


def _described(
    run: Agent,
    splits: Mapping[str, list[dict[str, Any]]],
    texts: Texts,
    *,
    model: Any,
    optimizer: Any,
    budget: float | Mapping[str, float] | None,
    out: str | os.PathLike[str],
    judge: str | os.PathLike[str] | None,
    judge_model: Any,
    pass_score: float,
    workers: int,
    on_error: str,
    max_errors: float,
    timeout: float,
    version: str,
    seed: int,
    settings: Mapping[str, Any] | None,
) -> Any:
    """A run as the engine reads it."""
    if not callable(run):
        raise TypeError(f"run is of type {type(run).__name__}; give a function of task, skill and model")
    if on_error not in ("fail", "stop"):
        raise ValueError(f"on_error is {on_error!r}; it has to be 'fail' or 'stop'")
    for name, value, low, high in (("max_errors", max_errors, 0, 1), ("pass_score", pass_score, 0, 1)):
        if not low <= value <= high:
            raise ValueError(f"{name} is {value!r}; it has to be between {low} and {high}")
    if not 0 < timeout < math.inf:
        raise ValueError(f"timeout is {timeout!r}; it has to be a number of seconds above 0")
    rubric = None if judge is None else _text_of(judge, "judge")
    clients = {"target": _client(model, "model"), "optimizer": _client(optimizer, "optimizer")}
    if rubric is not None:
        clients["judge"] = _client(optimizer if judge_model is None else judge_model, "judge_model")
    read = {role: _bridge.client(one, role) for role, one in clients.items()}
    sections = _sections(budget, workers, seed, bool(splits["test"]), settings)
    natives = {role: one.section for role, one in read.items() if one.is_native}
    if natives:
        sections.setdefault("models", {}).update(natives)
    name = getattr(run, "__qualname__", type(run).__qualname__)
    identity = {"run": f"{getattr(run, '__module__', '')}.{name}", "version": version, "fixed": texts.fixed}
    world = SimpleNamespace(
        is_adapter=False,
        name="agent",
        items=_data.items(_Tasks(splits), {split: split for split in splits}),
        settings=_data.as_json(identity),
        initial_skill=texts.pairs,
        prompts={},
        rollout=_rollout(run, texts, rubric is not None),
        is_async=inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(getattr(run, "__call__", None)),
        serves=True,
        max_errors=max_errors if on_error == "fail" else None,
        needs_calls=True,
    )
    return SimpleNamespace(
        **read,
        settings=settings_json(sections),
        named_settings="{}",
        env=world,
        rubric=rubric,
        pass_score=float(pass_score),
        out=os.fspath(out),
        rollout_timeout=float(timeout),
        client_timeout=float(timeout),
        file=None,
        protocol=str(sections["train"].get("protocol", "paper")),
        **_bridge.calls(),
    )


class _Tasks:
    """Tasks as an environment has them."""

    def __init__(self, splits: Mapping[str, list[dict[str, Any]]]) -> None:
        self._splits = splits

    def get_items(self, split: str) -> list[dict[str, Any]]:
        return self._splits[split]


def _splits(tasks: Any) -> dict[str, list[dict[str, Any]]]:
    """Tasks by split: split at random, always in the same way, unless they are split already."""
    if isinstance(tasks, Mapping) and {"train", "val"} <= set(tasks):
        parts = {split: _rows(tasks[split], f"tasks[{split!r}]") for split in ("train", "val", "test") if split in tasks}
        return {"test": [], **parts}
    rows = _rows(tasks, "tasks")
    places = _native.split([str(row.get("task_type") or "") for row in rows])
    return {split: [rows[at] for at in part] for split, part in zip(("train", "val", "test"), places)}


def _rows(tasks: Any, what: str) -> list[dict[str, Any]]:
    """Tasks as dicts, each with an id."""
    if isinstance(tasks, (str, os.PathLike)):
        tasks = _read(Path(tasks))
    rows = _data.rows(tasks, what)
    if not rows:
        raise ValueError(f"{what} is empty; give at least one task for training and one for the gate")

    def named(number: int, row: dict[str, Any]) -> dict[str, Any]:
        has_id = not _data.is_missing(row.get("id")) and row["id"] != ""
        return row if has_id else {"id": f"task-{number}", **{name: row[name] for name in row if name != "id"}}

    return [named(number, row) for number, row in enumerate(rows, 1)]


def _read(path: Path) -> list[dict[str, Any]]:
    """The rows of a data file of any kind that the engine reads."""
    if not path.is_file():
        raise FileNotFoundError(f"tasks: {path} does not exist or is not a file")
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "rows.jsonl"
        _native.data_rows(str(path), str(lines))
        return [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]


def _client(model: Any, what: str) -> Any:
    """A client: of a name, or the caller's own."""
    if isinstance(model, str):
        if not model.strip():
            raise ValueError(f"{what} is empty; give the name of a model, such as 'gpt-5-mini'")
        return ChatClient(model) if "/" in model else OpenAIChatClient(model)
    return model


def _text_of(given: str | os.PathLike[str], what: str) -> str:
    """A text, or that of the file that is named."""
    if isinstance(given, str) and ("\n" in given or not given.lower().endswith((".md", ".txt"))):
        return given
    path = Path(given)
    if not path.is_file():
        raise FileNotFoundError(f"{what}: {path} does not exist or is not a file")
    return path.read_text(encoding="utf-8")


def _sections(
    budget: float | Mapping[str, float] | None,
    workers: int,
    seed: int,
    has_test: bool,
    settings: Mapping[str, Any] | None,
) -> dict[str, Any]:
    caps = budget if isinstance(budget, Mapping) else {} if budget is None else {"money": budget}
    for name, cap in caps.items():
        if name not in CAPS:
            raise ConfigError(f"budget has {name!r}; caps are {', '.join(CAPS)}", "usage")
        if isinstance(cap, bool) or not isinstance(cap, (int, float)) or not 0 < cap < math.inf:
            raise ConfigError(f"the budget of {name} is {cap!r}; it has to be a number above 0", "usage")
    sections: dict[str, Any] = {
        "train": {"protocol": "auto"},
        "run": {"workers": workers, "seed": seed},
        "budget": {name: float(cap) if name == "money" else int(cap) for name, cap in caps.items()},
        "eval": {"test": has_test},
    }
    for key, value in (settings or {}).items():
        *path, name = key.split(".")
        if not path:
            raise ConfigError(f"settings has {key!r}; a setting is named like 'gate.mode'", "usage")
        section = sections
        for part in path:
            section = section.setdefault(part, {})
        section[name] = value
    return sections


def _rollout(run: Agent, texts: Texts, is_judged: bool) -> Callable[..., Any]:
    """A function of the engine's arguments that has the agent work on a task."""

    def rollout(task: dict[str, Any], _skill: str, agent: _native.Agent) -> Any:
        address = agent.address
        assert address is not None, "an agent is served its model"
        skill = texts.filled(agent.texts)
        try:
            # A task that the agent changes is whole for the next rollout.
            made = run(dict(task), skill, Model(address))
        except Failed as failed:
            made = failed
        if inspect.isawaitable(made):
            return later(task, made)
        return result(task, made)

    async def later(task: dict[str, Any], awaitable: Any) -> str:
        try:
            made = await awaitable
        except Failed as failed:
            made = failed
        return result(task, made)

    def result(task: dict[str, Any], made: Any) -> str:
        try:
            return _result(task, made, is_judged)
        except (TypeError, ValueError) as error:
            # What is wrong with the function is no failure of its agent.
            return json.dumps({"wrong": str(error)})

    return rollout


def _result(task: dict[str, Any], made: Any, is_judged: bool) -> str:
    """What a run of the agent came to, as JSON."""
    id_ = str(task.get("id", ""))
    if isinstance(made, Failed):
        return _bridge._result(RolloutResult(id=id_, hard=0, fail_reason=made.reason or "the agent failed"), "`run`")
    if isinstance(made, RolloutResult):
        return _bridge._result(made, "`run`")
    if is_judged:
        answer = "" if made is None else made if isinstance(made, str) else _data.as_json(made)
        return json.dumps({"id": id_, "hard": 0, "soft": 0, "predicted_answer": answer, "extras": {"agent_unscored": True}})
    score, reason = made if isinstance(made, tuple) and len(made) == 2 else (made, "")
    grade = _grade(score)
    why = "" if grade >= 1 else str(reason or "")
    return json.dumps({"id": id_, "hard": float(grade >= 1), "soft": grade, "fail_reason": why})


#: A score: True or False, or a number.
_Score = Union[bool, int, float]


def _grade(score: Any) -> float:
    if hasattr(score, "item") and not isinstance(score, (bool, int, float)):
        # A scalar of numpy.
        score = score.item()
    if score is None or not isinstance(score, (bool, int, float)):
        raise TypeError(f"`run` returned {score!r:.80}; {_RETURNS}")
    if math.isnan(score) or not 0 <= score <= 1:
        raise ValueError(f"`run` returned {score!r}; {_RETURNS}")
    return float(score)
