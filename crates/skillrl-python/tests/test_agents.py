"""Agents that are functions: served, counted, and trained with their texts."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import RULE, Optimizer

import skillrl
from skillrl import Failed, train_agent

TASKS = [{"id": f"t{number}", "text": f"say hello {number}"} for number in range(18)]


class Shouting:
    """A model that shouts once its prompt says so, or a tool's description does, and that counts its calls."""

    model = "shouting"

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def chat(self, *, system: str, user: str, **fields: Any) -> tuple[str, dict[str, Any]]:
        with self._lock:
            self.calls.append({"system": system, **fields})
        said = json.dumps([system, user, fields.get("messages"), fields.get("tools")])
        return ("HELLO" if RULE in said else "hello"), {"prompt_tokens": 10, "completion_tokens": 2}


def post(url: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as reply:
        read: dict[str, Any] = json.load(reply)
        return read


def asked(model: skillrl.agents.Model, system: str, user: str, **fields: Any) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    body = {"model": model.name, "messages": messages, **fields}
    text: str = post(f"{model.base_url}/chat/completions", model.api_key, body)["choices"][0]["message"]["content"]
    return text


def run(task: dict[str, Any], skill: str, model: Any) -> Any:
    said = asked(model, skill, task["text"])
    return said.isupper(), f"{said!r} is not in capitals"


@pytest.fixture
def train(tmp_path: Path) -> Any:
    def trained(run: Any = run, tasks: Any = TASKS, *, skill: Any = "Be brief.", target: Any = None, **fields: Any) -> Any:
        settings = {"train.protocol": "paper", "train.epochs": 1, "train.batch_size": 6, **fields.pop("settings", {})}
        return train_agent(
            run, tasks, skill=skill, model=target or Shouting(), optimizer=Optimizer(),
            out=fields.pop("out", tmp_path / "run"), verbose=False, settings=settings, **fields,
        )  # fmt: skip

    return trained


def test_a_text_is_trained_and_comes_back_plain(train: Any) -> None:
    target = Shouting()
    best = train(target=target)
    assert best.startswith("Be brief.") and RULE in best and "<!--" not in best
    assert (best.run["baseline_test_hard"], best.run["test_hard"]) == (0.0, 1.0)
    assert best.spent["calls"] >= len(target.calls) > 0 and best.verdict.outcome
    assert best.report().is_file() and "<table>" in best._repr_html_()
    # The same call has the same result, and sends nothing.
    n_calls = len(target.calls)
    assert train(target=target) == best and len(target.calls) == n_calls


def test_a_coroutine_runs_in_one_loop(train: Any) -> None:
    loops = set()

    async def agent(task: dict[str, Any], skill: str, model: Any) -> float:
        loops.add(asyncio.get_running_loop())
        said = await asyncio.to_thread(asked, model, skill, task["text"])
        return float(said.isupper())

    assert RULE in train(agent) and len(loops) == 1


def test_named_texts_are_trained_together_and_the_fixed_ones_stay(train: Any) -> None:
    shown = []

    def agent(task: dict[str, Any], skill: dict[str, Any], model: Any) -> bool:
        shown.append(skill)
        tool = {"type": "function", "function": {"name": "look", "description": skill["tools"]["look"], "parameters": {}}}
        return asked(model, skill["system"], task["text"], tools=[tool]).isupper()

    skill = {"system": "Be brief.", "tools": {"look": "Looks it up."}, "footer": "Bye."}
    best = train(agent, skill=skill, editable=["system", "tools"])
    assert best["footer"] == "Bye." and best["tools"]["look"].strip() == "Looks it up." and RULE in best["system"]
    assert set(best) == {"system", "tools", "footer"} and shown[0] == skill


def test_an_agent_that_asks_another_model_ends_the_baseline(train: Any) -> None:
    with pytest.raises(skillrl.RunError, match="no request"):
        train(lambda task, skill, model: True)


def test_calls_go_past_no_cap(train: Any) -> None:
    target = Shouting()
    with pytest.raises(skillrl.RunError) as error:
        train(target=target, budget={"calls": 5})
    assert error.value.kind == "budget" and len(target.calls) <= 5


@pytest.mark.parametrize("protocol", ["paper", "auto"])
@pytest.mark.parametrize("workers", [1, 8, 64])
def test_a_cap_is_the_reason_though_agents_raise_at_it(train: Any, tmp_path: Path, protocol: str, workers: int) -> None:
    for cap in range(1, 6):
        target = Shouting()
        fields: dict[str, Any] = {"budget": {"calls": cap}, "settings": {"train.protocol": protocol}}
        with pytest.raises(skillrl.RunError) as error:
            train(target=target, workers=workers, out=tmp_path / str(cap), **fields)
        assert (error.value.kind, error.value.__cause__) == ("budget", None) and len(target.calls) <= cap


@pytest.mark.parametrize(
    ("returned", "named"),
    [(None, "None"), ("yes", "'yes'"), (float("nan"), "nan"), (2, "2"), ({"score": 1}, "score"), ((1, 2, 3), "1, 2, 3")],
)
def test_what_is_no_score_is_named(train: Any, returned: Any, named: str) -> None:
    def agent(task: dict[str, Any], skill: str, model: Any) -> Any:
        asked(model, skill, task["text"])
        return returned

    with pytest.raises(skillrl.RunError, match="`run` returned") as error:
        train(agent)
    assert named in str(error.value)


@pytest.mark.parametrize("how", ["raise", "return"])
def test_an_agent_that_failed_is_a_result(train: Any, how: str) -> None:
    def agent(task: dict[str, Any], skill: str, model: Any) -> Any:
        if asked(model, skill, task["text"]).isupper():
            return True
        if how == "return":
            return Failed("not in capitals")
        raise Failed("not in capitals")

    best = train(agent, on_error="stop")
    assert best.run["test_hard"] == 1.0
    results = json.loads((best.run.dir / "steps/step_0001/rollout_results.json").read_text())
    assert {result["fail_reason"] for result in results} == {"not in capitals"}


def test_an_exception_is_a_failure_up_to_a_share_of_the_tasks(train: Any, tmp_path: Path) -> None:
    def agent(task: dict[str, Any], skill: str, model: Any) -> bool:
        said = asked(model, skill, task["text"])
        if task["id"] == "t0":
            raise RecursionError("25 steps without an answer")
        return said.isupper()

    best = train(agent)
    said = (best.run.dir / "journal.sqlite").read_bytes() + b"".join(
        path.read_bytes() for path in best.run.dir.rglob("*results.json")
    )
    assert b"25 steps without an answer" in said
    with pytest.raises(skillrl.RunError) as error:
        train(agent, on_error="stop", out=tmp_path / "stop")
    assert isinstance(error.value.__cause__, RecursionError)


def test_an_agent_that_always_raises_stops_the_run_and_resumes(train: Any) -> None:
    is_down = True

    def agent(task: dict[str, Any], skill: str, model: Any) -> bool:
        said = asked(model, skill, task["text"])
        if is_down:
            raise ConnectionError("the database is down")
        return said.isupper()

    with pytest.raises(skillrl.RunError) as error:
        train(agent)
    assert isinstance(error.value.__cause__, ConnectionError)
    is_down = False
    assert train(agent).run["test_hard"] == 1.0


def test_a_model_that_fails_is_no_failure_of_the_agent(train: Any) -> None:
    def broken(*, system: str, user: str, **_: Any) -> str:
        raise OSError("no route")

    with pytest.raises(skillrl.RunError):
        train(target=broken)


def test_an_agent_that_hangs_is_a_failure(train: Any) -> None:
    def agent(task: dict[str, Any], skill: str, model: Any) -> bool:
        said = asked(model, skill, task["text"])
        if task["id"] == "t0":
            time.sleep(30)
        return said.isupper()

    done = train(agent, timeout=1.5).run
    assert done["test_hard"] is not None
    files = done.dir.rglob("*results.json")
    reasons = [one["fail_reason"] for file in files for one in json.loads(file.read_text()) if one["id"] == "t0"]
    assert reasons and all(reason.endswith("1.5 s") and "raised" not in reason for reason in reasons), reasons


def test_a_judge_gives_the_score(train: Any) -> None:
    seen = []

    def judge(*, system: str, user: str, **_: Any) -> str:
        seen.append(user)
        return json.dumps({"points": 10 if "HELLO" in user else 0, "reason": "quiet"})

    def agent(task: dict[str, Any], skill: str, model: Any) -> str:
        return asked(model, skill, task["text"])

    best = train(agent, judge="Loud is good.", judge_model=judge)
    assert best.run["test_hard"] == 1.0 and "Loud is good." in seen[0] and "[user] say hello" in seen[0]
    assert best.spent["calls"] > 2 * len(seen)


def test_tool_calls_and_streams_of_every_dialect_reach_a_client_in_python(train: Any) -> None:
    class Tools(Shouting):
        def chat(self, *, system: str, user: str, messages: Any = None, tools: Any = None, **_: Any) -> Any:
            if messages is None:
                function = {"name": "look", "arguments": json.dumps({"at": user})}
                calls = [{"id": f"c{number}", "type": "function", "function": function} for number in (1, 2)]
                return "", {"tool_calls": calls}
            assert [one["role"] for one in messages][-2:] == ["tool", "tool"], messages
            return ("HELLO" if RULE in system else "hello"), {}

    tool = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}

    def agent(task: dict[str, Any], skill: str, model: Any) -> bool:
        messages: list[Any] = [{"role": "system", "content": skill}, {"role": "user", "content": task["text"]}]
        tools = [{"type": "function", "function": tool}]
        body = {"model": "any", "messages": messages, "tools": tools}
        first = post(f"{model.base_url}/chat/completions", model.api_key, body)["choices"][0]["message"]
        assert len(first["tool_calls"]) == 2
        messages.append(first)
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "seen"} for call in first["tool_calls"]]
        said = post(f"{model.base_url}/chat/completions", model.api_key, body)
        return said["choices"][0]["message"]["content"].isupper()

    best = train(agent, target=Tools())
    assert best.run["test_hard"] == 1.0


@pytest.mark.parametrize(
    ("skill", "error", "named"),
    [
        ("", ValueError, "empty"),
        ({}, ValueError, "empty"),
        ({"a": " "}, ValueError, "'a'"),
        ({"a": 7}, TypeError, "'a'"),
        ({"a": "x", "A": "y"}, ValueError, "twice"),
        ({"a/b": "x", "a": {"b": "y"}}, ValueError, "twice"),
        ({"../a": "x"}, ValueError, "'../a'"),
        ("prompts/system.md", ValueError, "file"),
        ({"a": Path("system.md")}, TypeError, "path"),
        (7, TypeError, "int"),
    ],
)
def test_a_skill_that_cannot_be_trained_is_refused(train: Any, skill: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        train(skill=skill)


@pytest.mark.parametrize(
    ("fields", "error", "named"),
    [
        ({"tasks": []}, ValueError, "empty"),
        ({"tasks": "missing.jsonl"}, FileNotFoundError, "missing.jsonl"),
        ({"tasks": ["a"]}, TypeError, "row 1"),
        ({"run": "agent"}, TypeError, "run is"),
        ({"budget": 0}, skillrl.ConfigError, "budget"),
        ({"budget": {"dollars": 2}}, skillrl.ConfigError, "'dollars'"),
        ({"on_error": "ignore"}, ValueError, "on_error"),
        ({"max_errors": 2}, ValueError, "max_errors"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"editable": ["x"], "skill": {"a": "b"}}, ValueError, "'x'"),
        ({"target": " "}, ValueError, "model"),
        ({"settings": {"gate": 1}}, skillrl.ConfigError, "'gate'"),
        ({"judge": "missing.md"}, FileNotFoundError, "missing.md"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(train: Any, fields: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        train(**fields)


def test_tasks_come_from_files_without_ids_and_with_objects(train: Any, tmp_path: Path) -> None:
    file = tmp_path / "tasks.csv"
    file.write_text("text\n" + "\n".join(f"say {number}" for number in range(12)))
    assert train(tasks=str(file), out=tmp_path / "file").run["test_hard"] == 1.0
    objects = [{"text": f"say {number}", "when": {"at": object(), "on": {1, 2}}} for number in range(12)]
    assert train(tasks=objects, out=tmp_path / "objects").run["test_hard"] == 1.0


def test_a_mapping_needs_no_test_split(train: Any) -> None:
    best = train(tasks={"train": TASKS[:6], "val": TASKS[6:12]})
    assert RULE in best and best.run.get("test_hard") is None
    with pytest.raises(ValueError, match="empty"):
        train(tasks={"train": [], "val": TASKS})


def test_two_agents_are_trained_at_once(train: Any, tmp_path: Path) -> None:
    outs, made = [tmp_path / "one", tmp_path / "two"], []
    threads = [threading.Thread(target=lambda out=out: made.append(train(out=out))) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [best.run["test_hard"] for best in made] == [1.0, 1.0]


def test_an_agent_is_trained_beside_a_running_loop(train: Any) -> None:
    async def cell() -> Any:
        return train()

    assert RULE in asyncio.run(cell())


def test_an_environment_serves_its_target(tmp_path: Path) -> None:
    class Env(skillrl.envs.SkillEnv):
        endpoint = True

        def get_items(self, split: str) -> list[dict[str, Any]]:
            return [{"id": f"{split}-{number}"} for number in range(3)]

        def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: Any) -> skillrl.RolloutResult:
            body = {"model": "any", "messages": [{"role": "system", "content": skill}, {"role": "user", "content": "hi"}]}
            reply = post(f"{target_client.base_url}/chat/completions", target_client.api_key, body)
            message = reply["choices"][0]["message"]
            conversation = [*body["messages"], {**message, "content": None, "tool_calls": None}]
            is_loud = message["content"].isupper()
            return skillrl.RolloutResult(id=item["id"], hard=is_loud, conversation=conversation)

    config = skillrl.SkillOptConfig(num_epochs=1, out_root=str(tmp_path / "env"), max_calls=200, verbose=False)
    trainer = skillrl.SkillOptTrainer(
        config=config, env=Env(), target_client=Shouting(), optimizer_client=Optimizer(), initial_skill="Be brief."
    )
    assert trainer.train()["test_hard"] == 1.0


def test_without_an_endpoint_the_address_is_that_of_the_own_client(tmp_path: Path) -> None:
    """Environments of skillrl 1.0 read these from the client that they gave to the trainer."""
    seen = set()

    class Client(Shouting):
        base_url = "http://own/v1"

    class Env(skillrl.envs.SkillEnv):
        def get_items(self, split: str) -> list[dict[str, Any]]:
            return [{"id": f"{split}-{number}"} for number in range(3)]

        def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: Any) -> skillrl.RolloutResult:
            said, _ = target_client.chat(system=skill, user="hi")
            seen.add(target_client.base_url)
            with pytest.raises(RuntimeError, match="endpoint"):
                _ = target_client.api_key
            return skillrl.RolloutResult(id=item["id"], hard=said.isupper())

    config = skillrl.SkillOptConfig(num_epochs=1, out_root=str(tmp_path / "env"), verbose=False)
    trainer = skillrl.SkillOptTrainer(
        config=config, env=Env(), target_client=Client(), optimizer_client=Optimizer(), initial_skill="Be brief."
    )
    trainer.train()
    assert seen == {"http://own/v1"}


def test_a_cap_that_a_client_of_the_environment_would_pass_ends_the_baseline(tmp_path: Path) -> None:
    class Env(skillrl.envs.SkillEnv):
        def get_items(self, split: str) -> list[dict[str, Any]]:
            return [{"id": split}]

        def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: Any) -> skillrl.RolloutResult:
            return skillrl.RolloutResult(id=item["id"], hard=0)

    def trainer(**caps: Any) -> Any:
        config = skillrl.SkillOptConfig(num_epochs=1, out_root=str(tmp_path / str(caps)), verbose=False, **caps)
        return skillrl.SkillOptTrainer(
            config=config, env=Env(), target_client=Shouting(), optimizer_client=Optimizer(), initial_skill="Be brief."
        )

    trainer().train()
    with pytest.raises(skillrl.RunError, match="no request"):
        trainer(max_calls=100).train()


def test_chat_takes_messages_of_openai_as_they_are(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    told = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "U"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
    ]
    seen: list[Any] = []

    def target(*, system: str, user: str, messages: Any = None, **_: Any) -> str:
        seen.append(messages)
        return "HELLO"

    class Env(skillrl.envs.SkillEnv):
        def get_items(self, split: str) -> list[dict[str, Any]]:
            return [{"id": split}]

        def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: Any) -> skillrl.RolloutResult:
            text, _ = target_client.chat(messages=told)
            return skillrl.RolloutResult(id=item["id"], hard=0, predicted_answer=text, conversation=told)

    config = skillrl.SkillOptConfig(num_epochs=1, out_root=str(tmp_path / "run"), verbose=False)
    skillrl.SkillOptTrainer(config=config, env=Env(), target_client=target, optimizer_client=Optimizer()).train()
    assert [one["role"] for one in seen[0]] == ["system", "user", "assistant", "tool"]
    assert seen[0][2]["tool_calls"] == [call] and seen[0][3]["tool_call_id"] == "c1"


def test_a_skill_is_measured_and_compared(tmp_path: Path) -> None:
    target = Shouting()
    measure = lambda: skillrl.eval_agent(  # noqa: E731
        run, TASKS, skill=f"Be brief. {RULE}", against="Be brief.", model=target, out=tmp_path / "eval", verbose=False
    )
    measured = measure()
    assert (measured["hard"], len(measured["results"])) == (1.0, len(TASKS))
    assert (measured["compared"]["difference"], measured["compared"]["improved"]) == (1.0, len(TASKS))
    assert measured.spent["calls"] == 2 * len(TASKS) == len(target.calls) and "+100.0 points" in repr(measured)
    assert measure() == measured and len(target.calls) == 2 * len(TASKS)
    with pytest.raises(ValueError, match="other names"):
        skillrl.eval_agent(run, TASKS, skill={"a": "x", "b": "y"}, against="x", model=target)
