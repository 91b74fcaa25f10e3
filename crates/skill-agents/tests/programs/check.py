"""Measures triggers with the real programs of coding agents, driven by a scripted model on loopback.

    check.py SKILLRL PROGRAMS [AGENT...]

PROGRAMS is a directory for npm packages; what is missing there is installed. Each agent is asked a query for which the
scripted model loads the skill, one for which it answers at once, and one for which it asks for a skill that does not
exist; then it drafts queries, trains a description and plays a model, the server refuses the key, and the program runs
without any sign-in. Three of them work on cases without the skill and with it, which they need to do the work. Claude
Code validates a plugin. A program of a newer version than the table was measured with is a warning.
"""

import concurrent.futures
import http.server
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time

NODE = "node@22.23.3"
# The package of each agent with its version, its program, the files of its home directory and its variables.
AGENTS = {
    "claude-code": ("@anthropic-ai/claude-code@2.1.332", "claude"),
    "codex": ("@openai/codex@0.171.0", "codex"),
    "gemini-cli": ("@google/gemini-cli@0.61.0", "gemini"),
    "opencode": ("opencode-ai@1.18.33", "opencode"),
    "copilot-cli": ("@github/copilot@1.0.102", "copilot"),
    "pi": ("@earendil-works/pi-coding-agent@1.5.2", "pi"),
    "qwen-code": ("@qwen-code/qwen-code@0.24.4", "qwen"),
}
MODELS = {"claude-code": "claude-sonnet-4-5", "gemini-cli": "gemini-2.5-pro", "opencode": "mock/mock-model",
          "pi": "mock/mock-model"}
SKILL = """---
name: invoice-format
description: Formats invoices. Use it when somebody asks for an invoice.
---
# Invoices

Write the number first, then the total with two decimals.
"""
QUERIES = [
    {"id": "load", "query": "Format the invoice ALPHA for order 17.", "should": True},
    {"id": "miss", "query": "What does BRAVO mean?", "should": False, "near_miss": True},
    {"id": "wrong", "query": "Write the receipt CHARLIE.", "should": True},
]


# A case with this word is done only by a model that was shown the skill.
CASES = [{"id": "case-%d" % idx, "prompt": "Write the paper ECHO number %d." % idx,
          "checks": [{"type": "file", "path": "paper.txt", "contains": "17.00"}, {"type": "diff", "max_files": 1}]}
         for idx in range(4)]
# These work on cases: their tools for commands, each with its argument.
WORKERS = {"claude-code": ("Bash", "command"), "codex": ("exec_command", "cmd"), "pi": ("bash", "command")}
# The most that is kept of a run.
MAX_RUN_BYTES = 20 << 20
# The most that a run takes besides the agent: a twentieth of one that works for ten seconds.
MAX_RUN_SECONDS = 0.5

DRAFT = "Write test requests for the coding agent"
IMPROVE = "Improve the description of a skill"
# A description with this word is one for which the model loads the skill for queries with DELTA.
BETTER = "Formats invoices and shipping papers. Use it when somebody asks for one."
DRAFTED = [{"query": "Put the order into our layout", "should": "invoice-format", "near_miss": False},
           {"query": "What is an invoice?", "should": False, "near_miss": True},
           {"query": "Fix the test", "should": False, "near_miss": False}]
TRAINING = [{"id": "t%d" % idx, "query": "Write the paper DELTA number %d." % idx, "should": True,
             "split": "train" if idx == 0 else "heldout"} for idx in range(6)]


class Model(http.server.BaseHTTPRequestHandler):
    """Answers four dialects: first a call of the skill tool where the query asks for it, then a text."""

    protocol_version = "HTTP/1.1"
    refuses = False
    # Tools in requests for a draft or a description, in which there should be none.
    plain_tools = set()
    said = "Done."
    call_id = "call_1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.whole({"data": [{"id": "mock-model", "object": "model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if self.refuses:
            return self.whole({"type": "error", "error": {"type": "authentication_error", "message": "invalid key",
                                                          "code": 401, "status": "UNAUTHENTICATED"}}, 401)
        if "count" in self.path.rsplit("/", 1)[-1].lower():
            return self.whole({"input_tokens": 100, "totalTokens": 100})
        self.said, self.call_id = "Done.", "call_1"
        call = self.call(body)
        if "generateContent" in self.path.lower() or "GenerateContent" in self.path:
            return self.gemini(call)
        if self.path.split("?")[0].endswith("/messages"):
            return self.messages(body, call)
        if self.path.split("?")[0].endswith("/responses"):
            return self.as_responses(call)
        return self.completions(body, call)

    def call(self, body):
        """The call to make, or None for a text."""
        text = json.dumps(body)
        tools = self.tools(body)
        if DRAFT in text or IMPROVE in text:
            self.plain_tools.update(tools)
            lines = "\n".join(json.dumps(query) for query in DRAFTED)
            self.said = lines if DRAFT in text else "<description>%s</description>" % BETTER
            return None
        if "ECHO" in text:
            return self.work(text, tools)
        done = "Launching skill" in text or "call_1" in text or '"functionResponse"' in text
        name = {"ALPHA": "invoice-format", "CHARLIE": "invoice-layout"}
        if "shipping" in text:
            name["DELTA"] = "invoice-format"
        wanted = next((skill for word, skill in name.items() if word in text), None)
        if done or wanted is None or not tools:
            return None
        return self.load(text, tools, wanted)

    def work(self, text, tools):
        """Loads the skill, then writes the paper by a command; without the skill nothing."""
        if "call_2" in text or not tools or "invoice-format" not in text:
            return None
        if "call_1" not in text:
            self.call_id = "call_1"
            return self.load(text, tools, "invoice-format")
        self.call_id = "call_2"
        found = next((pair for pair in WORKERS.values() if pair[0] in tools), None)
        return found and (found[0], {found[1]: "echo 17.00 > paper.txt"})

    def load(self, text, tools, wanted):
        for tool, argument in (("Skill", "skill"), ("activate_skill", "name"), ("skill", None)):
            if tool in tools:
                properties = tools[tool].get("properties") or {}
                return tool, {argument or ("skill" if "skill" in properties else "name"): wanted}
        folder = next(iter(os.path.dirname(path) for path in self.paths(text)), "")
        path = os.path.join(os.path.dirname(folder), wanted, "SKILL.md")
        if "read" in tools:
            return "read", {"path": path}
        if "exec_command" in tools:
            return "exec_command", {"cmd": "cat " + path}
        return "shell", {"command": ["cat", path]}

    @staticmethod
    def paths(text):
        """The path of the skill in a listing."""
        for part in text.replace("\\n", "\n").replace("\\\\", "\\").split():
            part = part.strip("()<>`\"'\\,")
            part = part.split(">")[-1].split("<")[0]
            if part.endswith("invoice-format/SKILL.md"):
                if part.startswith("/"):
                    yield part
                else:
                    root = text.split("`%s` = `" % part.split("/")[0])
                    if len(root) > 1:
                        yield root[1].split("`")[0] + "/" + part.split("/", 1)[1]

    @staticmethod
    def tools(body):
        found = {}
        for tool in body.get("tools") or []:
            for one in tool.get("functionDeclarations") or [tool.get("function") or tool]:
                schema = one.get("input_schema") or one.get("parameters") or one.get("parametersJsonSchema") or {}
                found[one.get("name") or one.get("type")] = schema
        return found

    def whole(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events, named=False, ending=""):
        lines = []
        for event in events:
            if named:
                lines.append("event: %s\n" % event["type"])
            lines.append("data: %s\n\n" % json.dumps(event))
        data = ("".join(lines) + ending).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def messages(self, body, call):
        if call:
            block = {"type": "tool_use", "id": self.call_id, "name": call[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
            reason = "tool_use"
        else:
            block, delta, reason = {"type": "text", "text": ""}, {"type": "text_delta", "text": self.said}, "end_turn"
        usage = {"input_tokens": 100, "output_tokens": 10}
        message = {"id": "msg_1" if call else "msg_2", "type": "message", "role": "assistant", "model": body.get("model"),
                   "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            content = dict(block, input=call[1]) if call else {"type": "text", "text": self.said}
            return self.whole(dict(message, content=[content], stop_reason=reason))
        self.stream([
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ], named=True)

    def completions(self, body, call):
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        reason = "tool_calls" if call else "stop"
        message = {"role": "assistant", "content": None if call else self.said}
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            message["tool_calls"] = [{"index": 0, "id": self.call_id, "type": "function", "function": function}]
        base = {"id": "c", "object": "chat.completion", "created": 1, "model": "mock-model"}
        if not body.get("stream"):
            return self.whole(dict(base, choices=[{"index": 0, "message": message, "finish_reason": reason}], usage=usage))
        base["object"] = "chat.completion.chunk"
        self.stream([
            dict(base, choices=[{"index": 0, "delta": message, "finish_reason": None}]),
            dict(base, choices=[{"index": 0, "delta": {}, "finish_reason": reason}], usage=usage),
        ], ending="data: [DONE]\n\n")

    def as_responses(self, call):
        if call:
            item = {"type": "function_call", "id": "f" + self.call_id, "call_id": self.call_id, "name": call[0], "status": "completed",
                    "arguments": json.dumps(call[1])}
        else:
            content = [{"type": "output_text", "text": self.said, "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = dict({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}, **details)
        response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
        self.stream([
            {"type": "response.created", "response": dict(response, status="in_progress")},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": dict(response, status="completed", output=[item], usage=usage)},
        ], named=True)

    def gemini(self, call):
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": self.said}
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
        value = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                 "usageMetadata": usage, "modelVersion": "gemini-2.5-pro"}
        if "stream" in self.path:
            return self.stream([value])
        return self.whole(value)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def configure(agent, home, port):
    """Writes the agent's provider into its home; returns its variables."""
    url = "http://127.0.0.1:%d" % port
    if agent == "claude-code":
        return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy", "CLAUDE_CODE_MAX_RETRIES": "0",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    if agent == "codex":
        write(home + "/.codex/config.toml", "\n".join([
            'model = "gpt-5.5"', 'model_provider = "mock"', "model_context_window = 200000", "", "[model_providers.mock]",
            'name = "mock"', 'base_url = "%s/v1"' % url, 'env_key = "CODEX_MOCK_KEY"', 'wire_api = "responses"',
            "request_max_retries = 0", "stream_max_retries = 0", "", "[analytics]", "enabled = false", ""]))
        return {"CODEX_MOCK_KEY": "dummy"}
    if agent in ("gemini-cli", "qwen-code"):
        kind = "gemini-api-key" if agent == "gemini-cli" else "openai"
        folder = ".gemini" if agent == "gemini-cli" else ".qwen"
        settings = {"security": {"auth": {"selectedType": kind}, "folderTrust": {"enabled": False}},
                    "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False},
                    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "maxAttempts": 1}}
        write("%s/%s/settings.json" % (home, folder), json.dumps(settings))
        if agent == "gemini-cli":
            return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy"}
        return {"OPENAI_BASE_URL": url + "/v1", "OPENAI_API_KEY": "dummy", "OPENAI_MODEL": "mock-model"}
    if agent == "opencode":
        models = {"mock-model": {"name": "mock", "tool_call": True, "limit": {"context": 200000, "output": 8000}}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "mock", "models": models,
                    "options": {"baseURL": url + "/v1", "apiKey": "dummy"}}
        settings = {"autoupdate": False, "share": "disabled", "model": "mock/mock-model",
                    "small_model": "mock/mock-model", "provider": {"mock": provider}}
        write(home + "/.config/opencode/opencode.json", json.dumps(settings))
        return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}
    if agent == "copilot-cli":
        return {"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_API_KEY": "dummy",
                "COPILOT_PROVIDER_BASE_URL": url + "/v1", "COPILOT_MODEL": "mock-model", "COPILOT_ALLOW_ALL": "true"}
    provider = {"baseUrl": url + "/v1", "apiKey": "dummy", "api": "openai-completions",
                "models": [{"id": "mock-model", "name": "mock", "contextWindow": 200000, "maxTokens": 8000}]}
    write(home + "/.pi/agent/models.json", json.dumps({"providers": {"mock": provider}}))
    return {"PI_OFFLINE": "1"}


def install(programs, agent, package):
    place = os.path.join(programs, agent)
    if not os.path.isdir(os.path.join(place, "node_modules")):
        os.makedirs(place, exist_ok=True)
        write(os.path.join(place, "package.json"), '{"private": true}\n')
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", package], cwd=place, check=True)


def check(skillrl, programs, agent):
    package, program = AGENTS[agent]
    install(programs, agent, package)
    # A server and a state of its own for each agent, since several are checked at the same time.
    model = type("ModelOf" + program, (Model,), {"refuses": False, "plain_tools": set()})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    with tempfile.TemporaryDirectory(prefix="skillrl-agents-") as work:
        home = os.path.join(work, "home")
        write(work + "/invoice-format/SKILL.md", SKILL)
        write(work + "/queries.jsonl", "".join(json.dumps(query) + "\n" for query in QUERIES))
        # A skill of the user's, which must not be seen.
        for folder in (".claude/skills", ".agents/skills", ".gemini/skills", ".qwen/skills", ".copilot/skills",
                       ".config/opencode/skills", ".pi/agent/skills"):
            write("%s/%s/desk/SKILL.md" % (home, folder), SKILL.replace("invoice-format", "desk"))
        node = os.path.join(programs, "node", "node_modules", ".bin")
        path = ":".join([node, os.path.join(programs, "bin"), "/usr/local/bin:/usr/bin:/bin"])
        env = {"HOME": home, "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb"}
        env.update(configure(agent, home, port))
        write(work + "/training.jsonl", "".join(json.dumps(query) + "\n" for query in TRAINING))
        options = ["--agent", agent, "--program", os.path.join(programs, agent, "node_modules", ".bin", program),
                   "--timeout", "90", "--concurrency", "2"]
        if agent in MODELS:
            options += ["--model", MODELS[agent]]
        passed = [word for name in env if name not in ("HOME", "PATH", "LANG", "TERM") for word in ("--pass-env", name)]

        def run(command, *more, variables=env):
            words = [skillrl] + command + ["invoice-format"] + options + passed + list(more)
            # Without its configuration Pi knows no such model.
            if agent == "pi" and variables is not env:
                del words[words.index("--model"):words.index("--model") + 2]
            return subprocess.run(words, cwd=work, env=variables, capture_output=True, text=True, timeout=400)
        return (measured(run) + evaluated(agent, run, work) + drafted(agent, run, work, model) + trained(run, work)
                + played(skillrl, agent, work, env, options[3]) + refused(agent, run, work, env, model)
                + (plugin(skillrl, work, env, options[3]) if agent == "claude-code" else []))


def measured(run):
    outcome = run(["skill", "triggers"], "--queries", "queries.jsonl", "--runs", "1", "--json", "--dir", "good")
    if "warning:" in outcome.stderr:
        print("  " + outcome.stderr.strip().replace("\n", "\n  "))
    try:
        report = json.loads(outcome.stdout)
        rows = {row["id"]: row["outcomes"] for row in report["queries"]}
    except (ValueError, KeyError):
        return ["no report (%s): %s" % (outcome.returncode, outcome.stderr[-800:])]
    faults = []
    expected = {"load": {"triggered": 1}, "miss": {"not triggered": 1}, "wrong": {"not triggered": 1}}
    if rows != expected:
        faults.append("outcomes %s, expected %s; failed: %s" % (rows, expected, report["failed"]))
    if any("desk" in row["loaded"] for row in report["queries"]):
        faults.append("a skill of the user's was loaded")
    return faults


def evaluated(agent, run, work):
    """The agent works on cases without the skill and with it; the same command starts nothing again."""
    if agent not in WORKERS:
        return []
    write(work + "/invoice-format/evals/evals.json", json.dumps({"skill_name": "invoice-format", "evals": CASES}))
    words = ("--runs", "1", "--yes", "--json", "--out", "evals")
    begun = time.monotonic()
    outcome = run(["eval"], *words)
    took = time.monotonic() - begun
    try:
        found = json.loads(outcome.stdout)["agents"][0]
        rates = {arm["name"]: arm["pass_rate"] for arm in found["arms"]}
        activations, verdict = found["arms"][-1]["activations"], found["differences"][0]["verdict"]
    except (ValueError, LookupError):
        return ["no evaluation (%s): %s" % (outcome.returncode, outcome.stderr[-800:])]
    faults = []
    if (rates, activations, verdict) != ({"none": 0.0, "current": 1.0}, {"loaded": 4, "runs": 4}, "better"):
        faults.append("the cases come to %s, %s, %s: %s" % (rates, activations, verdict, found["cases"]))
    place = os.path.join(work, "evals", agent)
    n_bytes = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(place) for name in names)
    if n_bytes > 2 * len(CASES) * MAX_RUN_BYTES:
        faults.append("the runs take %d bytes" % n_bytes)
    # Two at a time.
    seconds = sum(arm["seconds"] * len(CASES) for arm in found["arms"]) / 2
    if took - seconds > MAX_RUN_SECONDS * 2 * len(CASES):
        faults.append("the runs take %.1f s, of which the agent's are %.1f s" % (took, seconds))
    print("  %s: %.1f s for runs of %.1f s, %d KB a run" % (agent, took, seconds, n_bytes / 2048 / len(CASES)), flush=True)
    again = run(["eval"], *words)
    if json.loads(again.stdout or "{}").get("agents") != [found]:
        faults.append("the same command comes to something else: %s" % again.stderr[-500:])
    return faults


def drafted(agent, run, work, model):
    """The agent's own program drafts queries."""
    outcome = run(["skill", "triggers"], "--draft", "3", "--queries", "drafted.jsonl", "--dir", "drafted")
    path = os.path.join(work, "drafted.jsonl")
    if outcome.returncode or not os.path.exists(path):
        return ["no draft (%s): %s" % (outcome.returncode, outcome.stderr[-800:])]
    with open(path, encoding="utf-8") as file:
        queries = [json.loads(line) for line in file]
    if [query["should"] for query in queries] != [True, False, False] or any(query["reviewed"] for query in queries):
        return ["the draft is %s" % queries]
    left = model.plain_tools - {None}
    # Some tools of these two cannot be switched off; without approvals they read, run and write nothing.
    if agent == "codex":
        left -= {"apply_patch", "request_user_input", "tool_search"}
    elif agent == "qwen-code":
        left &= {"agent", "glob", "grep_search", "read_file", "skill"}
    return ["a draft was asked for with the tools %s" % sorted(left)] if left else []


def trained(run, work):
    """The agent's own program writes a description, and loads the skill by it."""
    outcome = run(["train"], "--queries", "training.jsonl", "--runs", "1", "--steps", "1", "--json", "--dir", "trained")
    try:
        best = json.loads(outcome.stdout)["skills"][0]["best"]["description"]
    except (ValueError, LookupError):
        return ["no training (%s): %s" % (outcome.returncode, outcome.stderr[-800:])]
    with open(os.path.join(work, "trained", "best", "invoice-format", "SKILL.md"), encoding="utf-8") as file:
        is_kept = BETTER in file.read()
    return [] if best == BETTER and is_kept else ["the trained description is %r: %s" % (best, outcome.stdout[-500:])]


def played(skillrl, agent, work, env, program):
    """The program plays a model, which is asked once."""
    items = json.dumps([{"id": "1", "question": "Why?", "answers": ["Done."]}])
    for split in ("train", "val", "test"):
        write("%s/data/%s/items.json" % (work, split), items)
    passed = [name for name in env if name not in ("HOME", "PATH", "LANG", "TERM")]
    model = {"codex": "gpt-5.5"}.get(agent) or MODELS.get(agent, "mock-model")
    write(work + "/model.toml", "\n".join([
        "[models.target]", 'kind = "agent"', "agent = %s" % json.dumps(agent.split("-")[0]), "model = %s" % json.dumps(model),
        "command = %s" % json.dumps([program]), "pass_env = %s" % json.dumps(passed), "timeout_s = 90",
        "[models.optimizer]", 'kind = "simulated"', "[env]", 'kind = "qa"', 'data = "data"', ""]))
    outcome = subprocess.run([skillrl, "doctor", "model.toml", "--json"], cwd=work, env=env, capture_output=True, text=True,
                             timeout=200)
    findings = json.loads(outcome.stdout or "[]")
    findings = findings["findings"] if isinstance(findings, dict) else findings
    answers = [row for row in findings if row.get("check") == "answer" and row.get("role") == "target"]
    good = [row for row in answers if row.get("status") == "ok"]
    return [] if good else ["as a model it gives no answer: %s %s" % (answers or outcome.stdout[-500:], outcome.stderr[-500:])]


def refused(agent, run, work, env, model):
    """A key that the server refuses, and no sign-in at all: exit code 4, whatever the program says."""
    faults = []
    model.refuses = True
    outcome = run(["skill", "triggers"], "--queries", "queries.jsonl", "--runs", "1", "--dir", "refused")
    if outcome.returncode != 4:
        faults.append("a refused key gives the exit code %s: %s" % (outcome.returncode, outcome.stderr[-500:]))
    # OpenCode without a provider asks the network for one.
    if agent == "opencode":
        return faults
    home = os.path.join(work, "signed-out")
    os.makedirs(home, exist_ok=True)
    variables = {name: env[name] for name in ("PATH", "LANG", "TERM")}
    # Codex without its configuration would ask the network.
    variables["HOME"] = env["HOME"] if agent == "codex" else home
    if agent == "copilot-cli":
        variables["COPILOT_AUTO_UPDATE"] = "false"
    outcome = run(["skill", "triggers"], "--queries", "queries.jsonl", "--runs", "1", "--dir", "out", variables=variables)
    if outcome.returncode != 4:
        faults.append("no sign-in gives the exit code %s: %s" % (outcome.returncode, outcome.stderr[-500:]))
    return faults


def plugin(skillrl, work, env, program):
    outcome = subprocess.run([skillrl, "export", "invoice-format", "--plugin", "--to", "harbour"], cwd=work, env=env,
                             capture_output=True, text=True, timeout=60)
    if outcome.returncode:
        return ["no plugin (%s): %s" % (outcome.returncode, outcome.stderr[-500:])]
    outcome = subprocess.run([program, "plugin", "validate", "harbour"], cwd=work, env=env, capture_output=True, text=True,
                             timeout=60)
    is_found = "harbour:invoice-format" in outcome.stdout
    return [] if outcome.returncode == 0 and is_found else ["the plugin is not valid: " + outcome.stdout[-800:]]


def find_ripgrep(programs):
    """OpenCode needs `rg`, which Qwen Code's package brings for several machines."""
    bin_dir = os.path.join(programs, "bin")
    if os.path.exists(bin_dir + "/rg"):
        return
    install(programs, "qwen-code", AGENTS["qwen-code"][0])
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), platform.machine())
    system = platform.system().lower()
    folder = "qwen-code/node_modules/@qwen-code/qwen-code/vendor/ripgrep/%s-%s/rg" % (machine, system)
    os.makedirs(bin_dir, exist_ok=True)
    shutil.copy(os.path.join(programs, folder), bin_dir + "/rg")
    os.chmod(bin_dir + "/rg", 0o755)


def main():
    skillrl, programs = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    install(programs, "node", NODE)
    find_ripgrep(programs)
    names = sys.argv[3:] or list(AGENTS)
    n_wrong = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        found = pool.map(lambda agent: check(skillrl, programs, agent), names)
        for agent, faults in zip(names, found):
            print("%s: %s" % (agent, "; ".join(faults) or "right"), flush=True)
            n_wrong += bool(faults)
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
