"""Runs beside each other."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable
from typing import Any, Union

from skillrl import _native
from skillrl.run import Run, pandas

#: A run, or the directory of one or of several.
RunLike = Union[str, "os.PathLike[str]", Run]


class RunsTable(dict[str, Any]):
    """Runs in a table: ``runs``, ``groups`` with means over seeds, the ``settings`` that differ, ``group_by``."""

    def __init__(self, made: dict[str, Any]):
        super().__init__(made["table"])
        #: A row for each run by the names of all columns.
        self.records: list[dict[str, Any]] = made["records"]
        self._markdown = str(made["markdown"])

    def to_pandas(self) -> Any:
        """A pandas data frame with a row for each run."""
        return pandas("RunsTable.to_pandas").DataFrame(self.records)

    def __str__(self) -> str:
        return self._markdown

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._markdown)}</pre>"


def _path(run: Any) -> str:
    if isinstance(run, Run):
        return str(run.dir)
    if isinstance(run, (str, os.PathLike)):
        return os.fspath(run)
    raise TypeError(f"runs holds runs and their directories, not {type(run).__name__}")


def compare(runs: RunLike | Iterable[RunLike], group_by: str | Iterable[str] | None = None) -> RunsTable:
    """Runs, or the directories of runs, in a table.

    ``group_by`` names settings, such as ``"models.target.model"``; without it, runs are grouped by all settings that
    differ, except seeds. What is wrong with a run is in ``notes`` of its row.

    >>> skillrl.compare(["runs/a", "runs/b", "runs/c"], group_by="model").to_pandas()
    """
    if isinstance(runs, (str, os.PathLike, Run)):
        runs = [runs]
    elif not isinstance(runs, Iterable):
        raise TypeError(f"runs is a list of runs and directories, not {type(runs).__name__}")
    if group_by is None:
        names = []
    elif isinstance(group_by, str):
        names = [group_by]
    elif isinstance(group_by, Iterable):
        names = list(group_by)
    else:
        raise TypeError(f"group_by is the name of a setting or a list of them, not {type(group_by).__name__}")
    if not all(isinstance(name, str) for name in names):
        raise TypeError("group_by holds names of settings")
    return RunsTable(json.loads(_native.runs_table([_path(run) for run in runs], names)))


def runs_frame(directory: str | os.PathLike[str], group_by: str | Iterable[str] | None = None) -> Any:
    """The runs of a directory as a pandas data frame, a row for each."""
    if not isinstance(directory, (str, os.PathLike)):
        raise TypeError(f"directory is a path, not {type(directory).__name__}")
    return compare(directory, group_by).to_pandas()
