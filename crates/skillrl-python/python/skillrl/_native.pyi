"""The engine; what is public of it is in the modules of the package."""

from collections.abc import Callable
from typing import Any, final

__all__ = [
    "Agent",
    "Asked",
    "Done",
    "Job",
    "Model",
    "Threads",
    "__version__",
    "apply_patch",
    "data_rows",
    "edit_budget",
    "evaluate",
    "evaluate_file",
    "extract_json",
    "gate_score",
    "mean_score",
    "plain_result",
    "program",
    "prompt",
    "prompt_names",
    "read_traces",
    "report",
    "run_merge",
    "run_reflect",
    "run_select",
    "runs_table",
    "skill_hash",
    "skill_texts",
    "spent",
    "split",
    "train",
    "verdict",
    "verdict_line",
    "wait_for_threads",
]
__version__: str

_Reply = tuple[str, int, int, int, str | None]

@final
class Agent:
    """The agent of one rollout."""

    @property
    def is_native(self) -> bool:
        """True for a model that the engine asks itself."""

    @property
    def address(self) -> tuple[str, str, str, str] | None:
        """Base URL of OpenAI, of Anthropic, key and model name, where the model is served."""

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The texts of the skill by the names of their files."""

    def ask(
        self,
        messages: list[tuple[str, str]],
        max_tokens: int | None = None,
        temperature: float | None = None,
        extra: tuple[str, dict[str, Any]] | None = None,
        further: str | None = None,
    ) -> Asked: ...
    def start(
        self,
        done: Callable[[_Reply | None, BaseException | None], None],
        messages: list[tuple[str, str]],
        max_tokens: int | None = None,
        temperature: float | None = None,
        extra: tuple[str, dict[str, Any]] | None = None,
        further: str | None = None,
    ) -> None: ...

@final
class Asked:
    """A call that a thread waits for."""

    def next(self) -> Job | _Reply:
        """The reply, or a job that the thread has to do before the next call of this."""

@final
class Job:
    """A call of a function of the caller's."""

    def call(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and its arguments."""

    def returned(self, value: Any) -> None:
        """The function returned this."""

    def raised(self, error: BaseException) -> None:
        """The function raised this."""

@final
class Threads:
    """The jobs of a run."""

    def next(self, is_done: bool) -> Job | None:
        """The next job, for which this waits; None where the run is over."""

    def ended(self) -> None:
        """The thread ends."""

@final
class Done:
    """Takes the result of a coroutine to the engine."""

    def __call__(self, value: Any, error: BaseException | None = None) -> None: ...

@final
class Model:
    """A model behind an address, for calls outside of a run."""

    def __new__(cls, sections: str, api_key: str | None = None) -> Model: ...
    def chat(
        self,
        messages: list[tuple[str, str]],
        max_tokens: int | None = None,
        temperature: float | None = None,
        further: str | None = None,
    ) -> _Reply: ...

def program(arguments: list[str]) -> int:
    """Run the program and return its exit code."""

def train(described: Any, on_events: Callable[[list[str]], None]) -> str:
    """Make a run; returns its directory, its summary and what it spent, as JSON."""

def evaluate(described: Any, skills: list[list[tuple[str, str]]], on_events: Callable[[list[str]], None]) -> str:
    """Measure skills; returns what each came to and what was spent, as JSON."""

def evaluate_file(described: Any, on_events: Callable[[list[str]], None]) -> str:
    """Measure a skill or a bank by a configuration file; returns its scores and what was spent, as JSON."""

def split(types: list[str]) -> tuple[list[int], list[int], list[int]]:
    """Split items of these types at random: the positions in train, val and test."""

def report(directory: str) -> str:
    """Write the report of a run and return its path."""

def verdict(directory: str) -> tuple[str, str]:
    """What a run came to: in one line, and with its cautions as JSON."""

def runs_table(runs: list[str], group_by: list[str]) -> str:
    """The table of these runs, with records of all columns and as Markdown, as JSON."""

def spent(directory: str) -> str:
    """What a run has sent over all its processes, as JSON."""

def verdict_line(summary: str, n_test: int | None) -> str:
    """What a run came to in one line, by its summary as JSON and the number of its test items."""

def wait_for_threads() -> None:
    """Wait for the threads of all runs, before the interpreter ends."""

def plain_result(made: Any) -> str | None:
    """A ``RolloutResult`` as JSON; None for one that ``_bridge._result`` has to read."""

def apply_patch(skill: str, edits: str, fold_anchors: bool, drop_duplicates: bool) -> tuple[str, str]:
    """Apply edits, given as JSON, in order; returns the skill and a row for each edit as JSON."""

def edit_budget(schedule: str, max: int, min: int, total_steps: int, step: int) -> int:
    """The edit budget of a step, which counts from 1."""

def gate_score(hard: float, soft: float, metric: str, mixed_weight: float) -> float:
    """The score that the gate compares."""

def mean_score(scores: list[tuple[float, float]]) -> tuple[float, float]:
    """The mean hard and soft scores; 0 for no results."""

def extract_json(text: str) -> str | None:
    """The JSON object in a reply."""

def skill_texts(source: str) -> list[tuple[str, str]]:
    """The texts of a skill in a file of a run, by the names of their files."""

def data_rows(path: str, into: str) -> int:
    """Write the rows of a data file as JSON Lines, and return their number."""

def read_traces(path: str) -> str:
    """The traces of a file as JSON: ``tasks``, ``system``, ``n_left_out`` and ``leaks``."""

def skill_hash(text: str) -> str:
    """The first 16 digits of the SHA-256 of a text."""

def prompt_names() -> list[str]:
    """The names of the prompts."""

def prompt(name: str) -> str:
    """The built-in prompt of this name, a template with a system and a user message."""

def run_reflect(
    described: Any,
    results: str,
    skill: str,
    minibatch_size: int,
    edit_budget: int,
    failure_only: bool,
    seed: int,
) -> tuple[str, list[str]]:
    """Ask an analyst for each minibatch of trajectories; returns the patches, as JSON, and what was wrong with replies."""

def run_merge(described: Any, patches: str, skill: str, batch_size: int) -> tuple[str, list[str]]:
    """Merge patches, failures first; returns the patch, as JSON, and what was wrong with replies."""

def run_select(described: Any, patch: str, skill: str, max_edits: int) -> tuple[str, list[str]]:
    """Keep as many edits as the budget has; returns the patch, as JSON, and what was wrong with the reply."""
