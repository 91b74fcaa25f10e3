"""Data: lists, frames, mixed types, missing labels, many rows."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from conftest import Shout

import skillrl
from skillrl import _data
from skillrl.envs import SimpleQAEnv, TaskEnv


def reply(system: str, user: str) -> str:
    """An agent that repeats what it is told."""
    return user


def test_rows_with_an_answer_are_scored(train: Any) -> None:
    rows = [{"text": f"t{number}", "label": f"T{number}"} for number in range(9)]
    assert train(TaskEnv(rows, prompt="{text}", answer="label"), target=reply)["test_hard"] == 1.0


@pytest.mark.parametrize(
    ("score", "hard", "soft"),
    [
        (lambda said, row: True, 1.0, 1.0),
        (lambda said, row: 0.25, 0.0, 0.25),
        (lambda said, row: (False, "because"), 0.0, 0.0),
        (lambda said, row: skillrl.RolloutResult(id="", hard=1, soft=0.5), 1.0, 0.5),
    ],
)
def test_a_function_is_a_scorer(train: Any, score: Any, hard: float, soft: float) -> None:
    rows = [{"text": f"t{number}"} for number in range(3)]
    run = train(TaskEnv(rows, prompt=lambda row: row["text"], score=score), target=reply)
    assert (run["test_hard"], run["test_soft"]) == (hard, soft)


@pytest.mark.parametrize("score", [lambda said, row: "good", lambda said, row: 7, lambda said, row: None])
def test_a_scorer_that_returns_something_else_is_an_error(train: Any, score: Any) -> None:
    env = TaskEnv([{"text": str(number)} for number in range(3)], prompt="{text}", score=score)
    with pytest.raises(skillrl.RunError, match="the scorer .* returned"):
        train(env, target=reply)


def test_frames_are_data(train: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [f"t{n}" for n in range(9)], "label": [f"t{n}" for n in range(9)], "n": range(9)})
    assert train(TaskEnv(frame, prompt="{text}", answer="label"), target=reply)["test_hard"] == 1.0
    frame.loc[3, "label"] = None
    with pytest.raises(ValueError, match=r"1 of 9 rows of the data have no 'label' \(rows 4, from 1\)"):
        TaskEnv(frame, prompt="{text}", answer="label")


def test_missing_labels_are_counted_and_named() -> None:
    rows = [{"text": "a", "label": "x"}, {"text": "b"}, {"text": "c", "label": None}, {"text": "d", "label": float("nan")}]
    with pytest.raises(ValueError, match=r"3 of 4 rows of the data have no 'label' \(rows 2, 3, 4, from 1\).*text, label"):
        TaskEnv(rows, prompt="{text}", answer="label")


def test_what_is_no_data_is_said() -> None:
    for data, told in (("file.csv", "a text"), ([1], "row 1"), ([{"a": 1}, "b"], "row 2"), ({"a": []}, "mapping")):
        with pytest.raises(TypeError, match=told):
            TaskEnv(data, prompt="x", answer="a")
    with pytest.raises(ValueError, match=r"\{texd\}.*text, label"):
        TaskEnv([{"text": "a", "label": "b"}], prompt="{texd}", answer="label")
    with pytest.raises(ValueError, match="`score`"):
        TaskEnv([{"text": "a"}], prompt="{text}")


def test_labels_of_mixed_types_are_compared_as_texts(train: Any) -> None:
    rows = [{"text": str(value), "label": value} for value in (1, "2", 3.5, True, "x", 6, "7", 8, 9)]
    env = TaskEnv(rows, prompt="{text}", answer="label")
    assert train(env, target=reply)["test_hard"] == 1.0


def test_items_of_any_types_have_json_that_stays_the_same() -> None:
    class Thing:
        pass

    item = {"when": datetime.date(2026, 1, 2), 3: {"b", "a"}, "nan": float("nan"), "inf": float("inf"), "x": Thing(), "b": b"\x00"}
    expected = {"when": "2026-01-02", "3": ["a", "b"], "nan": None, "inf": "inf", "b": "00"}
    read = json.loads(_data.as_json(item))
    assert "0x" not in read.pop("x")
    assert read == expected
    item["self"] = item
    with pytest.raises(ValueError, match="holds itself"):
        _data.as_json(item)


def test_ids_are_made_unique_and_that_is_said(train: Any, qa: SimpleQAEnv) -> None:
    same = [{"id": "1", "question": "q", "answers": ["q"]}]
    env = SimpleQAEnv(train_items=same, val_items=same, test_items=[{"question": "q", "answers": ["q"]}])
    with pytest.warns(UserWarning, match="'1' in train and in val"):
        run = train(env, target=reply)
    assert run["test_hard"] == 1.0


def test_an_environment_that_gives_no_items_is_named(train: Any) -> None:
    for returned, told in ((None, "NoneType"), ("abc", "str"), ([1], "item 1 of the split 'train'")):
        env = Shout()
        env.get_items = lambda split, returned=returned: returned  # type: ignore[method-assign, misc]
        with pytest.raises(TypeError, match=told):
            train(env)
    env = Shout()
    env.get_items = lambda split: [] if split == "val" else [{"id": split}]  # type: ignore[method-assign]
    with pytest.raises(skillrl.RunError, match="val split"):
        train(env)


def test_without_test_items_nothing_is_tested(train: Any) -> None:
    env = Shout()
    whole = env.get_items
    env.get_items = lambda split: [] if split == "test" else whole(split)  # type: ignore[method-assign]
    run = train(env)
    assert run["test_hard"] is None and run["best_selection_score"] == 1.0
    assert "Not tested" in repr(run)


def test_splits_and_frames_by_name(train: Any) -> None:
    rows = lambda name: [{"text": f"{name}{number}", "label": f"{name}{number}", "kind": "k"} for number in range(2)]
    data = {name: rows(name) for name in ("train", "val", "test")}
    env = TaskEnv(data, prompt="{text}", answer="label", task_type="kind")
    assert env.get_task_types() == ["k"]
    assert [row["text"] for row in env.get_items("val")] == ["val0", "val1"]
    assert train(env, target=reply)["test_hard"] == 1.0


def test_a_million_rows_are_taken(train: Any) -> None:
    n = 1_000_000
    rows = {"train": ({"text": "t", "label": "t"} for _ in range(n)), "val": [{"text": "v", "label": "v"}], "test": []}
    env = TaskEnv(rows, prompt="{text}", answer="label")
    with pytest.raises(skillrl.RunError) as caught:
        train(env, target=reply, batch_size=4, max_calls=3)
    assert caught.value.kind == "budget"
