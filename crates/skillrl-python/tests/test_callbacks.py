"""Functions of the caller: what they raise, what they return, how long they take."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import RULE, Agent, Optimizer, Shout

import skillrl
from skillrl import _bridge, _native


class Broken(Shout):
    """A world with a function in the place of its rollout."""

    def __init__(self, rollout: Any) -> None:
        super().__init__()
        self._rollout = rollout

    def rollout_one(self, *, item: Any, skill: str, target_client: Any) -> Any:
        return self._rollout(item, skill, target_client)


def raising(item: Any, skill: str, target: Any) -> Any:
    raise LookupError("no such door")


def test_what_an_environment_raises_ends_the_run_with_its_traceback(train: Any) -> None:
    with pytest.raises(skillrl.RunError) as caught:
        train(Broken(raising))
    error = caught.value
    assert error.kind == "callback"
    assert isinstance(error.__cause__, LookupError)
    text = str(error)
    assert "no such door" in text and "in raising" in text and "val-" in text
    assert "_bridge.py" not in text, "the traceback begins in the caller's code"


def test_what_a_client_raises_ends_the_run_and_the_same_call_resumes_it(train: Any) -> None:
    class Flaky(Optimizer):
        is_up = False

        def chat(self, **kwargs: Any) -> Any:
            if not self.is_up:
                raise ConnectionError("the line is dead")
            return super().chat(**kwargs)

    agent, optimizer = Agent(), Flaky()
    with pytest.raises(skillrl.RunError, match="the line is dead") as caught:
        train(target=agent, optimizer=optimizer)
    assert isinstance(caught.value.__cause__, ConnectionError)
    n_calls = agent.calls
    assert n_calls > 0
    optimizer.is_up = True
    assert train(target=agent, optimizer=optimizer)["test_hard"] == 1.0
    # The baseline and the batch of the first process are in the journal: the candidate, its fresh measurement and the
    # test split are not.
    assert n_calls == 8 and agent.calls - n_calls <= 24


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "returned None; return a RolloutResult"),
        (7, "returned 7"),
        ({"hard": 2}, "hard=2"),
        ({"hard": float("nan")}, "hard=nan"),
        ({"hard": "yes"}, "hard='yes'"),
        ({"hard": 1, "conversation": ["hello"]}, "'hello'"),
        ({"hard": 1, "conversation": [{"role": "narrator", "content": "x"}]}, "narrator"),
    ],
)
def test_a_result_of_another_type_is_an_error_and_no_score(train: Any, returned: Any, told: str) -> None:
    with pytest.raises(skillrl.RunError) as caught:
        train(Broken(lambda *_: returned))
    assert told in str(caught.value)


@pytest.mark.parametrize("returned", [5, ("text",), ("text", 5), {"text": "x"}])
def test_a_client_that_returns_something_else_is_an_error(train: Any, returned: Any) -> None:
    with pytest.raises(skillrl.RunError, match="return a text, or a text and a dict"):
        train(target=lambda system, user: returned)


def test_a_client_that_reports_an_outage_is_an_error_and_no_score(train: Any) -> None:
    with pytest.raises(skillrl.RunError, match="connection refused"):
        train(target=lambda system, user: ("", {"error": "connection refused"}))


def test_an_optimizer_without_a_reply_skips_the_step_and_is_counted(train: Any) -> None:
    run = train(optimizer=lambda system, user: "", num_epochs=2, settings={"train.slow_update": "off", "train.meta_skill": False})
    assert (run["total_steps"], run["total_skips"]) == (2, 2)
    assert run["total_empty_replies"] >= 2 and f"{run['total_empty_replies']} empty replies" in repr(run)


def test_an_environment_cannot_make_a_score_of_a_fault(train: Any) -> None:
    def rollout(item: Any, skill: str, target: Any) -> Any:
        try:
            target.chat(system=skill, user="hello")
        except skillrl.ModelError:
            pass
        return {"hard": 0}

    def chat(system: str, user: str) -> str:
        raise OSError("the server is down")

    with pytest.raises(skillrl.RunError, match="the server is down"):
        train(Broken(rollout), target=chat)


def test_a_function_that_blocks_for_ever_ends_at_its_deadline(train: Any) -> None:
    never = threading.Event()
    with pytest.raises(skillrl.RunError, match="rollout_timeout"):
        train(Broken(lambda *_: never.wait()), rollout_timeout=0.2)
    with pytest.raises(skillrl.RunError, match=r"no reply within 0.2 s"):
        train(target=lambda system, user: never.wait(), client_timeout=0.2)

    async def forever(system: str, user: str) -> str:
        await asyncio.Event().wait()
        return ""

    with pytest.raises(skillrl.RunError, match=r"no reply within 0.2 s"):
        train(target=forever, client_timeout=0.2)


def test_waiting_rollouts_neither_run_nor_use_up_their_time(train: Any, tmp_path: Path) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def rollout(*_: Any) -> dict[str, float]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        # As long as those before it have to wait: a rollout that waited as long would be late.
        time.sleep(0.12)
        with lock:
            running -= 1
        return {"hard": 0.0}

    for workers in (1, 3):
        most = 0
        train(Broken(rollout), workers=workers, rollout_timeout=0.2, num_epochs=1, out_root=str(tmp_path / str(workers)))
        assert most == workers


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "a"},
        {"id": 7, "hard": True, "soft": 0.25, "n_turns": 2},
        {"id": "\u00e4\n", "hard": 1, "soft": 1.0, "fail_reason": "x", "question": "", "predicted_answer": "\U0001f600"},
        {"id": "a", "conversation": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}]},
        {"id": "a", "conversation": [{"role": "user", "content": None}], "extras": {"k": [1, None]}},
        {"id": "a", "conversation": [{"role": "tool", "content": "x", "name": "n"}], "task_type": 3},
        {"id": "a", "n_turns": True, "reference_text": None},
    ],
)
def test_plain_results_are_read_as_all_others(fields: Any) -> None:
    made = skillrl.RolloutResult(**fields)
    as_all = json.loads(_bridge._result(made, "a rollout"))
    plain = _native.plain_result(made)
    is_plain = isinstance(fields["id"], str) and not {"extras", "task_type"} & set(fields) and "reference_text" not in fields
    assert (plain is not None) == is_plain
    assert plain is None or json.loads(plain) == as_all


@pytest.mark.parametrize("fields", [{"hard": 2}, {"soft": float("nan")}, {"soft": -0.1}, {"hard": "1"}])
def test_results_that_are_none_are_left_to_the_reader_of_all(fields: Any) -> None:
    assert _native.plain_result(skillrl.RolloutResult(id="a", **fields)) is None


def test_a_rollout_may_start_threads_which_ask_side_by_side(train: Any) -> None:
    agent = Agent(seconds=0.01)

    def rollout(item: Any, skill: str, target: Any) -> Any:
        said: list[str] = []
        ask = lambda number: said.append(target.chat(system=skill, user=f"{item['text']} {number}")[0])
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"hard": int(all(text.isupper() for text in said)), "soft": 0.0}

    run = train(Broken(rollout), target=agent, workers=1)
    assert run["test_hard"] == 1.0
    assert agent.most_at_once == 4
    rollouts = json.loads((run.dir / "steps/step_0001/rollout_results.json").read_text())
    assert rollouts[0]["n_turns"] == 4


def test_a_client_that_is_kept_beyond_its_rollout_is_told_so(train: Any) -> None:
    kept: list[Any] = []

    def rollout(item: Any, skill: str, target: Any) -> Any:
        kept.append(target)
        return {"hard": 1}

    train(Broken(rollout))
    with pytest.raises(skillrl.ModelError, match="the rollout or the run is over"):
        kept[0].chat(system="s", user="u")


def test_arguments_and_attributes_reach_the_client(train: Any) -> None:
    seen: list[dict[str, Any]] = []

    class Client(Agent):
        region = "north"

        def chat(self, **kwargs: Any) -> Any:
            seen.append(kwargs)
            return super().chat(**kwargs)

    def rollout(item: Any, skill: str, target: Any) -> Any:
        assert (target.region, target.model) == ("north", "agent")
        text, usage = target.chat(system=skill, user=item["text"], temperature=0.25, max_completion_tokens=9, top_p=0.5)
        assert usage == {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "cached_tokens": 0, "calls": 1, "stage": ""}
        other, _ = target.chat(system=skill, user=item["text"], top_p=0.75)
        talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
        target.chat(system=skill, messages=talk)
        return {"hard": int(text.isupper())}

    train(Broken(rollout), target=Client())
    first = next(one for one in seen if one.get("top_p") == 0.5)
    assert (first["temperature"], first["max_completion_tokens"], first["stage"]) == (0.25, 9, "rollout")
    assert any(one.get("top_p") == 0.75 for one in seen)
    talked = next(one for one in seen if "messages" in one)
    assert [message["role"] for message in talked["messages"]] == ["system", "user", "assistant", "user"]


def test_what_cannot_be_pickled_trains(train: Any) -> None:
    lock = threading.Lock()

    def chat(system: str, user: str) -> str:
        with lock:
            return "HELLO" if RULE in system else "hello"

    assert train(target=chat)["test_hard"] == 1.0


def test_coroutines_of_clients_scorers_and_environments_run(train: Any) -> None:
    in_flight = [0, 0]

    class Client:
        model = "async"

        async def chat(self, *, system: str, user: str) -> tuple[str, dict[str, int]]:
            in_flight[0] += 1
            in_flight[1] = max(in_flight)
            await asyncio.sleep(0.02)
            in_flight[0] -= 1
            return ("HELLO" if RULE in system else "hello"), {"prompt_tokens": 1, "completion_tokens": 1}

    class World(Shout):
        async def rollout_one(self, *, item: Any, skill: str, target_client: Any) -> Any:
            text, _ = await target_client.chat(system=skill, user=item["text"])
            return skillrl.RolloutResult(id=item["id"], hard=int(text.isupper()))

    run = train(World(8), target=Client())
    assert run["test_hard"] == 1.0
    assert in_flight[1] == 8, "all items are worked on at once"

    async def score(reply: str, row: Any) -> bool:
        await asyncio.sleep(0)
        return reply.isupper()

    rows = [{"text": f"say hello {number}"} for number in range(9)]
    env = skillrl.TaskEnv(rows, prompt="{text}", score=score)
    assert train(env, target=Client(), out_root=str(run.dir) + "-2")["test_hard"] == 1.0


def test_an_error_in_a_coroutine_has_its_traceback(train: Any) -> None:
    async def chat(system: str, user: str) -> str:
        await asyncio.sleep(0)
        raise KeyError("nobody")

    with pytest.raises(skillrl.RunError, match="nobody") as caught:
        train(target=chat)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "in chat" in str(caught.value)


def test_clients_that_sleep_hold_no_lock(train: Any) -> None:
    seconds = 0.3
    agent = Agent(seconds=seconds)
    began = time.monotonic()
    # 64 items of the selection split at once; the run's other parts have one item.
    env = Shout(1)
    env.get_items = lambda split: [{"id": f"{split}-{n}", "text": "x"} for n in range(64 if split == "val" else 1)]  # type: ignore[method-assign]
    train(env, target=agent, workers=64, eval_test=False, settings={"eval.fresh": False})
    took = time.monotonic() - began
    assert agent.most_at_once == 64
    # Baseline, batch and candidate, one after the other.
    assert took < 64 * seconds / 4, took


class Picture:
    """What an environment passes to its client: as large as a person likes."""

    alive = 0

    def __init__(self, name: str) -> None:
        self.name = name
        Picture.alive += 1

    def __del__(self) -> None:
        Picture.alive -= 1

    def __repr__(self) -> str:
        return f"picture {self.name}"


def test_further_arguments_of_a_call_live_as_long_as_the_call(train: Any) -> None:
    most, shown = [0], []

    class Looking(Agent):
        def chat(self, *, picture: Any = None, **kwargs: Any) -> Any:
            most[0] = max(most[0], Picture.alive)
            shown.append(picture)
            return super().chat(**kwargs)

    class Gallery(Shout):
        def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: Any) -> Any:
            text, _ = target_client.chat(system=skill, user=item["text"], picture=Picture(item["id"]))
            shown.clear()
            return skillrl.RolloutResult(id=item["id"], hard=int(text.isupper()), soft=float(text.isupper()))

    train(Gallery(40), target=Looking(), workers=2)
    assert 0 < most[0] < 10
    assert Picture.alive == 0
