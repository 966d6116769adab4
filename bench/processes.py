"""Starts the servers as processes of their own, and reads what they cost.

Nothing outlives the benchmark: each server is ended here. The data of etcd lie
in a temporary directory, in memory where the system has /dev/shm, so that no
disk slows it down.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

START_SECONDS = 30.0


class Server:
    """A running server process."""

    def __init__(self, pid: int, ports: dict[str, int]) -> None:
        """`ports` are on loopback, by protocol."""
        self.ports = ports
        # clock_getcpuclockid(3), which Python does not have: nanoseconds, where
        # /proc/<pid>/stat counts in hundredths of a second.
        self._cpu_clock = ~pid << 3 | 2
        self._status = Path(f"/proc/{pid}/status")

    def cpu(self) -> float:
        """CPU seconds used so far, in user space and in the kernel."""
        return time.clock_gettime(self._cpu_clock)

    def memory(self) -> int:
        """Anonymous resident bytes: what is its own, without mapped files such as etcd's data."""
        for line in self._status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("the kernel does not tell RssAnon")


@contextlib.contextmanager
def our_server(*flags: str, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """`global-discovery serve` as anyone runs it, with a lease that does not end while measured."""
    command = Path(sys.executable).with_name("global-discovery")
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [
                str(command),
                "serve",
                "--listen=127.0.0.1:0",
                "--grpc-listen=127.0.0.1:0",
                "--heartbeat-interval-secs=600",
                "--lease-duration-secs=3600",
                "--log-format=json",
                *flags,
            ],
            stderr=log,
            env={**os.environ, **(environment or {})},
        )
        try:
            ready = _wait_for_line(log, '"event": "ready"')
            yield Server(process.pid, {"grpc": ready["grpc_port"], "http": ready["rest_port"]})
        finally:
            process.terminate()
            _wait(process)


def bare_server() -> contextlib.AbstractContextManager[Server]:
    """The server of bare_server.py."""
    return _program("bare_server.py")


def dynamodb_server(authority: Path) -> contextlib.AbstractContextManager[Server]:
    """The server of dynamodb_server.py; `authority` is where it puts its certificate's."""
    return _program("dynamodb_server.py", str(authority))


@contextlib.contextmanager
def _program(name: str, *arguments: str) -> Iterator[Server]:
    """A program of this folder that prints its ports, and ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(name)), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start")
        yield Server(process.pid, json.loads(line))
    finally:
        if process.stdin is not None:
            process.stdin.close()
        _wait(process)


def etcd_version() -> str:
    """The version of the installed etcd; empty without one."""
    if shutil.which("etcd") is None:
        return ""
    told = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[0].removeprefix("etcd Version: ")


@contextlib.contextmanager
def etcd_server() -> Iterator[Server]:
    """One etcd node with an empty store."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None) as folder:
        client, peer = _free_port(), _free_port()
        process = subprocess.Popen(
            [
                "etcd",
                f"--data-dir={folder}/data",
                f"--listen-client-urls=http://127.0.0.1:{client}",
                f"--advertise-client-urls=http://127.0.0.1:{client}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
                "--log-level=error",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for_port(client)
            yield Server(process.pid, {"grpc": client})
        finally:
            process.terminate()
            _wait(process)


def _wait(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for_line(log: TextIO, text: str) -> dict[str, Any]:
    """The log line with this text, once it is there."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        log.seek(0)
        for line in log:
            if text in line and line.endswith("\n"):
                return dict(json.loads(line))
        time.sleep(0.01)
    raise RuntimeError("the service did not start")


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("etcd did not start")
