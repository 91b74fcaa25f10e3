"""The functions of skillrl 1.0: values recorded from it and from SkillOpt, and stages with clients."""

from __future__ import annotations

import ast
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import RULE, Agent, Optimizer, Shout

import skillrl
from skillrl import Edit, Patch, RawPatch, RolloutResult
from skillrl.core import (
    apply_edit,
    apply_patch,
    apply_patch_with_report,
    build_scheduler,
    compute_score,
    evaluate_gate,
    extract_json,
    select_gate_score,
    skill_hash,
)
from skillrl.pipeline import merge_patches, rank_and_select, run_minibatch_reflect, run_rollout, split_failures_successes
from skillrl.prompts import NAMES, load_prompt

VECTORS = json.loads(
    (Path(__file__).parents[2] / "skill-pipeline/tests/data/conformance/reference-vectors.json").read_text()
)


def vectors(name: str) -> list[Any]:
    found = VECTORS[name]
    assert found
    return [pytest.param(case["in"], case["out"], id=f"{name}-{number}") for number, case in enumerate(found)]


@pytest.mark.parametrize(("given", "expected"), vectors("scheduler"))
def test_schedules(given: Any, expected: Any) -> None:
    scheduler = build_scheduler(*given)
    assert [scheduler.get_lr(step + 1) for step in range(len(expected))] == expected
    assert [scheduler.step() for _ in expected] == expected
    resumed = build_scheduler(*given)
    resumed.load_state_dict({"current_step": 1})
    assert resumed.step() == scheduler.get_lr(2)


@pytest.mark.parametrize(("given", "expected"), vectors("skill_hash"))
def test_hashes(given: str, expected: str) -> None:
    assert skill_hash(given) == expected


@pytest.mark.parametrize(("given", "expected"), vectors("compute_score"))
def test_mean_scores(given: Any, expected: Any) -> None:
    assert list(compute_score(given)) == expected
    assert list(compute_score([RolloutResult.from_dict({"id": "a", **row}) for row in given])) == expected


@pytest.mark.parametrize(("given", "expected"), vectors("extract_json"))
def test_json_in_replies(given: str, expected: Any) -> None:
    # An answer is an object.
    assert extract_json(given) == (expected if isinstance(expected, dict) else None)


@pytest.mark.parametrize(("given", "expected"), vectors("evaluate_gate"))
def test_the_gate(given: Any, expected: Any) -> None:
    result = evaluate_gate(
        candidate_skill="C",
        cand_hard=given["cand_hard"],
        current_skill="A",
        current_score=given["current"],
        best_skill="B",
        best_score=given["best"],
        best_step=given["best_step"],
        global_step=given["step"],
    )
    assert vars(result) == expected


def test_scores_of_the_gate() -> None:
    assert select_gate_score(1.0, 0.0, "mixed", 0.5) == 0.5
    assert select_gate_score(0.25, 0.75) == 0.25
    assert select_gate_score(0.25, 0.75, "soft") == 0.75
    for metric, weight in (("mixed", 5.0), ("mixed", -2.0), ("exact", 0.5)):
        with pytest.raises(ValueError):
            select_gate_score(0.8, 0.3, metric, weight)  # type: ignore[arg-type]
    new = evaluate_gate(
        candidate_skill="C",
        cand_hard=0.0,
        cand_soft=0.9,
        metric="soft",
        current_skill="A",
        current_score=0.5,
        best_skill="B",
        best_score=0.8,
        best_step=3,
        global_step=7,
    )
    assert (new.action, new.best_skill, new.best_step, new.current_skill) == ("accept_new_best", "C", 7, "C")


#: What differs on purpose: a patch that would break a protected region, and edits without content or without a skill.
DIFFERENT = {3: "skipped_protected_region", 10: "skipped_empty_content", 11: "applied_append"}


@pytest.mark.parametrize(("number", "case"), list(enumerate(VECTORS["apply_edit"])))
def test_the_editor(number: int, case: Any) -> None:
    given, expected = case["in"], case["out"]
    skill, rows = apply_patch_with_report(given["skill"], {"edits": [given["edit"]]})
    assert len(rows) == 1 and rows[0]["index"] == 1
    if number in DIFFERENT:
        assert rows[0]["status"] == DIFFERENT[number] and skill != expected["skill"] or number == 10
        return
    assert skill == expected["skill"]
    assert {key: rows[0][key] for key in expected["report"][0]} == expected["report"][0]
    assert apply_edit(given["skill"], given["edit"]) == skill
    assert apply_patch(given["skill"], Patch([Edit.from_dict(given["edit"])])) == skill


def test_an_edit_that_is_not_an_object_is_a_row_and_the_others_are_applied() -> None:
    edits = [5, {"op": "append", "content": "x"}, None, {"op": "append", "content": "y"}]
    for patch in ({"edits": edits}, Patch.from_dict({"edits": edits})):
        skill, rows = apply_patch_with_report("a", patch)
        assert [(row["index"], row["status"]) for row in rows] == [
            (1, "error"), (2, "applied_append"), (3, "error"), (4, "applied_append")
        ]
        assert "x" in skill and "y" in skill and rows[0]["error"]
    assert Patch.from_dict({"edits": [5]}).to_dict()["edits"] == [5]


def test_modules_are_attributes_of_the_package() -> None:
    for name in ("core", "envs", "llm", "pipeline", "prompts", "types", "config", "trainer"):
        assert getattr(skillrl, name).__name__ == f"skillrl.{name}"


def test_the_editor_with_the_rules_of_a_run() -> None:
    skill = "# Rules\n\n- Say **please**.\n"
    edit = Edit("replace", "- Say thanks.", "- say please.")
    assert apply_edit(skill, edit) == skill
    assert apply_edit(skill, edit, anchors="folded") == "# Rules\n\n- Say thanks.\n"
    again = Patch([Edit("append", "- Say please.")])
    assert apply_patch(skill, again).count("lease") == 2
    assert apply_patch(skill, again, drop_duplicates=True) == skill
    with pytest.raises(ValueError):
        apply_edit(skill, edit, anchors="loose")  # type: ignore[arg-type]


class Scripted(skillrl.llm.BaseLLMClient):
    """A client that answers everything alike, and counts."""

    model = "scripted"

    def __init__(self, text: str) -> None:
        self.text = text
        self.seen: list[tuple[str, str, str]] = []
        self._lock = threading.Lock()

    def chat(self, *, system: str, user: str, stage: str = "", **kwargs: Any) -> tuple[str, dict[str, Any]]:
        with self._lock:
            self.seen.append((stage, system, user))
        return self.text, {}


def raw(source: str, number: int) -> RawPatch:
    return RawPatch(Patch([Edit("append", f"{source[0]}{number}")], "r"), source, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["merge_patches", "merge_bad_json"])
def test_merging(name: str) -> None:
    for case in VECTORS[name]:
        (n_failures, n_successes, batch_size), expected = case["in"], case["out"]
        good = json.dumps({"reasoning": "m", "edits": [{"op": "append", "content": "M"}]})
        client = Scripted(good if name == "merge_patches" else "no JSON")
        patches = [raw("failure", n) for n in range(n_failures)] + [raw("success", n) for n in range(n_successes)]
        merged = merge_patches(
            optimizer_client=client, skill_content="# S\n", raw_patches=patches, batch_size=batch_size, verbose=False
        )
        assert len(client.seen) == expected["n_calls"]
        contents = [(edit["content"], edit.get("merge_level")) for edit in expected["result"]["edits"]]
        assert [(edit.content, edit.merge_level) for edit in merged.edits] == contents
        assert all(stage == "merge" for stage, _, _ in client.seen)


#: Without those that differ on purpose: `true` is no index here, and a budget of 0 keeps no edit.
SELECTIONS = [case for case in VECTORS["rank_and_select"] if "true" not in case["in"][0] and case["in"][1] > 0]


@pytest.mark.parametrize("case", SELECTIONS)
def test_selecting(case: Any) -> None:
    (reply, budget), expected = case["in"], case["out"]
    patch = Patch([Edit("append", f"e{number}") for number in range(5)], "R")
    kept = rank_and_select(
        optimizer_client=Scripted(reply), skill_content="# S\n", patch=patch, max_edits=budget, verbose=False
    )
    assert [edit.content for edit in kept.edits] == [edit["content"] for edit in expected["edits"]]
    if budget >= 5:
        assert kept is patch


#: Without the case that has no seed, which the function always has.
GROUPS = [case for case in VECTORS["minibatch_groups"] if case["in"]["seed"] is not None]


@pytest.mark.parametrize("case", GROUPS)
def test_reflecting(case: Any) -> None:
    given, expected = case["in"], case["out"]
    results = [RolloutResult(f"t{number}", hard, hard, fail_reason="f") for number, hard in enumerate(given["hard"])]
    client = Scripted(json.dumps({"edits": [{"op": "append", "content": f"- {n}"} for n in range(3)]}))
    patches = run_minibatch_reflect(
        rollout_results=results,
        current_skill="# S\n",
        optimizer_client=client,
        minibatch_size=given["M"],
        edit_budget=2,
        seed=given["seed"],
        failure_only=True,
        extra_context="It is a test of ships.",
        verbose=False,
    )
    groups = [("failure", len(group)) for group in expected["fail"]]
    assert [(patch.source_type, patch.batch_size) for patch in patches] == groups
    assert all(len(patch.patch.edits) == 2 for patch in patches)
    assert len(client.seen) == len(groups)
    for group in expected["fail"]:
        # Each analyst reads the trajectories of its group, in its order.
        assert any(_in_order(user, group) for _, _, user in client.seen)
    assert all("It is a test of ships." in system + user for _, system, user in client.seen)


def _in_order(text: str, ids: list[str]) -> bool:
    places = [text.find(f'id="{name}"') for name in ids]
    return -1 not in places and places == sorted(places)


def test_a_loop_of_ones_own_trains() -> None:
    agent, optimizer, world = Agent(), Optimizer(), Shout()
    skill = "Be brief."
    results = run_rollout(world, skill, world.get_items("train"), target_client=agent, workers=2, verbose=False)
    failures, successes = split_failures_successes(results)
    assert [result.id for result in failures] == [f"train-{n}" for n in range(4)] and not successes
    patches = run_minibatch_reflect(
        rollout_results=results, current_skill=skill, optimizer_client=optimizer, minibatch_size=2, verbose=False
    )
    merged = merge_patches(optimizer_client=optimizer, skill_content=skill, raw_patches=patches, verbose=False)
    ranked = rank_and_select(
        optimizer_client=optimizer, skill_content=skill, patch=merged, max_edits=4, verbose=False
    )
    candidate = apply_patch(skill, ranked)
    assert RULE in candidate
    hard, soft = compute_score(
        run_rollout(world, candidate, world.get_items("val"), target_client=agent, verbose=False)
    )
    assert (hard, soft) == (1.0, 1.0)
    assert optimizer.stages == ["analyst", "analyst", "merge"]


def test_functions_raise_what_callbacks_raise() -> None:
    def broken(system: str, user: str) -> str:
        raise LookupError("no such door")

    for ask in (
        lambda: merge_patches(
            optimizer_client=broken, skill_content="", raw_patches=[raw("failure", 0), raw("failure", 1)], verbose=False
        ),
        lambda: run_minibatch_reflect(
            rollout_results=[RolloutResult("a")], current_skill="", optimizer_client=broken, verbose=False
        ),
    ):
        with pytest.raises(skillrl.RunError) as caught:
            ask()
        assert isinstance(caught.value.__cause__, LookupError)

    class Broken(Shout):
        def rollout_one(self, **_: Any) -> Any:
            raise LookupError("no such door")

    with pytest.raises(LookupError):
        run_rollout(Broken(), "", [{"id": "a"}], target_client=Agent(), verbose=False)


def test_rollouts_that_are_coroutines_run_side_by_side() -> None:
    class Later(Shout):
        async def rollout_one(self, *, item: Any, skill: str, target_client: Any) -> Any:
            return {"id": item["id"], "hard": 1, "soft": "0.5"}

    results = run_rollout(Later(), "", [{"id": n} for n in range(5)], target_client=None, workers=2, verbose=False)
    assert [(result.id, result.hard, result.soft) for result in results] == [(str(n), 1, 0.5) for n in range(5)]


def test_prompts_are_given_back_as_they_are() -> None:
    assert {"analyst_error", "analyst_success", "merge_failure", "merge_success", "merge_final", "ranking"} <= set(NAMES)
    with pytest.raises(KeyError):
        load_prompt("analyst")
    assert load_prompt("ranking", {"ranking": "Mine."}) == "Mine."
    seen = []
    for overrides in (None, {"merge_failure": load_prompt("merge_failure")}, {"merge_failure": "Mine {{ 1 }}."}):
        client = Scripted('{"edits": []}')
        merge_patches(
            optimizer_client=client,
            skill_content="# S\n",
            raw_patches=[raw("failure", 0), raw("failure", 1)],
            prompt_overrides=overrides,
            verbose=False,
        )
        seen.append(client.seen)
    assert seen[0] == seen[1]
    assert seen[2][0][1] == "Mine {{ 1 }}." and seen[2][0][2] == seen[0][0][2]


def test_an_edit_keeps_its_origin_and_its_purpose() -> None:
    given = {"op": "append", "content": "x", "update_origin": "slow_update", "update_target": "body"}
    assert Edit.from_dict(given).to_dict() == given
    kept = rank_and_select(optimizer_client=object, skill_content="# S\n", patch=Patch([Edit.from_dict(given)]), max_edits=2, verbose=False)
    assert kept.to_dict()["edits"] == [given]
    assert "update_origin" not in Edit("append", "x").to_dict()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"id": 5, "hard": 1, "soft": "0.5"}, ("5", 1, 0.5)),
        ({"id": "a", "hard": 0.25, "soft": 1}, ("a", 0.25, 1.0)),
        ({"hard": True, "soft": None}, ("", 1, 0.0)),
        ({"hard": "1", "more": 7}, ("", 1, 0.0)),
        ({"hard": 1, "n_turns": "3"}, ("", 1, 0.0)),
    ],
)
def test_results_are_coerced(given: Any, expected: Any) -> None:
    result = RolloutResult.from_dict(given)
    assert (result.id, result.hard, result.soft) == expected
    assert [type(value) for value in (result.id, result.soft)] == [str, float]
    assert isinstance(result.hard, int) == float(given["hard"]).is_integer()
    assert result.n_turns == int(given.get("n_turns", 0))


def test_a_trainer_has_the_state_of_its_run(config: Any) -> None:
    trainer = skillrl.SkillOptTrainer(
        config=config(), env=Shout(), target_client=Agent(), optimizer_client=Optimizer(), initial_skill="Be brief."
    )
    assert (trainer.current_score, trainer.best_score, trainer.best_step, trainer.global_step) == (-1.0, -1.0, 0, 0)
    assert trainer.sel_cache == {} and trainer.runtime_state == {}
    run = trainer.train()
    assert (trainer.current_score, trainer.best_score, trainer.best_step, trainer.global_step) == (1.0, 1.0, 1, 1)
    assert trainer.sel_cache[skill_hash("Be brief.")] == (0.0, 0.0)
    assert trainer.sel_cache[run.history[0]["candidate_hash"]] == (1.0, 1.0)
    assert trainer.runtime_state["last_completed_step"] == 1
    assert run["config"]["num_epochs"] == run["config"]["train"]["epochs"] == 1
    assert run["config"]["batch_size"] == 4 and run["config"]["gate_metric"] == "hard"
    files = [json.loads((run.dir / name).read_text()) for name in ("config.json", "summary.json")]
    for named in (files[0], files[1]["config"], run["config"]):
        fields = {name: named.get(name) for name in ("num_epochs", "batch_size", "seed", "selection_split", "workers")}
        assert fields == {"num_epochs": 1, "batch_size": 4, "seed": 42, "selection_split": "val", "workers": None}
    assert run.spent["money"] is None


def test_the_stub_names_all_that_the_native_module_has() -> None:
    stub = ast.parse((Path(skillrl.__file__).parent / "_native.pyi").read_text())
    named = next(node.value for node in stub.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    assert sorted(ast.literal_eval(named)) == sorted(skillrl._native.__all__)


def test_a_graded_score_that_nobody_gives_is_the_strict_one() -> None:
    assert [RolloutResult("a", hard).soft for hard in (0, 1, 0.5)] == [0.0, 1.0, 0.5]
    assert RolloutResult("a", 1, 0.0).soft == 0.0
    assert type(RolloutResult("a", 1).soft) is float
