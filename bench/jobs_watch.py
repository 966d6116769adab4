"""Jobs c and d: changes to many watchers, and a new watcher's snapshot."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

import content
import h2
import measure
import report
from report import Aim, Row
from sides import BARE, Bare, Etcd, Ours, WatchSide

WATCHERS = 1_000
CONNECTIONS = 20
OPENED_TOGETHER = 200
"""gRPC turns calls away at random while more than 1,000 wait to be taken."""
QUIET_SECONDS = 0.15
"""Between changes that are to find a quiet view: longer than its tick."""
RATE = 500
TURN_SECONDS = 0.01
WAIT_SECONDS = 60.0

_numbers = count(1)
"""Each change has a number of its own, in the whole run and on all sides."""


class Watchers:
    """Many streams of one side, and what came to them when."""

    def __init__(self, side: WatchSide) -> None:
        """Opened by `open`."""
        self.side = side
        self.arrivals: list[tuple[float, tuple[int, ...]]] = []
        self.recording: list[tuple[float, bytes]] | None = None
        """What the first watcher receives, when somebody wants to know."""
        self._channels: list[h2.Channel] = []
        self._left = 0
        self._done: asyncio.Future[None] | None = None

    async def open(self, watchers: int) -> None:
        """Opens the streams and waits until each is followed by the server."""
        port = self.side.server.ports["grpc"]
        self._channels = [await h2.connect(port) for _ in range(CONNECTIONS)]
        streams: list[h2.Stream] = []
        while len(streams) < watchers:
            streams += await self._open(min(OPENED_TOGETHER, watchers - len(streams)))
        for stream in streams:
            stream.on_message = self._receive
        streams[0].on_message = self._receive_first

    async def _open(self, watchers: int) -> list[h2.Stream]:
        greeted = asyncio.get_running_loop().create_future()
        left = watchers * self.side.greetings

        def greet(_: bytes) -> None:
            nonlocal left
            left -= 1
            if not left:
                greeted.set_result(None)

        streams = [
            self.side.watch(self._channels[number % CONNECTIONS], greet)
            for number in range(watchers)
        ]
        await asyncio.wait_for(greeted, WAIT_SECONDS)
        return streams

    def close(self) -> None:
        """Ends the connections, and the streams with them."""
        for channel in self._channels:
            channel.close()

    def expect(self, deliveries: int) -> asyncio.Future[None]:
        """Forgets what came, and is done when this much has come."""
        self.arrivals = []
        self._left = deliveries
        self._done = asyncio.get_running_loop().create_future()
        return self._done

    def lags(self, started: dict[int, float]) -> list[float]:
        """How long each delivery took, in milliseconds, sorted. All must have come to all."""
        times = Counter(number for _, numbers in self.arrivals for number in numbers)
        if any(times[number] != WATCHERS for number in started):
            raise RuntimeError(f"{self.side.name}: a change was lost or doubled")
        return sorted(
            (arrived - started[number]) * 1e3
            for arrived, numbers in self.arrivals
            for number in numbers
        )

    def _receive_first(self, message: bytes) -> None:
        if self.recording is not None:
            self.recording.append((time.perf_counter(), message))
        self._receive(message)

    def _receive(self, message: bytes) -> None:
        numbers = self.side.changes_in(message)
        if not numbers:
            return
        self.arrivals.append((time.perf_counter(), numbers))
        self._left -= len(numbers)
        if self._left <= 0 and self._done is not None and not self._done.done():
            self._done.set_result(None)


async def changes(ours: Ours, bare: Bare, etcd: Etcd | None, *, quick: bool) -> list[Row]:
    """Job c."""
    await ours.look()
    sides: list[WatchSide] = [ours, bare]
    if etcd is not None:
        sides.append(etcd)
    watchers = {side.name: Watchers(side) for side in sides}
    for each in watchers.values():
        await each.open(WATCHERS)
    one = await measure.alternating(
        5 if quick else 25, {name: _one_change(each) for name, each in watchers.items()}
    )
    steady = await _steady(watchers, bare, rounds=1 if quick else 3, seconds=2 if quick else 4)
    at_once = await measure.alternating(
        1 if quick else 7,
        {name: _at_once(each, 50 if name == "bare" else 500) for name, each in watchers.items()},
    )
    for each in watchers.values():
        each.close()
    burst = Aim("etcd", 5) if etcd else None
    return [
        report.row("c", "one change, p50", "ms", one, "p50"),
        report.row("c", "one change, p99", "ms", one, "p99", aim=Aim("bare", 1.2, at_most=True)),
        report.row("c", "one change, CPU a delivery", "µs", one, "cpu"),
        report.row("c", "500/s, deliveries", "1/s", steady, "rate"),
        report.row("c", "500/s, p50 lag", "ms", steady, "p50"),
        report.row("c", "500/s, p99 lag", "ms", steady, "p99"),
        report.row("c", "500/s, server CPU", "% of a core", steady, "busy"),
        report.row("c", "500/s, CPU a delivery", "µs", steady, "cpu"),
        report.row("c", "at once, deliveries", "1/s", at_once, "rate", aim=burst),
        report.row("c", "at once, CPU a delivery", "µs", at_once, "cpu"),
    ]


def _one_change(watchers: Watchers) -> measure.Measure:
    async def one_round() -> dict[str, float]:
        await asyncio.sleep(QUIET_SECONDS)
        number = next(_numbers)
        done = watchers.expect(WATCHERS)
        with measure.Cost(watchers.side.server) as cost:
            started = time.perf_counter()
            await watchers.side.change(number, number % 1_000)
            await asyncio.wait_for(done, WAIT_SECONDS)
        lags = watchers.lags({number: started})
        return {
            "p50": measure.percentile(lags, 0.5),
            "p99": measure.percentile(lags, 0.99),
            "cpu": cost.cpu / WATCHERS * 1e6,
        }

    return one_round


async def _steady(
    watchers: dict[str, Watchers], bare: Bare, *, rounds: int, seconds: int
) -> measure.Rounds:
    """500 changes a second; the bare side repeats the messages that ours has just sent."""
    recorded: list[tuple[float, bytes]] = []

    async def record() -> dict[str, float]:
        watchers["ours"].recording = []
        found = await _burst(watchers["ours"], RATE * seconds, RATE)
        recorded[:] = watchers["ours"].recording
        watchers["ours"].recording = None
        return found

    async def repeat() -> dict[str, float]:
        return await _replay(watchers["bare"], bare, recorded)

    found: measure.Rounds = {name: {} for name in watchers}
    for _ in range(rounds):
        measured = {"ours": await record(), "bare": await repeat()}
        if "etcd" in watchers:
            measured["etcd"] = await _burst(watchers["etcd"], RATE * seconds, RATE)
        for name, values in measured.items():
            for quantity, value in values.items():
                found[name].setdefault(quantity, []).append(value)
    return found


def _at_once(watchers: Watchers, changes: int) -> measure.Measure:
    return lambda: _burst(watchers, changes, rate=0)


async def _burst(watchers: Watchers, changes: int, rate: int) -> dict[str, float]:
    """Changes `changes` different pools, `rate` a second (0: without pausing)."""
    started: dict[int, float] = {}
    calls: list[asyncio.Task[None]] = []
    done = watchers.expect(changes * WATCHERS)
    with measure.Cost(watchers.side.server) as cost:
        began = time.perf_counter()
        while len(started) < changes:
            due = int((time.perf_counter() - began) * rate) + 1 if rate else changes
            for _ in range(len(started), min(due, changes)):
                number = next(_numbers)
                pool = len(started)
                started[number] = time.perf_counter()
                calls.append(asyncio.create_task(watchers.side.change(number, pool)))
            await asyncio.sleep(TURN_SECONDS)
        await _all_told(done, calls)
    return _told(watchers, started, cost, began)


async def _replay(
    watchers: Watchers, bare: Bare, recorded: Sequence[tuple[float, bytes]]
) -> dict[str, float]:
    """Publishes recorded messages at the pace at which they came."""
    messages = [(at, message) for at, message in recorded if content.changes_in(message)]
    started: dict[int, float] = {}
    calls: list[asyncio.Task[None]] = []
    total = sum(len(content.changes_in(message)) for _, message in messages)
    done = watchers.expect(total * WATCHERS)
    with measure.Cost(watchers.side.server) as cost:
        began = time.perf_counter()
        for at, message in messages:
            await asyncio.sleep(max(0.0, began + at - messages[0][0] - time.perf_counter()))
            now = time.perf_counter()
            started |= dict.fromkeys(content.changes_in(message), now)
            calls.append(asyncio.create_task(bare.publish(message)))
        await _all_told(done, calls)
    return _told(watchers, started, cost, began)


async def _all_told(done: asyncio.Future[None], calls: Sequence[asyncio.Task[None]]) -> None:
    """Waits for the deliveries. A call that failed is one whose change never comes: say so."""
    try:
        await asyncio.wait_for(done, WAIT_SECONDS)
    except TimeoutError:
        ended = [call for call in calls if call.done()]
        failed = sum(call.exception() is not None for call in ended)
        waiting = len(calls) - len(ended)
        message = f"of {len(calls)} calls {failed} failed, {waiting} have no answer"
        raise RuntimeError(message) from None
    await asyncio.gather(*calls, return_exceptions=True)


def _told(
    watchers: Watchers, started: dict[int, float], cost: measure.Cost, began: float
) -> dict[str, float]:
    lags = watchers.lags(started)
    seconds = max(arrived for arrived, _ in watchers.arrivals) - began
    return {
        "rate": len(lags) / seconds,
        "p50": measure.percentile(lags, 0.5),
        "p99": measure.percentile(lags, 0.99),
        "busy": 100 * cost.cpu / cost.wall,
        "cpu": cost.cpu / len(lags) * 1e6,
    }


# -- job d ---------------------------------------------------------------------


async def snapshot(ours: Ours, bare: Bare, etcd: Etcd | None, *, quick: bool) -> list[Row]:
    """Job d."""
    parts: list[bytes] = []
    cold = await _snapshot(ours.watch_from_nothing, ours, content.ends_snapshot, parts)
    for part in parts:
        await bare.channel.unary(BARE + "AddPart", part)
    last = parts[-1]

    def watch_bare(channel: h2.Channel, on_message: h2.OnMessage) -> h2.Stream:
        return channel.stream(BARE + "Parts", b"", on_message)

    sides: dict[str, measure.Measure] = {
        "ours": lambda: _snapshot(ours.watch_from_nothing, ours, last.__eq__),
        "bare": lambda: _snapshot(watch_bare, bare, last.__eq__),
    }
    if etcd is not None:
        sides["etcd"] = lambda: _range(etcd)
    found = await measure.alternating(5 if quick else 15, sides)
    return [
        report.row("d", "first data", "ms", found, "first"),
        report.row("d", "whole snapshot", "ms", found, "whole"),
        report.row("d", "CPU a snapshot", "ms", found, "cpu"),
        Row("d", "first data, first watcher ever", "ms", {"ours": cold["first"]}, {}),
        Row("d", "whole snapshot, first watcher ever", "ms", {"ours": cold["whole"]}, {}),
    ]


async def _snapshot(
    watch: Callable[[h2.Channel, h2.OnMessage], h2.Stream],
    side: Ours | Bare,
    is_last: Callable[[bytes], bool],
    parts: list[bytes] | None = None,
) -> dict[str, float]:
    """A new watcher; times run from its request. `parts` takes what it is sent."""
    channel = await h2.connect(side.server.ports["grpc"])
    done = asyncio.get_running_loop().create_future()
    arrivals: list[tuple[float, bytes]] = []

    def receive(message: bytes) -> None:
        arrivals.append((time.perf_counter(), message))
        if is_last(message):
            done.set_result(None)

    with measure.Cost(side.server) as cost:
        started = time.perf_counter()
        watch(channel, receive)
        await asyncio.wait_for(done, WAIT_SECONDS)
    channel.close()
    if parts is not None:
        parts.extend(message for _, message in arrivals)
    times = {"first": arrivals[1][0], "whole": arrivals[-1][0]}
    return {name: (at - started) * 1e3 for name, at in times.items()} | {"cpu": cost.cpu * 1e3}


async def _range(etcd: Etcd) -> dict[str, float]:
    with measure.Cost(etcd.server) as cost:
        await etcd.read_all()
    return {"first": cost.wall * 1e3, "whole": cost.wall * 1e3, "cpu": cost.cpu * 1e3}
