"""Who is worked for next, and for how long: nobody waits behind the many calls of one caller.

Three things, from the cheapest on:

* *Turns.* The loop would serve calls in the order in which they came, and a caller
  with a thousand calls under way would make everyone else wait for a thousand.
  Here a caller is worked for once a turn of the loop; of many callers with calls
  that wait a few are worked for in each turn. What is worked off in portions for a
  list waits for turns that are a millisecond apart: a call needs half a dozen turns
  of the loop from its first byte to its answer, and would meet a portion in each.
* *Budget.* While others call too, a caller that does what no relay and no router
  does all the time (mistakes, new shares, whole lists, new watches, renewals far
  ahead of time) has a tenth of the loop for it, and less where it needs much of the
  loop in one piece (`in_one_piece`). What goes beyond that is done at
  once, and its answer is held back, so that the next call comes later. That is
  cheaper than a refusal, which a caller in a hurry only answers with the next call.
  A list is never held back once it is made: it says how fresh it is.
* *A lane for large calls.* What no ordinary registration needs costs milliseconds
  in one piece, during which the loop does nothing else; so one is read at a time,
  and after it the lane rests for two hundred times as long as that took or may
  take for its size, whoever sent it: fewer than one of a hundred other calls meets it.

Guaranteed: no ordinary call is refused here, and no renewal in time is held back.
Large ones are refused while too many wait. Not bounded here: a caller with so many
connections that its answers, each held back for the longest time, come too often
all the same.
"""

import asyncio
import contextlib
import random
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable

from global_discovery.domain.lease import Lease
from global_discovery.domain.limits import Limit, LimitReached

CALLERS_A_TURN = 4
"""How many of those with waiting calls are worked for in one turn of the loop."""
PORTIONS_APART_SECONDS = 1e-3
MAX_WAITING = 8_192
"""Calls of one caller that wait."""
SHARE_OF_ONE = 0.1
BURST_SECONDS = 0.2
"""Of the loop, that a caller which used nothing of late may use at once."""
ALONE_AFTER_SECONDS = 1.0
LEAST_OF_LONGEST = 0.5
MAX_ACCOUNTS = 16_384
IN_TIME = 0.2
"""Of the heartbeat interval: a renewal that comes earlier after the last one is hurried."""
MISTAKE = 1e-3
NEW_SHARE = 300e-6
HURRIED_RENEWAL = 100e-6
UNKNOWN_LEASE = 2e-6
NEW_WATCH = 1e-3
SNAPSHOT_POOL = 1e-6
LIST = 300e-6
LISTED_BYTE = 1.5e-9
LISTED_POOL_LOOKED_AT = 0.7e-6
SCRAPE = 2e-3
PROBE = 100e-6
ANY_OTHER = 20e-6
"""What calls cost, in seconds of the loop, about."""
PIECE_SECONDS = 0.3e-3
"""Of the loop, which everyone can wait for."""
LARGE_BYTES = 68 * 1024
"""No registration that the rules take is larger as protobuf, with what is around it."""
SECONDS_A_BYTE = 30e-9
"""What reading and checking a large call takes at the most, about."""
REST_FACTOR = 200
LONGEST_REST_SECONDS = 15.0
MAX_LARGE_WAITING = 32
MAX_LARGE_WAITING_OF_ONE = 2


def in_one_piece(seconds: float) -> float:
    """What a caller is charged for holding the loop for so long at a stretch.

    How long others wait goes with the square of it: more of them meet it, and each for
    longer. Four milliseconds are charged so that they come less than once in a hundred.
    """
    return seconds * max(1.0, seconds / PIECE_SECONDS)


def cost_of(lease: Lease) -> float:
    """What a heartbeat is charged: nothing, when it comes about when it should."""
    if lease.since_last is None:
        return NEW_SHARE
    in_time = lease.since_last >= lease.terms.heartbeat_interval * IN_TIME
    return 0.0 if in_time else HURRIED_RENEWAL


class Turns:
    """The order of the calls of both faces. Belongs to one loop."""

    def __init__(self, apart: float = 0.0) -> None:
        """Nobody waits. Turns are so many seconds apart, or else those of the loop."""
        self._apart = apart
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By caller, of those that were worked for in this turn or have calls that wait."""
        self._scheduled = False

    def __len__(self) -> int:
        """How many calls wait."""
        return sum(map(len, self._waiting.values()))

    async def take(self, account: str) -> None:
        """Returns when it is this caller's turn."""
        waiting = self._waiting.get(account)
        if waiting is None:
            self._waiting[account] = deque()
            if not self._scheduled:
                self._schedule()
            return
        if len(waiting) >= MAX_WAITING:
            return
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        await turn

    def _next_turn(self) -> None:
        """Lets some callers go on, each with one call; those behind them are next."""
        for _ in range(min(CALLERS_A_TURN, len(self._waiting))):
            account, waiting = self._waiting.popitem(last=False)
            while waiting and waiting[0].done():  # its call was cancelled
                waiting.popleft()
            if waiting:
                waiting.popleft().set_result(None)
                self._waiting[account] = waiting
        self._scheduled = False
        if self._waiting:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        loop = asyncio.get_running_loop()
        if self._apart:
            loop.call_later(self._apart, self._next_turn)
        else:
            loop.call_soon(self._next_turn)


class Budget:
    """What callers may use of the loop while others call too."""

    def __init__(self, now: Callable[[], float], *, longest: float) -> None:
        """`now` is in seconds; no answer is held back for more than `longest` of them."""
        self._now = now
        self._longest = longest
        self._even_at: OrderedDict[str, float] = OrderedDict()
        """When each caller will have nothing outstanding any more; used last comes last."""
        self._newest = ""
        self._newest_at = self._before_at = float("-inf")
        """When that caller called last, and when another one did."""
        self._held: set[asyncio.Future[None]] = set()
        self._released = False

    def __len__(self) -> int:
        """How many callers have something outstanding, or had it when last looked at."""
        return len(self._even_at)

    def seen(self, account: str) -> None:
        """A caller calls."""
        now = self._now()
        if account != self._newest:
            self._newest, self._before_at = account, self._newest_at
        self._newest_at = now

    async def spend(self, account: str, seconds: float) -> None:
        """Returns when the answer to a call that used so much of the loop may go out."""
        wait = self.charge(account, seconds)
        if wait <= 0.0:
            return
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._held.add(done)
        timer = loop.call_later(wait, _end, done)
        try:
            await done
        finally:
            timer.cancel()
            self._held.discard(done)

    def release(self) -> None:
        """Holds nothing back any more: the service is going away."""
        self._released = True
        for done in list(self._held):
            _end(done)

    def charge(self, account: str, seconds: float) -> float:
        """As `spend`; gives the time to wait."""
        now = self._now()
        even_at = max(self._even_at.pop(account, now), now) + seconds / SHARE_OF_ONE
        even_at = min(even_at, now + BURST_SECONDS / SHARE_OF_ONE + self._longest)
        self._even_at[account] = even_at
        self._forget(now)
        others_at = self._before_at if account == self._newest else self._newest_at
        if self._released or now - others_at > ALONE_AFTER_SECONDS:
            return 0.0
        wait = even_at - now - BURST_SECONDS / SHARE_OF_ONE
        if wait >= self._longest:  # of many, or they would all come back in the same moment
            wait *= random.uniform(LEAST_OF_LONGEST, 1.0)  # noqa: S311 - no secret
        return wait

    def _forget(self, now: float) -> None:
        """The longest unused two, when they are even; and more where there are too many."""
        for _ in range(2):
            account = next(iter(self._even_at))
            if self._even_at[account] > now and len(self._even_at) <= MAX_ACCOUNTS:
                return
            del self._even_at[account]
            if not self._even_at:
                return


def _end(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


class LargeCalls:
    """The lane of large calls."""

    def __init__(self, now: Callable[[], float], *, rest_factor: float = REST_FACTOR) -> None:
        """`now` is a clock in seconds, of which only differences count."""
        self._now = now
        self._rest_factor = rest_factor
        self._lane = asyncio.Lock()
        self._rests_until = now()
        self._of: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def one(self, account: str, size: int) -> AsyncIterator[None]:
        """Around the reading of one large call of so many bytes.

        Raises LimitReached when too many wait.
        """
        mine = self._of.get(account, 0)
        if mine >= MAX_LARGE_WAITING_OF_ONE or sum(self._of.values()) >= MAX_LARGE_WAITING:
            raise LimitReached(Limit.LARGE_CALLS, retry_after=random.uniform(1.0, 5.0))  # noqa: S311
        self._of[account] = mine + 1
        try:
            async with self._lane:
                await asyncio.sleep(self._rests_until - self._now())
                began = self._now()
                try:
                    yield
                finally:
                    ended = self._now()
                    cost = max(ended - began, SECONDS_A_BYTE * size)
                    self._rests_until = ended + min(self._rest_factor * cost, LONGEST_REST_SECONDS)
        finally:
            left = self._of.pop(account) - 1
            if left:
                self._of[account] = left
