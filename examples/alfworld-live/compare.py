"""Plays recorded games in three ways and compares every observation: as recorded, natively, and on a live server.

The games are made from the transcripts of the tests and the domain of the installed package `alfworld`.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

from alfworld.info import ALFRED_PDDL_PATH

HERE = pathlib.Path(__file__).resolve().parent
TRANSCRIPTS = HERE.parent.parent / "crates/skill-envs/tests/data/alfworld"


def chosen(count):
    """That many transcripts, the kinds of task in turn."""
    kinds = {}
    for path in sorted(TRANSCRIPTS.glob("*_*_*-*-*-*-*.json")):
        kinds.setdefault(path.name.split("-")[0], []).append(path)
    rounds = itertools.zip_longest(*kinds.values())
    return [path for paths in rounds for path in paths if path][:count]


def write_games(transcripts, directory):
    domain = pathlib.Path(ALFRED_PDDL_PATH).read_text()
    for name, recorded in transcripts.items():
        game = {"pddl_domain": domain, "solvable": True, "walkthrough": []}
        game.update({key: recorded["game"][key] for key in ("grammar", "pddl_problem")})
        path = directory / name / "game.tw-pddl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(game))


def play(skillrl, arguments, commands):
    done = subprocess.run(
        [skillrl, "env", "play", *arguments, "--json"], input="\n".join(commands) + "\n", text=True, capture_output=True
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def expected(recorded):
    yield recorded["intro"], recorded["admissible"], False
    for step in recorded["steps"]:
        yield step["feedback"], step["admissible"], step["won"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skillrl", default="skillrl", help="the program")
    parser.add_argument("--games", type=int, default=6, help="how many transcripts are played")
    arguments = parser.parse_args()
    transcripts = {path.stem: json.loads(path.read_text()) for path in chosen(arguments.games)}
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        write_games(transcripts, directory / "games")
        (directory / "ids").mkdir()
        ids = [f"{name}/game.tw-pddl" for name in transcripts]
        (directory / "ids/train.txt").write_text("\n".join(ids))
        for split in ("val", "test"):
            (directory / f"ids/{split}.txt").write_text("")
        server = subprocess.Popen(
            [sys.executable, HERE / "server.py", directory / "games", "--port", "0"], stdout=subprocess.PIPE, text=True
        )
        try:
            address = server.stdout.readline().split()[-1]
            live = ["alfworld", "--set", f'env.servers=["{address}"]', "--set", f"env.server_tasks={directory / 'ids'}"]
            for name, recorded in transcripts.items():
                commands = [step["command"] for step in recorded["steps"]]
                file = directory / "games" / name / "game.tw-pddl"
                native = play(arguments.skillrl, ["--game", str(file)], commands)
                served = play(arguments.skillrl, [*live, "--item", f"{name}/game.tw-pddl"], commands)
                wanted = list(expected(recorded))
                for way, turns in (("native", native), ("live", served)):
                    got = [(turn["observation"], sorted(turn["admissible"]), turn["won"]) for turn in turns]
                    if got != [(text, sorted(admissible), won) for text, admissible, won in wanted]:
                        sys.exit(f"{name}: {way} play differs from the recording")
                print(f"{name}: {len(commands)} commands, the same three times")
        finally:
            server.kill()


if __name__ == "__main__":
    main()
