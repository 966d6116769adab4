"""A DynamoDB server (moto) as a process of its own, over HTTP, and stores that use it."""

import atexit
import contextlib
import functools
import http.client
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiobotocore.credentials import AioCredentials

from global_discovery.domain.clock import Clock
from global_discovery.storage.dynamodb.http_api import HttpDynamoDB

MOTO = (sys.executable, str(Path(__file__).with_name("atomic_moto.py")))
REGION = "eu-west-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret"}
START_SECONDS = 60
CALL_SECONDS = 20.0
"""The server shares two cores with everything else that is tested."""
_tables = itertools.count()


class DynamoDBServer:
    """Where it listens."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reached(self, clock: Clock, *, region: str = REGION) -> HttpDynamoDB:
        """This server, as the store reaches any."""
        return HttpDynamoDB(
            endpoint=self.url,
            region=region,
            credentials=AioCredentials(*CREDENTIALS.values()),
            clock=clock,
            call_seconds=CALL_SECONDS,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find credentials, and no others."""
        return {**CREDENTIALS, "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"}


def new_table_name() -> str:
    """One that no other test uses."""
    return f"gd-{os.getpid()}-{next(_tables)}"


@functools.cache
def of_this_process() -> DynamoDBServer:
    """One server for all tests of this process, started when it is first needed."""
    stack = contextlib.ExitStack()
    server = stack.enter_context(dynamodb_server())
    atexit.register(stack.close)
    return server


@contextmanager
def dynamodb_server() -> Iterator[DynamoDBServer]:
    """A server with no tables, killed at the end."""
    for _ in range(5):  # somebody may take the port before moto does
        port = _free_port()
        process = subprocess.Popen(
            [*MOTO, "-H", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **CREDENTIALS},
        )
        try:
            if _answers(process, port):
                yield DynamoDBServer(port)
                return
        finally:
            process.kill()
            process.wait()
    raise AssertionError("moto_server does not start")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/moto-api/")
            connection.getresponse().read()
        except OSError:
            time.sleep(0.05)
        else:
            return True
        finally:
            connection.close()
    return False
