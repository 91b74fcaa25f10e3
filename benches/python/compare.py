"""The Python package of this workspace beside skillrl 1.0.0, in one run on one machine.

    cargo build --release -p skillrl-bench
    python3 benches/python/compare.py WHEEL

makes a virtual environment for each, and measures both in turn at 64 and 256 calls in flight: with a client in Python
that sleeps 50 ms, and with the package's own `OpenAIChatClient` against `skillrl-bench serve`, which answers after 50 ms. The
best of three rounds counts for each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

OTHER = "skillrl==1.0.0"
ROUNDS = 3
#: Calls in flight, and items.
CASES = ((64, 2048), (256, 4096))
SERVER = Path(__file__).parents[2] / "target/release/skillrl-bench"


def environment(directory: Path, package: str) -> Path:
    """A virtual environment with a package; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    python = directory / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package], check=True)
    return python


def measured(python: Path, in_flight: int, items: int, server: list[str]) -> dict[str, object]:
    """One measurement."""
    script = Path(__file__).with_name("rollouts.py")
    command = [python, script, "--in-flight", str(in_flight), "--items", str(items), *server]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measures both and prints a table."""
    serving = subprocess.Popen(
        [SERVER, "serve", "--latency-ms", "50", "--until-stdin-closes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert serving.stdout is not None
    address = serving.stdout.readline().split()[-1]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        pythons = [environment(root / "engine", sys.argv[1]), environment(root / "other", OTHER)]
        print("| client | in flight | limit | skillrl 1.0.0 | here | ratio |\n|---|---|---|---|---|---|")
        for client, server in (("sleeps", []), ("OpenAIChatClient", ["--server", f"{address}/v1"])):
            for in_flight, items in CASES:
                best = [0.0, 0.0]
                limit = 0
                for _ in range(ROUNDS):
                    for which, python in enumerate(pythons):
                        found = measured(python, in_flight, items, server)
                        best[which] = max(best[which], float(str(found["per_second"])))
                        limit = int(str(found["limit"]))
                here, other = best
                row = f"{client} | {in_flight} | {limit}/s | {other:.0f}/s | {here:.0f}/s | {here / other:.2f}"
                print(f"| {row} |", flush=True)
    serving.terminate()


if __name__ == "__main__":
    main()
