"""Adapters of the package `skillopt` itself, against a server on loopback; `cargo xtask check wheel` runs it beside that package."""

from __future__ import annotations

import importlib.metadata
import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import skillopt.datasets.base as their_loaders
import skillopt.model as their_models
from conftest import RULE
from skillopt.envs._template.env_template import TemplateBenchmarkEnv
from skillopt.envs.base import EnvAdapter as TheirAdapter
from skillopt.envs.searchqa.adapter import SearchQAAdapter
from skillopt.model import azure_openai, backend_config
from test_adapters import Playing, write_splits

import skillrl
from skillrl.llm import OpenAIChatClient
from skillrl.skillopt import SplitDataLoader


class Server:
    """Answers in capitals once the skill says so, proposes the rule, and counts."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append(body)
                system = next((one["content"] for one in body["messages"] if one["role"] == "system"), "")
                if body["model"] == "optimizer":
                    edits = [{"op": "append", "content": f"- {RULE}"}]
                    text = json.dumps({"patch": {"reasoning": "r", "edits": edits}, "edits": edits})
                else:
                    text = f"<answer>{'HELLO' if RULE in system else 'hi'}</answer>"
                message = {"role": "assistant", "content": text}
                usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
                reply = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
                sent = json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def client(self, name: str) -> OpenAIChatClient:
        return OpenAIChatClient(name, base_url=f"http://127.0.0.1:{self.http.server_port}/v1", api_key="none")


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()


def questions(directory: Path, n: int = 4) -> str:
    item = lambda name, number: {"id": f"{name}{number}", "question": f"say hello {number}", "context": "[DOC] x", "answers": ["HELLO"]}
    return write_splits(directory, **{name: [item(name, number) for number in range(n)] for name in ("train", "val", "test")})


def trained(adapter: Any, server: Server, out: Path, **fields: Any) -> skillrl.Run:
    config = skillrl.SkillOptConfig(**{"num_epochs": 1, "batch_size": 2, "out_root": str(out), "verbose": False, **fields})
    clients = {f"{role}_client": server.client(role) for role in ("target", "optimizer")}
    return skillrl.SkillOptTrainer(config=config, env=adapter, initial_skill="Be brief.", **clients).train()


def test_the_version_is_the_one_that_the_documentation_names() -> None:
    assert importlib.metadata.version("skillopt") == "0.2.0"


def test_searchqa_trains(server: Server, tmp_path: Path) -> None:
    before = (azure_openai._chat_impl, azure_openai._target_client, backend_config.TARGET_BACKEND)
    azure_openai.tracker.reset()
    adapter = SearchQAAdapter(split_dir=questions(tmp_path / "data"), split_mode="split_dir", workers=4)
    run = trained(adapter, server, tmp_path / "run", max_calls=200)
    assert (run["baseline_test_hard"], run["test_hard"]) == (0.0, 1.0)
    assert run.spent["calls"] == len(server.requests) and "uncounted_batches" not in run.spent
    n_rollouts = azure_openai.tracker.summary()["rollout"]["calls"]
    assert n_rollouts == sum(body["model"] == "target" for body in server.requests)
    result = json.loads((run.dir / "steps/step_0001/rollout_results.json").read_text())[0]
    assert result["extras"]["em"] == 0.0 and result["target_system_prompt"].startswith("## Skill")
    assert before == (azure_openai._chat_impl, azure_openai._target_client, backend_config.TARGET_BACKEND)
    assert trained(adapter, server, tmp_path / "run", max_calls=200)["test_hard"] == 1.0
    assert run.spent["calls"] == len(server.requests), "a finished run sends nothing"


class Shout(TemplateBenchmarkEnv):
    """The template with a rollout and a reflection of its own, which asks that of the package."""

    def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
        rows = []
        for item in env_manager:
            text, _ = their_models.chat_target(skill_content, item["question"], 99, stage="rollout")
            directory = Path(out_dir, "predictions", item["id"])
            directory.mkdir(parents=True)
            (directory / "conversation.json").write_text(json.dumps([{"role": "assistant", "content": text}]))
            is_loud = "HELLO" in text
            rows.append({"id": item["id"], "hard": int(is_loud), "soft": float(is_loud), "fail_reason": "" if is_loud else "quiet"})
        return rows

    def reflect(self, results: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
        patches = super().reflect(results, skill_content, out_dir, **kwargs)
        self.n_patches = len(patches)
        return patches


def test_a_subclass_of_the_template_trains_with_the_reflection_of_the_package(server: Server, tmp_path: Path) -> None:
    adapter = Shout(split_dir=questions(tmp_path / "data"), minibatch_size=2)
    run = trained(adapter, server, tmp_path / "run")
    assert (run["baseline_test_hard"], run["test_hard"]) == (0.0, 1.0)
    assert adapter.n_patches > 0 and run.spent["calls"] == len(server.requests)
    assert "notes" not in json.loads((run.dir / "history.json").read_text())[0], "every patch is read without a repair"


def test_an_adapter_that_imports_the_models_when_it_runs_is_counted(server: Server, tmp_path: Path) -> None:
    program = f"""
import sys
from skillopt.envs._template.env_template import TemplateBenchmarkEnv
import skillrl
from skillrl.llm import OpenAIChatClient

assert "skillopt.model" not in sys.modules

class Late(TemplateBenchmarkEnv):
    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        from skillopt.model import chat_target
        return [{{"id": item["id"], "hard": int("HELLO" in chat_target(skill_content, "u")[0])}} for item in env_manager]

clients = {{f"{{role}}_client": OpenAIChatClient(role, base_url={server.client("x")._section["base_url"]!r}, api_key="none") for role in ("target", "optimizer")}}
config = skillrl.SkillOptConfig(num_epochs=1, max_calls=200, out_root={str(tmp_path / "run")!r}, verbose=False)
print(skillrl.SkillOptTrainer(config=config, env=Late(split_dir={questions(tmp_path / "data")!r}), initial_skill="s", **clients).train()["test_hard"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "1.0" and len(server.requests) > 0


def test_conversations_with_tools_and_the_sdks_client_go_through_the_engine(server: Server, tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "HELLO"},
    ]

    class Tools(Shout):
        def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
            message, usage = their_models.chat_target_messages(talk, tools=tools, tool_choice="auto", return_message=True)
            assert message.content.startswith("<answer>") and not message.tool_calls and usage["total_tokens"] == 15
            sdk = azure_openai.get_target_client().chat.completions.create(model="m", messages=talk[:1], max_completion_tokens=7)
            assert sdk.choices[0].message.content == message.content and sdk.usage.prompt_tokens == 10
            return super().rollout(env_manager, skill_content, out_dir, **kwargs)

    run = trained(Tools(split_dir=questions(tmp_path / "data")), server, tmp_path / "run")
    assert run.spent["calls"] == len(server.requests)
    assert any(body.get("tools") and body["messages"][-1]["role"] == "tool" for body in server.requests)


def test_a_program_as_the_target_is_not_counted_and_a_cap_is_refused(server: Server, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(backend_config, "TARGET_BACKEND", "codex_exec")
    adapter = SearchQAAdapter(split_dir=questions(tmp_path / "data"), split_mode="split_dir")
    with pytest.raises(skillrl.ConfigError, match="neither counted nor kept"):
        trained(adapter, server, tmp_path / "run", max_money=1.0)


def test_loaders_and_helpers_do_what_those_of_the_package_do(tmp_path: Path) -> None:
    dice = random.Random(3)
    items = [{"id": f"q{number}", "task_type": dice.choice("abc")} for number in range(23)]
    (tmp_path / "all.json").write_text(json.dumps({"data": items}))
    theirs_and_ours = []
    for module_loader in (their_loaders.SplitDataLoader, SplitDataLoader):
        name = f"{module_loader.__module__}-out"
        loader = module_loader(data_path=str(tmp_path / "all.json"), split_ratio="3:2:4", split_output_dir=str(tmp_path / name))
        loader.setup({})
        plans = [
            [(spec.phase, spec.split, spec.seed, spec.batch_size, spec.payload) for spec in loader.plan_train_epoch(epoch=epoch, steps_per_epoch=2, accumulation=3, batch_size=2, seed=11)]
            for epoch in (1, 2)
        ]
        batches = [loader.build_train_batch(4, 5), loader.build_eval_batch(3, "valid_seen", 1), loader.build_eval_batch(0, "valid_unseen", 1)]
        splits = [loader.get_split_items(split) for split in ("train", "val", "selection", "valid_seen", "test", "valid_unseen", "other")]
        manifest = json.loads((tmp_path / name / "split_manifest.json").read_text())["counts"]
        seeds = loader.make_base_seeds(3, 2, 7), loader.shuffle_epoch_seeds([1, 2, 3, 4], 2, 7)
        theirs_and_ours.append([plans, [(one.seed, one.payload) for one in batches], splits, manifest, seeds, loader.get_train_size()])
    assert theirs_and_ours[0] == theirs_and_ours[1]

    class Theirs(Playing, TheirAdapter):
        select_representative_items = TheirAdapter.select_representative_items
        attach_reference_context = TheirAdapter.attach_reference_context

    for seed in range(40):
        results = [{"id": item["id"], "hard": dice.randint(0, 1)} for item in items]
        numbers = {"n_failures": dice.randint(0, 6), "n_successes": dice.randint(0, 6), "seed": seed}
        chosen = [adapter.select_representative_items(results, items, **numbers) for adapter in (Theirs(), Playing())]
        assert chosen[0] == chosen[1]
        attached = [adapter.attach_reference_context(results, items) for adapter in (Theirs(), Playing())]
        assert attached[0] == attached[1]
