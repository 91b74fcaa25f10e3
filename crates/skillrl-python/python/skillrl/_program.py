"""The console script ``skillrl``: the program of the workspace, run in this process."""

from __future__ import annotations

import signal
import sys

from skillrl import _native


def main() -> None:
    """Run the program with the arguments of this process, and exit with its code."""
    # Python's own handlers would only take note of a signal, and no Python code runs from here on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.program(["skillrl", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
