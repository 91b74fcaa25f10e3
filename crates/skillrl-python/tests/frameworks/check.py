"""Agents of real frameworks, trained as docs/train-your-agent.md prints them, on a scripted model.

Usage: check.py PAGE HELPER PROGRAM. The model of the agents looks up the order that it is asked for and answers in the
shop's form once its instructions name that; the optimizer proposes to name it. Every example has to reach a gain, by at
most 30 lines.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE, HELPER, PROGRAM = (Path(argument).resolve() for argument in sys.argv[1:4])
RULE = "Answer in the form `NUMBER: STATE`."
MAX_LINES = 30


def text_of(content):
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content or [])


def replied(body):
    """The message of the scripted model."""
    messages = body["messages"]
    if body["model"] == "gpt-5":
        return {"content": json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": f"- {RULE}"}]})}
    said = " ".join(text_of(one.get("content")) for one in messages)
    instructions = " ".join(text_of(one.get("content")) for one in messages if one["role"] in ("system", "developer"))
    number = re.findall(r"order (\d{4})\?", said)[-1]
    state = re.findall(rf"order {number} is (\w+)", said)
    if not state:
        call = {"name": "lookup_order", "arguments": json.dumps({"order_id": number})}
    else:
        answer = f"{number}: {state[-1]}" if RULE in instructions else f"It is {state[-1]}."
        if "final_answer" not in [tool["function"]["name"] for tool in body.get("tools", [])]:
            return {"content": answer}
        call = {"name": "final_answer", "arguments": json.dumps({"answer": answer})}
    return {"content": None, "tool_calls": [{"id": f"call_{len(messages)}", "type": "function", "function": call}]}


class Handler(BaseHTTPRequestHandler):
    n_requests = 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).n_requests += 1
        message = {"role": "assistant", **replied(body)}
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        choice = {"index": 0, "finish_reason": finish, "message": message}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        reply = json.dumps({**reply, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


def sections():
    """The examples of the page by their headings."""
    page = PAGE.read_text(encoding="utf-8")
    shop = page[page.index("## A shop") : page.index("## When the agent fails")]
    first, *others = shop.split("\n### ")
    return first, {part.splitlines()[0]: part for part in others}


def blocks(text, language):
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```", text, re.M | re.S)


class Frameworks(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.env = {
            **os.environ,
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.server.server_port}/v1",
            "OPENAI_API_KEY": "sk-scripted",
            "NO_PROXY": "127.0.0.1",
        }

    def trains(self, heading):
        shop, examples = sections()
        [example] = blocks(examples[heading], "python")
        self.assertLessEqual(len([line for line in example.splitlines() if line.strip()]), MAX_LINES)
        program = f"{blocks(shop, 'python')[0]}\n\n{example}\nprint(best.run['baseline_test_hard'], best.run['test_hard'])\n"
        began, n_before = time.monotonic(), Handler.n_requests
        # A file: smolagents reads the source of its tools.
        Path(self.dir, "shop.py").write_text(program)
        made = subprocess.run(
            [sys.executable, "shop.py"], cwd=self.dir, env=self.env, capture_output=True, text=True, timeout=300
        )
        self.assertEqual(made.returncode, 0, made.stderr[-4000:])
        before, after = map(float, made.stdout.split()[-2:])
        self.tell(heading, example, began, n_before, before, after)
        self.assertEqual((before, after), (0.0, 1.0), made.stderr[-4000:])

    def tell(self, heading, example, began, n_before, before, after):
        n_lines = len([line for line in example.splitlines() if line.strip()])
        seconds, n_calls = time.monotonic() - began, Handler.n_requests - n_before
        told = f"{n_lines} lines, {n_calls} calls, {seconds:.0f} s, {100 * before:.0f} to {100 * after:.0f} %"
        print(f"{heading}: {told}", file=sys.stderr)

    def test_langgraph(self):
        self.trains("LangGraph and LangChain")

    def test_openai_agents(self):
        self.trains("OpenAI Agents SDK")

    def test_pydantic_ai(self):
        self.trains("Pydantic AI")

    def test_smolagents(self):
        self.trains("smolagents")

    def test_vercel_ai_sdk(self):
        _, examples = sections()
        example = examples["Vercel AI SDK"]
        [program], [config] = blocks(example, "js"), blocks(example, "toml")
        self.assertLessEqual(len([line for line in program.splitlines() if line.strip()]), MAX_LINES)
        packages = ["npm", "install", "--silent", "--no-audit", "--no-fund", "ai@6", "@ai-sdk/openai@3", "zod@4"]
        subprocess.run(packages, cwd=self.dir, check=True, timeout=300)
        Path(self.dir, "shop.mjs").write_text(program)
        Path(self.dir, "skillrl.toml").write_text(config)
        shutil.copy(HELPER, self.dir)
        began, n_before = time.monotonic(), Handler.n_requests
        made = subprocess.run(
            [str(PROGRAM), "train", "skillrl.toml", "--set", f"models.target.base_url={self.env['OPENAI_BASE_URL']}",
             "--set", f"models.optimizer.base_url={self.env['OPENAI_BASE_URL']}"],
            cwd=self.dir, env=self.env, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stderr[-4000:])
        summary = json.loads(Path(self.dir, "runs/ai-sdk/summary.json").read_text())
        scores = summary["baseline_test_hard"], summary["test_hard"]
        self.tell("Vercel AI SDK", program, began, n_before, *scores)
        self.assertEqual(scores, (0.0, 1.0), made.stderr[-4000:])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
