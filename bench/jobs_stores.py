"""Jobs g and h: what each store makes of calls, and of pools that only live."""

import asyncio
import contextlib
import time
from collections.abc import Mapping

import measure
import report
from report import Row
from sides import Ours
from stores import REGISTER, all_stores, call_all, heartbeat, paced, probed, register_new, renew

POOLS = 10_000
BATCH = 1_000
BEATS_A_SECOND = 500
SETTLE_SECONDS = {"memory": 0.0, "sqlite": 1.1, "dynamodb": 0.0}
"""Renewals are answered before SQLite writes them, which it does once a second."""
RENEWED_A_ROUND = {"memory": POOLS, "sqlite": POOLS, "dynamodb": 2 * BATCH}
IDLE_SECONDS = 2
LONG_REFRESH_SECONDS = 60
"""While calls are measured, so that no refresh falls into them."""


async def calls(*, quick: bool) -> list[Row]:
    """Job g."""
    rounds = 1 if quick else 3
    pools = 500 if quick else 1_500
    async with all_stores(refresh_seconds=LONG_REFRESH_SECONDS) as sides:
        together = await measure.alternating(
            rounds, {name: _registrations(side, pools) for name, side in sides.items()}
        )
        alone = await measure.alternating(
            rounds, {name: _registrations(side, 100, workers=1) for name, side in sides.items()}
        )
        beats = await measure.alternating(
            rounds, {name: _heartbeats(name, side, pools) for name, side in sides.items()}
        )
        for side in sides.values():
            await register_new(side, POOLS - len(side.lease_ids))
        batches = await measure.alternating(
            rounds, {name: _batches(name, side) for name, side in sides.items()}
        )
    return [
        report.row("g", "new pools, 32 calls at a time", "1/s", together, "rate"),
        report.row("g", "new pools, CPU a call", "µs", together, "cpu"),
        report.row("g", "new pools, p99", "ms", together, "p99"),
        report.row("g", "a new pool, one call at a time, p50", "ms", alone, "p50"),
        report.row("g", "heartbeats, 32 calls at a time", "1/s", beats, "rate"),
        report.row("g", "heartbeats, CPU a call", "µs", beats, "cpu"),
        report.row("g", "heartbeats, p99", "ms", beats, "p99"),
        report.row("g", f"renewals, batches of {BATCH:,}", "1/s", batches, "rate"),
        report.row("g", "CPU a renewal", "µs", batches, "cpu"),
    ]


def _registrations(side: Ours, pools: int, **how: int) -> measure.Measure:
    return lambda: register_new(side, pools, **how)


def _heartbeats(name: str, side: Ours, calls: int) -> measure.Measure:
    async def one_round() -> dict[str, float]:
        known = len(side.lease_ids)
        requests = [heartbeat(side, number % known) for number in range(calls)]
        found, _ = await call_all(side, requests, settle=SETTLE_SECONDS[name])
        return found

    return one_round


def _batches(name: str, side: Ours) -> measure.Measure:
    renewals = RENEWED_A_ROUND[name]

    async def one_round() -> dict[str, float]:
        with measure.Cost(side.server) as whole:
            with measure.Cost(side.server) as calls:
                for first in range(0, renewals, BATCH):
                    await renew(side, side.lease_ids[first : first + BATCH])
            await asyncio.sleep(SETTLE_SECONDS[name])
        return {"rate": renewals / calls.wall, "cpu": whole.cpu / renewals * 1e6}

    return one_round


async def living(*, quick: bool) -> list[Row]:
    """Job h."""
    rounds = 1 if quick else 2
    async with all_stores(refresh_seconds=1) as sides:
        for side in sides.values():
            await register_new(side, POOLS)
        beating = await measure.alternating(
            rounds, {name: _beating(side, 2 if quick else 4) for name, side in sides.items()}
        )
        idle = await measure.alternating(rounds, {n: _idle(side) for n, side in sides.items()})
        resting = await _resting(sides)
    rate = f"{BEATS_A_SECOND:,} heartbeats/s"
    return [
        report.row("h", f"{rate}, CPU", "% of a core", beating, "busy"),
        report.row("h", f"{rate}, p99 of a call", "ms", beating, "p99"),
        report.row("h", f"{rate}, longest hold of the loop", "ms", beating, "held"),
        report.row_of("h", "no calls, CPU", "% of a core", resting),
        report.row("h", "no calls, longest hold of the loop", "ms", idle, "held"),
    ]


def _beating(side: Ours, seconds: int) -> measure.Measure:
    turn = 0

    async def one_round() -> dict[str, float]:
        nonlocal turn
        calls = BEATS_A_SECOND * seconds
        requests = [heartbeat(side, (turn + number) % POOLS) for number in range(calls)]
        turn += calls
        took: list[float] = []

        async def call(number: int) -> None:
            started = time.perf_counter()
            await side.channel.unary(REGISTER, requests[number])
            took.append((time.perf_counter() - started) * 1e3)

        async with probed(side) as probe:
            with measure.Cost(side.server) as cost:
                await paced(BEATS_A_SECOND, seconds, call)
        return {
            "busy": cost.cpu / seconds * 100,
            "p99": measure.percentile(sorted(took), 0.99),
            "held": max(probe),
        }

    return one_round


def _idle(side: Ours) -> measure.Measure:
    async def one_round() -> dict[str, float]:
        async with probed(side) as probe:
            await asyncio.sleep(IDLE_SECONDS)
        return {"held": max(probe)}

    return one_round


async def _resting(sides: Mapping[str, Ours]) -> dict[str, float]:
    """What each of them uses, all at the same time, in percent of a core."""
    with contextlib.ExitStack() as stack:
        costs = {n: stack.enter_context(measure.Cost(s.server)) for n, s in sides.items()}
        await asyncio.sleep(2 * IDLE_SECONDS)
    return {name: cost.cpu / cost.wall * 100 for name, cost in costs.items()}
