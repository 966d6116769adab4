"""The three clocks of the contract, as one argument.

Every rule about time takes a `Clock`, so that every one of them is tested by
moving a clock instead of waiting for it.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds, three ways. Only differences of the first two mean anything."""

    def monotonic(self) -> float:
        """Measures leases: never steps, and stands still while suspended."""
        ...

    def boottime(self) -> float:
        """Measures stalls: never steps, and runs on while suspended."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch, for people only: it may step."""
        ...


class SystemClock:
    """The clocks of this machine (clock_gettime(2))."""

    def monotonic(self) -> float:
        """CLOCK_MONOTONIC."""
        return time.monotonic()

    def boottime(self) -> float:
        """CLOCK_BOOTTIME, where the system has it."""
        return time.clock_gettime(_BOOTTIME)

    def wall(self) -> float:
        """CLOCK_REALTIME."""
        return time.time()


_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
