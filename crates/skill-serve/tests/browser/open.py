"""How long a page takes to open in a headless Chromium, in seconds, each time in a new window; as a list of JSON.

    python3 open.py path/to/report.html [times]
"""

import json
import pathlib
import shutil
import sys

import chromium

LACKS_SOMETHING = 3


def main():
    if not any(map(shutil.which, chromium.NAMES)):
        sys.exit(LACKS_SOMETHING)
    url = pathlib.Path(sys.argv[1]).resolve().as_uri()
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    browser = chromium.Chromium()
    took = []
    try:
        # The first page of a browser waits for the browser.
        for _ in range(times + 1):
            with browser.page() as page:
                page.open(url)
                page.until("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
                took.append(page.ask("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000)
                assert not page.complaints, page.complaints
    finally:
        browser.close()
    print(json.dumps(took[1:]))


if __name__ == "__main__":
    main()
