"""The main job on one machine: a server, two pools, and a watcher that shows them.

Starts the real commands on free ports of loopback and shows what each prints:
a server, a relay that registers a pool over gRPC and keeps its lease, a router
that watches. Then a legacy caller registers a second pool over HTTP, once, and
sends no heartbeat: after one lease the watcher sees it leave, alone. Runs until
Ctrl-C; with `--once` it ends after that.
"""

import argparse
import json
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

COMMAND = (sys.executable, "-u", "-m", "global_discovery.cli.main")
HEARTBEAT = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "3")
LONGEST_WAIT_SECONDS = 60
LEGACY_POOL = {
    "cluster_id": "us-1",
    "namespace": "llm",
    "dgd_name": "llama",
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "location": {"region": "us"},
    "frontends": ["http://10.1.0.9:8000"],
}


class Part:
    """One running command; what it prints is shown with its name in front."""

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self._name = name
        self._process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._shower = threading.Thread(target=self._show, daemon=True)
        self._shower.start()

    def _show(self) -> None:
        for line in self._process.stdout or ():
            print(f"{self._name:>7} | {line.rstrip()}", flush=True)
            self._lines.put(line)
        self._lines.put(None)

    def all_shown(self) -> None:
        """Waits until what it printed before its end is shown."""
        self._shower.join(LONGEST_WAIT_SECONDS)

    def until(self, *texts: str) -> str:
        """The first line with all of these texts."""
        ends = time.monotonic() + LONGEST_WAIT_SECONDS
        while True:
            line = self._lines.get(timeout=max(ends - time.monotonic(), 0.001))
            if line is None:
                raise SystemExit(f"demo: {self._name} ended before it said {texts}")
            if all(text in line for text in texts):
                return line


@contextmanager
def run(name: str, *arguments: str) -> Iterator[Part]:
    """Runs a command until the end of the block, which ends it with SIGTERM."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C is for the demo, which then ends its parts in order
    )
    part = Part(name, process)
    try:
        yield part
    finally:
        process.terminate()
        process.wait()
        part.all_shown()


def say(text: str) -> None:
    """A line of the story itself."""
    print(f"{'':>7} * {text}", flush=True)


def post(url: str, body: object) -> object:
    """What a legacy caller does, with nothing but HTTP."""
    request = urllib.request.Request(  # noqa: S310 - loopback
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - loopback
        return json.load(answer)


def main() -> None:
    """Tells the story, then waits for Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--once", action="store_true", help="end after the story")
    once = parser.parse_args().once
    with ExitStack() as parts:
        ports = ("--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
        server = parts.enter_context(
            run("server", "serve", *ports, *HEARTBEAT, "--log-format", "json")
        )
        ready = json.loads(server.until('"event": "ready"'))
        address = f"127.0.0.1:{ready['grpc_port']}"
        say(f"gRPC on {address}, HTTP on 127.0.0.1:{ready['rest_port']}")
        router = parts.enter_context(run("router", "pools", "--watch", "--server", address))
        router.until("snapshot")
        parts.enter_context(
            run(
                "relay",
                "register",
                "--pool",
                "eu-1/llm/qwen",
                "--model",
                "Qwen/Qwen3-0.6B",
                "--region",
                "eu",
                "--frontend",
                "http://10.0.0.7:8000",
                "--server",
                address,
            )
        )
        router.until("eu-1/llm/qwen")
        say("a legacy caller registers a second pool over HTTP, once")
        post(f"http://127.0.0.1:{ready['rest_port']}/pools", LEGACY_POOL)
        router.until("us-1/llm/llama")
        say("it sends no heartbeat, so it leaves after one lease, here three seconds")
        router.until("us-1/llm/llama", "removed")
        say("the other pool stays, because its relay renews it; Ctrl-C ends everything")
        while not once:
            time.sleep(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
