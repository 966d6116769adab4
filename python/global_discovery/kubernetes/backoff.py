"""How long to wait before the next request."""

import random
from collections.abc import Callable

FIRST_SECONDS = 0.8
CAP_SECONDS = 30.0
_NEVER_BELOW = 0.75
"""Of the wait: jitter shortens it by up to a quarter."""


class Backoff:
    """0.8 s, doubling up to 30 s, with jitter; a server's own wish is a lower bound."""

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        """`jitter` gives numbers between 0 and 1."""
        self._jitter = jitter
        self._base = FIRST_SECONDS

    def next(self, retry_after: float | None = None) -> float:
        """Seconds. Those who were told the same `retry_after` do not come back together."""
        spread = self._jitter()
        wait = self._base * (_NEVER_BELOW + (1 - _NEVER_BELOW) * spread)
        if retry_after is not None:
            wait = max(wait, retry_after + self._base * spread / 2)
        self._base = min(self._base * 2, CAP_SECONDS)
        return wait

    def start_over(self) -> None:
        """All is well: the next wait is the shortest."""
        self._base = FIRST_SECONDS

    def to_the_cap(self) -> None:
        """Asking soon is of no use: the next wait is the longest."""
        self._base = CAP_SECONDS


class Pace:
    """Spreads the retries of several watches of one server: together below one request a second.

    The first few are free, so that watches that were cut together are back together.
    """

    def __init__(self, spacing: float, *, free: int = 1) -> None:
        """Seconds between two retries once `free` of them were made; 0 spreads nothing."""
        self._spacing = spacing
        self._ahead = (free - 1) * spacing
        self._used_until = 0.0

    def wait(self, now: float, seconds: float) -> float:
        """How long to wait instead of `seconds`; at least as long.

        A long wait of one does not lengthen the short one of another.
        """
        used_until = max(self._used_until, now)
        self._used_until = used_until + self._spacing
        return max(seconds, used_until - self._ahead - now)
