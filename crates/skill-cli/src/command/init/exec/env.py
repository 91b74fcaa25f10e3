"""An agent, its tasks, and how they are scored: replace each by your own. It runs as it is."""
import json
import urllib.request

from skillrl_env import Failed, serve

TASKS = [
    {"id": f"sum-{n}", "data": {"question": f"What is {n} + {n * n}?", "answer": f"{n + n * n:,} EUR"}}
    for n in range(11, 71)
]


def run_agent(question, skill, model):
    """One request. A framework takes the same three values: `base_url`, `api_key` and the name of the model."""
    messages = [{"role": "system", "content": skill}, {"role": "user", "content": question}]
    request = urllib.request.Request(
        model["openai_base_url"] + "/chat/completions",
        json.dumps({"model": model["model"], "messages": messages}).encode(),
        {"Authorization": "Bearer " + model["token"], "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


class Env:
    def rollout(self, request):
        task = request["item"]["data"]
        answer = run_agent(task["question"], request["skill"], request["endpoint"])
        if not answer:
            raise Failed("the agent gave no answer")
        right = answer.strip() == task["answer"]
        reason = "" if right else f"{answer.strip()!r} is not {task['answer']!r}"
        return {"hard": right, "reason": reason, "answer": answer, "task": task["question"]}


# A third of the tasks for each part: training, the gate, and the test at the end.
PARTS = {"train": TASKS[0::3], "val": TASKS[1::3], "test": TASKS[2::3]}
serve(Env(), parallel=8, name="my-agent", initial_skill="Answer the question.", items=PARTS)
