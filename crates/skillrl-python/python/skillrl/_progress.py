"""Progress of a run: lines in a terminal, one display that changes in a notebook."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Callable
from typing import Any

from skillrl import _native


def progress(verbose: bool, protocol: str | None = None) -> Callable[[list[str]], None]:
    """A reader of events for wherever this process runs; the protocol of the run is said where it is known."""
    if not verbose:
        return lambda _events: None
    said = _Said(protocol)
    return _Notebook(said) if _in_notebook() else _Terminal(said)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    running = shell.get_ipython()
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


def _stage(event: dict[str, Any]) -> str:
    step = f"step {event['step']} " if event.get("step") else ""
    return f"{step}{str(event.get('stage', '')).replace('_', ' ')}"


def _percent(score: float) -> str:
    return f"{100 * score:.1f} %"


class _Said:
    """Events as lines, with what the events before have told."""

    def __init__(self, protocol: str | None):
        self._protocol = protocol
        self._n_test: int | None = None

    def __call__(self, event: dict[str, Any]) -> str | None:
        """What an event is worth in one line; None for what only the bar shows."""
        if event.get("event") == "run_started":
            self._n_test = int(event["n_items"][2])
        return _line(event, self._protocol, self._n_test)


def _line(event: dict[str, Any], protocol: str | None, n_test: int | None) -> str | None:
    kind = event.get("event")
    if kind == "run_started":
        train, val, test = event["n_items"]
        resumed = f", {event['finished_steps']} finished" if event["finished_steps"] else ""
        plural = "" if event["total_steps"] == 1 else "s"
        steps = f"{event['total_steps']} step{plural}{resumed}"
        steps += f", protocol {protocol}" if protocol else ""
        return f"skillrl {event['env']}: {steps}; items {train} train, {val} val, {test} test → {event['dir']}"
    if kind == "baseline_measured":
        return f"baseline  {_percent(event['gate_score'])} on validation"
    if kind == "step_finished":
        record = event["record"]
        score = record.get("candidate_gate_score")
        shown = "" if score is None else f"  {_percent(score)}"
        action = str(record.get("action", "")).replace("_", " ")
        return f"step {record['step']}{shown}  {action}  (best {_percent(record['best_score'])})"
    if kind == "test_measured":
        hard, soft = event["score"]["hard"], event["score"]["soft"]
        graded = "" if abs(soft - hard) < 1e-5 else f", soft {_percent(soft)}"
        return f"{event['stage'].replace('_', ' ')}  {_percent(hard)}{graded}"
    if kind == "warning":
        return f"warning: {event['message']}"
    if kind == "run_finished":
        return _native.verdict_line(json.dumps(event["summary"]), n_test)
    return None


class _Terminal:
    def __init__(self, line: _Said) -> None:
        self._line = line
        self._has_bar = sys.stdout.isatty()
        self._is_drawn = False

    def __call__(self, events: list[str]) -> None:
        bar = None
        for text in events:
            event = json.loads(text)
            if event.get("event") in ("stage_started", "stage_progress"):
                bar = f"{_stage(event)} {event.get('done', 0)}/{event.get('total', 0)}"
                continue
            if (said := self._line(event)) is not None:
                self._clear()
                print(said, flush=True)
        if bar is not None and self._has_bar:
            self._clear()
            print(bar[:79], end="", flush=True)
            self._is_drawn = True

    def _clear(self) -> None:
        if self._is_drawn:
            print("\r\x1b[K", end="")
            self._is_drawn = False


class _Notebook:
    def __init__(self, line: _Said) -> None:
        self._line = line
        self._lines: list[str] = []
        self._bar = ""
        self._handle: Any = None

    def __call__(self, events: list[str]) -> None:
        for text in events:
            event = json.loads(text)
            if event.get("event") in ("stage_started", "stage_progress"):
                done, total = event.get("done", 0), event.get("total", 0)
                bar = f'<progress value="{done}" max="{max(1, total)}"></progress>'
                self._bar = f"{bar} {html.escape(_stage(event))} {done}/{total}"
                continue
            if (said := self._line(event)) is not None:
                self._lines.append(html.escape(said))
            if event.get("event") in ("run_finished", "run_stopped"):
                self._bar = ""
        self._show()

    def _show(self) -> None:
        # Its types say nothing of these two.
        from IPython import display as ipython

        shown: Any = getattr(ipython, "HTML")(f"<pre>{chr(10).join(self._lines)}</pre>{self._bar}")
        if self._handle is None:
            self._handle = getattr(ipython, "display")(shown, display_id=True)
        else:
            self._handle.update(shown)
