"""GRPO by TRL on a world of skillrl, with skills of a measured bank in what the agent sees.

    skillrl env serve household.toml --bank bank/           # in another terminal
    python train.py --model Qwen/Qwen3-0.6B --skills trial

With `--skills trial` half of each group is shown the candidate under trial, and the rewards decide on it.
"""
import argparse
import json
import urllib.error
import urllib.request

from datasets import Dataset
from openenv import GenericEnvClient
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen3-0.6B")
parser.add_argument("--url", default="http://127.0.0.1:8001")
parser.add_argument("--skills", default="on", help="on, off, bank, trial, or a version of the bank")
parser.add_argument("--group", type=int, default=8)
parser.add_argument("--steps", type=int, default=-1)
parser.add_argument("--tokens", type=int, default=2048, help="tokens of an episode")
parser.add_argument("--cpu", action="store_true")
args = parser.parse_args()


def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(args.url + path, data)) as answer:
        return json.load(answer)


class World:
    def __init__(self):
        self.env = GenericEnvClient(base_url=args.url).sync().connect()

    def reset(self, task_id, **row):
        seen = self.env.reset(task_id=task_id, skills=args.skills)
        self.begun, self.reward, self.done = seen.metadata, 0.0, False
        return seen.observation["text"]

    def step(self, command: str) -> str:
        """Takes one action in the world and tells what is seen then.

        Args:
            command: The action, in one of the forms of the instructions.
        """
        if self.done:
            return "The episode is over."
        seen = self.env.step({"command": command})
        self.reward, self.done = self.reward + (seen.reward or 0.0), seen.done
        return seen.observation["text"]

    def get_reward(self):
        if has_bank:
            ids = {"episode_id": self.begun["episode_id"], "skill_version": self.begun["skills"]["version"]}
            ask("/bank/results", {**ids, "reward": self.reward})
        return self.reward


class Evolve(TrainerCallback):
    def on_epoch_end(self, *_, **__):
        try:
            print("bank:", ask("/bank/evolve", {}) if has_bank else None)
        except urllib.error.HTTPError as error:
            print("bank:", error.read().decode())


has_bank = "/bank" in ask("/openapi.json")["paths"]
tasks = ask(f"/{ask('/list_environments')[0]}/tasks", {"split": "train"})["tasks"]
prompt = [{"role": "system", "content": ask("/metadata")["readme_content"]}, {"role": "user", "content": "Play:"}]
rows = Dataset.from_list([{"prompt": prompt, "task_id": task["task_id"]} for task in tasks])
config = GRPOConfig(output_dir="policy", num_generations=args.group, per_device_train_batch_size=args.group,
                    max_steps=args.steps, max_completion_length=args.tokens, report_to="none", logging_steps=1,
                    use_cpu=args.cpu, bf16=not args.cpu)
trainer = GRPOTrainer(args.model, args=config, train_dataset=rows, environment_factory=World, callbacks=[Evolve()])
trainer.train()
trainer.save_model()
