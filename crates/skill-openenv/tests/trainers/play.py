"""The official client plays a server of `skillrl env serve`: the protocol, and an episode to its end.

    python play.py URL
"""

import sys
import urllib.request
import json

from openenv import GenericEnvClient

URL = sys.argv[1]


def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(URL + path, data)) as answer:
        return json.load(answer)


def play(env, task_id, limit=60):
    """Plays a task by the first command that the world offers and that was not taken yet, else by looking."""
    seen = env.reset(task_id=task_id, skills="off", seed=1)
    assert seen.reward is None and not seen.done, seen
    assert seen.observation["text"].strip(), seen
    taken, steps = set(), 0
    while not seen.done and steps < limit:
        offered = [c for c in seen.observation["admissible_commands"] if c not in taken]
        command = "click[buy now]" if "click[buy now]" in offered else (offered or ["look"])[0]
        taken.add(command)
        seen = env.step({"command": command})
        assert isinstance(seen.reward, (int, float)), seen
        steps += 1
        state = env.state()
        assert state["step_count"] == steps and state["task_id"] == task_id, state
    return steps, seen.done


def main():
    name = ask("/list_environments")[0]
    splits = [split["name"] for split in ask(f"/{name}/splits")]
    with GenericEnvClient(base_url=URL).sync() as env, GenericEnvClient(base_url=URL).sync() as other:
        for split in splits:
            tasks = ask(f"/{name}/task_range", {"split": split, "start": 0, "stop": 2})["tasks"]
            for task in tasks:
                steps, done = play(env, task["task_id"])
                print(f"{name}: {split} {task['task_id']}: {steps} steps, {'over' if done else 'cut'}")
        # Two sessions at once, and what is wrong is an error of the client, after which it plays on.
        first = env.reset(split=splits[0])
        assert other.reset(split=splits[0], seed=3).observation["text"]
        for wrong in ({"comand": "look"}, {"command": 3}):
            try:
                env.step(wrong)
            except RuntimeError as error:
                assert "VALIDATION_ERROR" in str(error) or "Invalid" in str(error), error
            else:
                raise AssertionError(f"{wrong} was taken")
        assert env.state()["task_id"] == first.observation["metadata"]["task_id"]


main()
