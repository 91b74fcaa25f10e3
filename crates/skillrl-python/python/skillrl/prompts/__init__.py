"""The built-in prompts, by name."""

from __future__ import annotations

from collections.abc import Mapping

from skillrl import _native

#: The names of all prompts; ``prompt_overrides`` takes them as keys.
NAMES: tuple[str, ...] = tuple(_native.prompt_names())


def load_prompt(name: str, overrides: Mapping[str, str] | None = None) -> str:
    """The prompt of this name, or what takes its place in ``overrides``.

    A built-in prompt is a template with the blocks ``system`` and ``user``; changed, it can be given back in
    ``prompt_overrides``. A text without blocks there is the system message alone. Raises KeyError for an unknown name.
    """
    if overrides and name in overrides:
        return overrides[name]
    return _native.prompt(name)


__all__ = ["NAMES", "load_prompt"]
