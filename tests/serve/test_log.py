"""One line an event, whatever is in it, and whoever says it."""

import io
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from global_discovery import log
from global_discovery.domain.events import Event
from global_discovery.serving.log import log_internal_error, reporter

NASTY = [
    "two\nlines",
    "\r\n\x00\x07\x1b[31mred\x7f\x85\u2028\u202e",
    "\ud800 alone, \udcff from a byte",
    "quote \" and \\ and = and ' and space",
    "",
    " ",
    "ü☃😀",
]


@pytest.fixture(autouse=True)
def clean_logging() -> Iterator[None]:
    """Puts the process's logging back as it was."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:], root.level = before
    structlog.reset_defaults()


Lines = Callable[[], list[str]]


def only_ours(logger: logging.Logger) -> logging.Logger:
    """A library's logger that skips pytest, which could not pass a lone surrogate on."""
    root = logging.getLogger()
    ours = [handler for handler in root.handlers if type(handler).__module__ == log.__name__]
    unseen = logging.Logger(logger.name)  # noqa: LOG001 - one without the root above it
    unseen.handlers = ours
    return unseen


@pytest.fixture(params=["json", "console"])
def lines(request: pytest.FixtureRequest) -> Lines:
    """The lines that were logged, in each format."""
    stream = io.StringIO()
    log.configure(request.param, level="debug", stream=stream)

    def logged() -> list[str]:
        text = stream.getvalue()
        assert text == "" or text.endswith("\n")
        assert text.isascii()
        found = text.split("\n")[:-1]
        assert all(line.isprintable() for line in found)
        return found

    return logged


@pytest.fixture
def json_events() -> Callable[[], list[dict[str, Any]]]:
    stream = io.StringIO()
    log.configure("json", stream=stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_a_nasty_value_stays_on_its_line(lines: Lines, text: str) -> None:
    structlog.get_logger().info("event", value=text, **{f"name {text}": 1})
    reporter()(Event.POOL_WITHDRAWN, pool=text, caller=text)
    only_ours(logging.getLogger("aiohttp.server")).error("a library says %s", text)
    assert len(lines()) == 3


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_a_nasty_value_comes_back_whole_from_json(
    json_events: Callable[[], list[dict[str, Any]]], text: str
) -> None:
    structlog.get_logger().info("event", value=text)
    assert json_events()[0]["value"] == text


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, {(1, 2): 3}, float("nan"), b"\xff", [[]], Event.STALLED],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_does_not_know_is_no_reason_to_lose_the_line(
    lines: Lines, value: object
) -> None:
    structlog.get_logger().info("event", value=value)
    (line,) = lines()
    assert "event" in line
    assert "NaN" not in line


def test_a_value_that_contains_itself_is_no_reason_to_lose_the_line(lines: Lines) -> None:
    value: list[Any] = []
    value.append(value)
    structlog.get_logger().info("event", value=value)
    assert len(lines()) == 1


def test_a_console_shows_objects_and_arrays_as_json() -> None:
    stream = io.StringIO()
    log.configure("console", stream=stream)
    flags = {"--listen": "0.0.0.0:8080", "it's": None}
    structlog.get_logger().info("configured", flags=flags, changed=("model", "a\nb"), none=[])
    line = stream.getvalue().rstrip("\n")
    assert '"it\'s":null} changed=["model","a\\nb"] none=[]' in line
    assert json.loads(line.partition("flags=")[2].partition(" changed=")[0]) == flags


def test_an_exception_is_one_line_with_its_trace(lines: Lines) -> None:
    try:
        int("two\nlines")
    except ValueError:
        log_internal_error("id", "RegisterPool")
        logging.getLogger("asyncio").exception("in a library")
    for line in lines():
        assert "Traceback" in line
        assert "two" in line


def test_what_python_warns_of_is_a_line_too(lines: Lines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)  # within this block the hook is another one
        logging.captureWarnings(capture=True)
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
        logging.captureWarnings(capture=False)
    (line,) = lines()
    assert "UserWarning" in line


def test_a_librarys_own_level_and_its_mistakes_are_no_problem(lines: Lines) -> None:
    library = logging.getLogger(f"library.{id(lines)}")
    library.propagate = False  # the test runner's own handler raises
    library.addHandler(log._ToStructlog())
    library.log(35, "its own level")
    library.log(99, "above all levels")
    library.warning("%d is no number", "this")
    library.warning("two %s", "too", "many")
    assert len(lines()) == 4


def test_libraries_are_heard_from_warning_up(lines: Lines) -> None:
    logging.getLogger("grpc").info("chatter")
    logging.getLogger("grpc").warning("trouble")
    (line,) = lines()
    assert "trouble" in line


@pytest.mark.parametrize(("level", "count"), [("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_is_the_least_that_is_logged(level: str, count: int) -> None:
    stream = io.StringIO()
    log.configure("json", level=level, stream=stream)
    reporter()(Event.POOL_REGISTERED)
    reporter()(Event.STALLED)
    structlog.get_logger().error("failed")
    logging.getLogger("grpc").info("chatter")
    assert stream.getvalue().count("\n") == count


def test_a_log_that_cannot_be_written_stops_nobody() -> None:
    closed, broken = io.StringIO(), _Broken()
    closed.close()
    for stream in (closed, broken):
        log.configure("json", stream=stream)
        reporter()(Event.STALLED)
        logging.getLogger("grpc").warning("trouble")


class _Broken(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_a_process_without_stderr_can_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    log.configure("json")
    reporter()(Event.STALLED)
