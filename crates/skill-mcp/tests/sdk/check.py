"""The official SDK's client against `skillrl mcp`: what an agent does with it, from the first look to the last.

    python check.py path/to/skillrl
"""

import asyncio
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time

import jsonschema
from mcp import Client, StdioServerParameters, stdio_client

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "skill-serve/tests/browser"))
from task import HOSTILE, Models, write_task  # noqa: E402

SKILLRL = str(pathlib.Path(sys.argv[1]).resolve())
# Longer than anything here takes; only a check that fails waits so long.
PATIENCE_S = 60
READS = {"list_configurations", "estimate_run", "list_runs", "compare_runs", "read_run", "follow_run", "read_skill", "read_trajectories"}
WRITES = {"start_run", "measure", "stop_run"}


@contextlib.asynccontextmanager
async def client(directory, *arguments, mode="auto"):
    """A client of a server that is started in a directory. What it logs goes to a file, and stdout is the protocol."""
    parameters = StdioServerParameters(
        command=SKILLRL, args=["-vv", "mcp", *arguments], cwd=str(directory), env=dict(os.environ)
    )
    with open(os.path.join(directory, "server.log"), "a", encoding="utf-8") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode) as connected:
            yield connected


async def call(connected, tool, progress=None, **arguments):
    """The structured answer; it is the text too."""
    result = await connected.call_tool(tool, arguments, read_timeout_seconds=PATIENCE_S, progress_callback=progress)
    assert not result.is_error, (tool, arguments, result.content)
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refused(connected, tool, **arguments):
    """What a tool says that does not do what it is asked."""
    result = await connected.call_tool(tool, arguments, read_timeout_seconds=PATIENCE_S)
    text = "\n".join(block.text for block in result.content)
    assert result.is_error, (tool, arguments, text)
    assert "what to do: " in text, text
    return text


async def follow(connected, run, until_state):
    """Follows a run until it is as it should be; gives all events, none of them twice."""
    cursor, events, began = None, [], time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        asked = {"cursor": cursor} if cursor else {}
        news = await call(connected, "follow_run", run=run, wait_s=10, **asked)
        events += news["events"]
        cursor = news["next_cursor"]
        if news["now"]["state"] == until_state:
            return events
    raise AssertionError(f"{run} did not become {until_state}: {events}")


def check_untrusted(value, place="answer"):
    """What models and data say is in fields that say so."""
    if isinstance(value, dict):
        for key, inner in value.items():
            check_untrusted(inner, key)
    elif isinstance(value, list):
        for inner in value:
            check_untrusted(inner, place)
    elif isinstance(value, str):
        assert HOSTILE[:20] not in value or place.startswith("untrusted_"), (place, value)


async def tools_are_described(connected):
    tools = {tool.name: tool for tool in (await connected.list_tools()).tools}
    assert set(tools) == READS | WRITES, set(tools)
    for name, tool in tools.items():
        assert tool.description and tool.title, name
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object", (name, schema)
            for key, value in schema.get("properties", {}).items():
                assert value.get("description"), f"{name} does not say what {key} is"
        assert tool.annotations.read_only_hint is (name in READS), name
        assert tool.annotations.open_world_hint is (name in {"start_run", "measure"}), name
    assert tools["start_run"].annotations.destructive_hint is True
    assert tools["stop_run"].annotations.destructive_hint is False


async def the_demo_is_trained(connected):
    """Estimate, start, follow to the end, read."""
    listed = (await call(connected, "list_configurations"))["configurations"]
    assert {"demo/skillrl.toml", "task/skillrl.toml"} <= {entry["config"] for entry in listed}, listed
    estimate = await call(connected, "estimate_run", config="demo/skillrl.toml")
    calls = estimate["total"]["calls"]
    assert 0 < calls["low"] <= calls["high"] and estimate["run"] == "demo/run", estimate
    assert not estimate["has_begun"]

    said = await refused(connected, "start_run", config="demo/skillrl.toml")
    assert "nothing bounds what this may spend" in said and "max_calls" in said, said
    started = await call(connected, "start_run", config="demo/skillrl.toml", max_calls=calls["high"])
    assert started["run"] == "demo/run" and not started["has_resumed"], started
    events = await follow(connected, "demo/run", "finished")
    kinds = [event["event"] for event in events]
    assert kinds[0] == "run_started" and kinds.count("run_finished") <= 1, kinds

    run = await call(connected, "read_run", run="demo/run", from_step=1, max_steps=50)
    assert run["summary"]["state"] == "finished" and run["n_steps_left_out"] == 0, run["summary"]
    assert run["test"]["after"] > run["test"]["before"], run["test"]
    assert calls["low"] <= run["now"]["spend"]["calls"] <= calls["high"], (run["now"]["spend"], calls)
    assert {step["outcome"] for step in run["steps"]} >= {"accepted"}, run["steps"]
    skill = await call(connected, "read_skill", run="demo/run")
    assert skill["untrusted_text"].startswith(run["untrusted_best_skill"][:100]) and not skill["next_offset"]
    asked = {"name": "best", "config": "demo/skillrl.toml", "skill": "demo/run", "split": "test", "max_calls": 1000}
    measured = await call(connected, "measure", **asked)
    assert measured["state"] == "finished", measured
    assert abs(measured["score"]["hard"] - run["test"]["after"]) < 1e-9, (measured, run["test"])
    again = await call(connected, "start_run", config="demo/skillrl.toml", max_calls=1)
    assert again["state"] == "finished" and not again["has_resumed"], again
    await follow(connected, "demo/run", "finished")
    paid = await call(connected, "read_run", run="demo/run")
    assert paid["now"]["spend"]["calls"] == run["now"]["spend"]["calls"], "what is finished is not paid for again"


async def another_is_stopped_and_goes_on(directory, connected, models):
    """A run whose models wait: it is followed with progress, stopped after its step, and taken up again."""
    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    # The cap of the configuration is lower than what is asked for, and holds.
    started = await call(connected, "start_run", config="task/skillrl.toml", max_calls=100_000)
    assert started["state"] == "training" and started["caps"]["calls"] == 500, started
    assert "already" in await refused(connected, "start_run", config="task/skillrl.toml")
    news = await call(connected, "follow_run", run="task/run")
    models.release(3)
    waiting = call(
        connected, "follow_run", progress, run="task/run", cursor=news["next_cursor"], until="step", wait_s=30
    )
    waiting = asyncio.create_task(waiting)
    while not any("baseline 3/4" in message for _, _, message in told):
        await asyncio.sleep(0.05)
    models.release(1)
    news = await waiting
    assert any(event["event"] == "baseline_measured" for event in news["events"]), news
    assert [done for done, _, _ in told] == sorted({done for done, _, _ in told}), told

    assert (await call(connected, "stop_run", run="task/run"))["stop_requested"]
    models.release(200)
    await follow(connected, "task/run", "stopped")
    run = await call(connected, "read_run", run="task/run")
    assert run["summary"]["steps_done"] == 1, run["summary"]
    spent = run["now"]["spend"]
    assert spent["calls"] > 4 and spent["money"] > 0, spent
    assert "nothing to stop" in await refused(connected, "stop_run", run="task/run")
    for tool, more in [("read_run", {}), ("read_trajectories", {"step": 1}), ("read_skill", {}), ("follow_run", {})]:
        check_untrusted(await call(connected, tool, run="task/run", **more))


async def the_run_outlives_its_server(directory, models):
    async with client(directory) as connected:
        started = await call(connected, "start_run", config="task/skillrl.toml")
        assert started["has_resumed"] and started["state"] == "training", started
    models.release(1000)
    async with client(directory, "--read-only") as connected:
        assert {tool.name for tool in (await connected.list_tools()).tools} == READS
        await follow(connected, "task/run", "finished")
        run = await call(connected, "read_run", run="task/run")
        assert run["summary"]["steps_done"] == 4, run["summary"]


async def nothing_else_is_served(directory, connected):
    for name in ["../secret", "..", "/etc", "task/../../secret", "", ".", "task/run/../run", str(directory / "task/run")]:
        assert "not found" in await refused(connected, "read_run", run=name)
        assert "not found" in await refused(connected, "stop_run", run=name)
    for name in ["../secret.toml", "/etc/passwd", "task/data/val.jsonl", "link.toml", "", "absent.toml"]:
        assert "not found" in await refused(connected, "estimate_run", config=name)
        said = await refused(connected, "start_run", config=name, max_calls=1)
        assert "not found" in said and "hidden" not in said, said
    assert "not a place for a run in" in await refused(connected, "start_run", config="outside.toml", max_calls=1)
    for key in ["models.target.base_url=http://x", "env.command=[]", "run.dir=/tmp/x", "budget.calls=9"]:
        said = await refused(connected, "start_run", config="demo/skillrl.toml", max_calls=1, set=[key])
        assert "cannot be changed here" in said, said
    assert "the arguments do not fit" in await refused(connected, "read_run", runs="demo/run")
    assert "not a cursor" in await refused(connected, "follow_run", run="demo/run", cursor="x")


def prepare(directory, models):
    root = directory / "root"
    root.mkdir()
    assert os.system(f"cd {root} && {SKILLRL} init --demo demo > {directory}/init.log") == 0
    config = write_task(root / "task", models)
    (directory / "secret.toml").write_text(config.read_text() + "\n# hidden\n")
    (root / "link.toml").symlink_to(directory / "secret.toml")
    outside = (root / "demo/skillrl.toml").read_text().replace('dir = "run"', 'dir = "../elsewhere"')
    (root / "outside.toml").write_text(outside.replace('"data"', '"demo/data"').replace('"initial', '"demo/initial'))
    return root


async def main():
    models = Models()
    # A run that a failed check leaves goes on for a moment.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        root = prepare(pathlib.Path(directory), models)
        for mode in ("legacy", "auto"):
            async with client(root, mode=mode) as connected:
                assert connected.server_info.name == "skillrl", connected.server_info
                assert "untrusted_" in connected.instructions
                await tools_are_described(connected)
        async with client(root) as connected:
            await the_demo_is_trained(connected)
            await another_is_stopped_and_goes_on(root, connected, models)
            await nothing_else_is_served(root, connected)
        await the_run_outlives_its_server(root, models)
    models.close()
    print("the SDK's client: tools, estimate, start, follow, read, stop, resume, refusals: as they should be")


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(), 300))
