"""`global-discovery register`: keeps one pool registered until Ctrl-C or SIGTERM, then withdraws.

It prints a line when the pool is registered, when calls begin to fail, when they
succeed again, and when it was withdrawn. A second signal ends it at once, and
the lease then ends by itself.
"""

import argparse
import asyncio
import sys
import time
from typing import Any

import grpc

from global_discovery.cli.arguments import (
    add_server,
    capacity,
    nonempty_text,
    pool_key,
    servers_of,
    tls_of,
)
from global_discovery.cli.ending import (
    DONE,
    FAILED,
    NOT_READ,
    Failed,
    complain,
    stop_writing,
    write,
)
from global_discovery.cli.signals import StopSignals
from global_discovery.cli.text import number, safe, seconds_text
from global_discovery.client import CallFailed, HeartbeatState, PoolHeartbeat, TlsSettings
from global_discovery.client.fold import PoolKey
from global_discovery.v1 import pool_pb2


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Adds the command to those of the program."""
    parser = subparsers.add_parser(
        "register",
        help="keep one pool registered until Ctrl-C",
        description="Registers one pool and renews its lease until Ctrl-C or SIGTERM, "
        "then withdraws it. A second signal ends it at once.",
    )
    add_server(parser)
    parser.add_argument(
        "--pool",
        metavar="CLUSTER/NAMESPACE/NAME",
        required=True,
        type=pool_key,
        help="the pool's cluster id, namespace and deployment name (to `relay`, --pool is "
        "without the cluster, which --cluster-id tells)",
    )
    for name, metavar, required, what in (
        ("--model", "MODEL", True, "the model that it serves"),
        ("--region", "REGION", True, "where it runs"),
        ("--availability-zone", "ZONE", False, "where in the region"),
        ("--datacenter", "NAME", False, "in which datacenter"),
        ("--relay-id", "ID", False, "this relay; must differ between the relays of one pool"),
    ):
        parser.add_argument(
            name, metavar=metavar, required=required, type=nonempty_text, default=None, help=what
        )
    for name, metavar, read, what in (
        ("--frontend", "URL", nonempty_text, "one of its HTTP servers"),
        ("--capability", "NAME", nonempty_text, "something that it can do"),
        ("--capacity", "SKU=COUNT", _capacity, "accelerators of one kind"),
        ("--relay", "ip:ADDRESS", nonempty_text, "a relay that speaks for it"),
    ):
        again = f"{what}; may be given several times"
        parser.add_argument(
            name, metavar=metavar, action="append", default=[], type=read, help=again
        )


def run(args: argparse.Namespace) -> int:
    """Registers until a signal; the exit status. Raises CallFailed when it is refused."""
    registration = pool_pb2.PoolRegistration(
        key=pool_pb2.PoolKey(**args.pool._asdict()),
        model=args.model,
        location=pool_pb2.Location(
            region=args.region,
            availability_zone=args.availability_zone or "",
            datacenter=args.datacenter or "",
        ),
        capabilities=args.capability,
        capacity=args.capacity,
        frontends=args.frontend,
        relays=args.relay,
    )
    signals = StopSignals()
    servers, tls = servers_of(args), tls_of(args)
    return asyncio.run(_register(servers, registration, args.relay_id or "", tls, signals))


async def _register(
    servers: list[str],
    registration: pool_pb2.PoolRegistration,
    relay_id: str,
    tls: TlsSettings | None,
    signals: StopSignals,
) -> int:
    said = _Said(str(PoolKey.of(registration.key)))
    heartbeat = PoolHeartbeat(servers, relay_id=relay_id, tls=tls, on_state=said.take)
    heartbeat.set(registration)
    stop = [asyncio.create_task(signals.wait()), asyncio.create_task(said.over.wait())]
    running = asyncio.create_task(heartbeat.run())
    try:
        await asyncio.wait({running, *stop}, return_when=asyncio.FIRST_COMPLETED)
        withdrawn = await heartbeat.stop(withdraw=True)
        await running
    finally:
        for task in (running, *stop):
            task.cancel()
        await asyncio.wait({running, *stop})
    if said.refusal is not None:
        raise said.refusal
    said.ended(heartbeat.state, withdrawn=withdrawn)
    if said.unheard:
        return NOT_READ
    held = heartbeat.state.lease is not None
    return FAILED if said.unwritten or (held and not withdrawn) else DONE


class _Said:
    """What the states of a heartbeat say to a person: a line for what is new."""

    def __init__(self, pool: str) -> None:
        self.over = asyncio.Event()
        """There is no use in going on."""
        self.refusal: CallFailed | None = None
        """What the pool was refused with before it was ever registered."""
        self.unheard = False
        """Nobody reads what is printed."""
        self.unwritten = False
        """Nothing is printed any more. The pool stays registered: it outweighs its lines."""
        self._pool = safe(pool)
        self._registered = False
        self._failing_since: float | None = None

    def take(self, state: HeartbeatState) -> None:
        """A call has ended."""
        if state.withdrawn:
            return
        if state.failing and state.last_error is not None:
            self._failed(state, state.last_error)
        elif state.lease is not None:
            self._succeeded(state)

    def ended(self, state: HeartbeatState, *, withdrawn: bool) -> None:
        """The heartbeat was stopped."""
        if withdrawn:
            self._print(f"withdrew {self._pool}")
        elif state.lease is not None:
            self._print(f"could not withdraw {self._pool}; it leaves when its lease ends")

    def _succeeded(self, state: HeartbeatState) -> None:
        lease = state.lease
        if lease is not None and not self._registered:
            self._registered = True
            self._print(
                f"registered {self._pool} at {safe(state.server)}: "
                f"lease {number(lease.seconds)} s, renewed every "
                f"{number(lease.heartbeat_seconds)} s"
            )
        if self._failing_since is not None:
            failed_for = time.monotonic() - self._failing_since
            self._failing_since = None
            self._print(
                f"{safe(state.server)} answers again, after {seconds_text(failed_for)} of failures"
            )

    def _failed(self, state: HeartbeatState, error: CallFailed) -> None:
        if error.code is grpc.StatusCode.INVALID_ARGUMENT and not self._registered:
            self.refusal = error
            self.over.set()
            return
        if state.lease is None:
            self._registered = False
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            self._print(f"failing: {safe(str(error))}; trying again")

    def _print(self, line: str) -> None:
        try:
            write(f"{line}\n")
        except BrokenPipeError:
            stop_writing(sys.stdout)
            self.unheard = True
            self.over.set()
        except Failed as failure:
            complain(f"{failure}; {self._pool} is kept all the same")
            self.unwritten = True


def _capacity(text: str) -> pool_pb2.Capacity:
    sku, count = capacity(text)
    return pool_pb2.Capacity(gpu_sku=sku, gpu_count=count)
