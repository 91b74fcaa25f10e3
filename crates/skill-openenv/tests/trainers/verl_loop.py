"""Plays one episode by `examples/verl/agent_loop.py` in verl's own classes; the model server alone is stood in for.

    SKILLRL_ENV_URL=http://127.0.0.1:8001 python verl_loop.py DIRECTORY_OF_A_MODEL

It needs the package verl, which takes other versions of transformers than the check's environment has, and no GPU.
"""

import asyncio
import importlib.util
import json
import os
import pathlib
import sys
import urllib.request

from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.workers.rollout.replica import TokenOutput

ROOT = pathlib.Path(__file__).parents[4]
COMMANDS = ["look", "inventory", "go to nowhere"]


class Replies:
    """A model server whose replies are known."""

    def __init__(self, tokenizer):
        self.tokenizer, self.asked = tokenizer, []

    async def generate(self, request_id, prompt_ids, sampling_params, **_):
        command = COMMANDS[len(self.asked) % len(COMMANDS)]
        self.asked.append(self.tokenizer.decode(prompt_ids))
        ids = self.tokenizer(f"<action>{command}</action><|im_end|>", add_special_tokens=False)["input_ids"]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


async def main(model):
    spec = importlib.util.spec_from_file_location("agent_loop_of_skillrl", ROOT / "examples/verl/agent_loop.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.MAX_TURNS = 6
    tokenizer = AutoTokenizer.from_pretrained(model)
    rollout = {"prompt_length": 4096, "response_length": 4096}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout, "model": {}}, "data": {}})
    replies = Replies(tokenizer)
    loop = module.SkillrlAgentLoop(
        trainer_config=DictConfigWrap(config), server_manager=replies, tokenizer=tokenizer, processor=None,
        dataset_cls=None, data_config=DictConfigWrap(config.data), hf_model_type="qwen3")
    with urllib.request.urlopen(module.URL + "/list_environments") as answer:
        name = json.load(answer)[0]
    request = urllib.request.Request(f"{module.URL}/{name}/task", b'{"split": "train", "index": 0}')
    with urllib.request.urlopen(request) as answer:
        task = json.load(answer)["task"]["task_id"]
    out = await loop.run({}, extra_info={"task_id": task}, raw_prompt=[])
    assert len(out.response_ids) == len(out.response_mask) == len(out.response_logprobs), out
    assert len(replies.asked) == 6 and out.num_turns == 13, out
    said = tokenizer.decode([token for token, own in zip(out.response_ids, out.response_mask) if own])
    assert said.count("<action>") == 6, said
    assert all(command in replies.asked[-1] for command in COMMANDS), replies.asked[-1]
    print(f"verl: {out.num_turns} turns, {len(out.prompt_ids)} tokens of prompt, {sum(out.response_mask)} own and "
          f"{len(out.response_mask) - sum(out.response_mask)} other tokens of response, reward {out.reward_score}")


if "SKILLRL_ENV_URL" not in os.environ:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1]))
