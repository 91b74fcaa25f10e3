"""The engine; what is public of it is in the modules of the package."""

from collections.abc import Callable
from typing import Any, final

__all__ = ["Agent", "Done", "Model", "__version__", "program", "report", "split", "train"]
__version__: str

_Reply = tuple[str, int, int, int]

@final
class Agent:
    """The agent of one rollout."""

    def chat(
        self,
        messages: list[tuple[str, str]],
        max_tokens: int | None = None,
        temperature: float | None = None,
        extra: tuple[str, dict[str, Any]] | None = None,
    ) -> _Reply: ...
    def start(
        self,
        done: Callable[[_Reply | None, BaseException | None], None],
        messages: list[tuple[str, str]],
        max_tokens: int | None = None,
        temperature: float | None = None,
        extra: tuple[str, dict[str, Any]] | None = None,
    ) -> None: ...

@final
class Done:
    """Takes the result of a coroutine to the engine."""

    def __call__(self, value: Any, error: BaseException | None = None) -> None: ...

@final
class Model:
    """A model behind an address, for calls outside of a run."""

    def __new__(cls, sections: str, api_key: str | None = None) -> Model: ...
    def chat(
        self, messages: list[tuple[str, str]], max_tokens: int | None = None, temperature: float | None = None
    ) -> _Reply: ...

def program(arguments: list[str]) -> int:
    """Run the program and return its exit code."""

def train(described: Any, on_events: Callable[[list[str]], None]) -> str:
    """Make a run; returns its directory, its summary and what it spent, as JSON."""

def split(types: list[str]) -> tuple[list[int], list[int], list[int]]:
    """Split items of these types at random: the positions in train, val and test."""

def report(directory: str) -> str:
    """Write the report of a run and return its path."""
