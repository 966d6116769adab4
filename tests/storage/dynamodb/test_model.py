"""Any order of trouble: the promises hold at every moment, and all agree in the end."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.replica_model import Model

REPLICAS, POOLS = 3, 4

PLACES = st.integers(0, REPLICAS - 1)
NUMBERS = st.integers(0, POOLS - 1)
EVENTS = st.one_of(
    st.tuples(st.just("advance"), st.integers(1, 48).map(lambda quarters: quarters / 4)),
    st.tuples(st.just("weather"), PLACES, st.sampled_from(["fine", "slow", "failing", "cut"])),
    st.tuples(st.just("kill"), PLACES),
    st.tuples(st.just("start"), PLACES),
    st.tuples(st.just("relay begins"), NUMBERS),
    st.tuples(st.just("relay dies"), NUMBERS),
    st.tuples(st.just("withdraw"), NUMBERS),
    st.tuples(st.just("change"), NUMBERS, st.sampled_from(["m", "n", "o"])),
    st.tuples(st.just("move"), NUMBERS, PLACES),
)


async def happens(model: Model, event: tuple[Any, ...]) -> None:
    match event:
        case ("advance", seconds):
            await model.advance(seconds)
        case ("weather", place, kind):
            model.weather(place, kind)
        case ("kill", place):
            await model.kill(place)
        case ("start", place):
            await model.start(place)
        case ("relay begins", number):
            model.relays[number].begin()
        case ("relay dies", number):
            model.relays[number].beats = False
            model.relays[number].relay.lease_id = ""
        case ("withdraw", number):
            await model.withdraw(number)
        case ("change", number, text):
            model.relays[number].relay.model = text
        case ("move", number, place):
            model.relays[number].home = place


async def lived_through(events: list[tuple[Any, ...]], seed: int) -> None:
    model = Model(replicas=REPLICAS, pools=POOLS, seed=seed)
    try:
        await model.begin()
        for relay in model.relays:
            relay.begin()
        await model.advance(12)
        for event in events:
            await happens(model, event)
            await model.advance(0.5)
        await model.calm_down()
    finally:
        await model.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(events=st.lists(EVENTS, min_size=4, max_size=30), seed=st.integers(0, 2**32))
def test_the_promises_hold_whatever_happens(events: list[tuple[Any, ...]], seed: int) -> None:
    asyncio.run(lived_through(events, seed))


@pytest.mark.parametrize(
    "events",
    [
        [("weather", 0, "cut"), ("advance", 30.0), ("weather", 0, "fine"), ("advance", 30.0)],
        [("kill", 0), ("advance", 12.0), ("start", 0), ("withdraw", 1), ("advance", 12.0)],
        [("weather", n, "slow") for n in range(3)] + [("withdraw", 0), ("advance", 40.0)],
        [("weather", n, "failing") for n in range(3)] + [("change", 0, "n"), ("advance", 40.0)],
    ],
)
async def test_the_promises_hold_in_the_plainest_troubles(events: list[tuple[Any, ...]]) -> None:
    await lived_through(events, seed=1)
