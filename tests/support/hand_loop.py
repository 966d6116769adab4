"""An event loop's clock and timers, moved by hand; coroutines are stepped by hand too."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from support.clock import FakeClock


class HandLoop:
    """As much of an event loop as the fan-out uses, on a FakeClock's monotonic reading."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, Timer]] = []

    def time(self) -> float:
        return self._clock.monotonic()

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., Any], *args: Any, **_: Any) -> "Timer":
        return self.call_later(0.0, callback, *args)

    def call_later(self, seconds: float, callback: Callable[..., Any], *args: Any) -> "Timer":
        timer = Timer(self.time() + seconds, lambda: callback(*args))
        heapq.heappush(self._timers, (timer.due, next(self._numbers), timer))
        return timer

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)  # type: ignore[arg-type]  # it needs no more than this

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise AssertionError(context)

    def run_due(self) -> None:
        """Runs what is due now, in order, with what becomes due by that."""
        while self._timers and self._timers[0][0] <= self.time():
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                timer.run()

    def advance(self, seconds: float) -> None:
        """Time passes, and each timer runs when it is due."""
        end = self.time() + seconds
        while self._timers and self._timers[0][0] <= end:
            self._clock.advance(max(self._timers[0][0] - self.time(), 0.0))
            self.run_due()
        self._clock.advance(max(end - self.time(), 0.0))


class Timer:
    """What `call_later` gives."""

    def __init__(self, due: float, run: Callable[[], Any]) -> None:
        self.due = due
        self.run = run
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandTask:
    """One coroutine, run as far as it gets without waiting, each time it is stepped."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self._waits_for: asyncio.Future[Any] | None = None
        self.done = False
        self.error: BaseException | None = None

    def step(self) -> None:
        """Goes on until it waits for something that has not happened, or ends."""
        while not self.done and (self._waits_for is None or self._waits_for.done()):
            self._send(lambda: self._coroutine.send(None))

    def throw(self, error: BaseException) -> None:
        """What cancelling does."""
        if not self.done:
            if self._waits_for is not None:
                self._waits_for.cancel()
            self._send(lambda: self._coroutine.throw(error))

    def _send(self, go_on: Callable[[], Any]) -> None:
        try:
            self._waits_for = go_on()
        except StopIteration:
            self.done = True
        except BaseException as error:  # noqa: BLE001 - told to whoever asks
            self.done, self.error = True, error
