"""The examples of docs/python.md run as they are, in their order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from test_quick_start import _Handler, server  # noqa: F401

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_examples_run(server: type[_Handler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 4
    names: dict[str, Any] = {"__name__": "docs"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/python.md, block {number + 1}", "exec"), names)
    assert names["run"]["total_steps"] == 1
    assert names["echo"]("s", "Capital of France?")[0] == "Paris"
