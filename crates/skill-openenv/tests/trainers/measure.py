"""Figures of a server: start, steps per second, memory of idle sessions.

    python measure.py path/to/skillrl
"""

import asyncio
import json
import pathlib
import statistics
import subprocess
import sys
import time

from openenv import GenericEnvClient
from websockets.asyncio.client import connect as aconnect
from websockets.sync.client import connect

PROGRAM = sys.argv[1]
SESSIONS, STEPS, STARTS = 2_000, 4_000, 9
MOST_MB = 100


def start(*arguments):
    command = [PROGRAM, "env", "serve", "alfworld", "--listen", "127.0.0.1:0", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return server, server.stdout.readline().strip()


def ask(socket, kind, data=None):
    socket.send(json.dumps({"type": kind, "data": data or {}}))
    return json.loads(socket.recv())


def starts():
    """Milliseconds from the start of the program to the first observation."""
    took = []
    for _ in range(STARTS):
        began = time.perf_counter()
        server, url = start()
        with connect(url.replace("http", "ws") + "/ws") as socket:
            assert ask(socket, "reset")["type"] == "observation"
            took.append((time.perf_counter() - began) * 1_000)
        server.terminate()
        server.wait()
    return took


def official(url):
    """Steps per second of the official client on one connection."""
    with GenericEnvClient(base_url=url).sync() as env:
        env.reset()
        began = time.perf_counter()
        for number in range(STEPS):
            if env.step({"command": "look"}).done:
                env.reset()
        return STEPS / (time.perf_counter() - began)


def bare(url):
    """Steps per second of a bare WebSocket on one connection: what the server can answer, and Python can ask."""
    message = json.dumps({"type": "step", "data": {"command": "look"}})
    with connect(url.replace("http", "ws") + "/ws") as socket:
        ask(socket, "reset")
        began = time.perf_counter()
        for number in range(STEPS):
            socket.send(message)
            if '"done":true' in socket.recv():
                ask(socket, "reset")
        return STEPS / (time.perf_counter() - began)


def memory(server):
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def idle(server, url):
    """Megabytes without sessions, with sessions, and with an episode in each of them."""
    before = memory(server)
    opened = [await aconnect(url.replace("http", "ws") + "/ws", compression=None, ping_interval=None)
              for _ in range(SESSIONS)]
    for socket in opened:
        await socket.send('{"type":"state"}')
        await socket.recv()
    sessions = memory(server)
    for socket in opened:
        await socket.send('{"type":"reset"}')
        await socket.recv()
    episodes = memory(server)
    for socket in opened:
        await socket.close()
    return before, sessions, episodes


def main():
    took = starts()
    print(f"start to first observation: median {statistics.median(took):.0f} ms, best {min(took):.0f} ms of {STARTS}")
    server, url = start()
    try:
        speeds = [official(url) for _ in range(3)]
        print(f"official client, one connection: {max(speeds):,.0f} steps/s, best of 3")
        speeds = [bare(url) for _ in range(3)]
        print(f"bare WebSocket of Python, one connection: {max(speeds):,.0f} steps/s, best of 3")
    finally:
        server.terminate()
        server.wait()
    server, url = start()
    try:
        before, sessions, episodes = asyncio.run(idle(server, url))
    finally:
        server.terminate()
        server.wait()
    print(f"memory: {before:.0f} MB without sessions, {sessions:.0f} MB with {SESSIONS:,} idle ones, "
          f"{episodes:.0f} MB with an episode in each")
    assert sessions < MOST_MB, f"{SESSIONS} idle sessions take {sessions:.0f} MB"


main()
