"""How many HTTP connections may be open, in all and from one address.

When there are as many as may be, room is made by whoever has most: a newcomer of
such an address is refused, and for any other one the oldest connection of the
address with the most is ended. So those who fill the house are shown out, and
everyone else gets in. A proxy that is trusted speaks for many and is bounded by
the whole number only.
"""

from collections.abc import Callable

from global_discovery.domain.limits import Limit
from global_discovery.serving.caller import Caller, Callers
from global_discovery.serving.limits import counted

Abort = Callable[[], None]


class OpenConnections:
    """The connections of one port, by address."""

    def __init__(self, total: int, of_one: int, callers: Callers) -> None:
        """None is open."""
        self._total = total
        self._of_one = of_one
        self._callers = callers
        self._open: dict[str, dict[object, Abort]] = {}
        """By address, the oldest first; addresses without one are not here."""
        self._trusted: set[str] = set()
        """Those of `_open` that speak for many."""
        self._in_all = 0

    def __len__(self) -> int:
        """How many are open."""
        return self._in_all

    @property
    def most_of_one(self) -> int:
        """How many the address with the most has, of those that are bounded."""
        bounded = self._open.keys() - self._trusted
        return max((len(self._open[name]) for name in bounded), default=0)

    def enter(self, connection: object, address: str, abort: Abort) -> Limit | None:
        """One more; or the limit for which it is refused. `abort` ends it later."""
        name = counted(Caller(address))
        mine = len(self._open.get(name, ()))
        trusted = self._callers.trusts(address)
        if mine >= self._of_one and not trusted:
            return Limit.HTTP_CONNECTIONS_OF_ONE
        if self._in_all >= self._total and not self._make_room(mine):
            return Limit.HTTP_CONNECTIONS
        self._open.setdefault(name, {})[connection] = abort
        self._in_all += 1
        if trusted:
            self._trusted.add(name)
        return None

    def leave(self, connection: object, address: str) -> None:
        """It is gone; nothing happens when it was not here."""
        name = counted(Caller(address))
        mine = self._open.get(name, {})
        if mine.pop(connection, None) is not None:
            self._in_all -= 1
        if not mine:
            self._open.pop(name, None)
            self._trusted.discard(name)

    def _make_room(self, mine: int) -> bool:
        """Ends a connection of the address with the most, unless the newcomer has no fewer."""
        if mine * len(self._open) >= self._in_all:
            return False  # at least its part: not worth looking for
        most = max(self._open.values(), key=len)
        if mine + 1 >= len(most):
            return False
        connection = next(iter(most))
        abort = most.pop(connection)
        self._in_all -= 1
        abort()
        return True
