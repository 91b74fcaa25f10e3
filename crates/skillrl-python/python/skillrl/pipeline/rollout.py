"""Rollout: the agent works on items."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from skillrl import _loop
from skillrl.types import RolloutResult


def run_rollout(
    env: Any,
    skill: str,
    items: Sequence[Mapping[str, Any]],
    *,
    target_client: Any,
    workers: int = 8,
    verbose: bool = True,
    stage_label: str = "rollout",
) -> list[RolloutResult]:
    """Call ``env.rollout_one`` for each item, at most ``workers`` at a time; the results are in the order of the items.

    What ``rollout_one`` raises is raised here: a failed call is not a score. A coroutine runs in the event loop of the
    package.
    """

    def one(item: Mapping[str, Any]) -> RolloutResult:
        result = env.rollout_one(item=item, skill=skill, target_client=target_client)
        return result if isinstance(result, RolloutResult) else RolloutResult.from_dict(result)

    if inspect.iscoroutinefunction(env.rollout_one):
        working = _all(env, skill, items, target_client, max(workers, 1))
        results = asyncio.run_coroutine_threadsafe(working, _loop.loop()).result()
    else:
        with ThreadPoolExecutor(max(workers, 1)) as threads:
            results = list(threads.map(one, items))
    if verbose:
        print(f"    [{stage_label}] {len(results)}/{len(items)}")
    return results


async def _all(env: Any, skill: str, items: Iterable[Any], target_client: Any, workers: int) -> list[RolloutResult]:
    free = asyncio.Semaphore(workers)

    async def one(item: Any) -> RolloutResult:
        async with free:
            result = await env.rollout_one(item=item, skill=skill, target_client=target_client)
        return result if isinstance(result, RolloutResult) else RolloutResult.from_dict(result)

    return list(await asyncio.gather(*map(one, items)))


def split_failures_successes(
    results: Iterable[RolloutResult],
) -> tuple[list[RolloutResult], list[RolloutResult]]:
    """The failures and the successes, each in order; a success has a hard score above 0."""
    rows = list(results)
    return [row for row in rows if not row.hard], [row for row in rows if row.hard]
