"""Threads in which plain functions of clients, scorers and environments run.

No frame of the engine is below such a function, so that one that never returns does not keep the process from ending.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading

from skillrl import _native, _process


def spawn(threads: _native.Threads) -> None:
    """Start a thread that works on the jobs of a run until it is over.

    `threading.Thread.start` would wait until the thread runs: the engine starts hundreds of them one after the other.
    """
    _thread.start_new_thread(_work, (threads,))


# After the last run, its threads may not have ended yet.
atexit.register(_native.wait_for_threads)


def _work(threads: _native.Threads) -> None:
    if trace := threading.gettrace():
        sys.settrace(trace)
    if profile := threading.getprofile():
        sys.setprofile(profile)
    job = threads.next(False)
    while job is not None:
        run(job)
        del job
        job = threads.next(True)
    threads.ended()


def run(job: _native.Job) -> None:
    """Call the function of a job, and tell the engine what came of it."""
    pid = os.getpid()
    try:
        function, arguments = job.call()
        value = function(*arguments)
    except BaseException as error:
        _process.end_if_forked(pid, error)
        job.raised(error)
    else:
        _process.end_if_forked(pid)
        job.returned(value)


def reply(asked: _native.Asked) -> _native._Reply:
    """Wait for a reply; the function of a client that makes it runs in this thread meanwhile."""
    while isinstance(step := asked.next(), _native.Job):
        run(step)
    return step
