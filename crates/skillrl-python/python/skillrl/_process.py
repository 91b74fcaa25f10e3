"""The interpreter and the process that the engine works in."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn


def check_interpreter() -> None:
    """Raise ``ImportError`` in any interpreter of a process but the first: the threads of the engine belong to that one."""
    # The second name is that before Python 3.13.
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
            is_main = bool(interpreters.get_current() == interpreters.get_main())
        except (ImportError, AttributeError):
            continue
        break
    else:
        return
    if not is_main:
        raise ImportError("skillrl works in the main interpreter only: import it there, or start a process")


def end_if_forked(pid: int, error: BaseException | None = None) -> None:
    """End this process if a function of the engine was called by the process ``pid`` and has forked.

    The engine's threads are in the parent alone, so nothing would ever read the result of the child.
    """
    if os.getpid() != pid:
        _end(error)


def _end(error: BaseException | None) -> NoReturn:
    code = int(error is not None)
    try:
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr)
        elif error is not None:
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            print("skillrl: a forked process has left its function, and ends: use os._exit() in it", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        # Whatever its streams do, no child goes on inside the engine of its parent.
        os._exit(code)
