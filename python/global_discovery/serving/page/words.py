"""What is said to people on the page: of reasons, of durations, of numbers."""

from typing import NamedTuple

from global_discovery.domain.completeness import Reason


class Said(NamedTuple):
    """A reason of the mark in words."""

    code: str
    what: str
    do: str
    """What to do about it."""


_WHAT: dict[Reason, str] = {
    Reason.STARTING: "This instance started a moment ago and may not have heard every pool yet.",
    Reason.STALLED: (
        "This process was stopped, suspended or blocked, and may have missed heartbeats."
    ),
    Reason.STORE_UNREADABLE: (
        "The registration store could not be read in time: what other instances heard may be "
        "missing."
    ),
    Reason.REGION_SILENT: "A region of the shared store was not heard: its pools may be missing.",
    Reason.MASS_LAPSE: (
        "Most pools missed their heartbeats together. The cause more likely lies between the "
        "relays and this service than with the pools."
    ),
    Reason.SOURCE_UNSYNCED: (
        "The watch on imported EndpointSlices is not in sync; what it showed last stands."
    ),
    Reason.DAMPED: (
        "Many pools of one cluster lost their addresses together, and keep the last ones for ten "
        "seconds."
    ),
}
_DO: dict[Reason, str] = {
    Reason.STARTING: (
        "Wait: it ends by itself within two leases. If it comes back, find out what restarts it."
    ),
    Reason.STALLED: "Wait one lease. If it comes back, look at the load and the CPU limit.",
    Reason.STORE_UNREADABLE: (
        "Look at the store, its credentials and the network; the log event store_failing says "
        "what failed."
    ),
    Reason.REGION_SILENT: (
        "Look at the instances and the replication of the region that the log event region_silent "
        "names."
    ),
    Reason.MASS_LAPSE: (
        "Look at load balancers, DNS and network policies before this service. It ends after two "
        "leases."
    ),
    Reason.SOURCE_UNSYNCED: (
        "Look at the API server and at what this service may read; the log event watch_failing "
        "says why."
    ),
    Reason.DAMPED: "Wait. If they are gone after ten seconds, look at the import of that cluster.",
}


def said(reasons: frozenset[Reason]) -> list[Said]:
    """Each in words, sorted by its code."""
    by_code = sorted(reasons, key=lambda reason: reason.value)
    return [Said(reason.value, _WHAT[reason], _DO[reason]) for reason in by_code]


_TIED = "\u00a0"
"""A space at which no line ends."""
_UNITS = ((86_400.0, "d", 3_600.0, "h"), (3_600.0, "h", 60.0, "min"), (60.0, "min", 1.0, "s"))


def duration(seconds: float) -> str:
    """`4 s`, `2 min 5 s`, `3 h 20 min`, `12 d 4 h`; no number is parted from its unit."""
    seconds = max(0.0, float(round(seconds)))
    for size, unit, part, part_unit in _UNITS:
        if seconds >= size:
            rest = int(seconds % size // part)
            more = f" {rest}{_TIED}{part_unit}" if rest else ""
            return f"{int(seconds // size)}{_TIED}{unit}{more}"
    return f"{seconds:.0f}{_TIED}s"


def number(value: float) -> str:
    """A whole number in groups of three, by thin spaces that do not break."""
    if float(value).is_integer():
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.1f}"


def sentence(text: str) -> str:
    """With a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def count(value: int, noun: str) -> str:
    """`1 pool`, `2 pools`."""
    return f"{number(value)} {noun}" if value == 1 else f"{number(value)} {noun}s"
