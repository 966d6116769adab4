"""One line an event, escaped, as JSON or for a console.

Every line is ASCII without control characters, whatever is in its values: nobody
who chooses a name can end a line, begin another or move a terminal's cursor.
What libraries log, and Python's warnings, come out the same way. A log that
cannot be written, or that nobody reads, is no reason to stop serving: a thread
writes it, and lines above `MAX_WAITING` are lost and counted.

Texts of exceptions, host names and paths may stand in the log and nowhere else.
"""

import atexit
import contextlib
import json
import logging
import os
import queue
import re
import sys
import threading
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

MAX_WAITING = 10_000
FINISH_SECONDS = 1.0
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")
_FIRST = ("timestamp", "level", "event")


def configure(log_format: str, *, level: str = "info", stream: TextIO | None = None) -> None:
    """Sets up logging for the process.

    `log_format` is `json` or `console`; `level` is `debug`, `info`, `warning` or
    `error`. Libraries are heard from `warning` up. Lines go to stderr, by a thread
    of their own, or to `stream` at once.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _as_json if log_format == "json" else _as_text,
    ]
    lines = _stderr_lines() if stream is None else _Lines(stream)
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


class _WaitingLines:
    """Hands lines to a thread that writes them to a file descriptor; never waits for it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Unlike Queue it may be used by what interrupts a use of it, such as a finalizer.
        self._waiting: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        self._lost = 0
        threading.Thread(target=self._write_for_ever, name="log", daemon=True).start()
        atexit.register(self._finish)

    def msg(self, line: str) -> None:
        if self._waiting.qsize() >= MAX_WAITING:
            self._lost += 1
            return
        self._waiting.put(line)
        if self._lost:
            lost, self._lost = self._lost, 0
            structlog.get_logger().warning("log_lines_lost", lines=lost)

    debug = info = warning = error = critical = msg

    def _write_for_ever(self) -> None:
        while True:
            line = self._waiting.get()
            if isinstance(line, threading.Event):
                line.set()
                continue
            data = (line + "\n").encode()
            with contextlib.suppress(OSError):
                while data:
                    data = data[os.write(self._descriptor, data) :]

    def _finish(self) -> None:
        """Waits for the last lines, unless nobody reads them."""
        written = threading.Event()
        self._waiting.put(written)
        written.wait(FINISH_SECONDS)


def _stderr_lines() -> "_Lines | _WaitingLines":
    try:
        return _WaitingLines(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # there is none, or it is no file
        return _Lines(sys.stderr)


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
    """As it is when that is one plain word, an array or object as JSON, else a JSON string."""
    if isinstance(value, dict | list | tuple):
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            return json.dumps(value, default=repr, allow_nan=False, separators=(",", ":"))
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
