"""The pages of `skillrl serve` and `skillrl report` in a headless Chromium.

    python3 check.py path/to/skillrl [directory for screenshots]
"""

import contextlib
import http.client
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

from chromium import Chromium
from task import HOSTILE, Models, train, write_task

MARKS = "document.querySelectorAll('#report svg g.accepted, #report svg g.rejected, #report svg g.skipped').length"
PHONE = 380


@contextlib.contextmanager
def serving(skillrl, runs, *arguments, **environment):
    """A server; gives its URL, and ends it as a person does."""
    command = [skillrl, "serve", runs, *arguments]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
    )
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        assert server.wait(timeout=10) == 0, "the server ends by itself"


def fetch(url, method="GET", **headers):
    """Status and text of an answer; the path is sent as it is."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    path = url.split(parts.netloc, 1)[1]
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def check_quiet(page, *origins):
    """Nothing was complained about, and nothing was asked of anybody else."""
    assert not page.complaints, page.complaints
    strangers = [url for url in page.requests if not url.startswith((*origins, "data:"))]
    assert page.requests and not strangers, strangers


def check_width(page):
    """The page is as wide as the window: what is wider scrolls in its place."""
    wide = page.ask("document.documentElement.scrollWidth")
    window = page.ask("document.documentElement.clientWidth")
    assert wide <= window, f"{wide} of {window}"


def check_text(page):
    """What the models said is there, as text."""
    assert HOSTILE in page.ask("document.body.textContent")
    assert page.ask("document.querySelectorAll('img').length") == 0


def check_report(browser, run, pictures):
    """The report as a file: it needs nothing and nobody."""
    url = (run / "report.html").as_uri()
    for name, width, dark in [("report", 1280, False), ("report-phone", PHONE, False), ("report-dark", 1280, True)]:
        with browser.page(width, dark=dark) as page:
            page.open(url)
            assert page.ask("document.querySelector('svg .current').getAttribute('d').length") > 20
            assert page.ask("document.querySelectorAll('svg g.accepted').length") == 1
            assert page.ask("document.querySelectorAll('svg rect').length") >= 4
            assert page.ask("document.querySelectorAll('script').length") == 1
            check_text(page)
            check_width(page)
            check_quiet(page, "file://")
            shoot(page, pictures, name)


def check_list(browser, url, pictures):
    for name, width, dark in [("list", 1280, False), ("list-phone", PHONE, False), ("list-dark", 1280, True)]:
        with browser.page(width, dark=dark) as page:
            page.open(url)
            page.until("document.getElementById('link').textContent === 'live'")
            page.until("document.querySelectorAll('tr[data-run]').length >= 3")
            assert "is not JSON" in page.ask("document.querySelector('[data-run=damaged]').textContent")
            check_width(page)
            check_quiet(page, url)
            shoot(page, pictures, name)


def check_live(browser, url, skillrl, config, runs, models, pictures):
    """A run is followed from its beginning: its page moves by itself, and stops it."""
    run = runs / "live"
    # One request is one of the agent's 4 answers of the baseline.
    with train(skillrl, config, run) as training, browser.page() as page, browser.page(PHONE, dark=True) as phone:
        with browser.page() as overview:
            overview.open(url)
            overview.until("document.querySelector('[data-run=live] .training')")
            check_quiet(overview, url)
        page.open(url + "run/live")
        phone.open(url + "run/live")
        page.until("document.getElementById('stage').textContent === 'baseline'")
        models.release(2)
        page.until("document.getElementById('done-words').textContent.startsWith('2 of 4')")
        page.until("document.querySelectorAll('#rollouts .entries details').length === 2")
        assert page.ask(MARKS) == 0
        # The rest of the baseline; then 2 answers, 1 analyst and 4 answers are the first step.
        models.release(2 + 7)
        page.until(f"{MARKS} === 1")
        assert page.ask("document.querySelectorAll('#report svg g.accepted').length") == 1
        page.until("document.getElementById('where').textContent.startsWith('1 of 4 steps')")
        page.until("/step 1\\/4 .*accepted, new best/.test(document.querySelector('#log .good').textContent)")
        page.until("document.getElementById('spent').textContent.includes('of 500')")
        # What a person has opened stays open when the report is a new one.
        page.ask("document.querySelector('#step-1 summary').click()")
        page.ask("document.querySelector('#rollouts .entries summary').click()")
        models.release(2)
        page.until("document.getElementById('stage').textContent.startsWith('step 2')")
        check_text(page)
        phone.until(f"{MARKS} === 1")
        check_width(phone)
        shoot(page, pictures, "live")
        shoot(phone, pictures, "live-phone-dark")
        page.ask("document.querySelector('#stop button').click()")
        page.until("document.querySelector('#continue') && !document.querySelector('#continue').hidden")
        phone.until("!document.querySelector('#continue').hidden")
        phone.ask("document.querySelector('#step-1 summary').click()")
        models.release(100)
        assert training.wait(timeout=60) == 130, "a stop that was asked for is obeyed"
        phone.until(f"{MARKS} === 2")
        phone.until("document.getElementById('state').textContent === 'stopped'")
        assert phone.ask("document.querySelector('#step-1').open")
        assert not (run / "stop_after_step").exists()
        check_quiet(page, url)
        check_quiet(phone, url)
    # The same command goes on.
    with train(skillrl, config, run) as training, browser.page() as page:
        page.open(url + "run/live")
        assert training.wait(timeout=60) == 0
        page.until("document.getElementById('state').textContent === 'finished'")
        page.until(f"{MARKS} === 4")
        check_quiet(page, url)
        shoot(page, pictures, "finished")


def check_refusals(browser, skillrl, url, runs, directory):
    """Ways out of the directory, foreign pages, and those who have no token."""
    (directory / "secret").write_text("secret")
    for path in ["../secret", "..%2Fsecret", "%2e%2e/secret", "live/../../../secret", "live/config.json"]:
        for route in ["run", "report", "news"]:
            status, text = fetch(f"{url}{route}/{path}")
            assert status == 404 and "secret" not in text, (path, status)
    assert fetch(url, Host="evil.example")[0] == 403
    assert fetch(url + "stop/live", "POST")[0] == 403
    assert fetch(url + "stop/live", "POST", Origin="http://evil.example")[0] == 403

    with serving(skillrl, runs, "--listen", "0.0.0.0:0") as printed:
        match = re.fullmatch(r"http://0\.0\.0\.0:(\d+)/\?token=([0-9a-f]{48})", printed)
        assert match, printed
        url, token = f"http://127.0.0.1:{match[1]}/", match[2]
        for path in ["", "run/live", "news/live", "metrics", "assets/run.js"]:
            assert fetch(url + path)[0] == 401, path
            assert fetch(f"{url}{path}?token={'0' * 48}")[0] == 401, path
        assert fetch(url + "metrics", Authorization=f"Bearer {token}")[0] == 200
        with browser.page() as page:
            page.open(url)
            assert "token is missing" in page.ask("document.body.textContent")
        with browser.page() as page:
            page.open(f"{url}?token={token}")
            page.until("document.getElementById('link').textContent === 'live'")
            assert page.ask("location.search") == "", "the token is not left in the address"
            page.ask("document.querySelector('[data-run=live] a').click()")
            page.until("location.pathname === '/run/live' && document.getElementById('link').textContent === 'live'")
            check_quiet(page, url)
    own = "t" * 20
    with serving(skillrl, runs, "--listen", "127.0.0.1:0", "--token-env", "SERVE_TOKEN", SERVE_TOKEN=own) as printed:
        assert printed.endswith(f"/?token={own}"), printed
        assert fetch(printed.split("?")[0])[0] == 401


def shoot(page, pictures, name):
    if pictures:
        page.picture(pictures / f"{name}.png")


def main():
    skillrl = str(pathlib.Path(sys.argv[1]).resolve())
    pictures = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    browser, models = Chromium(), Models()
    try:
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            runs = directory / "runs"
            subprocess.run([skillrl, "demo", "--dir", directory / "demo"], check=True, stdout=subprocess.DEVNULL)
            runs.mkdir()
            (directory / "demo" / "run").rename(runs / "demo")
            (runs / "damaged").mkdir()
            (runs / "damaged" / "config.json").write_text("{")
            (runs / "damaged" / "run.lock").write_text("")
            config = write_task(directory / "task", models)
            with serving(skillrl, runs, "--listen", "127.0.0.1:0") as url:
                check_live(browser, url, skillrl, config, runs, models, pictures)
                check_list(browser, url, pictures)
                with browser.page() as page:
                    page.open(url + "run/demo")
                    page.until("document.getElementById('link').textContent === 'live'")
                    assert page.ask(MARKS) == 12
                    check_quiet(page, url)
                    shoot(page, pictures, "demo")
                check_refusals(browser, skillrl, url, runs, directory)
            check_report(browser, runs / "live", pictures)
    finally:
        browser.close()
        models.close()
    print("the pages are as they should be")


if __name__ == "__main__":
    main()
