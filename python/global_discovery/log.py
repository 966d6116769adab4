"""One line an event, escaped, as JSON or for a console.

Every line is ASCII without control characters, whatever is in its values: nobody
who chooses a name can end a line, begin another or move a terminal's cursor.
What libraries log, and Python's warnings, come out the same way. A log that
cannot be written is no reason to stop serving: such lines are lost.

Texts of exceptions, host names and paths may stand in the log and nowhere else.
"""

import contextlib
import json
import logging
import re
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")
_FIRST = ("timestamp", "level", "event")


def configure(log_format: str, *, level: str = "info", stream: TextIO | None = None) -> None:
    """Sets up logging for the process.

    `log_format` is `json` or `console`; `level` is `debug`, `info`, `warning` or
    `error`. Libraries are heard from `warning` up. `stream` is stderr by default.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _as_json if log_format == "json" else _as_text,
    ]
    lines = _Lines(sys.stderr if stream is None else stream)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=max(least, logging.WARNING), force=True)
    logging.captureWarnings(capture=True)


class _Lines:
    """Writes finished lines, each in one piece."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        if self._stream is None:  # a process may be started without a stderr
            return
        with contextlib.suppress(OSError, ValueError):  # ValueError: the stream is closed
            self._stream.write(line + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


def _as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    ordered = _ordered(event)
    try:
        return json.dumps(ordered, default=repr, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({str(name): repr(value) for name, value in ordered.items()})


def _as_text(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    ordered = _ordered(event)
    head = [str(ordered.pop(name, "")) for name in _FIRST]
    pairs = [f"{_quoted(name)}={_quoted(value)}" for name, value in ordered.items()]
    return " ".join([head[0], f"{head[1]:<8}", _quoted(head[2]), *pairs])


def _ordered(event: EventDict) -> dict[str, Any]:
    first = {name: event[name] for name in _FIRST if name in event}
    return first | dict(event)


def _quoted(value: object) -> str:
    """The value as it is when that is one plain word, else as a JSON string."""
    text = "" if value is None else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


class _ToStructlog(logging.Handler):
    """What libraries log, as one line of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {"logger": record.name, "message": _message(record)}
        if record.exc_info and record.exc_info[0]:
            fields["exc_info"] = record.exc_info
        structlog.get_logger().log(_known_level(record.levelno), "library", **fields)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a library's mistake in a log call must not become ours
        return f"{record.msg!r} {record.args!r}"


def _known_level(number: int) -> int:
    """The standard level at or below a library's own."""
    return max(logging.DEBUG, min(number // 10 * 10, logging.CRITICAL))
