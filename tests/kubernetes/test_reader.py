"""A reader as it runs: several namespaces as one set, faults of ours, many objects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from global_discovery.domain.events import Event
from global_discovery.kubernetes.failures import Failure
from global_discovery.kubernetes.objects import PORTION_BYTES, Objects
from global_discovery.kubernetes.scope import Resource
from support.fake_kube_api import (
    Collection,
    Drop,
    FakeKubeApi,
    Stream,
    bad_gateway,
    error_event,
    fake_kube_api,
    forbidden,
    gone,
    status,
    throttled,
    unauthorized,
)
from support.fake_kube_api.store import SLICES
from support.kube_reading import Reading, Thing, a_slice, read_thing, reading


@contextlib.asynccontextmanager
async def running(api: FakeKubeApi, folder: Path, **options: Any) -> AsyncIterator[Reading]:
    """With `Reader.run`, and a clock that moves only when the test says so."""
    async with reading(api, folder, **options) as it:
        task = it._driving = asyncio.create_task(it.reader.run())
        yield it
        assert not task.done() or task.cancelled(), task


async def passing(it: Reading, seconds: float) -> None:
    """Time passes in small steps, in each of which what is due is done."""
    for _ in range(int(seconds * 10)):
        it.timer.advance(0.1)
        for _ in range(20):
            await asyncio.sleep(0)


async def test_several_namespaces_are_one_set_which_is_whole_when_each_is(tmp_path: Path) -> None:
    async with fake_kube_api() as api, running(api, tmp_path, namespaces=["b", "a", "a"]) as it:
        api.put(a_slice("x", "a"))
        api.put(a_slice("x", "b"))
        api.put(a_slice("x", "c"))
        await api.watching(2)
        assert set(it.sink.items) == {("a", "x"), ("b", "x")}
        assert it.sink.calls[-1] == "in_sync"
        assert it.sink.calls.count("in_sync") == 1
        api.put(a_slice("y", "a"))
        api.delete("b", "x")
        await it.until(lambda: set(it.sink.items) == {("a", "x"), ("a", "y")})


async def test_a_list_of_one_namespace_keeps_the_others(tmp_path: Path) -> None:
    async with fake_kube_api() as api, running(api, tmp_path, namespaces=["a", "b"]) as it:
        api.put(a_slice("x", "a"))
        await api.watching(2)
        api.put(a_slice("y", "a"))
        api.put(a_slice("y", "b"))
        await it.until(lambda: len(it.sink.items) == 3)
        api.delete("a", "x")
        await it.until(lambda: len(it.sink.items) == 2)
        before = it.sink.calls.count("replaced")
        api.inject(b"no event\n")
        await it.until(lambda: not it.sink.synced)
        await it.timer.slept_for(0.7)
        await passing(it, 10)
        await it.until(lambda: it.sink.calls.count("replaced") >= before + 2 and it.sink.synced)
        assert set(it.sink.items) == {("a", "y"), ("b", "y")}


async def test_one_namespace_that_may_not_be_read_keeps_the_set_out_of_sync(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, running(api, tmp_path, namespaces=["a", "b"]) as it:
        api.put(a_slice("x", "a"))
        api.put(a_slice("x", "b"))
        api.fail_next(forbidden("list"), verb="list")
        await it.until(lambda: it.sink.items)
        await api.watching(1)
        assert len(it.sink.items) == 1
        assert not it.sink.synced
        assert not it.reader.figures.in_sync
        assert it.reader.figures.seconds_since_list is None


async def test_namespaces_that_fail_together_are_told_once_and_ask_slowly(tmp_path: Path) -> None:
    namespaces = [f"n{number}" for number in range(6)]
    async with fake_kube_api() as api, running(api, tmp_path, namespaces=namespaces) as it:
        await api.watching(6)
        before = api.count()
        api.fail_always(status(503))
        api.end_watches()
        await api.watching(0)
        for _ in range(60):
            it.timer.advance(1)
            for _ in range(3):
                await asyncio.sleep(0.002)
        asked = api.count() - before
        assert 6 < asked <= 24, asked
        told = [fields["reason"] for fields in it.said(Event.WATCH_FAILING)]
        assert told.count("server_error") == 1
        assert len(told) <= 2, "the watches that ended at once are the other"


async def test_a_fault_of_ours_is_told_and_ends_nothing(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        put = it.sink.put
        broken = True

        def fails(item: Thing) -> None:
            if broken:
                raise KeyError(item.metadata.name)
            put(item)

        it.sink.put = fails  # type: ignore[method-assign] # what a sink must never do
        it.drive()
        await it.following()
        api.put(a_slice("a"))
        await it.right_again()
        (told,) = it.said(Event.WATCH_FAILING)
        assert (told["reason"], told["message"]) == ("internal", "KeyError: 'a'")
        broken = False
        await it.following()
        api.put(a_slice("b"))
        await it.right_again()


async def test_many_objects_never_hold_the_loop_for_long() -> None:
    turns = 0

    async def turning() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    raws = [
        msgspec.Raw(msgspec.json.encode(a_slice(f"s{number}", endpoints=["x" * 5000])))
        for number in range(5000)
    ]
    task = asyncio.create_task(turning())
    good, bad = await Objects(read_thing, lambda *_: None).read_all(raws)
    task.cancel()
    assert (len(good), bad) == (5000, {})
    assert turns > 5000 * 4000 / PORTION_BYTES


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_in_whatever_order_the_set_is_right_again(
    seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    faults = [gone(), throttled(), bad_gateway(), unauthorized(), Drop(), Stream(b"{")]
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()

        def write() -> None:
            name = f"s{random.randrange(8)}"
            if random.random() < 0.4 and ("ns", name) in api.store.collections[SLICES]:
                api.delete("ns", name)
            else:
                weight = "none" if random.random() < 0.1 else 1
                api.put(a_slice(name, weight=weight))

        deeds = [
            api.end_watches,
            api.reset_watches,
            api.compact,
            lambda: api.inject(b"no event\n"),
            lambda: api.inject(error_event(random.choice([410, 429, 500]))),
            lambda: api.fail_next(*random.choices(faults, k=2)),
        ]
        for _ in range(40):
            for _ in range(random.randrange(4)):
                write()
            if random.random() < 0.6:
                random.choice(deeds)()
            for _ in range(random.randrange(30)):
                await asyncio.sleep(0)
        for number in range(8):
            api.put(a_slice(f"s{number}"))
        api.delete("ns", "s0")
        await it.following()
        await it.right_again()


async def test_any_kind_is_read_also_one_without_namespaces(tmp_path: Path) -> None:
    clusters = Resource("cluster.karmada.io", "v1alpha1", "clusters")
    async with fake_kube_api() as api, reading(api, tmp_path, resource=clusters) as it:
        api.fail_next(status(404, "NotFound"))
        cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
        api.put({**cluster, "metadata": {"name": "m1"}})
        it.drive()
        await it.until(lambda: it.sink.synced)
        assert set(it.sink.items) == {("", "m1")}
        assert it.reader.figures.failures == {Failure.NOT_FOUND: 1}
        await it.following()
        api.delete("", "m1", collection=Collection("cluster.karmada.io", "v1alpha1", "clusters"))
        await it.until(lambda: not it.sink.items)


async def test_a_reader_that_is_cancelled_closes_every_watch(tmp_path: Path) -> None:
    async with fake_kube_api() as api:
        async with running(api, tmp_path, namespaces=["a", "b"]):
            await api.watching(2)
        await api.watching(0)


async def test_figures_are_sums_and_the_worst(tmp_path: Path) -> None:
    async with fake_kube_api() as api, running(api, tmp_path, namespaces=["a", "b"]) as it:
        await api.watching(2)
        it.timer.advance(4)
        api.put(a_slice("x", "a"))
        await it.until(lambda: it.sink.items)
        figures = it.reader.figures
        assert figures.in_sync
        assert (figures.requests, figures.events) == (4, 1)
        assert figures.seconds_since_heard == pytest.approx(4)
        assert figures.seconds_since_list == pytest.approx(4)
