"""Runs: resumed, stopped, side by side, in other processes, shown."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import Agent, Optimizer, Shout

import skillrl


def test_a_run_with_other_settings_or_clients_is_not_continued(train: Any) -> None:
    train()
    with pytest.raises(skillrl.RunError) as caught:
        train(seed=7)
    assert caught.value.kind == "other_run" and "run.seed" in str(caught.value)

    class Other(Agent):
        model = "another"

    with pytest.raises(skillrl.RunError, match="models.target"):
        train(target=Other())


def test_caps_end_a_run_and_a_higher_one_resumes_it(train: Any) -> None:
    agent = Agent()
    with pytest.raises(skillrl.RunError) as caught:
        train(target=agent, max_calls=5)
    assert caught.value.kind == "budget"
    assert agent.calls <= 5
    assert train(target=agent, max_calls=500)["test_hard"] == 1.0


def test_settings_of_the_engine_are_reached_by_name(train: Any) -> None:
    run = train(Shout(8), settings={"gate.mode": "mcnemar", "train.slow_update": "off"})
    assert run["config"]["gate"]["mode"] == "mcnemar"
    with pytest.raises(skillrl.ConfigError, match="gate.mood"):
        train(settings={"gate.mood": "glad"})
    for wrong in ({"batch_size": 0}, {"min_edit_budget": 9}, {"gate_metric": "hrad"}, {"settings": {"mode": 1}}):
        with pytest.raises(ValueError):
            skillrl.SkillOptConfig(**wrong)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"settings": {"models.target.extra_body": {"stop": None}}}, "models.target.extra_body.stop"),
        ({"settings": {"limits.stop": ["a", None]}}, "limits.stop[1]"),
        ({"max_money": math.inf}, "budget.money"),
        ({"settings": {"gate.score_margin": math.nan}}, "gate.score_margin"),
        ({"settings": {"run.dir": Path("elsewhere")}}, "run.dir"),
    ],
)
def test_a_setting_without_a_value_is_an_error_and_not_the_defaults(train: Any, fields: Any, named: str) -> None:
    agent = Agent()
    with pytest.raises(skillrl.ConfigError) as caught:
        train(target=agent, max_calls=10, **fields)
    assert named in str(caught.value) and caught.value.kind == "usage"
    assert agent.calls == 0


@pytest.mark.skipif(sys.platform != "linux", reason="file names are UTF-8 elsewhere")
def test_a_directory_that_is_not_utf_8_is_an_error_before_the_run(train: Any, tmp_path: Path) -> None:
    agent = Agent()
    with pytest.raises(skillrl.ConfigError):
        train(target=agent, out_root=f"{tmp_path}/o\udcff")
    assert agent.calls == 0


def report_of(run: skillrl.Run) -> Any:
    """What the report of the program says."""
    command = [sys.executable, "-m", "skillrl", "report", str(run.dir), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_a_run_is_shown_and_opened_again(train: Any) -> None:
    run = train(skill="Be <b>brief</b>.")
    assert str(run.verdict) in repr(run) and (run.dir / "report.html").is_file()
    page = run._repr_html_()
    # The word is that of the report, and what cannot be told is not called better.
    report = report_of(run)
    assert run.verdict["outcome"] == report["verdict"]["outcome"]
    assert run.verdict["words"] == report["verdict"]["words"] and run.verdict["words"] in page
    if run.verdict.outcome == "better":
        assert run.verdict["interval"][0] > 0
    page = run._repr_html_()
    assert "&lt;b&gt;brief&lt;/b&gt;" in page and "accept new best" in page
    opened = skillrl.Run.open(run.dir)
    # One name is not two things: the text is an attribute, and where it comes from is a field.
    assert run["best_skill_origin"] == {"kind": "step", "step": 1} and "best_skill" not in run
    assert opened == run and opened.best_skill == run.best_skill and opened.initial_skill.startswith("Be <b>")
    assert run.report().read_text().startswith("<!doctype html>")
    with pytest.raises(FileNotFoundError, match="no run"):
        skillrl.Run.open(run.dir / "steps")


def test_progress_is_printed(train: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(verbose=True)
    said = capsys.readouterr().out
    assert said.rstrip().endswith(str(run.verdict))
    for word in ("skillrl shout: 1 step, protocol paper", "baseline  0.0 %", "accept new best"):
        assert word in said


def test_two_trainers_at_once_and_one_directory_for_one(train: Any, tmp_path: Path) -> None:
    runs: dict[str, Any] = {}

    def one(name: str) -> None:
        runs[name] = train(target=Agent(seconds=0.02), out_root=str(tmp_path / name))

    threads = [threading.Thread(target=one, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [runs[name]["test_hard"] for name in "ab"] == [1.0, 1.0]

    begun, go = threading.Event(), threading.Event()

    def slow(system: str, user: str) -> str:
        begun.set()
        assert go.wait(60)
        return "hello"

    first = threading.Thread(target=lambda: train(target=slow, out_root=str(tmp_path / "c")))
    first.start()
    assert begun.wait(60)
    with pytest.raises(skillrl.RunError) as caught:
        train(target=slow, out_root=str(tmp_path / "c"))
    assert caught.value.kind == "run_dir"
    go.set()
    first.join()


def _in_fork(directory: str, results: Any) -> None:
    config = skillrl.SkillOptConfig(num_epochs=1, batch_size=4, out_root=directory, verbose=False)
    trainer = skillrl.SkillOptTrainer(
        config=config, env=Shout(), target_client=Agent(), optimizer_client=Optimizer(), initial_skill="s"
    )
    results.put(trainer.train()["test_hard"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_trains_even_after_its_parent_has(train: Any, tmp_path: Path) -> None:
    async def chat(system: str, user: str) -> str:
        return "hello"

    # The parent has an event loop, a runtime and threads by now.
    train(target=chat)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_in_fork, args=(str(tmp_path / name), results)) for name in "ab"]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [1.0, 1.0]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


FORKING = """
    import os, sys
    sys.path.insert(0, {tests!r})
    from conftest import Optimizer, Shout
    import skillrl

    children = []

    def word():
        if not children and (child := os.fork()):
            children.append(child)
        elif not children:
            # The child leaves the function of the engine, which is in its parent alone.
            {leave}
        return "hello"

    def plain(system, user):
        return word()

    async def coroutine(system, user):
        return word()

    trainer = skillrl.SkillOptTrainer(
        config=skillrl.SkillOptConfig(num_epochs=1, batch_size=4, workers=1, out_root={out!r}, verbose=False),
        env=Shout(), target_client={function}, optimizer_client=Optimizer(), initial_skill="s",
    )
    trainer.train()
    print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("function", ["plain", "coroutine"])
@pytest.mark.parametrize(("leave", "code"), [("pass", 0), ("raise ValueError('child')", 1), ("sys.exit(7)", 7)])
def test_a_process_forked_in_a_function_ends_with_it(tmp_path: Path, function: str, leave: str, code: int) -> None:
    tests = str(Path(__file__).parent)
    program = FORKING.format(tests=tests, out=str(tmp_path / "run"), function=function, leave=leave)
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == [str(code)], ended.stderr


def test_another_interpreter_of_a_process_is_refused() -> None:
    program = """
        import sys
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        source = f"import sys; sys.path[:] = {sys.path!r}; import skillrl"
        run = getattr(interpreters, "exec", None) or interpreters.run_string
        try:
            failed = run(interpreters.create(), source)
            print(failed.type.__name__ if failed else "imported")
        except Exception as error:
            print("ImportError" if "ImportError" in str(error) else error)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == ["ImportError"], ended.stderr


ENDING = """
    import os, sys
    sys.path.insert(0, {tests!r})
    from conftest import Agent, Optimizer, Shout
    import skillrl

    settings = {{"num_epochs": 1, "batch_size": 4, "workers": 64, "out_root": {out!r}, "verbose": False}}
    run = skillrl.SkillOptTrainer(
        config=skillrl.SkillOptConfig(**settings), env=Shout(64), target_client=Agent(), optimizer_client=Optimizer(),
        initial_skill="s",
    ).train()
    # Both processes end while threads of the run may still be ending; the forked one has none of them.
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), run["test_hard"])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_program_and_a_fork_of_it_may_end_right_after_a_run(tmp_path: Path) -> None:
    program = textwrap.dedent(ENDING.format(tests=str(Path(__file__).parent), out=str(tmp_path / "run")))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "0 1.0\n"), ended.stderr


INTERRUPTED = """
    import sys, time, threading, os, signal, json
    sys.path.insert(0, {tests!r})
    from conftest import Agent, Optimizer, Shout
    import skillrl

    class Slow(Agent):
        def chat(self, **kwargs):
            if self.calls == 1 and {n_signals}:
                threading.Thread(target=interrupt).start()
            return super().chat(**kwargs)

    def interrupt():
        for _ in range({n_signals}):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    agent = Slow(seconds={seconds})
    config = skillrl.SkillOptConfig(num_epochs=1, batch_size=4, out_root={out!r}, verbose=False, workers=2)
    trainer = skillrl.SkillOptTrainer(
        config=config, env=Shout(), target_client=agent, optimizer_client=Optimizer(), initial_skill="s"
    )
    try:
        run = trainer.train()
        print("finished", run["test_hard"], agent.calls)
    except KeyboardInterrupt:
        print("interrupted", agent.calls)
"""


def _interrupted(out: Path, n_signals: int, seconds: float) -> list[str]:
    tests = str(Path(__file__).parent)
    program = textwrap.dedent(INTERRUPTED).format(tests=tests, out=str(out), n_signals=n_signals, seconds=seconds)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_ctrl_c_lets_calls_finish_and_the_same_call_resumes(tmp_path: Path) -> None:
    word, n_calls = _interrupted(tmp_path / "run", 1, 0.05)
    assert word == "interrupted" and 2 <= int(n_calls) < 8
    assert not (tmp_path / "run/summary.json").exists()
    word, score, n_more = _interrupted(tmp_path / "run", 0, 0.0)
    assert (word, score) == ("finished", "1.0")
    whole = _interrupted(tmp_path / "whole", 0, 0.0)
    assert int(n_calls) + int(n_more) == int(whole[2]), "no reply is asked for twice"


BLOCKED = """
    import os, signal, sys, threading, time
    sys.path.insert(0, {tests!r})
    from conftest import Agent, Optimizer, Shout
    import skillrl

    def interrupt():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    begun = []

    def block(*given, **named):
        if not begun:
            begun.append(True)
            threading.Thread(target=interrupt).start()
        {block}

    class World(Shout):
        if {place!r} == "rollout":
            rollout_one = block

    config = skillrl.SkillOptConfig(num_epochs=1, batch_size=4, out_root={out!r}, verbose=False, workers=2)
    clients = {{"target_client": Agent(), "optimizer_client": Optimizer()}}
    if {place!r} in clients:
        clients[{place!r}] = lambda system, user: block()
    trainer = skillrl.SkillOptTrainer(config=config, env=World(), initial_skill="s", **clients)
    try:
        trainer.train()
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("place", ["target_client", "optimizer_client", "rollout"])
@pytest.mark.parametrize("block", ["time.sleep(1000)", "threading.Event().wait()", "while True: pass"])
def test_a_second_ctrl_c_ends_a_run_whose_function_blocks(tmp_path: Path, place: str, block: str) -> None:
    tests = str(Path(__file__).parent)
    program = textwrap.dedent(BLOCKED).format(tests=tests, out=str(tmp_path / "run"), place=place, block=block)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr


def test_ctrl_c_ends_a_call_outside_of_a_run() -> None:
    program = """
    import os, signal, socket, threading
    from skillrl.llm import OpenAIChatClient

    server = socket.create_server(("127.0.0.1", 0))

    def accept():
        connection, _ = server.accept()
        connection.recv(1)
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()

    threading.Thread(target=accept, daemon=True).start()
    client = OpenAIChatClient("m", base_url=f"http://127.0.0.1:{server.getsockname()[1]}/v1")
    try:
        client.chat(system="", user="Hello")
    except KeyboardInterrupt:
        print("interrupted")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr


def test_the_program_is_there_and_behaves_as_itself(tmp_path: Path) -> None:
    import skillrl._program

    command = [sys.executable, "-m", "skillrl"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert (version.returncode, version.stdout.strip()) == (0, f"skillrl {skillrl.__version__}")
    wrong = subprocess.run([*command, "trian"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "train" in wrong.stderr
    missing = subprocess.run([*command, "status", str(tmp_path / "none")], capture_output=True, text=True)
    assert missing.returncode not in (0, 1, 2) and "hint:" in missing.stderr
    head = subprocess.run(f"{sys.executable} -m skillrl --help | head -1", shell=True, capture_output=True, text=True)
    assert head.returncode == 0 and head.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_the_program_takes_ctrl_c_as_it_does_without_python(tmp_path: Path) -> None:
    served = subprocess.Popen(
        [sys.executable, "-m", "skillrl", "serve", str(tmp_path), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert served.stdout is not None
    served.stdout.readline()
    served.send_signal(signal.SIGINT)
    said = served.stdout.read()
    assert served.wait(30) == 0, said
    assert "Traceback" not in said


def test_a_configuration_file_trains_the_bundled_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = subprocess.run([sys.executable, "-m", "skillrl", "demo", "--dir", "demo"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    run = skillrl.train_file("demo/skillrl.toml", verbose=False, run__dir="again")
    assert run["test_hard"] > run["baseline_test_hard"]
    assert run.best_skill
    with pytest.raises(skillrl.ConfigError, match="train.epohcs"):
        skillrl.train_file("demo/skillrl.toml", verbose=False, train__epohcs=1)


def test_a_configuration_file_measures_skills_and_banks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (["--dir", "demo"], ["--bank", "--world", "alfworld", "--dir", "banks"]):
        made = subprocess.run([sys.executable, "-m", "skillrl", "demo", *arguments], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
    run = skillrl.Run.open("demo/run")
    before = skillrl.eval_file("demo/skillrl.toml", skill="demo/initial_skill.md", split="test", out="first", verbose=False)
    after = skillrl.eval_file("demo/skillrl.toml", split="test", against="first", verbose=False)
    assert (before["hard"], after["hard"]) == (run["baseline_test_hard"], run["test_hard"])
    assert after["compared"]["difference"] == pytest.approx(after["hard"] - before["hard"])
    assert after.spent["calls"] > 0 and "improved" in repr(after)
    again = skillrl.eval_file("demo/skillrl.toml", skill="demo/initial_skill.md", split="test", out="first", verbose=False)
    assert again["hard"] == before["hard"]

    bank = skillrl.eval_file("banks/bank.toml", bank="banks/bank-run/bank", split="test", verbose=False)
    assert bank["compared"]["difference"] == pytest.approx(bank["hard"] - bank["without"]["hard"])
    assert bank["hard"] > bank["without"]["hard"]
    with pytest.raises(skillrl.SkillRLError):
        skillrl.eval_file("demo/skillrl.toml", skill="nowhere.md", verbose=False)
    with pytest.raises(skillrl.SkillRLError):
        skillrl.eval_file("demo/skillrl.toml", against="nowhere", verbose=False)


def test_other_errors_of_people_are_said_at_once(config: Any) -> None:
    parts = {"config": config(), "env": Shout(), "optimizer_client": Optimizer(), "target_client": Agent()}
    for name, wrong in (("config", {}), ("env", object()), ("optimizer_client", 5), ("target_client", None)):
        with pytest.raises((TypeError, AttributeError)):
            trainer = skillrl.SkillOptTrainer(**{**parts, name: wrong})
            trainer.train()
    error = skillrl.RunError("m", "outage", "h")
    assert json.dumps(str(error)) and error.hint == "h"


def test_runs_are_compared_in_a_table(train: Any, tmp_path: Path) -> None:
    first = train(out_root=str(tmp_path / "a"))
    second = train(out_root=str(tmp_path / "b"), seed=7)
    table = skillrl.compare([first, str(second.dir)])
    assert [record["run"] for record in table.records] == ["a", "b"]
    assert [record["seed"] for record in table.records] == [first["config"]["run"]["seed"], 7]
    assert table["groups"][0]["test"]["n"] == 2
    assert skillrl.compare(tmp_path, group_by="seed")["group_by"] == ["seed"]
    with pytest.raises(skillrl.RunError):
        skillrl.compare([first, second], group_by="nope")
    for wrong, name in (((3,), "runs"), (([3],), "runs"), (([first], 3), "group_by"), (([first], [3]), "group_by")):
        with pytest.raises(TypeError, match=name):
            skillrl.compare(*wrong)
    with pytest.raises(TypeError, match="directory"):
        skillrl.runs_frame(3)


def test_an_opened_run_has_spent_what_it_spent(train: Any) -> None:
    run = train()
    assert skillrl.Run.open(run.dir).spent == run.spent


def test_parts_of_a_run_are_data_frames(train: Any) -> None:
    pandas = pytest.importorskip("pandas")
    run = train()
    items = run.to_pandas()
    test = items[(items["split"] == "test") & (items["skill"] == "best")]
    assert test["hard"].mean() == run["test_hard"]
    assert len(run.to_pandas("proposals")) == run["total_steps"]
    assert run.to_pandas("calls")["calls"].sum() > 0
    assert isinstance(skillrl.runs_frame(run.dir), pandas.DataFrame)
    with pytest.raises(ValueError, match="what"):
        run.to_pandas("steps")
