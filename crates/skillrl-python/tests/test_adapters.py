"""Adapters of SkillOpt: batches, loaders, their own reflection, and what people do wrong with them."""

from __future__ import annotations

import json
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import RULE, Agent, Optimizer

import skillrl
from skillrl.skillopt import BaseDataLoader, BatchSpec, EnvAdapter, SplitDataLoader
from skillrl.skillopt import model as models


def write_splits(directory: Path, n: int = 4, **splits: list[dict[str, Any]]) -> str:
    for name in ("train", "val", "test"):
        made = [{"id": f"{name}-{number}", "question": "say hello", "task_type": f"kind {number % 2}"} for number in range(n)]
        (directory / name).mkdir(parents=True)
        (directory / name / "items.json").write_text(json.dumps(splits.get(name, made)))
    return str(directory)


class Shouting(EnvAdapter):
    """Right is what is said in capitals; the agents of a batch work side by side."""

    def __init__(self, loader: Any = None) -> None:
        self.loader = loader
        self.lock = threading.Lock()
        self.seen: list[tuple[Any, dict[str, Any]]] = []

    def setup(self, cfg: dict[str, Any]) -> None:
        super().setup(cfg)
        if self.loader is not None:
            self.loader.setup(cfg)

    def get_dataloader(self) -> Any:
        return self.loader

    def build_env_from_batch(self, batch: Any, **kwargs: Any) -> Any:
        return list(batch.payload)

    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> Any:
        return self.build_env_from_batch(self.loader.build_train_batch(batch_size, seed))

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> Any:
        return self.build_env_from_batch(self.loader.build_eval_batch(env_num, split, seed))

    def get_task_types(self) -> list[str]:
        return ["kind 0", "kind 1"]

    def ask(self, item: dict[str, Any], skill: str) -> str:
        return models.chat_target(skill, f"{item['question']} {item['id']}", 9, stage="rollout")[0]

    def row(self, item: dict[str, Any], skill: str, out_dir: str) -> dict[str, Any]:
        reply = self.ask(item, skill)
        directory = Path(out_dir) / "predictions" / item["id"]
        directory.mkdir(parents=True)
        (directory / "conversation.json").write_text(json.dumps([{"type": "message", "turn": 1, "content": reply}]))
        (directory / "target_system_prompt.txt").write_text(skill)
        return {"id": item["id"], "hard": int(reply.isupper()), "soft": 0.5, "fail_reason": "not loud", "em": 0.25}

    def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> list[dict[str, Any]]:
        self.seen.append((list(env_manager), kwargs))
        assert list(Path(out_dir).iterdir()) == []
        with ThreadPoolExecutor(8) as pool:
            rows = list(pool.map(lambda item: self.row(item, skill_content, out_dir), env_manager))
        return rows[::-1]


@pytest.fixture
def loader(tmp_path: Path) -> SplitDataLoader:
    return SplitDataLoader(split_dir=write_splits(tmp_path / "data"), split_mode="split_dir")


def read(run: Any, name: str) -> Any:
    return json.loads((run.dir / name).read_text())


def test_an_adapter_trains_batch_by_batch(train: Any, loader: SplitDataLoader) -> None:
    adapter, agent = Shouting(loader), Agent()
    run = train(adapter, target=agent, num_epochs=2, batch_size=2, settings={"train.slow_update": "off"})
    assert (run["baseline_test_hard"], run["test_hard"]) == (0.0, 1.0)
    assert run.spent["calls"] >= agent.calls and "uncounted_batches" not in run.spent
    sizes = [len(items) for items, _ in adapter.seen]
    assert sizes[0] == 4, "an evaluation is one batch"
    trained = [[item["id"] for item in items] for items, kwargs in adapter.seen if kwargs.get("use_eval_feedback")]
    plan = [spec for epoch in (1, 2) for spec in loader.plan_train_epoch(epoch=epoch, steps_per_epoch=2, accumulation=1, batch_size=2, seed=42)]
    assert trained == [[item["id"] for item in spec.payload] for spec in plan]  # type: ignore[attr-defined]
    step = read(run, "steps/step_0001/step_record.json")
    assert step["batch_item_ids"] == trained[0]
    assert step["selection_n_seen"] == step["selection_n"] == 4, "no candidate is rejected early"
    result = read(run, "steps/step_0001/rollout_results.json")[0]
    assert (result["id"], result["soft"], result["extras"]["em"]) == (trained[0][0], 0.5, 0.25)
    assert result["target_system_prompt"].startswith("Be brief.")
    assert result["trajectory"]["messages"][0] == {"role": "assistant", "content": "hello"}
    assert agent.most_at_once > 1
    n_calls = agent.calls
    again = train(Shouting(SplitDataLoader(split_dir=loader.split_dir, split_mode="split_dir")), target=agent, num_epochs=2, batch_size=2, settings={"train.slow_update": "off"})
    assert agent.calls == n_calls and again["test_hard"] == 1.0


def test_a_file_is_split_by_a_ratio(train: Any, tmp_path: Path) -> None:
    items = [{"id": f"q{number}", "question": "say hello"} for number in range(20)]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, items)))
    adapter = Shouting(SplitDataLoader(data_path=str(tmp_path / "all.jsonl"), split_ratio="2:1:1"))
    run = train(adapter)
    assert [len(items) for items, _ in adapter.seen[:2]] == [5, 4] and run["test_hard"] == 1.0
    made = list((run.dir / "adapter_files" / "_generated_splits").glob("*/split_manifest.json"))
    assert json.loads(made[0].read_text())["counts"] == {"train": 10, "val": 5, "test": 5}


class Reflecting(Shouting):
    """Reflects itself."""

    proposals: Any = None

    def reflect(self, results: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
        self.reflected = (results, out_dir, kwargs)
        models.chat_optimizer("You analyze.", "What now?", stage="analyst")
        return self.proposals if not callable(self.proposals) else self.proposals(super())


def patch(*texts: str, source_type: str = "failure") -> dict[str, Any]:
    edits = [{"op": "append", "content": text} for text in texts]
    return {"patch": {"reasoning": "r", "edits": edits}, "source_type": source_type, "batch_size": 2}


def test_an_adapter_reflects_itself(train: Any, loader: SplitDataLoader) -> None:
    adapter, optimizer = Reflecting(loader), Optimizer()
    adapter.proposals = [None, patch(f"- {RULE}"), {"patch": "none"}, patch("- x" * (4 << 20))]
    run = train(adapter, optimizer=optimizer)
    assert run["test_hard"] == 1.0
    assert "analyst" in optimizer.stages
    raw = read(run, "steps/step_0001/raw_patches.json")
    assert [edit["content"] for one in raw for edit in one["patch"]["edits"]] == [f"- {RULE}"]
    notes = read(run, "steps/step_0001/step_record.json")["notes"]
    assert {note.split(" of the environment")[0] for note in notes} == {"proposal 2", "proposal 3"}, notes
    rows, out_dir, kwargs = adapter.reflected
    assert {"id", "hard", "soft", "fail_reason", "em"} <= set(rows[0]) and "trajectory" not in rows[0]
    assert (Path(kwargs["prediction_dir"]) / rows[0]["id"] / "conversation.json").is_file()
    assert Path(out_dir).is_relative_to(run.dir / "adapter_files") and kwargs["random_seed"] == 1043


def test_the_reflection_of_the_engine_can_be_called_by_that_of_an_adapter(train: Any, loader: SplitDataLoader) -> None:
    class Filtering(Shouting):
        def reflect(self, results: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
            return super().reflect(results, skill_content, out_dir, **kwargs)[:1]

    optimizer = Optimizer()
    run = train(Filtering(loader), optimizer=optimizer)
    assert run["test_hard"] == 1.0 and "analyst" in optimizer.stages


def test_prompts_of_an_adapter_are_those_of_the_analysts(train: Any, loader: SplitDataLoader) -> None:
    class Prompting(Shouting):
        def get_error_minibatch_prompt(self) -> str:
            return "You look for capitals."

    shown: list[str] = []

    class Asked(Optimizer):
        def chat(self, *, system: str, user: str, **kwargs: Any) -> Any:
            shown.append(system)
            return super().chat(system=system, user=user, **kwargs)

    train(Prompting(loader), optimizer=Asked())
    assert "You look for capitals." in shown


class Simulator(BaseDataLoader):
    """Only a seed decides what is in a batch."""

    def build_train_batch(self, batch_size: int, seed: int, **kwargs: Any) -> BatchSpec:
        return BatchSpec("train", "train", seed, batch_size)

    def build_eval_batch(self, env_num: int, split: str, seed: int, **kwargs: Any) -> BatchSpec:
        return BatchSpec("eval", split, seed, env_num)


class Playing(Shouting):
    """Episodes that a seed decides."""

    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> Any:
        return [{"id": f"game-{seed}-{number}", "question": "say hello"} for number in range(batch_size)]

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> Any:
        return tuple({"id": f"{split}-{number}", "question": "say hello"} for number in range(env_num))

    def build_env_from_batch(self, batch: Any, **kwargs: Any) -> Any:
        return EnvAdapter.build_env_from_batch(self, batch, **kwargs)


@pytest.mark.parametrize("loader", [Simulator(), None])
def test_episodes_that_only_a_seed_decides_train(train: Any, loader: Any) -> None:
    extras = {"train_size": 4, "sel_env_num": 3, "test_env_num": 3}
    adapter = Playing(loader)
    run = train(adapter, batch_size=2, num_epochs=2, extras=extras)
    assert (run["baseline_test_hard"], run["test_hard"]) == (0.0, 1.0)
    trained = [items[0]["id"] for items, kwargs in adapter.seen if kwargs]
    assert sorted(trained) == ["game-43-0", "game-43-0", "game-44-0", "game-44-0"]
    before, after = (run.dir / f"slow_update/epoch_02/rollout_{side}" for side in ("prev", "curr"))
    assert before.exists() and after.exists()
    result = read(run, "steps/step_0001/rollout_results.json")[0]
    assert result["extras"]["row_id"].startswith("game-")
    with pytest.raises(skillrl.ConfigError, match="train_size"):
        train(Playing(loader), extras={}, out_root=f"{run.dir}-2")


def test_what_is_asked_past_the_engine_is_reported_and_no_cap_is_promised(train: Any, loader: SplitDataLoader) -> None:
    class Past(Shouting):
        def ask(self, item: dict[str, Any], skill: str) -> str:
            return "hello"

    with pytest.warns(UserWarning, match="neither counted nor kept"):
        run = train(Past(loader))
    assert run.spent["uncounted_batches"] >= 3
    assert read(run, "steps/step_0001/rollout_results.json")[0]["extras"]["calls_not_counted"] is True
    for cap in ({"max_money": 1.0}, {"max_calls": 1000}):
        with pytest.raises(skillrl.RunError, match="neither counted nor kept") as caught:
            train(Past(loader), out_root=f"{run.dir}-{next(iter(cap))}", **cap)
        assert isinstance(caught.value.__cause__, skillrl.ConfigError)


HOOKS = ["setup", "get_dataloader", "build_env_from_batch", "rollout", "reflect", "get_error_minibatch_prompt"]


@pytest.mark.parametrize("hook", HOOKS)
def test_what_a_hook_raises_names_it(train: Any, loader: SplitDataLoader, hook: str) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise LookupError("no such thing")

    adapter = type("Broken", (Reflecting if hook == "reflect" else Shouting,), {hook: broken})(loader)
    with pytest.raises(skillrl.RunError) as caught:
        train(adapter)
    error = caught.value
    assert error.kind == "callback" and isinstance(error.__cause__, LookupError)
    assert f"`{'rollout' if hook == 'build_env_from_batch' else hook}` of Broken raised" in str(error)


@pytest.mark.parametrize("method", ["plan_train_epoch", "build_eval_batch", "get_train_size"])
def test_what_a_loader_raises_names_it(train: Any, loader: SplitDataLoader, method: str) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise LookupError("no such thing")

    setattr(loader, method, broken)
    with pytest.raises(skillrl.RunError, match=f"`{method}` of SplitDataLoader raised") as caught:
        train(Shouting(loader))
    assert caught.value.kind == "callback"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (lambda rows: None, "returned None; return a list of rows"),
        (lambda rows: [7], "returned 7 as row 1"),
        (lambda rows: [{**rows[0], "hard": None}, *rows[1:]], "without `hard`"),
        (lambda rows: [{"hard": 1}, *rows[1:]], "without `id`"),
        (lambda rows: [{**row, "hard": 3} for row in rows], "hard=3"),
        (lambda rows: [*rows, rows[0]], "two rows of item 'val-3'"),
        (lambda rows: rows[1:], "no row of item 'val-3'"),
        (lambda rows: [*rows, {"id": "x", "hard": 1}], "a row of 'x'"),
    ],
)
def test_rows_that_are_none_are_errors_and_no_scores(train: Any, loader: SplitDataLoader, rows: Any, told: str) -> None:
    class Wrong(Shouting):
        def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
            return rows(super().rollout(env_manager, skill_content, out_dir, **kwargs))

    with pytest.raises(skillrl.RunError) as caught:
        train(Wrong(loader))
    assert caught.value.kind == "callback" and told in str(caught.value)


@pytest.mark.parametrize(("proposals", "told"), [(lambda _: 7, "`reflect` of Reflecting returned 7"), (lambda _: None, "returned None"), ([5], "returned 5 as patch 1")])
def test_a_reflection_that_is_none_is_an_error(train: Any, loader: SplitDataLoader, proposals: Any, told: str) -> None:
    adapter = Reflecting(loader)
    adapter.proposals = proposals
    with pytest.raises(skillrl.RunError) as caught:
        train(adapter)
    assert caught.value.kind == "callback" and told in str(caught.value)
    # What was measured is kept: with a reflection that works, the run goes on from there.
    adapter.proposals = [patch(f"- {RULE}")]
    n_batches = len(adapter.seen)
    assert train(adapter)["test_hard"] == 1.0
    assert not any(kwargs for _, kwargs in adapter.seen[n_batches:]), "the batch of the step is not made again"


@pytest.mark.parametrize("split", ["train", "val"])
def test_an_empty_split_is_named(train: Any, tmp_path: Path, split: str) -> None:
    directory = write_splits(tmp_path / "data", **{split: []})
    with pytest.raises(skillrl.RunError, match=f"{split} split") as caught:
        train(Shouting(SplitDataLoader(split_dir=directory, split_mode="split_dir")))
    assert caught.value.kind == "data"


def test_an_empty_test_split_is_not_measured(train: Any, tmp_path: Path) -> None:
    directory = write_splits(tmp_path / "data", test=[])
    run = train(Shouting(SplitDataLoader(split_dir=directory, split_mode="split_dir")))
    assert run.get("test_hard") is None and run["best_selection_score"] == 1.0


def test_splits_that_overlap_are_told(train: Any, tmp_path: Path) -> None:
    items = [{"id": f"q{number}", "question": "say hello"} for number in range(3)]
    directory = write_splits(tmp_path / "data", train=items, val=items)
    with pytest.warns(UserWarning, match="3 items are in two splits, such as 'q0' in train and in val"):
        run = train(Shouting(SplitDataLoader(split_dir=directory, split_mode="split_dir")))
    assert run["best_selection_score"] == 1.0


@pytest.mark.parametrize(("item", "told"), [({"id": "q0"}, "'q0' twice"), ({}, "has no `id`"), (7, "items are dicts")])
def test_items_that_cannot_be_told_apart_are_refused(train: Any, tmp_path: Path, item: Any, told: str) -> None:
    directory = write_splits(tmp_path / "data", train=[{"id": "q0", "question": "x"}, item])
    with pytest.raises(skillrl.RunError, match=told) as caught:
        train(Shouting(SplitDataLoader(split_dir=directory, split_mode="split_dir")))
    assert caught.value.kind == "data"


def test_an_adapter_that_changes_itself_and_its_settings_changes_no_run(train: Any, loader: SplitDataLoader, config: Any) -> None:
    class Restless(Shouting):
        max_turns = 1

        def setup(self, cfg: dict[str, Any]) -> None:
            super().setup(cfg)
            cfg["num_epochs"], cfg["extras_of_mine"][:] = 99, []
            self.max_turns = 7

        def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
            rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
            self.max_turns += 1
            env_manager.clear()
            return rows

    settings = config(extras={"extras_of_mine": [1]})
    adapter = Restless(loader)
    trainer = skillrl.SkillOptTrainer(config=settings, env=adapter, target_client=Agent(), optimizer_client=Optimizer(), initial_skill="s")
    assert trainer.train()["config"]["num_epochs"] == 1
    assert settings.extras == {"extras_of_mine": [1]}
    assert trainer.train()["test_hard"] == 1.0, "the same trainer resumes its run"


def test_a_thread_that_an_adapter_leaves_behind_gets_no_reply(train: Any, loader: SplitDataLoader) -> None:
    goes_on, late = threading.Event(), []

    def ask() -> None:
        goes_on.wait(30)
        try:
            models.chat_target("s", "u")
        except skillrl.ModelError as error:
            late.append(error.kind)

    class Leaving(Shouting):
        thread: Any = None

        def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
            if self.thread is None:
                self.thread = threading.Thread(target=ask)
                self.thread.start()
            return super().rollout(env_manager, skill_content, out_dir, **kwargs)

    adapter = Leaving(loader)
    train(adapter)
    goes_on.set()
    adapter.thread.join(30)
    assert late == ["usage"]


def test_a_model_that_fails_is_no_score_of_an_adapter(train: Any, loader: SplitDataLoader) -> None:
    class Hiding(Shouting):
        def ask(self, item: dict[str, Any], skill: str) -> str:
            try:
                return super().ask(item, skill)
            except skillrl.ModelError:
                return "hello"

    def chat(system: str, user: str) -> str:
        raise OSError("the server is down")

    with pytest.raises(skillrl.RunError, match="the server is down"):
        train(Hiding(loader), target=chat)


def test_two_adapters_at_once_are_refused(train: Any, loader: SplitDataLoader, tmp_path: Path) -> None:
    errors: list[str] = []

    class Nested(Shouting):
        def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> Any:
            if not errors:
                with pytest.raises(skillrl.RunError) as caught:
                    train(Shouting(loader), out_root=str(tmp_path / "other"))
                errors.append(caught.value.kind)
            return super().rollout(env_manager, skill_content, out_dir, **kwargs)

    train(Nested(loader))
    assert errors == ["usage"]


def test_helpers_find_references_and_representative_items() -> None:
    adapter = Playing()
    items = [{"id": number, "task_type": f"t{number % 2}", "reference_text": f" r{number} "} for number in range(6)]
    results = [{"id": str(number), "hard": int(number > 3)} for number in range(6)]
    assert adapter.get_reference_metadata(items[1]) == {"fields": ["reference_text"], "preview": "r1"}
    assert adapter.get_reference_metadata({}) == {"fields": [], "preview": ""}
    assert [row.get("reference_text") for row in adapter.attach_reference_context(results, items[:2])][:3] == ["r0", "r1", None]
    chosen = adapter.select_representative_items(results, items, n_failures=2, n_successes=1, seed=3)
    assert len(chosen) == 3 and {item["task_type"] for item in chosen[:2]} == {"t0", "t1"} and chosen[2]["id"] in (4, 5)
    assert adapter.select_representative_items(results, None, n_failures=2, n_successes=1) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"split_mode": "magic"}, "split_mode is 'magic'"),
        ({"split_mode": "split_dir"}, "split_dir is empty"),
        ({}, "data_path is empty"),
        ({"data_path": "DATA", "split_ratio": "2:1"}, "split_ratio is '2:1'"),
        ({"data_path": "DATA", "split_ratio": "2:0:7"}, "split_ratio is '2:0:7'"),
    ],
)
def test_a_loader_says_what_it_needs(tmp_path: Path, arguments: dict[str, Any], told: str) -> None:
    (tmp_path / "data.json").write_text('[{"id": 1}]')
    arguments = {name: str(tmp_path / "data.json") if value == "DATA" else value for name, value in arguments.items()}
    with pytest.raises(ValueError, match=told):
        SplitDataLoader(**arguments).setup({"out_root": str(tmp_path)})


def test_no_warning_is_left_of_a_clean_run(train: Any, loader: SplitDataLoader) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(Shouting(loader))
