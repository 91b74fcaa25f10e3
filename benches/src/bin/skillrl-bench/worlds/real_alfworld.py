"""Times the engine of the packages `alfworld` and `textworld` on one game: GAME LOADS SECONDS.

The game gets the domain of the installed package, so that both engines read the same file. Steps are those of a
random walk among the admissible commands, which are asked for after each. Prints one line of JSON.
"""

import importlib.metadata
import json
import pathlib
import random
import resource
import statistics
import sys
import time

import textworld
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from alfworld.info import ALFRED_PDDL_PATH
from textworld.envs import PddlEnv

EPISODE = 50


def main():
    path, loads, seconds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    game = json.loads(path.read_text())
    game.update({"pddl_domain": pathlib.Path(ALFRED_PDDL_PATH).read_text(), "solvable": True, "walkthrough": []})
    path.write_text(json.dumps(game))

    times = []
    for _ in range(loads):
        began = time.perf_counter()
        env = AlfredDemangler(PddlEnv(textworld.EnvInfos(admissible_commands=True)), shuffle=False)
        env.load(str(path))
        state = env.reset()
        times.append(time.perf_counter() - began)

    chance = random.Random(0)
    n_steps, stepping = 0, 0.0
    while stepping < seconds:
        began = time.perf_counter()
        state, _, done = env.step(chance.choice(state["admissible_commands"]))
        stepping += time.perf_counter() - began
        n_steps += 1
        if done or n_steps % EPISODE == 0:
            state = env.reset()
    version = importlib.metadata.version
    report = {
        "packages": f"alfworld {version('alfworld')}, textworld {version('textworld')}",
        "load_reset_ms": statistics.median(times) * 1e3,
        "steps_per_second": n_steps / stepping,
        # Linux counts in kilobytes.
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(report))


main()
