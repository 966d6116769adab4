"""What the service itself writes to the log: its events, and faults of ours.

How a line is written, and that it stays one, is `global_discovery.log`'s matter.
"""

import logging

import structlog

from global_discovery.domain.events import Event, Report

_WARNINGS = {
    Event.RELAYS_DISAGREE,
    Event.RELAY_ID_NEEDED,
    Event.STALLED,
    Event.MASS_LAPSE_BEGAN,
    Event.POOLS_LAPSED,
    Event.SHARES_LAPSED,
    Event.ALL_SHARES_WITHDRAWN,
    Event.STORE_FAILING,
    Event.STORE_NOT_CLOSED,
    Event.WATCH_FAILING,
    Event.OBJECTS_UNREADABLE,
    Event.REGION_SILENT,
    Event.STORED_ITEM_UNREADABLE,
    Event.TABLE_WITHOUT_TTL,
    Event.SLOW_WATCHER_ENDED,
    Event.SLICE_REFUSED,
    Event.SLICES_REFUSED,
    Event.SLICE_DAMAGED,
    Event.FRONTEND_PORT_MISSING,
    Event.TOO_MANY_ENDPOINTS,
    Event.POD_IN_TWO_CLUSTERS,
    Event.POOL_ONE_SIDED,
    Event.POOL_WITHOUT_FRONTENDS,
    Event.TLS_FILES_REFUSED,
    Event.ACCESS_DENIED,
    Event.POLICY_REFUSED,
    Event.REVIEWS_FAILING,
    Event.LIMIT_REACHED,
}


AUDIT = frozenset(
    {
        Event.POOL_REGISTERED,
        Event.POOL_CHANGED,
        Event.POOL_WITHDRAWN,
        Event.POOL_LAPSED,
        Event.POOLS_LAPSED,
        Event.SHARE_BEGAN,
        Event.SHARE_WITHDRAWN,
        Event.SHARE_LAPSED,
        Event.SHARES_LAPSED,
        Event.ALL_SHARES_WITHDRAWN,
        Event.MARK_CHANGED,
        Event.TLS_FILES_TAKEN,
        Event.POLICY_TAKEN,
        Event.ACCESS_DENIED,
    }
)
"""Changes of state, who did what, before and after, and denials. Their lines carry `audit`."""


def reporter() -> Report:
    """Writes each event as a line: what an operator must look at as a warning."""
    logger = structlog.get_logger()

    def report(event: Event, **fields: object) -> None:
        level = logging.WARNING if event in _WARNINGS else logging.INFO
        if event in AUDIT:
            fields["audit"] = True
        logger.log(level, event.value, **fields)

    return report


def log_internal_error(request_id: str, method: str) -> None:
    """Writes the exception that is being handled, under the id its caller was given."""
    structlog.get_logger().error(
        "internal_error", request_id=request_id, method=method, exc_info=True
    )
