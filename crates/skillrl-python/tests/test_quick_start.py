"""The interface of the package skillrl 1.0: its quick start runs as it is, against a server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import skillrl

ANSWERS = {"France": "Paris", "Largest": "Pacific", "Japan": "Tokyo", "Italy": "Rome"}


class _Handler(BaseHTTPRequestHandler):
    requests: list[dict[str, Any]] = []
    keys: set[str] = set()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.requests.append(body)
        self.keys.add(self.headers.get("authorization", ""))
        said = json.dumps(body["messages"])
        if body["model"] == "gpt-4o":
            text = json.dumps({"edits": [{"op": "append", "content": "- Name the place."}]})
        elif "Name the place." in said:
            text = next((answer for word, answer in ANSWERS.items() if word in said), "?")
        else:
            text = "I do not know."
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        reply = json.dumps({"model": body["model"], "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Handler]]:
    _Handler.requests, _Handler.keys = [], set()
    running = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{running.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    yield _Handler
    running.shutdown()


def test_the_quick_start_runs_unmodified_and_resumes(
    server: type[_Handler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def quick_start() -> tuple[Any, Any]:
        # The names and keyword arguments are those of the quick start of skillrl 1.0.
        from skillrl import SkillOptConfig, SkillOptTrainer
        from skillrl.envs.qa import SimpleQAEnv
        from skillrl.llm.openai_client import OpenAIChatClient

        train = [
            {"id": "1", "question": "Capital of France?", "answers": ["Paris"]},
            {"id": "2", "question": "Largest ocean on Earth?", "answers": ["Pacific Ocean", "Pacific"]},
        ]
        val = [{"id": "v1", "question": "Capital of Japan?", "answers": ["Tokyo"]}]
        test = [{"id": "t1", "question": "Capital of Italy?", "answers": ["Rome"]}]
        env = SimpleQAEnv(train_items=train, val_items=val, test_items=test)
        optimizer = OpenAIChatClient(model="gpt-4o")
        target = OpenAIChatClient(model="gpt-4o-mini")
        cfg = SkillOptConfig(
            num_epochs=2,
            batch_size=8,
            minibatch_size=4,
            edit_budget=4,
            lr_scheduler="cosine",
            gate_metric="hard",
            out_root="outputs/qa_demo",
        )
        trainer = SkillOptTrainer(
            config=cfg,
            env=env,
            optimizer_client=optimizer,
            target_client=target,
            initial_skill="You are a concise QA assistant. Answer in one short phrase.",
        )
        summary = trainer.train()
        print(summary["best_selection_score"], summary["test_hard"])
        return summary, trainer

    summary, trainer = quick_start()
    assert (summary["baseline_test_hard"], summary["best_selection_score"], summary["test_hard"]) == (0.0, 1.0, 1.0)
    assert "Name the place." in trainer.best_skill
    files = {"config.json", "best_skill.md", "history.json", "runtime_state.json", "summary.json", "journal.sqlite"}
    assert files <= {path.name for path in Path("outputs/qa_demo").iterdir()}
    assert server.keys == {"Bearer sk-test-0123456789"}
    n_sent = len(server.requests)
    again, _ = quick_start()
    assert again["test_hard"] == 1.0 and len(server.requests) == n_sent, "a finished run sends nothing"


def test_a_key_that_the_caller_holds_is_sent_and_written_nowhere(server: type[_Handler], train: Any, tmp_path: Path) -> None:
    from skillrl.llm import OpenAIChatClient

    key = "sk-held-by-the-caller-1"
    assert key not in repr(OpenAIChatClient("gpt-4o", api_key=key))
    train(target=OpenAIChatClient("gpt-4o-mini", api_key=key), optimizer=OpenAIChatClient("gpt-4o", api_key=key))
    assert server.keys == {f"Bearer {key}"}
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or key.encode() not in path.read_bytes(), path


def test_a_client_answers_outside_of_a_run(server: type[_Handler]) -> None:
    from skillrl.llm import OpenAIChatClient

    client = OpenAIChatClient("gpt-4o-mini", default_temperature=0.5)
    text, usage = client.chat(system="s", user="France? Name the place.", max_completion_tokens=5)
    assert (text, usage["prompt_tokens"], usage["total_tokens"]) == ("Paris", 7, 10)
    assert server.requests[0]["temperature"] == 0.5


def test_further_arguments_go_into_the_request_and_unknown_ones_are_told_once(
    server: type[_Handler], train: Any, recwarn: pytest.WarningsRecorder
) -> None:
    from conftest import Shout

    from skillrl.llm import OpenAIChatClient

    client = OpenAIChatClient("gpt-4o-mini")
    for _ in range(2):
        client.chat(system="s", user="u", top_p=0.5, seed=3, stop=["x"], logit_bias={"1": 2})
    assert [(body["top_p"], body["seed"], body["stop"]) for body in server.requests] == [(0.5, 3, ["x"])] * 2
    assert not any("logit_bias" in body for body in server.requests)
    assert [str(one.message).split()[0] for one in recwarn] == ["`logit_bias`"]
    with pytest.raises(ValueError, match="top_p"):
        client.chat(system="s", user="u", top_p=7)

    class World(Shout):
        def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: Any) -> Any:
            format_ = {"type": "json_object"}
            text, usage = target_client.chat(system=skill, user=item["text"], top_p=0.25, response_format=format_, own_thing=1)
            assert usage["total_tokens"] == 10
            return {"hard": int(text == "?")}

    train(World(1), target=client)
    sent = [body for body in server.requests if body.get("top_p") == 0.25]
    assert sent and sent[0]["response_format"] == {"type": "json_object"}
    assert [str(one.message).split()[0] for one in recwarn] == ["`logit_bias`", "`own_thing`"]


def test_a_key_that_is_missing_is_named_before_anything_is_sent(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from skillrl.llm import OpenAIChatClient

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(skillrl.RunError, match="OPENAI_API_KEY"):
        train(target=OpenAIChatClient("gpt-4o-mini"))
    with pytest.raises(skillrl.RunError, match="ANTHROPIC_API_KEY"):
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        train(target=skillrl.llm.ChatClient("anthropic/claude-sonnet-4-5"))


def test_prompts_are_replaced(server: type[_Handler], config: Any) -> None:
    from conftest import Agent, Shout

    from skillrl.llm import OpenAIChatClient

    trainer = skillrl.SkillOptTrainer(
        config=config(),
        env=Shout(),
        optimizer_client=OpenAIChatClient("gpt-4o"),
        target_client=Agent(),
        initial_skill="s",
        prompt_overrides={"analyst_error": "Say {{ nothing }} else."},
    )
    trainer.train()
    systems = [message["content"] for body in server.requests for message in body["messages"] if message["role"] == "system"]
    assert any(system.strip() == "Say {{ nothing }} else." for system in systems)
    trainer.prompt_overrides = {"no_such_prompt": "x"}
    with pytest.raises(ValueError, match="no_such_prompt.*analyst_error"):
        trainer.train()
