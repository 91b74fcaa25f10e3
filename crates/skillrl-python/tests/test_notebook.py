"""A notebook: a kernel of Jupyter that trains, shows its progress, and is interrupted."""

from __future__ import annotations

import queue
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

manager = pytest.importorskip("jupyter_client.manager")
pytest.importorskip("ipykernel")

CELL = """
    import sys
    sys.path.insert(0, {tests!r})
    from conftest import Agent, Optimizer, Shout
    import skillrl
    config = skillrl.SkillOptConfig(num_epochs=1, batch_size=4, out_root={out!r}, workers=2)
    trainer = skillrl.SkillOptTrainer(
        config=config, env=Shout(), target_client=Agent({seconds}), optimizer_client=Optimizer(), initial_skill="s"
    )
    trainer.train()
"""


@pytest.fixture
def kernel() -> Iterator[Any]:
    started = manager.KernelManager(kernel_name="python3")
    started.start_kernel()
    client = started.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield started, client
    client.stop_channels()
    started.shutdown_kernel(now=True)


def run(kernel: Any, out: Path, seconds: float, *, interrupt_at: str | None = None) -> list[dict[str, Any]]:
    """The outputs of a cell that trains."""
    started, client = kernel
    code = textwrap.dedent(CELL).format(tests=str(Path(__file__).parent), out=str(out), seconds=seconds)
    client.execute(code)
    outputs: list[dict[str, Any]] = []
    while True:
        try:
            message = client.get_iopub_msg(timeout=120)
        except queue.Empty:
            pytest.fail(f"the cell did not end: {outputs}")
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            return outputs
        if kind in ("stream", "display_data", "update_display_data", "execute_result", "error"):
            outputs.append({"kind": kind, **content})
        if interrupt_at is not None and interrupt_at in str(content) and kind != "execute_input":
            started.interrupt_kernel()
            interrupt_at = None


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_a_notebook_shows_progress_and_the_run_and_can_be_interrupted(kernel: Any, tmp_path: Path) -> None:
    outputs = run(kernel, tmp_path / "run", 0.3, interrupt_at="baseline")
    assert [one["ename"] for one in outputs if one["kind"] == "error"] == ["KeyboardInterrupt"], outputs
    assert not (tmp_path / "run/summary.json").exists()
    outputs = run(kernel, tmp_path / "run", 0.0)
    kinds = [one["kind"] for one in outputs]
    assert "error" not in kinds, outputs
    assert kinds.count("display_data") == 1, "progress is one display that changes"
    result = next(one["data"] for one in outputs if one["kind"] == "execute_result")
    assert "95 % interval" in result["text/html"] and "<table>" in result["text/html"]
