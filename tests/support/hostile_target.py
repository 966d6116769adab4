"""A `global-discovery serve` of its own, to be treated badly, and what must hold after that.

Whatever was done to it, it answers a good caller correctly: its own pools are
listed unchanged, both faces and two watches say the same, no call was answered
with INTERNAL, UNKNOWN or 500, the log has no error and no stack trace, and
connections, streams, series and memory come back to what they were.

Synchronous, so that hypothesis can find the smallest example; the process that is
attacked has the event loop.
"""

import contextlib
import http.client
import json
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import grpc
import psutil

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.fold import FoldingClient, key_of
from support.serve_process import COMMAND, LOOPBACK, clean_environment

LEASE = ["--lease-duration-secs", "900", "--heartbeat-interval-secs", "300"]
PATIENCE_SECONDS = 60.0
SERVICE = "/global_discovery.v1.PoolDiscoveryService/"
GOOD_CLUSTER = "good"
MEMORY_ROOM = 96 * 1024 * 1024
"""Caches fill up to their bounds, and the allocator keeps what it had."""
DESCRIPTOR_ROOM = 12
SERIES_ROOM = 800
"""Each combination of some 25 methods with a few codes is 16 series from its first call on."""

_REQUESTS = {
    "RegisterPool": pb.RegisterPoolRequest,
    "RenewPools": pb.RenewPoolsRequest,
    "DeregisterPool": pb.DeregisterPoolRequest,
    "ListPools": pb.ListPoolsRequest,
    "ListRouters": pb.ListRoutersRequest,
    "ExplainPool": pb.ExplainPoolRequest,
    "WatchPools": pb.WatchPoolsRequest,
    "WatchRouters": pb.WatchRoutersRequest,
}
METHODS = tuple(_REQUESTS)
STREAMS = ("WatchPools", "WatchRouters")
ALLOWED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
}
"""What a call may be answered with, whatever it says, while nothing is wrong at the server."""


def request_type(method: str) -> Any:
    """The message class of a method's request."""
    return _REQUESTS[method]


class Size(NamedTuple):
    """What must not grow."""

    memory: int
    descriptors: int
    threads: int
    series: int


class Target:
    """One running process, and a good caller of it."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log
        self._log_read = 0
        self._noted = Size(0, 0, 0, 0)
        ports = self._wait_until_ready()
        self.port = int(ports["rest_port"])
        self.grpc_port = int(ports["grpc_port"])
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{self.grpc_port}", options=[("grpc.max_receive_message_length", -1)]
        )
        self._good = [_good_pool(number) for number in range(5)]
        self._lease_ids: list[str] = []
        self._follower: _Follower | None = None

    # -- calls ---------------------------------------------------------------

    def raw(self, method: str, data: bytes, **options: Any) -> tuple[grpc.StatusCode, bytes]:
        """Sends bytes to a method; its status, and the bytes of its first answer."""
        path = method if method.startswith("/") else SERVICE + method
        options.setdefault("timeout", PATIENCE_SECONDS)
        if method not in STREAMS:
            try:
                return grpc.StatusCode.OK, self.channel.unary_unary(path)(data, **options)
            except grpc.RpcError as error:
                return error.code(), b""
        call = self.channel.unary_stream(path)(data, **options)
        try:
            return grpc.StatusCode.OK, next(call)
        except grpc.RpcError as error:
            return error.code(), b""
        finally:
            call.cancel()

    def call(self, method: str, request: Any) -> Any:
        """A call that must succeed."""
        code, data = self.raw(method, request.SerializeToString())
        assert code is grpc.StatusCode.OK, f"{method} was answered {code}"
        return data

    def get(self, path: str) -> tuple[int, bytes]:
        """An ordinary GET on a fresh connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def pools(self) -> dict[Any, pool_pb2.Pool]:
        """Everything that ListPools lists, by key."""
        pools: dict[Any, pool_pb2.Pool] = {}
        token = ""
        while True:
            data = self.call("ListPools", pb.ListPoolsRequest(page_token=token))
            page = pb.ListPoolsResponse.FromString(data)
            pools |= {key_of(pool.key): pool for pool in page.pools}
            token = page.next_page_token
            if not token:
                return pools

    # -- what must hold ------------------------------------------------------

    def settle(self) -> None:
        """Registers the good pools anew and notes how large the process is."""
        self._lease_ids = []
        for registration in self._good:
            request = pb.RegisterPoolRequest(registration=registration, relay_id="good")
            answer = pb.RegisterPoolResponse.FromString(self.call("RegisterPool", request))
            self._lease_ids.append(answer.lease_id)
        self._follower = self._follower or _Follower(self.channel)
        self.check()
        self._noted = self.size()

    def check(self) -> None:
        """Nothing of the good caller's has suffered. Takes away what the bad ones registered."""
        renewed = self.call("RenewPools", pb.RenewPoolsRequest(lease_ids=self._lease_ids))
        assert not pb.RenewPoolsResponse.FromString(renewed).unknown_lease_ids
        self._compare_views()
        for key in self.pools():
            if key[0] != GOOD_CLUSTER:
                request = pb.DeregisterPoolRequest(
                    key=pool_pb2.PoolKey(cluster_id=key[0], namespace=key[1], dgd_name=key[2]),
                    all_shares=True,
                )
                self.call("DeregisterPool", request)
        listed = self.pools()
        assert [_content(pool) for pool in listed.values()] == self._good
        self._compare_views()
        for path in ("/livez", "/readyz", "/healthz", "/routers", "/openapi.json"):
            assert self.get(path)[0] == 200, path
        self.check_log()
        self.check_codes()

    def check_log(self) -> None:
        """Every line is JSON, and none tells an error or a stack trace."""
        with self._log.open("rb") as file:
            file.seek(self._log_read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._log_read += len(whole)
        for line in whole.splitlines():
            told = json.loads(line)
            assert told["level"] not in {"error", "critical"}, line
            assert b"Traceback" not in line, line

    def check_codes(self) -> None:
        """No call was answered as if something were wrong with the server."""
        for line in self._metric_lines():
            answered = re.match(r'global_discovery_calls_total\{code="(\w+)"', line)
            if answered is not None:
                assert answered[1] not in {"500", "INTERNAL", "UNKNOWN"}, line

    def check_growth(self) -> None:
        """Connections, streams, series and memory are what they were, once all is closed."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (grown := self._grown(self.size())) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not grown, f"grew from {self._noted} to {self.size()}"

    def size(self) -> Size:
        """How large the process is now."""
        process = psutil.Process(self.process.pid)
        series = sum(not line.startswith("#") for line in self._metric_lines())
        return Size(process.memory_info().rss, process.num_fds(), process.num_threads(), series)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits, with patience."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, what
            time.sleep(0.01)

    def close(self) -> None:
        """Ends everything."""
        if self._follower is not None:
            self._follower.close()
        self.channel.close()

    def _grown(self, size: Size) -> bool:
        noted = self._noted
        return (
            size.memory > noted.memory + MEMORY_ROOM
            or size.descriptors > noted.descriptors + DESCRIPTOR_ROOM
            or size.threads > noted.threads + DESCRIPTOR_ROOM
            or size.series > noted.series + SERIES_ROOM
        )

    def _metric_lines(self) -> list[str]:
        status, body = self.get("/metrics")
        assert status == 200
        return body.decode().splitlines()

    def _compare_views(self) -> None:
        """Both faces, a new watch, and one that has been there all the time, agree."""
        listed = self.pools()
        fresh = _Follower(self.channel)
        try:
            for follower in filter(None, (fresh, self._follower)):
                self.until(lambda it=follower: it.pools == listed, "a watch says something else")
        finally:
            fresh.close()
        status, body = self.get("/pools")
        assert status == 200
        told = {(p["cluster_id"], p["namespace"], p["dgd_name"]) for p in json.loads(body)["pools"]}
        assert told == set(listed)

    def _wait_until_ready(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for line in self._log.read_bytes().splitlines():
                if b'"ready"' in line:
                    return dict(json.loads(line))
            assert self.process.poll() is None, self._log.read_text()
            time.sleep(0.05)
        raise AssertionError("not ready")


class _Follower:
    """A watch, folded in a thread for as long as it lasts."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._client = FoldingClient()
        request = pb.WatchPoolsRequest(idle_interval_secs=1).SerializeToString()
        self._call: Any = channel.unary_stream(SERVICE + "WatchPools")(request)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @property
    def pools(self) -> dict[Any, pool_pb2.Pool]:
        return self._client.fold

    def close(self) -> None:
        self._call.cancel()
        self._thread.join()

    def _follow(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for data in self._call:
                self._client.take(pb.WatchPoolsResponse.FromString(data))
                self._client.messages.clear()


@contextlib.contextmanager
def a_target(*flags: str) -> Iterator[Target]:
    """Started, and ended with SIGTERM, which must end it well."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file:
            process = _start(flags, file)
        try:
            target = Target(process, log)
            yield target
            target.close()
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0
            target.check_log()
        finally:
            process.kill()
            process.wait()


def _start(flags: tuple[str, ...], log: IO[bytes]) -> "subprocess.Popen[bytes]":
    command = [*COMMAND, *LOOPBACK, *LEASE, "--log-format", "json", *flags]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=clean_environment())


def _good_pool(number: int) -> pool_pb2.PoolRegistration:
    return pool_pb2.PoolRegistration(
        key=pool_pb2.PoolKey(cluster_id=GOOD_CLUSTER, namespace="ns", dgd_name=f"pool-{number}"),
        model="Qwen/Qwen3-0.6B",
        location=pool_pb2.Location(region="r1", availability_zone="r1a"),
        capabilities=["chat", "tools"],
        capacity=[pool_pb2.Capacity(gpu_sku="H100", gpu_count=8)],
        frontends=[f"http://10.0.0.{number}:8000"],
        relays=[f"ip:10.1.0.{number}"],
    )


def _content(pool: pool_pb2.Pool) -> pool_pb2.PoolRegistration:
    """A listed pool as it was registered."""
    pool.ClearField("registered_time")
    pool.ClearField("changed_time")
    return pool_pb2.PoolRegistration.FromString(pool.SerializeToString())
