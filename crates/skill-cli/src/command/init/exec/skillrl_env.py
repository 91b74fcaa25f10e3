"""Speaks the environment protocol of skillrl (docs/env-protocol.md), version 1.

Copy this file next to your program. Python 3.8 and its standard library are enough.
"""
import asyncio
import inspect
import json
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

PROTOCOL = 1


class Failed(Exception):
    """The agent failed its task: raise it in `rollout`, with the reason that the optimizer reads."""


class Refused(Exception):
    """An error for which another try does not help, such as an item that does not exist."""


def serve(env, parallel=1, **about):
    """Answers requests until the engine is done.

    `env` has either `reset(item, seed)` and `step(action)`, which return an observation, or `rollout(request)`,
    which returns a result: dictionaries with the fields of the protocol, without `id`. `about` is what `hello`
    answers besides, such as `name`, `items`, `instructions`, `initial_skill`. If `env` has `start(settings)`, it is
    called first, with `[env.settings]` of the configuration; what it returns is added to `about`.

    With `parallel`, so many rollouts run at once in this process: `async def rollout` in one event loop, which lives as
    long as the process, `def rollout`, `start`, `reset` and `step` in as many threads.
    """
    out = sys.stdout
    # Whatever is printed from here on is for people, and must not reach the engine.
    sys.stdout = sys.stderr
    about.setdefault("mode", "rollout" if hasattr(env, "rollout") else "step")
    if parallel > 1:
        about["capabilities"] = {"parallel": parallel}
    asyncio.run(_answer_all(env, about, parallel, out))


async def _answer_all(env, about, parallel, out):
    loop, under_way = asyncio.get_running_loop(), {}
    # The functions of the environment run beside the event loop, so that they may start one of their own.
    threads = ThreadPoolExecutor(max_workers=parallel)
    reader = ThreadPoolExecutor(max_workers=1)
    while True:
        line = await loop.run_in_executor(reader, sys.stdin.readline)
        if not line:
            break
        request = json.loads(line)
        if request["method"] == "cancel":
            if request["id"] in under_way:
                under_way[request["id"]].cancel()
            continue
        if request["method"] == "close":
            continue
        task = loop.create_task(_answer(env, about, request, threads, out))
        under_way[request["id"]] = task
        task.add_done_callback(lambda _, id=request["id"]: under_way.pop(id))
        if parallel == 1:
            await asyncio.wait([task])
    for task in under_way.values():
        task.cancel()


async def _answer(env, about, request, threads, out):
    try:
        answer = dict(await _worked_on(env, about, request, threads))
    except Failed as failed:
        answer = {"hard": 0, "reason": str(failed) or "the agent failed"}
    except Exception as error:
        traceback.print_exc()
        answer = {"error": {"message": f"{type(error).__name__}: {error}", "retry": not isinstance(error, Refused)}}
    answer["id"] = request["id"]
    out.write(json.dumps(answer) + "\n")
    out.flush()


async def _worked_on(env, about, request, threads):
    method, loop = request["method"], asyncio.get_running_loop()
    if method == "hello":
        answer = dict(about, protocol=PROTOCOL)
        if hasattr(env, "start"):
            answer.update(await loop.run_in_executor(threads, env.start, request["settings"]) or {})
        if not request["items"]:
            answer.pop("items", None)
        return answer
    if method == "rollout" and inspect.iscoroutinefunction(env.rollout):
        return await env.rollout(request)
    call = {
        "reset": lambda: env.reset(request["item"], request["seed"]),
        "step": lambda: env.step(request["action"]),
        "rollout": lambda: env.rollout(request),
    }[method]
    return await loop.run_in_executor(threads, call)
