"""When most pools miss their heartbeats together, the cause is likely not theirs.

A mass lapse begins when a lease ends while more than half of the registered
pools, and at least ten, are overdue. For exactly two leases from then on,
however many are overdue by then, pools that lapse leave as `unlisted` and the
view is estimated. Then it ends by itself, whatever came of it; a protection
without an end would keep dead pools for ever.
"""

MIN_OVERDUE = 10
LEASES = 2


class MassLapse:
    """Whether one is going on. Times are on the monotonic clock, in seconds."""

    def __init__(self, *, lease_duration: float, enabled: bool) -> None:
        """A disabled one never begins."""
        self._lasts = LEASES * lease_duration
        self._enabled = enabled
        self._until: float | None = None

    def active(self, now: float) -> bool:
        """Whether one is going on."""
        return self._until is not None and now < self._until

    def over(self, now: float) -> bool:
        """True once for each that has ended."""
        if self._until is None or now < self._until:
            return False
        self._until = None
        return True

    def overdue_needed(self, registered: int) -> int:
        """How many overdue pools of `registered` begin one."""
        return max(MIN_OVERDUE, registered // 2 + 1)

    def may_begin(self, now: float) -> bool:
        """Whether the end of a lease could begin one now."""
        return self._enabled and not self.active(now)

    def lease_ended(self, now: float, *, registered: int, overdue: int) -> bool:
        """Told as a lease ends, before anything leaves. True when one begins with it."""
        if not self.may_begin(now) or overdue < self.overdue_needed(registered):
            return False
        self._until = now + self._lasts
        return True
