"""A headless Chromium, spoken to through a pipe by the DevTools protocol: the standard library is enough for that."""

import contextlib
import fcntl
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time

# Far longer than anything takes; only a failed check waits so long.
PATIENCE_S = 60
NAMES = ["chromium", "chromium-browser", "google-chrome"]
# Nothing that a browser does by itself may look like something that a page did.
QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    # In a container there is nothing that a sandbox could be made of.
    "--no-sandbox",
    # A name that is looked up is a request that leaves the machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


class Chromium:
    """A browser; its answers and events come from one pipe, in order."""

    def __init__(self):
        name = next(filter(shutil.which, NAMES), None)
        if name is None:
            raise SystemExit("these checks need Chromium (Debian: chromium)")
        self.profile = tempfile.mkdtemp(prefix="skillrl-chromium-")
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        # The browser reads from 3 and writes to 4, so neither end may be one of these before.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
        arguments = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.profile}", *QUIET]
        self.process = subprocess.Popen(
            [name, *arguments],
            stderr=subprocess.DEVNULL,
            # What else is open here is closed by itself: only these two are to be inherited.
            close_fds=False,
            preexec_fn=lambda: (os.dup2(ends[0], 3), os.dup2(ends[1], 4)),
        )
        for end in (*ends, to_browser, from_browser):
            os.close(end)
        self.n_commands = 0
        self.waiting = {}
        self.listeners = {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        kept = b""
        with contextlib.suppress(OSError):
            while read := os.read(self.answers, 1 << 20):
                *messages, kept = (kept + read).split(b"\0")
                for message in map(json.loads, messages):
                    if "id" in message:
                        self.waiting.pop(message["id"]).put(message)
                    else:
                        self.listeners.get(message.get("sessionId"), lambda *_: None)(message)

    def send(self, method, session=None, **parameters):
        self.n_commands += 1
        number = self.n_commands
        answer = self.waiting[number] = queue.Queue()
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        answer = answer.get(timeout=PATIENCE_S)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    @contextlib.contextmanager
    def page(self, width=1280, height=900, dark=False):
        """A page in a window of its own, with nothing remembered from others."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        try:
            yield Page(self, session, width, height, dark)
        finally:
            self.send("Target.disposeBrowserContext", browserContextId=context)

    def close(self):
        with contextlib.suppress(Exception):
            self.send("Browser.close")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """A page, what it complained about, and what it asked for."""

    def __init__(self, browser, session, width, height, dark):
        self.browser, self.session = browser, session
        self.complaints, self.requests = [], []
        browser.listeners[session] = self.hear
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def hear(self, message):
        method, parameters = message["method"], message["params"]
        if method == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"].get("exception", {}).get("description", "?"))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([each.get("value") for each in parameters["args"]]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append("a script of the data was run: " + parameters["message"])
            # Not from this thread, which has to read the answer.
            accept = {"accept": True}
            threading.Thread(target=self.send, args=("Page.handleJavaScriptDialog",), kwargs=accept).start()

    def open(self, url):
        """Opens a URL and waits until all of the page has come."""
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, expression):
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression):
        """Waits until an expression is true in the page."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):
                # Between two pages there is nobody to ask.
                if self.ask(f"Boolean({expression})"):
                    return
            time.sleep(0.05)
        raise AssertionError(f"did not come: {expression}; complaints: {self.complaints}")

    def picture(self, path, whole=True):
        import base64

        height = self.ask("document.documentElement.scrollHeight") if whole else None
        width = self.ask("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 6000), "scale": 1} if whole else None
        extra = {"clip": clip, "captureBeyondViewport": True} if whole else {}
        data = self.send("Page.captureScreenshot", format="png", **extra)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
