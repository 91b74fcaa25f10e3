"""The examples of the pages for Python run as they are, in their order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from test_quick_start import _Handler, server  # noqa: F401

DOCS = Path(__file__).parents[3] / "docs"


def examples(page: str) -> dict[str, Any]:
    """Runs the examples of a page; returns the names that they define."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
    names: dict[str, Any] = {"__name__": "docs", "n_blocks": len(blocks)}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/{page}, block {number + 1}", "exec"), names)
    return names


def test_the_examples_run(server: type[_Handler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    names = examples("python.md")
    assert names["n_blocks"] >= 4
    assert names["run"]["total_steps"] == 1
    assert names["echo"]("s", "Capital of France?")[0] == "Paris"


def test_the_adapter_trains(server: type[_Handler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    run = examples("coming-from.md")["run"]
    assert run["total_steps"] == 1 and "uncounted_batches" not in run.spent
