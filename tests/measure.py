"""Measures a deployment on this machine: `python3 tests/measure.py` after `cargo build -p lockstep-runtime --bin lockstep`.

What agreement costs with and without overlap, what recording costs, what an idle deployment costs, how soon losses are noticed and mended, and what
kept pages save. Figures that are compared are taken in turn in one run. Nothing here fails on a figure.
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

LOCKSTEP = os.path.join(os.path.dirname(__file__), "..", "target", "debug", "lockstep")
ROUNDS = 5
STREAMS, TOKENS = 8, 200


class Server:
    """A `lockstep serve` of two ranks a group, unless flags say otherwise."""

    def __init__(self, *flags):
        command = [LOCKSTEP, "serve", "--port", "0", *flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = next(found.group() for line in self.process.stdout
                        if (found := re.search(r"http://[0-9.]+:[0-9]+", line)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def complete(self, prompt, tokens):
        body = json.dumps({"prompt": prompt, "max_tokens": tokens, "ignore_eos": True})
        asked = urllib.request.Request(self.url + "/v1/completions", body.encode(),
                                       {"content-type": "application/json"})
        urllib.request.urlopen(asked).read()

    def metric(self, name, role="decode"):
        line = f'lockstep_rank_{name}{{role="{role}",rank="0"}} '
        text = self.get("/metrics")[1]
        return float(next(row[len(line):] for row in text.splitlines() if row.startswith(line)))

    def health(self):
        status, body = self.get("/health")
        return status, json.loads(body)

    def ranks(self):
        return [rank for group in self.health()[1]["groups"] for rank in group["ranks"]]

    def pids(self):
        return [self.process.pid] + [rank["pid"] for rank in self.ranks()]


def load(server, prompts=range(STREAMS)):
    """Seconds that some streams at once take."""
    begun = time.monotonic()
    streams = [threading.Thread(target=server.complete, args=([100 + prompt, 7, 8], TOKENS)) for prompt in prompts]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join()
    return time.monotonic() - begun


def middle(values):
    return statistics.median(values)


def agreement():
    flags = {"overlap": [], "no overlap": ["--no-overlap"], "votes in stream": ["--votes-in-stream"]}
    servers = {name: Server(*flag) for name, flag in flags.items()}
    seconds, shares = {name: [] for name in flags}, {name: [] for name in flags}
    for _ in range(ROUNDS):
        for name, server in servers.items():
            before = server.metric("agreement_seconds_total")
            took = load(server)
            time.sleep(0.3)
            seconds[name].append(took)
            shares[name].append((server.metric("agreement_seconds_total") - before) / took)
    for name, server in servers.items():
        votes, rounds, forwards = (server.metric(f"{name}_total") for name in ["votes", "rounds", "forwards"])
        rate = STREAMS * TOKENS / middle(seconds[name])
        print(f"agreement, {name}: {100 * middle(shares[name]):.0f} % of the time, {rate:.0f} tokens/s, "
              f"{votes / rounds:.2f} votes a round, {rounds / forwards:.1f} rounds a forward")
        busy, gap = (1e6 * server.metric(f"{name}_seconds_total") / forwards for name in ["forward", "forward_gap"])
        print(f"  a forward takes {busy:.0f} us, and the gap between two {gap:.0f} us")
        server.__exit__()
    for name in ["no overlap", "votes in stream"]:
        print(f"  overlap / {name}, tokens/s: {middle(seconds[name]) / middle(seconds['overlap']):.2f}")


def recording():
    folder = tempfile.mkdtemp()
    servers = {"traced": Server("--trace", os.path.join(folder, "traces")), "not traced": Server()}
    seconds = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, server in servers.items():
            seconds[name].append(load(server))
    for server in servers.values():
        server.__exit__()
    shutil.rmtree(folder)
    print(f"recording: a load takes {middle(seconds['traced']) / middle(seconds['not traced']):.2f} x as long")


def ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def idle(seconds=20):
    with Server() as server:
        load(server)
        time.sleep(2)
        pids = server.pids()
        before = sum(map(ticks, pids))
        time.sleep(seconds)
        used = (sum(map(ticks, pids)) - before) / os.sysconf("SC_CLK_TCK")
        memory = [int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())[1]) for pid in pids[1:]]
        print(f"idle: {100 * used / seconds:.2f} % of a core for {len(pids)} processes, "
              f"{max(memory) / 1024:.1f} MiB for the largest rank")


def wait_for(condition):
    begun = time.monotonic()
    while not condition():
        time.sleep(0.01)
    return time.monotonic() - begun


def loss(what, busy):
    """Seconds until a lost rank is noticed, and until all serve again."""
    with Server() as server:
        load(server, range(1))
        stream = threading.Thread(target=server.complete, args=([5, 6], 1000))
        if busy:
            stream.start()
            time.sleep(0.3)
        else:
            time.sleep(2)
        epoch = server.health()[1]["epoch"]
        begun = time.monotonic()
        os.kill(server.ranks()[1]["pid"], what)
        noticed = wait_for(lambda: server.health()[0] != 200)
        wait_for(lambda: (lambda told: told[0] == 200 and told[1]["epoch"] > epoch)(server.health()))
        again = time.monotonic() - begun
        if busy:
            stream.join()
        return noticed, again


def losses():
    for what, name in [(signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped")]:
        for busy in [True, False]:
            found = [loss(what, busy) for _ in range(3)]
            noticed, again = max(one[0] for one in found), max(one[1] for one in found)
            print(f"a rank {name} while {'busy' if busy else 'idle'}: noticed after {noticed:.2f} s, "
                  f"serving after {again:.2f} s; the worst of three")


def kept():
    servers = {"kept": Server("--tp", "1"), "not kept": Server("--tp", "1", "--prefix-pages", "0")}
    seconds = {name: [] for name in servers}
    for turn in range(ROUNDS + 1):
        prompt = [(7 * place + 3) % 1000 for place in range(1000)] + [turn % 1000] * 20
        for name, server in servers.items():
            begun = time.monotonic()
            server.complete(prompt, 1)
            seconds[name].append(time.monotonic() - begun)
    for server in servers.values():
        server.__exit__()
    ratio = middle(seconds["not kept"][1:]) / middle(seconds["kept"][1:])
    print(f"1000 of 1020 prompt tokens kept: the first token comes {ratio:.1f} x sooner")


if __name__ == "__main__":
    for measure in [agreement, recording, idle, losses, kept]:
        measure()
