"""Exceptions of the package."""

from __future__ import annotations


class SkillRLError(RuntimeError):
    """The base of all errors of the engine.

    ``kind`` says what kind of failure it is, ``hint`` what can be done about it.
    """

    def __init__(self, message: str, kind: str = "other", hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.args[0], self.kind, self.hint)

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\nhint: {self.hint}" if self.hint else message


class RunError(SkillRLError):
    """A run ended before its last step; what is finished is kept, and the same call resumes it.

    ``kind`` is one of ``callback`` (a function of the caller raised: ``__cause__`` is what it raised), ``usage``,
    ``data``, ``provider_refused``, ``outage``, ``run_dir``, ``other_run``, ``budget``, ``stopped`` and ``other``.
    """


class ConfigError(RunError, ValueError):
    """A setting that cannot work."""


class ModelError(SkillRLError):
    """A model has not answered; ``kind`` is the class of the error, such as ``context_too_long``."""
