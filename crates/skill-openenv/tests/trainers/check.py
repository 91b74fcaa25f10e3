"""What other trainers do with `skillrl env serve`: validation, the official clients, TRL on a tiny model.

    python check.py path/to/skillrl path/to/openenv-core

The second path is a directory with the package openenv-core 0.3.0, whose modules have the names of openenv's.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

PROGRAM, CORE = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[3]
PYTHON = sys.executable
OPENENV = str(pathlib.Path(PYTHON).parent / "openenv")
# No model, data set or version is looked up anywhere.
OFFLINE = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "ACCELERATE_USE_CPU": "true",
           "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false",
           "OMP_NUM_THREADS": "1"}
MODELS = '[models]\ntarget = {{ kind = "simulated" }}\noptimizer = {{ kind = "simulated" }}\n[env]\n{}\n'


class Server:
    """A server while the block runs."""

    def __init__(self, directory, *arguments):
        command = [PROGRAM, "env", "serve", *arguments, "--listen", "127.0.0.1:0"]
        self.log = open(pathlib.Path(directory) / "server.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.log.seek(0)
            raise AssertionError(f"{command}: {self.log.read()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data)) as answer:
            return json.load(answer)


def run(*command, cwd=None, **more):
    done = subprocess.run(command, cwd=cwd, env={**OFFLINE, **more}, text=True, capture_output=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def configurations(directory):
    """A configuration for each kind of environment."""
    rows = [{"id": n, "question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(12)]
    (directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    shutil.copytree(ROOT / "examples/exec-python", directory / "exec-python")
    kinds = {
        "alfworld": 'kind = "alfworld"\nrooms = "small"\nmax_train = 24\nmax_val = 2\nmax_test = 2',
        "webshop": 'kind = "webshop"\nmax_train = 6\nmax_val = 2\nmax_test = 2',
        "qa": 'kind = "qa"\ndata = "rows.jsonl"',
        "tasks": 'kind = "tasks"\ndata = "rows.jsonl"',
        "exec": 'kind = "exec"\nprogram = ["python3", "guess.py"]\nprogram_dir = "exec-python"\nprocesses = 4\n'
                "settings = { highest = 7, guesses = 3 }",
    }
    for kind, text in kinds.items():
        path = directory / f"{kind}.toml"
        path.write_text(MODELS.format(text), encoding="utf-8")
        yield kind, path


def every_world(directory):
    """`openenv validate` passes, and the official clients of both packages play to the end."""
    for kind, config in configurations(directory):
        with Server(directory, str(config)) as server:
            told = run(OPENENV, "validate", "--url", server.url)
            verdict = [line.strip(" │") for line in told.splitlines() if "Verdict" in line]
            assert verdict and "PASS" in verdict[0], told
            print(f"{kind}: openenv validate: {verdict[0]}")
            for package, path in (("openenv 0.10.0", ""), ("openenv-core 0.3.0", CORE)):
                told = run(PYTHON, str(HERE / "play.py"), server.url, PYTHONPATH=path)
                print(f"{kind}: {package}:\n  " + "\n  ".join(told.strip().splitlines()))


def trl(directory):
    """The example trains two steps on a tiny model, which calls the tool, with skills and a trial."""
    print(run(PYTHON, str(HERE / "tiny.py"), str(directory / "tiny")).strip().splitlines()[-1])
    (directory / "paper.json").write_text(json.dumps({
        "general_skills": [{"skill_id": "gen_001", "title": "Look first", "principle": "Look around before you act.",
                            "when_to_apply": "Always."}],
        "task_specific_skills": {}, "common_mistakes": [],
    }), encoding="utf-8")
    print(run(PROGRAM, "bank", "import", str(directory / "paper.json"), "--out", str(directory / "bank")).strip())
    with Server(directory, str(directory / "alfworld.toml"), "--bank", str(directory / "bank")) as server:
        told = run(PYTHON, str(ROOT / "examples/trl/train.py"), "--model", str(directory / "tiny"), "--url", server.url,
                   "--skills", "bank", "--group", "2", "--steps", "2", "--tokens", "160", "--cpu", cwd=directory)
        steps = [line.strip() for line in told.splitlines() if "'loss'" in line]
        assert len(steps) == 2, told
        bank = [line for line in told.splitlines() if line.startswith("bank:")]
        assert bank and "bank_version" in bank[-1], told
        print("trl:\n  " + "\n  ".join(steps))
        results = (directory / "bank/results.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(results) == 4, results
        assert all("gen_001" not in line and json.loads(line)["skill_version"] != "off" for line in results)
        calls = [step for step in steps if "'tools/call_frequency': '0'" not in step]
        assert calls, f"the tool was never called: {steps}"
        print(f"trl: {len(results)} results in the bank's directory; bank: {server.ask('/bank')['skills']}")
    assert (directory / "policy/model.safetensors").is_file()


def main():
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        every_world(directory)
        trl(directory)
    print(run(PYTHON, str(HERE / "measure.py"), PROGRAM).strip())


main()
