"""Traces of agents in use, in the forms of the systems that keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillrl import traces

FILES = Path(__file__).parent / "traces"


@pytest.mark.parametrize("file", sorted(path.name for path in FILES.iterdir()))
def test_a_question_its_answer_and_the_prompt_are_found(file: str) -> None:
    read = traces.read(FILES / file)
    task = read.tasks[0]
    assert (task["text"], task["reference"]) == ("Where is order 7?", "It left on Monday.")
    assert read.system == "You help a shop." and task["id"]


def test_a_conversation_ends_at_its_last_question() -> None:
    first, second = traces.read(FILES / "chat.jsonl").tasks
    assert [one["role"] for one in first["messages"]] == ["user", "assistant"]
    assert (second["text"], second["messages"]) == ("Refund order 8.", [])
    assert second["reference"] == "Your refund is on its way."


def written(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def test_an_answer_in_the_input_is_a_warning(tmp_path: Path) -> None:
    answer = "It left the shop on Monday."
    said = [("user", "Where?"), ("assistant", answer), ("user", "Say it again."), ("assistant", answer)]
    messages = [{"role": role, "content": text} for role, text in said]
    with pytest.warns(UserWarning, match="part of the input of 1 of 1"):
        traces.read(written(tmp_path / "a.jsonl", {"messages": messages}))


def test_records_without_a_question_are_told(tmp_path: Path) -> None:
    good = {"messages": [{"role": "user", "content": "Where?"}]}
    with pytest.warns(UserWarning, match="1 records"):
        assert len(traces.read(written(tmp_path / "a.jsonl", good, {"level": "info"})).tasks) == 1
    with pytest.raises(ValueError, match="holds no conversation"):
        traces.read(written(tmp_path / "b.jsonl", {"level": "info"}))
    (tmp_path / "c.jsonl").write_text('{"messages": []}\n{"messages"')
    with pytest.raises(ValueError, match="line 2"):
        traces.read(tmp_path / "c.jsonl")
