"""The mark: whether pools may be missing from a view, why, and how recent ones.

A view is exact only while every source of it is. `Mark` is what a source says
of itself and what a view says of all of them; `join` puts them together.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Why a view is estimated. The values are the fixed codes of both faces."""

    STARTING = "STARTING"
    STALLED = "STALLED"
    STORE_UNREADABLE = "STORE_UNREADABLE"
    REGION_SILENT = "REGION_SILENT"
    MASS_LAPSE = "MASS_LAPSE"
    SOURCE_UNSYNCED = "SOURCE_UNSYNCED"
    DAMPED = "DAMPED"


RENEWALS_MAY_BE_MISSED_ELSEWHERE = frozenset(
    {Reason.STORE_UNREADABLE, Reason.REGION_SILENT, Reason.MASS_LAPSE}
)
"""While one of these holds, a lapse is no positive knowledge: it is `unlisted`."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Exact while it has no reasons, estimated otherwise."""

    reasons: frozenset[Reason]
    bound: float
    """Seconds: a pool registered longer ago than this is in an exact view."""
    slices_bound: float | None = None
    """The same for imported EndpointSlices; None where there are none."""

    @property
    def exact(self) -> bool:
        """Whether nothing older than the bound is missing."""
        return not self.reasons


def join(marks: Iterable[Mark]) -> Mark:
    """The mark of a view made of several sources: any doubt of one is a doubt of all."""
    reasons: set[Reason] = set()
    bound = 0.0
    slices_bound: float | None = None
    for mark in marks:
        reasons |= mark.reasons
        bound = max(bound, mark.bound)
        if mark.slices_bound is not None:
            slices_bound = max(slices_bound or 0.0, mark.slices_bound)
    return Mark(frozenset(reasons), bound, slices_bound)
