"""Audit lines are marked as such, by their event and by nothing else."""

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from global_discovery import log
from global_discovery.domain.events import Event
from global_discovery.serving.log import AUDIT, reporter
from support.clock import FakeClock
from support.running import a_service
from support.serve_process import LOOPBACK, started

OPERATING = (Path(__file__).parents[2] / "docs/operating.md").read_text()


@pytest.fixture(autouse=True)
def clean_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:], root.level = before
    structlog.reset_defaults()


@pytest.mark.parametrize("event", Event, ids=lambda event: event.value)
def test_a_line_carries_the_mark_when_it_is_a_change_of_state(event: Event) -> None:
    stream = io.StringIO()
    log.configure("json", stream=stream)
    reporter()(event)
    assert json.loads(stream.getvalue()).get("audit", False) == (event in AUDIT)


def test_the_documented_audit_lines_are_those_that_carry_the_mark() -> None:
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| audit: ", OPERATING, re.MULTILINE)
    assert sorted(rows) == sorted(["configured", *(event.value for event in AUDIT)])


async def test_a_change_of_the_mark_says_what_it_was_before() -> None:
    marks = []

    def report(event: Event, **fields: object) -> None:
        if event is Event.MARK_CHANGED:
            marks.append(fields)

    clock = FakeClock()
    async with a_service(clock=clock, report=report) as service:
        service.core.pools.refresh()
        for _ in range(80):
            clock.advance(0.5)
            service.core.tick()
            service.core.pools.refresh()
            await asyncio.sleep(0)
    ended = [mark for mark in marks if mark["complete"]]
    assert ended[0]["reasons_before"] == ["STARTING"]


async def test_what_was_configured_is_told_at_the_start_as_it_was_written() -> None:
    flags = ["--heartbeat-interval-secs=2", "--router=r1=http://router.example:1"]
    async with started(*LOOPBACK, *flags) as process:
        line = await process.event("configured")
        await process.ready()
    assert line["audit"] is True
    assert line["flags"]["--heartbeat-interval-secs"] == "2"
    assert line["flags"]["--router"] == "r1=http://router.example:1"
    assert set(line["flags"]) == {
        "--listen",
        "--grpc-listen",
        "--heartbeat-interval-secs",
        "--router",
    }
