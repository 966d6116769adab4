"""One line an event, escaped, as JSON or for a console.

Texts of exceptions, host names and paths may stand in the log and nowhere else.
"""

import logging
import sys
from typing import TextIO

import structlog

from global_discovery.domain.events import Event, Report

_WARNINGS = {
    Event.RELAYS_DISAGREE,
    Event.RELAY_ID_NEEDED,
    Event.STALLED,
    Event.MASS_LAPSE_BEGAN,
    Event.POOLS_LAPSED,
    Event.ALL_SHARES_WITHDRAWN,
}


def configure(log_format: str, stream: TextIO = sys.stderr) -> None:
    """Sets up logging for the process; `log_format` is `json` or `console`."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=logging.WARNING, force=True)


class _ToStructlog(logging.Handler):
    """What libraries log, as one line of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        exc_info = record.exc_info if record.exc_info and record.exc_info[0] else None
        structlog.get_logger().log(
            record.levelno,
            "library",
            logger=record.name,
            message=record.getMessage(),
            **({"exc_info": exc_info} if exc_info else {}),
        )


def reporter() -> Report:
    """Writes each event as a line: what an operator must look at as a warning."""
    logger = structlog.get_logger()

    def report(event: Event, **fields: object) -> None:
        level = logging.WARNING if event in _WARNINGS else logging.INFO
        logger.log(level, event.value, **fields)

    return report


def log_internal_error(request_id: str, method: str) -> None:
    """Writes the exception that is being handled, under the id its caller was given."""
    structlog.get_logger().error(
        "internal_error", request_id=request_id, method=method, exc_info=True
    )
