"""A small training run whose models wait: every request is answered when the check lets it go."""

import contextlib
import http.server
import json
import pathlib
import subprocess
import threading

# What models and data say: a page that renders it would run it.
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
RULE = "Repeat the word."
N_ITEMS = {"train": 4, "val": 4, "test": 2}


class Models:
    """Both models of the run, as a server of Chat Completions on this machine."""

    def __init__(self):
        self.may_go_on = threading.Semaphore(0)
        models = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                models.may_go_on.acquire()
                message = {"role": "assistant", "content": models.reply(request)}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
                body = json.dumps({"id": "1", "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reply(self, request):
        text = "\n".join(message["content"] for message in request["messages"])
        if request["model"] == "optimizer":
            edits = [{"op": "append", "content": f"- {RULE} {HOSTILE}"}]
            return json.dumps({"patch": {"reasoning": HOSTILE, "edits": edits}})
        word = text.rsplit("Word: ", 1)[1].split(".", 1)[0]
        return word if RULE in text else HOSTILE

    def release(self, n_requests):
        """Lets this many requests be answered."""
        self.may_go_on.release(n_requests)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def write_task(directory, models):
    """Writes the data and the configuration of a run with 4 steps; returns the configuration."""
    directory = pathlib.Path(directory)
    (directory / "data").mkdir(parents=True)
    for split, n_items in N_ITEMS.items():
        items = [
            {"id": f"{split}-{n}", "question": f"Word: {split}word{n}.", "answers": [f"{split}word{n}"]}
            for n in range(n_items)
        ]
        (directory / "data" / f"{split}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    (directory / "skill.md").write_text("# Words\n\n- Be polite.\n")
    model = 'kind = "openai", base_url = "%s", price_input = 1.0, price_output = 2.0' % models.url
    (directory / "skillrl.toml").write_text(
        f"""[run]
dir = "run"
workers = 1

[models]
target = {{ {model}, model = "target" }}
optimizer = {{ {model}, model = "optimizer" }}

[env]
kind = "qa"
data = "data"

[skill]
initial = "skill.md"

[train]
epochs = 2
batch_size = 2

[budget]
calls = 500
money = 0.5
"""
    )
    return directory / "skillrl.toml"


@contextlib.contextmanager
def train(skillrl, config, run):
    """Starts the run; whatever happens, its process is gone at the end."""
    command = [skillrl, "train", config, "--quiet", "--set", f"run.dir={run}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
