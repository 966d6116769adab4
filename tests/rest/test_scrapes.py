"""Scrapes share what is made, and leave the loop to others."""

import asyncio
import gzip
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric

from global_discovery.serving.rest import scrapes
from global_discovery.serving.rest.scrapes import (
    CREDIT_SECONDS,
    LONGEST_REST_SECONDS,
    REST_FACTOR,
    Form,
    Scrapes,
)

PLAIN = Form(as_openmetrics=False, zipped=False)
FORMS = [
    Form(as_openmetrics, zipped) for as_openmetrics in (False, True) for zipped in (False, True)
]


class Registry(CollectorRegistry):
    """Counts how often it is read, and may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.fails = False

    def collect(self) -> Iterator[Metric]:
        self.reads += 1
        if self.fails:
            raise OSError("no")
        yield GaugeMetricFamily("reads", "How often.", value=self.reads)


class Loop:
    """The loop's clock, moved by hand; and its sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)
        self._sleep = asyncio.sleep
        monkeypatch.setattr(scrapes.asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(seconds)
            self.now += seconds
        await self._sleep(0)


@pytest.fixture
def registry() -> Registry:
    return Registry()


async def test_those_that_come_together_share_one(registry: Registry) -> None:
    taken = await asyncio.gather(*(Scrapes.scrape(one, PLAIN) for one in [Scrapes(registry)] * 50))
    assert registry.reads == 1
    assert len(set(taken)) == 1


async def test_none_is_older_than_the_scrape(registry: Registry) -> None:
    some = Scrapes(registry)
    for number in range(1, 4):
        assert f"reads {number}.0" in (await some.scrape(PLAIN)).decode()


@pytest.mark.parametrize(
    ("takes", "rest"), [(0.004, REST_FACTOR * 0.004), (0.05, LONGEST_REST_SECONDS)]
)
async def test_after_a_few_the_loop_is_left_to_others(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, takes: float, rest: float
) -> None:
    loop = Loop(monkeypatch)
    some = Scrapes(registry)
    make = some._make

    def slow(form: Form) -> bytes:
        loop.now += takes
        return make(form)

    monkeypatch.setattr(some, "_make", slow)
    at_once = 0
    while not loop.slept:
        await some.scrape(FORMS[at_once % len(FORMS)])
        at_once += 1
        assert at_once < 100
    del loop.slept[:]
    began = loop.now
    for form in FORMS * 3:
        await some.scrape(form)
    assert loop.now - began == pytest.approx(len(FORMS) * 3 * rest, rel=0.01)
    assert at_once == pytest.approx(CREDIT_SECONDS / rest, abs=2)


@pytest.mark.parametrize("form", FORMS)
async def test_each_form_is_what_it_says(registry: Registry, form: Form) -> None:
    body = await Scrapes(registry).scrape(form)
    text = (gzip.decompress(body) if form.zipped else body).decode()
    assert ("# EOF" in text) is form.as_openmetrics
    assert ("openmetrics" in form.content_type) is form.as_openmetrics


async def test_a_failure_is_told_and_ends_with_its_scrape(registry: Registry) -> None:
    some = Scrapes(registry)
    registry.fails = True
    with pytest.raises(OSError, match="no"):
        await some.scrape(PLAIN)
    registry.fails = False
    assert b"reads 2.0" in await some.scrape(PLAIN)


async def test_who_gives_up_takes_nothing_from_the_others(registry: Registry) -> None:
    some = Scrapes(registry)
    first = asyncio.create_task(some.scrape(PLAIN))
    second = asyncio.create_task(some.scrape(PLAIN))
    await asyncio.sleep(0)
    first.cancel()
    assert b"reads 1.0" in await second
