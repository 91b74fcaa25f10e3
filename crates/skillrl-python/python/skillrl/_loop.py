"""The event loop in which coroutines of clients, scorers and environments run: one thread of its own for all runs."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from skillrl import _process

_lock = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None


def loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a process that was forked gets its own."""
    global _running
    with _lock:
        if _running is None or _running[0] != os.getpid():
            made = asyncio.new_event_loop()
            threading.Thread(target=made.run_forever, name="skillrl-asyncio", daemon=True).start()
            _running = (os.getpid(), made)
        return _running[1]


def submit(awaitable: Any, done: Callable[..., None]) -> Future[Any]:
    """Run an awaitable, and call ``done(value)`` or ``done(None, error)`` when it has ended."""
    future = asyncio.run_coroutine_threadsafe(_awaited(awaitable), loop())

    def tell(ended: Future[Any]) -> None:
        if ended.cancelled():
            done(None, RuntimeError("the coroutine was cancelled"))
        elif (error := ended.exception()) is not None:
            done(None, error)
        else:
            done(ended.result())

    future.add_done_callback(tell)
    return future


async def _awaited(awaitable: Any) -> Any:
    pid = os.getpid()
    try:
        value = await awaitable
    except BaseException as error:
        _process.end_if_forked(pid, error)
        raise
    _process.end_if_forked(pid)
    return value
