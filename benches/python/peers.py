"""Searches with another system in an environment of search-bench; the skill that it finds goes to `found.md`.

usage: peers.py gepa|gepa-twice|skillopt|one-shot|best-of-n URL CALLS EPOCHS SEED

CALLS are all calls of all models, without those of the test split at the end.
"""

import http.client
import json
import os
import random
import sys
import threading
import urllib.parse


class Environment:
    """Tasks and models of one environment; the server counts every call."""

    def __init__(self, url):
        self.url = urllib.parse.urlparse(url)
        self.connections = threading.local()
        self.tasks = self.request("GET", "/tasks")

    def request(self, method, path, body=None):
        if not hasattr(self.connections, "one"):
            self.connections.one = http.client.HTTPConnection(self.url.netloc)
        connection = self.connections.one
        connection.request(method, self.url.path + path, body and json.dumps(body))
        return json.loads(connection.getresponse().read())

    def calls(self):
        return self.request("GET", "/calls")

    def chat(self, model, messages):
        reply = self.request("POST", "/v1/chat/completions", {"model": model, "messages": messages})
        return reply["choices"][0]["message"]["content"]

    def attempt(self, skill, task):
        messages = [{"role": "system", "content": skill}, {"role": "user", "content": task["question"]}]
        return self.chat("target", messages)

    def score(self, answer, task):
        """All fields right, or in graded environments the share of them; of real tasks what the server says."""
        if self.tasks["is_scored_here"]:
            return self.request("POST", "/score", {"id": task["id"], "answer": answer})
        if answer == task["answer"] or not self.tasks["is_graded"]:
            return float(answer == task["answer"])
        said, wanted = answer.split(), task["answer"].split()
        return sum(entry in said for entry in wanted) / len(wanted)

    def mean(self, skill, tasks):
        return sum(self.score(self.attempt(skill, task), task) for task in tasks) / len(tasks)


def instances(tasks):
    """Tasks as GEPA's default adapter takes them."""
    return [{"input": task["question"], "answer": text_of(task["answer"]), "additional_context": {}, "task": task} for task in tasks]


def text_of(answer):
    return answer if isinstance(answer, str) else json.dumps(answer)


def evaluator(environment):
    """GEPA's own evaluator, where an answer is right or wrong by what it contains; else one with the environment's score."""
    if not (environment.tasks["is_graded"] or environment.tasks["is_scored_here"]):
        return None
    from gepa.adapters.default_adapter.default_adapter import ContainsAnswerEvaluator, EvaluationResult

    def evaluate(data, response):
        score = environment.score(response, data["task"])
        if environment.tasks["is_scored_here"]:
            # A wrong answer may contain the right one, and a right one may be written in another way.
            response = data["answer"] if score == 1 else ""
        feedback = ContainsAnswerEvaluator()(data, response).feedback
        return EvaluationResult(score, feedback, None)

    return evaluate


def run_gepa(environment, calls, _epochs, seed):
    import gepa

    n_val = len(environment.tasks["val"])
    # An iteration takes 7 calls, or a pass over the validation split more: on average the cap is met.
    margin = (7 + n_val) / 2
    result = gepa.optimize(
        seed_candidate={"system_prompt": environment.tasks["skill"]},
        trainset=instances(environment.tasks["train"]),
        valset=instances(environment.tasks["val"]),
        task_lm=lambda messages: environment.chat("target", list(messages)),
        evaluator=evaluator(environment),
        reflection_lm=lambda prompt: environment.chat("optimizer", [{"role": "user", "content": prompt}]),
        stop_callbacks=lambda _state: environment.calls() + margin > calls,
        seed=seed,
    )
    return result.best_candidate["system_prompt"]


def run_one_shot(environment, _calls, _epochs, seed):
    """The reply to GEPA's prompt with three failures of the initial skill, as it is."""
    chance = random.Random(seed)
    failures = failures_of_initial(environment, chance)
    return proposal(environment, chance, failures) if failures else environment.tasks["skill"]


def run_best_of_n(environment, calls, _epochs, seed):
    """Replies to GEPA's prompt, each to three failures of the initial skill."""
    val, initial = environment.tasks["val"], environment.tasks["skill"]
    chance = random.Random(seed)
    best = (environment.mean(initial, val), initial)
    failures = failures_of_initial(environment, chance)
    while failures and environment.calls() + 1 + len(val) <= calls:
        skill = proposal(environment, chance, failures)
        best = max(best, (environment.mean(skill, val), skill))
    return best[1]


def failures_of_initial(environment, chance):
    train, initial = environment.tasks["train"], environment.tasks["skill"]
    played = chance.sample(train, min(12, len(train)))
    answers = [(task, environment.attempt(initial, task)) for task in played]
    return [(task, answer) for task, answer in answers if environment.score(answer, task) < 1]


def proposal(environment, chance, failures):
    from gepa.strategies.instruction_proposal import InstructionProposalSignature as Signature

    examples = [
        {"Inputs": task["question"], "Generated Outputs": answer, "Feedback": f"The correct answer is '{text_of(task['answer'])}'."}
        for task, answer in chance.sample(failures, min(3, len(failures)))
    ]
    shown = {"current_instruction_doc": environment.tasks["skill"], "dataset_with_feedback": examples}
    reply = environment.chat("optimizer", [{"role": "user", "content": Signature.prompt_renderer(shown)}])
    return Signature.output_extractor(reply)["new_instruction"]


def run_skillopt(environment, calls, epochs, seed):
    # The package on the index lacks its prompts; the simulated optimizer reads what they are followed by.
    import skillopt.prompts

    skillopt.prompts.load_prompt = lambda name, env=None: f"Do what {name} asks for, and reply in JSON."
    from skillopt.engine.trainer import ReflACTTrainer
    from skillopt.envs._template.env_template import TemplateBenchmarkEnv
    from skillopt.model import chat_target

    class Spent(BaseException):
        """The calls are used up."""

    class Adapter(TemplateBenchmarkEnv):
        def rollout(self, env_manager, skill_content, out_dir, **_):
            if environment.calls() >= calls:
                raise Spent
            return [self.play(item, skill_content, out_dir) for item in env_manager]

        def play(self, item, skill, out_dir):
            task = known[item["id"]]
            answer, _usage = chat_target(skill, task["question"])
            score = environment.score(answer, task)
            directory = os.path.join(out_dir, "predictions", task["id"])
            os.makedirs(directory, exist_ok=True)
            with open(os.path.join(directory, "conversation.json"), "w") as file:
                json.dump([{"role": "user", "content": task["question"]}, {"role": "assistant", "content": answer}], file)
            return {
                "id": task["id"],
                "hard": int(score == 1),
                "soft": score,
                "task_type": task.get("task_type", "form"),
                "task_description": task["question"],
                "question": task["question"],
                "predicted_answer": answer,
                "reference_text": task["answer"],
                "fail_reason": "" if score == 1 else f"The right answer is {task['answer']}",
                "n_turns": 1,
            }

    known = {}
    for split in ("train", "val", "test"):
        os.makedirs(f"splits/{split}")
        known.update({task["id"]: task for task in environment.tasks[split]})
        with open(f"splits/{split}/items.json", "w") as file:
            json.dump(environment.tasks[split], file)
    with open("skill.md", "w") as file:
        file.write(environment.tasks["skill"])
    address = f"{environment.url.geturl()}/v1"
    config = {
        "out_root": os.path.abspath("skillopt"),
        "skill_init": os.path.abspath("skill.md"),
        "env": "forms",
        "optimizer_model": "optimizer",
        "target_model": "target",
        "azure_openai_endpoint": address,
        "azure_openai_auth_mode": "openai_compatible",
        "azure_openai_api_key": "none",
        "num_epochs": epochs,
        "batch_size": 40,
        "accumulation": 1,
        "seed": seed,
        "minibatch_size": 8,
        "merge_batch_size": 8,
        "analyst_workers": 4,
        "edit_budget": 4,
        "min_edit_budget": 2,
        "lr_scheduler": "cosine",
        "use_slow_update": True,
        "slow_update_samples": 20,
        "slow_update_gate_with_selection": True,
        "longitudinal_pair_policy": "mixed",
        "use_meta_skill": True,
        "use_gate": True,
        "gate_metric": "soft" if environment.tasks["is_graded"] else "hard",
        "sel_env_num": len(environment.tasks["val"]),
        "test_env_num": len(environment.tasks["test"]),
        "eval_test": False,
    }
    adapter = Adapter(split_dir=os.path.abspath("splits"), seed=seed)
    try:
        ReflACTTrainer(config, adapter).train()
    except Spent:
        pass
    best = os.path.join(config["out_root"], "best_skill.md")
    with open(best if os.path.exists(best) else "skill.md", encoding="utf-8") as file:
        return file.read()


def main():
    system, url, *numbers = sys.argv[1:]
    calls, epochs, seed = map(int, numbers)
    environment = Environment(url)
    runs = {
        "gepa": run_gepa,
        "gepa-twice": run_gepa,
        "skillopt": run_skillopt,
        "one-shot": run_one_shot,
        "best-of-n": run_best_of_n,
    }
    skill = runs[system](environment, calls, epochs, seed)
    environment.mean(skill, environment.tasks["test"])
    with open("found.md", "w", encoding="utf-8") as file:
        file.write(skill)


main()
