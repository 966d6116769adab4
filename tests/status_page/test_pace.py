"""The pages leave the loop to heartbeats."""

import asyncio
from typing import Any

import pytest

from global_discovery.serving.page import pace as pace_module
from global_discovery.serving.page.pace import Pace
from global_discovery.serving.rest.problem import Problem
from support.page_world import a_call
from support.rest import RestUnderTest


class HandTime:
    """The thread's and the loop's time, moved by hand; sleeping moves the loop's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        loop: Any = asyncio.get_running_loop()
        monkeypatch.setattr(pace_module.time, "thread_time", lambda: self.now)
        monkeypatch.setattr(loop, "time", lambda: self.now)
        monkeypatch.setattr(pace_module.asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


async def test_after_a_page_the_loop_rests_four_times_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        hand = HandTime(patch)
        pace = Pace()
        for took in (0.010, 0.050, 5.0, 0.0):
            async with pace.turn("a"):
                hand.now += took
    assert hand.slept == [0.0, 0.040, 0.200, 1.0]


async def test_time_that_passes_between_two_pages_is_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        hand = HandTime(patch)
        pace = Pace()
        async with pace.turn("a"):
            hand.now += 0.1
        hand.now += 0.3
        async with pace.turn("a"):
            pass
    assert hand.slept == [0.0, 0.1]


async def test_one_page_is_made_at_a_time_and_too_many_who_wait_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace_module, "MAX_WAITING", 2)
    pace, go, inside = Pace(), asyncio.Event(), 0
    began = asyncio.Event()

    async def make() -> None:
        nonlocal inside
        async with pace.turn("a"):
            inside += 1
            assert inside == 1
            began.set()
            await go.wait()
            inside -= 1

    first = asyncio.create_task(make())
    await began.wait()
    waiting = [asyncio.create_task(make()) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await make()
    assert refused.value.status == 503
    assert refused.value.header_fields == {"Retry-After": "1"}
    go.set()
    await asyncio.gather(first, *waiting)


async def test_nobody_waits_for_more_than_one_page_of_each_other_caller() -> None:
    pace, made = Pace(), []
    go, began = asyncio.Event(), asyncio.Event()

    async def make(account: str) -> None:
        async with pace.turn(account):
            made.append(account)
            began.set()
            await go.wait()

    tasks = [asyncio.create_task(make("first"))]
    await began.wait()
    many = pace_module.MAX_WAITING_OF_ONE
    tasks += [asyncio.create_task(make("greedy")) for _ in range(many)]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await make("greedy")
    assert refused.value.status == 429
    assert refused.value.answer().cost > 0.0
    tasks += [asyncio.create_task(make("other")) for _ in range(2)]
    await asyncio.sleep(0)
    go.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks)
    assert made[:5] == ["first", "greedy", "other", "greedy", "other"]
    assert made[5:] == ["greedy"] * (many - 2)


async def test_who_gives_up_waiting_holds_up_nobody() -> None:
    pace = Pace()
    async with asyncio.timeout(20):
        async with pace.turn("a"):
            gone = [asyncio.create_task(pace.turn(name).__aenter__()) for name in "bc"]
            await asyncio.sleep(0)
            gone[0].cancel()
            await asyncio.sleep(0)
        gone[1].cancel()  # its turn has come, and it does not know yet
        await asyncio.gather(*gone, return_exceptions=True)
        async with pace.turn("a"):
            pass


async def test_a_page_that_fails_lets_the_next_one_be_made() -> None:
    pace = Pace()
    with pytest.raises(RuntimeError):
        async with pace.turn("a"):
            raise RuntimeError
    async with asyncio.timeout(20), pace.turn("a"):
        pass


async def test_who_asks_together_for_the_same_is_given_one_rendering(
    rest: RestUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rest.core.registrar.register(a_call())
    pages = rest.face.page._status
    rendered = 0
    render = pages._render

    async def counted(*given: Any) -> bytes:
        nonlocal rendered
        rendered += 1
        return await render(*given)

    monkeypatch.setattr(pages, "_render", counted)
    replies = await asyncio.gather(*(rest.call("GET", "/") for _ in range(20)))
    assert {reply.status for reply in replies} == {200}
    assert rendered == 1
