"""A clock that tests move by hand, in place of waiting."""

from collections.abc import Callable

EPOCH = 1_700_000_000.0


class FakeClock:
    """A `Clock` whose three readings move only when a test says so.

    The readings start far apart, so that code that mixes two of them fails.
    """

    def __init__(self, *, monotonic: float = 1000.0, boottime: float = 5000.0) -> None:
        self._monotonic = monotonic
        self._boottime = boottime
        self._wall = EPOCH

    def monotonic(self) -> float:
        return self._monotonic

    def boottime(self) -> float:
        return self._boottime

    def wall(self) -> float:
        return self._wall

    def advance(self, seconds: float) -> None:
        """Time passes; the caller ticks whatever must tick in it."""
        self._monotonic += seconds
        self._boottime += seconds
        self._wall += seconds

    def run(self, seconds: float, tick: Callable[[], object], *, every: float) -> None:
        """The loop runs: time passes, and the tick comes after each step of it."""
        end = self._monotonic + seconds
        while self._monotonic < end:
            self.advance(min(every, end - self._monotonic))
            tick()

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: leases stand still, stalls and people's time run on."""
        self._boottime += seconds
        self._wall += seconds

    def stop(self, seconds: float) -> None:
        """The process is stopped or its loop blocked: all clocks run and nothing ticks."""
        self.advance(seconds)

    def step_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock; the other two do not notice."""
        self._wall += seconds
