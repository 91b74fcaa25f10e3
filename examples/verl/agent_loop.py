"""An agent loop of verl that plays a world of skillrl, with skills of a measured bank in what the agent sees.

    skillrl env serve household.toml --bank bank/                               # on a machine that the workers reach
    skillrl env export household.toml --format verl --out tasks.parquet         # the rows: each has its task's id
    python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=tasks.parquet \
        actor_rollout_ref.rollout.agent.agent_loop_config_path=agent.yaml \
        actor_rollout_ref.rollout.agent.default_agent_loop=skillrl ...          # agent.yaml names this class
"""

import asyncio
import functools
import json
import os
import re
import urllib.request
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
from websockets.asyncio.client import connect

URL = os.environ.get("SKILLRL_ENV_URL", "http://127.0.0.1:8001")
SKILLS = os.environ.get("SKILLRL_ENV_SKILLS", "on")  # on, off, bank, trial, or a version of the bank
HAS_BANK = os.environ.get("SKILLRL_ENV_BANK") == "1"  # whether the server was started with one
MAX_TURNS = 30


def command_of(reply):
    tagged = re.findall(r"<action>(.*?)(?:</action>|$)", reply, re.DOTALL)
    return (tagged or reply.strip().splitlines() or [""])[-1].strip()


@functools.cache
def instructions():
    with urllib.request.urlopen(URL + "/metadata") as answer:
        return json.load(answer)["readme_content"] + "\nWrite your action between <action> and </action>."


def report(begun, reward):
    body = {"episode_id": begun["episode_id"], "skill_version": begun["skills"]["version"], "reward": reward}
    urllib.request.urlopen(URL + "/bank/results", json.dumps(body).encode()).close()


@register("skillrl")
class SkillrlAgentLoop(AgentLoopBase):
    async def ask(self, socket, kind, data):
        await socket.send(json.dumps({"type": kind, "data": data}))
        reply = json.loads(await socket.recv())
        if reply["type"] == "error":
            raise RuntimeError(f"{reply['data']['code']}: {reply['data']['message']}")
        return reply["data"]

    async def run(self, sampling_params, **kwargs):
        async with connect(URL.replace("http", "ws", 1) + "/ws", max_size=None) as socket:
            seen = await self.ask(socket, "reset", {"task_id": kwargs["extra_info"]["task_id"], "skills": SKILLS})
            begun, total, logprobs = seen["metadata"], 0.0, []
            # The row's own prompt is that of an agent without a server; here the server says what is to be seen.
            system = await asyncio.to_thread(instructions)
            messages = [{"role": "system", "content": system}, {"role": "user", "content": seen["observation"]["text"]}]
            ids = await self.ct_build_initial_tokens(messages)
            mask, n_prompt, n_turns, request, most = [], len(ids), 0, uuid4().hex, self.rollout_config.response_length
            while not seen["done"] and n_turns < MAX_TURNS and len(mask) < most:
                out = await self.server_manager.generate(
                    request_id=request, prompt_ids=ids, sampling_params=sampling_params)
                merged, mask, logprobs = await self.ct_merge_assistant_token(
                    ids, out.token_ids, mask, logprobs if out.log_probs else None, assistant_logprobs=out.log_probs)
                ids, n_turns = merged.token_ids, n_turns + 1
                reply = self.tokenizer.decode(out.token_ids, skip_special_tokens=True)
                seen = await self.ask(socket, "step", {"command": command_of(reply)})
                total += seen["reward"]
                before = [*messages, {"role": "assistant", "content": reply}]
                messages = [*before, {"role": "user", "content": seen["observation"]["text"]}]
                if not seen["done"]:
                    merged, mask, logprobs = await self.ct_merge_context_msg(before, messages, ids, mask, logprobs)
                    ids = merged.token_ids
        if HAS_BANK:
            await asyncio.to_thread(report, begun, total)
        return AgentLoopOutput(
            prompt_ids=ids[:n_prompt], response_ids=ids[n_prompt:][:most], response_mask=mask[:most],
            response_logprobs=logprobs[:most] if logprobs else None, reward_score=total,
            num_turns=2 * n_turns + 1, metrics={})
