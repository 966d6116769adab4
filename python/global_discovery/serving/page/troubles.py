"""What somebody should look at: bounded lists, each with what to do about it.

The codes and the advice are those of an explanation (`domain/explanation.py`)
where there is one. Lists name the first keys and count all of them; they have
only keys that the caller may read. What concerns the instance as a whole is told
only to those who may read everything.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from global_discovery.domain.completeness import Reason
from global_discovery.domain.explanation import ADVICE, Code, MayRead, everything
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.core import Core
from global_discovery.serving.page.survey import NAMED, Survey
from global_discovery.serving.page.words import duration, sentence
from global_discovery.serving.tls.keeper import TlsKeeper
from global_discovery.sources.joined.one_sided import CAUSES, Side

EXPIRY_SECONDS = 14 * 86_400.0
"""A certificate that ends sooner is told."""


class Item(NamedTuple):
    """One case of a trouble."""

    key: PoolKey | None
    detail: str = ""


class Trouble(NamedTuple):
    """One kind of thing that is wrong."""

    code: str
    title: str
    advice: str
    items: list[Item]
    """The first of them."""
    total: int
    severe: bool = False
    """Whether routers may be without a pool, or soon are, because of it."""


_ONE_SIDED = {
    Side.SLICES: "Imported, and not registered",
    Side.REGISTRATION: "Registered, and not imported",
}
_NOTICES = {
    Code.FRONTEND_PORT_MISSING: "Frontend slices without the named port",
    Code.SLICE_DAMAGED: "Slices with endpoints that cannot be read",
    Code.TOO_MANY_ENDPOINTS: "More Ready endpoints than are listed",
}


def troubles(
    core: Core, found: Survey, may_read: MayRead, tls: TlsKeeper | None
) -> Iterator[Trouble]:
    """All there are, those of the instance first."""
    if may_read is everything:
        yield from _of_the_instance(core, tls)
    yield from _one_sided(core, may_read)
    if found.without_frontends:
        joined = core.joined is not None
        code = Code.NO_READY_FRONTEND if joined else Code.NO_FRONTENDS_REGISTERED
        items = [Item(key) for key in found.named_without_frontends]
        title = "Listed without a frontend"
        advice = ADVICE[code] if not joined else _WITHOUT_READY
        yield Trouble(code.value, title, advice, items, found.without_frontends, severe=True)
    yield from _notices(core, may_read)
    yield from _some(
        Code.RELAYS_DISAGREE,
        "Relays that register different content",
        filter(may_read, core.registrations.disagreeing()),
    )
    if Reason.STARTING not in core.pools.mark.reasons:
        overdue = filter(may_read, core.registrations.overdue())
        yield from _some(Code.HEARTBEAT_OVERDUE, "Missed a heartbeat", overdue)
    if may_read is everything:
        yield from _refused(core)


_WITHOUT_READY = (
    "Look at the readiness of the frontend pods, and whether their Service is exported with the "
    "named port; each pool's explanation says which it is."
)


def _of_the_instance(core: Core, tls: TlsKeeper | None) -> Iterator[Trouble]:
    state = core.store_state()
    if state.failing:
        title = "The registration store fails to read or to write"
        yield Trouble("STORE_FAILING", title, ADVICE[Code.STORE_FAILING], [], 1, severe=True)
    if tls is None:
        return
    for name, held in (("server certificate", tls.certificate), ("client CA", tls.client_ca)):
        left = EXPIRY_SECONDS if held is None else held.not_after - core.clock.wall()
        if left < EXPIRY_SECONDS:
            when = f"ends in {duration(left)}" if left > 0 else "has ended"
            advice = "Replace the files; new ones are taken within seconds, without a restart."
            title = f"The {name} {when}"
            yield Trouble("TLS_EXPIRES", title, advice, [], 1, severe=True)


def _one_sided(core: Core, may_read: MayRead) -> Iterator[Trouble]:
    if core.joined is None:
        return
    told = core.joined.one_sided.told
    for side, title in _ONE_SIDED.items():
        keys = sorted(key for key, only in told.items() if only is side and may_read(key))
        if keys:
            items = [Item(key) for key in keys[:NAMED]]
            advice = f"{sentence(CAUSES[side])}. {ADVICE[Code.ONE_SIDED]}"
            yield Trouble(Code.ONE_SIDED.value, title, advice, items, len(keys), severe=True)


def _notices(core: Core, may_read: MayRead) -> Iterator[Trouble]:
    if core.imported is None:
        return
    items: dict[Code, list[Item]] = defaultdict(list)
    counts: dict[Code, int] = defaultdict(int)
    for key, finding in core.imported.explained.noticed():
        if may_read(key):
            counts[finding.code] += 1
            if len(items[finding.code]) < NAMED:
                items[finding.code].append(Item(key, finding.detail))
    for code, title in _NOTICES.items():
        if counts[code]:
            yield Trouble(code.value, title, ADVICE[code], items[code], counts[code])


def _some(code: Code, title: str, keys: Iterable[PoolKey]) -> Iterator[Trouble]:
    named: list[Item] = []
    count = 0
    for key in keys:
        count += 1
        if count <= NAMED:
            named.append(Item(key))
    if count:
        yield Trouble(code.value, title, ADVICE[code], named, count)


def _refused(core: Core) -> Iterator[Trouble]:
    if core.imported is None:
        return
    refused = core.imported.explained.refused()
    items = [Item(None, f"{reason.value}: {count}") for reason, count in refused.items() if count]
    if items:
        title = "Imported slices that are not read"
        advice = ADVICE[Code.SLICE_REFUSED]
        yield Trouble(Code.SLICE_REFUSED.value, title, advice, items, sum(refused.values()))
