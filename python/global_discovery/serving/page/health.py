"""How what the list is made of is doing: the store, the slices, the routers, TLS."""

from collections.abc import Iterator
from typing import NamedTuple

from global_discovery.serving.core import Core
from global_discovery.serving.page.words import count, duration, number
from global_discovery.serving.tls.keeper import TlsKeeper

_STORES = {
    "memory": "Kept in memory; a restart forgets them",
    "sqlite": "Kept in one file; a restart keeps them",
    "dynamodb": "Kept in a shared table",
}
_LITTLE_TIME = 14 * 86_400.0


class Health(NamedTuple):
    """Of one part."""

    name: str
    well: bool
    state: str
    """In a word or two."""
    lines: list[str]


def health(core: Core, tls: TlsKeeper | None) -> Iterator[Health]:
    """Of all parts there are."""
    yield _store(core)
    if core.imported is not None:
        yield _slices(core)
    yield _routers(core)
    yield _tls(core, tls)


def _store(core: Core) -> Health:
    state, registrations = core.store_state(), core.registrations
    lines = [
        (
            f"{count(len(registrations), 'registered pool')} with "
            f"{count(registrations.shares, 'live share')}. "
            f"{_STORES.get(core.storage, core.storage)}."
        ),
    ]
    if state.failures:
        lines.append(f"Began to fail {count(state.failures, 'time')} since the start.")
    counters = registrations.counters
    lines.append(
        f"{count(counters.lapses, 'lapse')}, {count(counters.withdrawals, 'withdrawal')}, "
        f"{count(counters.stalls, 'stall')} since the start."
    )
    if state.failing:
        return Health("Registrations", False, "store failing", lines)
    return Health("Registrations", not state.reasons, "store works", lines)


def _slices(core: Core) -> Health:
    assert core.imported is not None  # noqa: S101 - the caller looked
    lines = [f"{count(len(core.imported.explained), 'pool')} with an imported slice."]
    read = core.imported.figures
    in_sync = core.imported.explained.mark.exact
    if read is not None:
        figures = read()
        heard, listed = figures.seconds_since_heard, figures.seconds_since_list
        lines.append(
            f"Last event {_ago(heard)}, last complete list {_ago(listed)}, "
            f"{count(figures.requests, 'request')}."
        )
        failed = [f"{reason.value} {number(times)}" for reason, times in figures.failures.items()]
        if failed:
            lines.append("Failed since the start: " + ", ".join(sorted(failed)) + ".")
    return Health("Imported slices", in_sync, "in sync" if in_sync else "out of sync", lines)


def _ago(seconds: float | None) -> str:
    return "never" if seconds is None else f"{duration(seconds)} ago"


def _routers(core: Core) -> Health:
    routers = core.routers
    line = "configured with --router"
    if core.imported is not None:
        line = "read from the imported slices of their Service"
        if core.imported.routers is None:
            line = "no Service of routers is named"
    state = "exact" if routers.mark.exact else "estimated"
    lines = [f"{count(len(routers), 'router')}, {line}."]
    return Health("Routers", routers.mark.exact, state, lines)


def _tls(core: Core, tls: TlsKeeper | None) -> Health:
    if tls is None:
        return Health("TLS", True, "off", ["Both faces speak plain text."])
    left = tls.certificate.not_after - core.clock.wall()
    callers = "asked for" if tls.asks_for_certificates else "not asked for"
    lines = [f"Callers' certificates are {callers}."]
    state = f"ends in {duration(left)}" if left > 0 else "ended"
    return Health("TLS", left > _LITTLE_TIME, f"certificate {state}", lines)
