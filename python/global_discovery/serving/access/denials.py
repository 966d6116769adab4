"""What is said of calls that were denied: enough to find out who and what, never a flood.

Each account has LINES lines a MINUTE of its own, and all together LINES_IN_ALL; what is
beyond is counted, and the count goes with the next line. A caller without an identity
is known by its address.
"""

from collections import Counter, OrderedDict
from typing import get_args

from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import PermissionDenied, Unauthenticated
from global_discovery.domain.events import Event, Report
from global_discovery.serving.access.bearer import TokenFault
from global_discovery.serving.caller import Caller

MINUTE = 60.0
LINES, LINES_IN_ALL = 5, 300
ACCOUNTS = 4_096
REASONS = (
    Unauthenticated.reason,
    PermissionDenied.reason,
    *(f"TOKEN_{fault}".upper() for fault in get_args(TokenFault)),
)
"""What is denied for; labels of a metric."""


class Denials:
    """The audit of denied calls."""

    def __init__(self, *, clock: Clock, report: Report) -> None:
        """Nothing denied yet."""
        self._clock = clock
        self._report = report
        self._minute = float("-inf")
        self._lines: Counter[str] = Counter()
        self._in_all = 0
        self._suppressed: OrderedDict[str, int] = OrderedDict()
        self._suppressed_elsewhere = 0
        # There from the start: a series that begins with its first denial shows no rise.
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        """By reason."""
        self.suppressed = 0

    def denied(self, caller: Caller, *, face: str, method: str, what: str, reason: str) -> None:
        """Says it, unless enough was said. `reason` is one of a fixed set."""
        self.counts[reason] += 1
        now, account = self._clock.monotonic(), caller.account
        if now - self._minute >= MINUTE:
            self._minute, self._in_all = now, 0
            self._lines.clear()
        if self._lines[account] >= LINES or self._in_all >= LINES_IN_ALL:
            self._suppress(account)
            return
        self._lines[account] += 1
        self._in_all += 1
        fields: dict[str, object] = {
            "identity": caller.identity,
            "caller": caller.address,
            "face": face,
            "method": method,
            "what": what,
            "reason": reason,
        }
        suppressed = self._suppressed.pop(account, 0)
        if suppressed:
            fields["suppressed"] = suppressed
        if self._suppressed_elsewhere:
            fields["suppressed_of_others"] = self._suppressed_elsewhere
            self._suppressed_elsewhere = 0
        self._report(Event.ACCESS_DENIED, **fields)

    def _suppress(self, account: str) -> None:
        self.suppressed += 1
        self._suppressed[account] = self._suppressed.get(account, 0) + 1
        if len(self._suppressed) > ACCOUNTS:
            _, count = self._suppressed.popitem(last=False)
            self._suppressed_elsewhere += count
