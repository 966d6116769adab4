"""`PoolCache`, against real servers and servers that follow a script."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from global_discovery.client import CachedPool, CacheState, PoolCache
from global_discovery.client.fold import Fold, PoolKey
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.running import a_service, target
from support.scripted_server import HANG, ScriptedServer, scripted_server
from support.tcp_proxy import tcp_proxy
from support.timer import MovedTimer

PATIENCE = 30
EXACT = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_EXACT, bound_secs=1)
ESTIMATED = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_ESTIMATED, bound_secs=1)
HOUR = 3600.0


def a_pool(name: str, model: str = "m") -> pool_pb2.Pool:
    key = pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name=name)
    return pool_pb2.Pool(key=key, model=model)


def hello(process: str = "x") -> pb.WatchPoolsResponse:
    return pb.WatchPoolsResponse(server=pb.ServerInfo(instance_id=process, idle_interval_secs=15))


def view(*pools: pool_pb2.Pool, mark: pool_pb2.Mark = EXACT) -> pb.WatchPoolsResponse:
    return pb.WatchPoolsResponse(snapshot=pb.PoolSnapshot(pools=pools), position="p", mark=mark)


def changed(*pools: pool_pb2.Pool, mark: pool_pb2.Mark = EXACT, **keys: str) -> Any:
    left = {name: [a_pool(each).key for each in value] for name, value in keys.items()}
    changes = pb.PoolChanges(pools=pools, **left)
    return pb.WatchPoolsResponse(changes=changes, position="p", mark=mark)


def names(pools: Any) -> str:
    return "".join(each.key.dgd_name for each in pools)


async def until(cache: PoolCache, holds: Callable[[], bool]) -> None:
    """Waits for what the cache tells."""
    async with asyncio.timeout(PATIENCE):
        async for _ in cache.changes():
            if holds():
                return
    raise AssertionError("the cache has stopped")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted_server() as scripted:
        yield scripted


async def test_the_pools_of_a_model_are_at_hand_and_sorted(server: ScriptedServer) -> None:
    server.script("WatchPools", [hello(), view(a_pool("b"), a_pool("a"), a_pool("z", "o")), HANG])
    async with PoolCache([server.target]) as cache:
        assert cache.pools("m") == ()
        await cache.wait_synced()
        assert names(cache.pools("m")) == "ab"
        assert names(cache.pools("o")) == "z"
        assert cache.pools("unknown") == ()
        assert names(cache.pools()) == "abz"
        assert cache.models() == ("m", "o")
        assert cache.pools("m")[0].pool == a_pool("a")
        assert cache.pools("m")[0].key == PoolKey("c", "n", "a")


async def test_asked_again_it_gives_the_same_tuple_until_that_model_changes(
    server: ScriptedServer,
) -> None:
    other_model = [changed(a_pool("y", "o"))]
    server.script("WatchPools", [hello(), view(a_pool("a")), HANG])
    async with PoolCache([server.target]) as cache:
        await cache.wait_synced()
        first = cache.pools("m")
        cache._fold.apply(other_model[0], now=0)
        cache._index.update(cache._fold, [PoolKey("c", "n", "y")])
        assert cache.pools("m") is first
        assert names(cache.pools("o")) == "y"


async def test_a_pool_that_changes_its_model_moves(server: ScriptedServer) -> None:
    moved = changed(a_pool("a", "new"))
    server.script("WatchPools", [hello(), view(a_pool("a", "old")), moved, HANG])
    async with PoolCache([server.target]) as cache:
        await until(cache, lambda: cache.models() == ("new",))
        assert cache.pools("old") == ()


async def test_an_unlisted_pool_is_offered_flagged_with_its_age() -> None:
    timer = MovedTimer()
    async with scripted_server() as server:
        gone = changed(mark=ESTIMATED, unlisted="a")
        server.script("WatchPools", [hello(), view(a_pool("a"), mark=ESTIMATED), gone, HANG])
        async with PoolCache([server.target], timer=timer) as cache:
            await until(cache, lambda: cache.state.carried == 1)
            pool = cache.pools("m")[0]
            assert (pool.carried, pool.age_seconds) == (True, 0)
            timer.advance(7)
            assert pool.age_seconds == 7
            assert cache.state.oldest_carried_seconds == 7
            assert not cache.state.exact


async def test_a_listed_pool_has_no_age(server: ScriptedServer) -> None:
    server.script("WatchPools", [hello(), view(a_pool("a")), HANG])
    async with PoolCache([server.target]) as cache:
        await cache.wait_synced()
        pool: CachedPool = cache.pools("m")[0]
        assert (pool.carried, pool.age_seconds) == (False, 0)


async def test_wait_synced_returns_with_the_first_view_and_for_exact_with_an_exact_one(
    server: ScriptedServer,
) -> None:
    async with (
        a_service() as service,
        PoolCache([target(service)]) as cache,
        asyncio.timeout(PATIENCE),
    ):
        await cache.wait_synced()
        assert (cache.state.synced, cache.state.exact) == (True, False)
        waiting = asyncio.create_task(cache.wait_synced(exact=True))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
    server.script("WatchPools", [hello(), view(), HANG])
    async with PoolCache([server.target]) as cache, asyncio.timeout(PATIENCE):
        await cache.wait_synced(exact=True)
        assert cache.state.exact


async def test_a_mark_without_a_view_is_no_view_yet(server: ScriptedServer) -> None:
    idle = pb.WatchPoolsResponse(idle=pb.Idle(), mark=ESTIMATED)
    server.script("WatchPools", [hello(), idle, HANG])
    async with PoolCache([server.target]) as cache:
        await until(cache, lambda: cache.state.mark is not None)
        assert not cache.state.synced


async def test_the_state_names_the_server_the_mark_and_the_causes_of_the_last_error() -> None:
    async with scripted_server() as away, scripted_server() as there:
        away.script("WatchPools", [grpc.StatusCode.UNAVAILABLE])
        there.script("WatchPools", [hello("there"), view(a_pool("a")), HANG])
        async with PoolCache([away.target, there.target]) as cache:
            before = cache.state
            assert (before.server, before.connected, before.mark) == (away.target, False, None)
            assert (before.heard_seconds_ago, before.last_error, before.causes) == (None, None, ())
            await cache.wait_synced()
            state = cache.state
            assert (state.server, state.connected, state.exact) == (there.target, True, True)
            assert state.info is not None
            assert state.info.instance_id == "there"
            assert (state.mark, state.listed, state.carried) == (EXACT, 1, 0)
            assert state.heard_seconds_ago is not None
            assert state.last_error is not None
            assert state.last_error.server == away.target
            assert len(state.causes) > 1


async def test_what_was_known_stays_while_no_server_answers() -> None:
    async with scripted_server() as server:
        server.script(
            "WatchPools",
            [hello(), view(a_pool("a")), grpc.StatusCode.UNAVAILABLE],
            [grpc.StatusCode.UNAVAILABLE],
        )
        async with PoolCache([server.target], timer=MovedTimer()) as cache:
            await until(cache, lambda: cache.state.synced and not cache.state.connected)
            assert names(cache.pools("m")) == "a"
            assert not cache.state.exact


async def test_another_instance_without_a_pool_told_just_now_does_not_end_it() -> None:
    timer = MovedTimer()
    async with scripted_server() as one, scripted_server() as two:
        one.script("WatchPools", [hello("x"), view(a_pool("a")), grpc.StatusCode.UNAVAILABLE])
        idle = pb.WatchPoolsResponse(idle=pb.Idle(), position="q", mark=EXACT)
        two.script(
            "WatchPools",
            [hello("y"), view(), grpc.StatusCode.UNAVAILABLE],
            [hello("y"), idle, HANG],
        )
        async with PoolCache([one.target, two.target], timer=timer) as cache:
            await until(cache, lambda: cache.state.info is not None and _process(cache) == "y")
            await until(cache, lambda: cache.state.exact)
            assert names(cache.pools("m")) == "a"
            timer.advance(2)
            one.script("WatchPools", [grpc.StatusCode.UNAVAILABLE])
            async with asyncio.timeout(PATIENCE):
                while cache.pools("m"):
                    timer.advance(1)
                    await asyncio.sleep(0.01)


def _process(cache: PoolCache) -> str:
    info = cache.state.info
    return info.instance_id if info is not None else ""


async def test_a_silent_server_is_left_after_three_idle_intervals_for_one_that_speaks() -> None:
    timer = MovedTimer()
    async with (
        a_service() as service,
        tcp_proxy(service.grpc.port) as proxy,
        scripted_server() as other,
    ):
        other.script("WatchPools", [hello("other"), view(a_pool("a")), HANG])
        servers = [f"127.0.0.1:{proxy.port}", other.target]
        async with PoolCache(servers, idle_seconds=5, timer=timer) as cache:
            await cache.wait_synced()
            proxy.swallow()
            await timer.slept_for(15)
            timer.advance(14.9)
            await asyncio.sleep(0)
            assert cache.state.connected
            async with asyncio.timeout(PATIENCE):
                while _process(cache) != "other":
                    timer.advance(1)
                    await asyncio.sleep(0.01)


async def test_changes_that_come_while_the_caller_is_busy_are_told_as_one(
    server: ScriptedServer,
) -> None:
    many = [changed(a_pool(f"{number}")) for number in range(50)]
    server.script("WatchPools", [hello(), view(), *many, HANG])
    async with PoolCache([server.target]) as cache:
        changes = cache.changes()
        first = await anext(changes)
        assert first.listed == 0
        await until(cache, lambda: cache.state.listed == 50)
        assert (await anext(changes)).listed == 50
        await changes.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_changes_end_when_the_cache_is_stopped(server: ScriptedServer) -> None:
    server.script("WatchPools", [hello(), view(), HANG])

    async def follow(cache: PoolCache) -> int:
        return len([state async for state in cache.changes()])

    async with PoolCache([server.target]) as cache:
        following = asyncio.create_task(follow(cache))
        await cache.wait_synced()
    async with asyncio.timeout(PATIENCE):
        assert await following >= 1


async def test_stopping_waits_for_no_server() -> None:
    async with a_service() as service, tcp_proxy(service.grpc.port) as proxy:
        async with asyncio.timeout(PATIENCE):
            async with PoolCache([f"127.0.0.1:{proxy.port}"]) as cache:
                await cache.wait_synced()
                proxy.swallow()
            async with PoolCache(["127.0.0.1:9"]):
                pass


async def test_the_filter_is_applied_by_the_server(server: ScriptedServer) -> None:
    server.script("WatchPools", [hello(), view(), HANG])
    wanted = pb.PoolFilter(models=["mine"], regions=["here"])
    async with PoolCache([server.target], wanted=wanted, idle_seconds=7) as cache:
        await cache.wait_synced()
    request = (await server.next_call()).request
    assert (request.filter, request.idle_interval_secs) == (wanted, 7)


async def test_a_fault_of_its_own_does_not_end_it_and_is_told(
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.script("WatchPools", [hello(), view(a_pool("a")), HANG])
    timer = MovedTimer()
    with monkeypatch.context() as patch:
        patch.setattr(Fold, "_close", lambda *_: 1 / 0)
        async with PoolCache([server.target], timer=timer) as cache:
            await until(cache, lambda: "division" in str(cache.state.last_error))
            patch.undo()
            await timer.slept_for(5)
            timer.advance(5)
            await until(cache, lambda: names(cache.pools("m")) == "a")
    assert "fault of its own" in caplog.text


def test_a_cache_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one server"):
        PoolCache([])


# -- the saved view -------------------------------------------------------------------


async def saved_view(path: Path, *pools: pool_pb2.Pool) -> None:
    """What a cache leaves that knew these pools, told by the process x."""
    async with scripted_server() as server:
        server.script("WatchPools", [hello("x"), view(*pools), HANG])
        async with PoolCache([server.target], saved_view=path, wall=lambda: 1e9) as cache:
            await cache.wait_synced()


async def test_it_begins_with_the_view_it_saved_last_although_no_server_answers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "view"
    await saved_view(path, a_pool("a"), a_pool("b"))
    timer = MovedTimer()
    async with PoolCache(
        ["127.0.0.1:9"], saved_view=path, timer=timer, wall=lambda: 1e9 + HOUR
    ) as cache:
        assert names(cache.pools("m")) == "ab"
        assert all(pool.carried for pool in cache.pools())
        assert cache.pools()[0].age_seconds == pytest.approx(HOUR, abs=60)
        state = cache.state
        assert (state.synced, state.carried, state.listed) == (False, 2, 0)
        assert state.saved is not None
        assert (state.saved.restored, state.saved.error) == (2, "")


async def test_a_restored_pool_is_ended_by_the_process_that_told_it_however_young(
    tmp_path: Path,
) -> None:
    path = tmp_path / "view"
    await saved_view(path, a_pool("a"), a_pool("b"))
    async with scripted_server() as server:
        server.script("WatchPools", [hello("x"), view(a_pool("b")), HANG])
        async with PoolCache([server.target], saved_view=path, wall=lambda: 1e9) as cache:
            await cache.wait_synced()
            assert names(cache.pools()) == "b"
        assert (await server.next_call()).request.position == ""


@pytest.mark.parametrize(("later", "left"), [(0.0, "ab"), (HOUR, "b")])
async def test_a_restored_pool_is_ended_by_another_process_only_beyond_its_bound(
    tmp_path: Path, later: float, left: str
) -> None:
    path = tmp_path / "view"
    await saved_view(path, a_pool("a"), a_pool("b"))
    bound = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_EXACT, bound_secs=HOUR / 2)
    async with scripted_server() as server:
        server.script("WatchPools", [hello("y"), view(a_pool("b"), mark=bound), HANG])
        async with PoolCache([server.target], saved_view=path, wall=lambda: 1e9 + later) as cache:
            await cache.wait_synced()
            assert names(cache.pools()) == left


async def test_a_wall_clock_that_was_set_back_makes_no_pool_younger_than_now(
    tmp_path: Path,
) -> None:
    path = tmp_path / "view"
    await saved_view(path, a_pool("a"))
    async with PoolCache(["127.0.0.1:9"], saved_view=path, wall=lambda: 1e9 - HOUR) as cache:
        assert cache.pools()[0].age_seconds == pytest.approx(0, abs=60)


async def test_a_restored_pool_that_the_filter_does_not_want_is_not_offered(
    tmp_path: Path,
) -> None:
    path = tmp_path / "view"
    await saved_view(path, a_pool("a", "one"), a_pool("b", "two"))
    wanted = pb.PoolFilter(models=["two"])
    async with PoolCache(["127.0.0.1:9"], saved_view=path, wanted=wanted) as cache:
        assert cache.models() == ("two",)


async def test_the_view_is_saved_when_it_changed_and_at_a_bounded_rate(tmp_path: Path) -> None:
    path, timer = tmp_path / "view", MovedTimer()
    patient = pb.WatchPoolsResponse(server=pb.ServerInfo(idle_interval_secs=3600))
    async with scripted_server() as server:
        server.script("WatchPools", [patient, view(a_pool("a")), HANG])
        wall = iter(range(1, 100))
        async with PoolCache(
            [server.target], saved_view=path, timer=timer, wall=lambda: float(next(wall))
        ) as cache:
            await cache.wait_synced()

            async def saved_at(seconds: float) -> float | None:
                """Lets so much time pass, one step of the saver after the other."""
                for _ in range(int(seconds)):
                    await timer.slept_for(1)
                    timer.advance(1)
                    await asyncio.sleep(0)
                await timer.slept_for(1)
                assert cache.state.saved is not None
                return cache.state.saved.saved_at

            first = await saved_at(1)
            assert first is not None
            cache._publish()
            assert await saved_at(4) == first
            second = await saved_at(1)
            assert second is not None
            assert second > first
            assert await saved_at(59) == second
            assert await saved_at(1) != second


async def test_a_view_that_no_server_told_is_never_saved_over_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "view"
    await saved_view(path, a_pool("a"))
    before = path.read_bytes()
    async with PoolCache(["127.0.0.1:9"], saved_view=path):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"garbage", b"global-discovery-pools 2 00\n"])
async def test_a_file_that_cannot_be_used_is_reported_ignored_and_written_anew(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "view"
    path.write_bytes(content)
    said: list[str] = []
    async with scripted_server() as server:
        server.script("WatchPools", [hello(), view(a_pool("a")), HANG])
        async with PoolCache([server.target], saved_view=path, log=said.append) as cache:
            assert cache.pools() == ()
            assert cache.state.saved is not None
            assert "ignored" in cache.state.saved.error
            await cache.wait_synced()
    assert [str(path) in each for each in said] == [True]
    async with PoolCache(["127.0.0.1:9"], saved_view=path, log=said.append) as cache:
        assert names(cache.pools()) == "a"
    assert len(said) == 1


async def test_a_file_that_cannot_be_written_is_reported_and_no_exception(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "no-such-folder" / "view"
    async with scripted_server() as server:
        server.script("WatchPools", [hello(), view(a_pool("a")), HANG])
        async with PoolCache([server.target], saved_view=path, log=said.append) as cache:
            await cache.wait_synced()
    assert "cannot be written" in said[0]
    assert cache.state.saved is not None
    assert "cannot be written" in cache.state.saved.error


async def test_a_log_callback_that_fails_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def log(_: str) -> None:
        raise ValueError("the caller's own")

    path = tmp_path / "view"
    path.write_bytes(b"garbage")
    async with PoolCache(["127.0.0.1:9"], saved_view=path, log=log):
        pass
    assert "log callback" in caplog.text


@pytest.mark.parametrize("count", [1, 2])
async def test_servers_that_stay_away_are_told_once_however_often_they_are_tried(
    count: int,
) -> None:
    async with scripted_server() as one, scripted_server() as other:
        timer = MovedTimer()
        servers = [one, other][:count]
        for server in servers:
            server.script("WatchPools", [grpc.StatusCode.UNAVAILABLE])
        async with PoolCache([server.target for server in servers], timer=timer) as cache:
            states: list[CacheState] = []

            async def follow() -> None:
                states.extend([state async for state in cache.changes()])

            following = asyncio.create_task(follow())
            for _ in range(3):
                for server in servers:
                    await server.next_call()
                await advance_until(timer, lambda: not servers[0].asked.empty())
            newest = cache.state.last_error
        await following
    assert [state.last_error is not None for state in states] == [False, True]
    assert newest is not states[1].last_error, "the state itself tells the newest failure"


async def test_a_connection_that_is_lost_and_one_that_is_found_are_told() -> None:
    timer = MovedTimer()
    async with scripted_server() as server:
        lost = [hello(), view(), grpc.StatusCode.UNAVAILABLE]
        away = [grpc.StatusCode.UNAVAILABLE]
        server.script("WatchPools", lost, away, away, [hello(), view(), HANG])
        async with PoolCache([server.target], timer=timer) as cache:
            seen: list[bool] = []

            async def follow() -> None:
                async for state in cache.changes():
                    if seen[-1:] != [state.connected]:
                        seen.append(state.connected)

            following = asyncio.create_task(follow())
            await advance_until(timer, lambda: seen[-2:] == [False, True] and len(seen) == 4)
        await following
    assert seen == [False, True, False, True]


async def advance_until(timer: MovedTimer, holds: Callable[[], bool]) -> None:
    """Moves time on in small steps, so that pauses end."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            timer.advance(0.1)
            await asyncio.sleep(0.01)


async def test_a_fifo_in_the_place_of_the_saved_view_is_told_and_stays(
    tmp_path: Path, server: ScriptedServer
) -> None:
    path = tmp_path / "view"
    os.mkfifo(path)
    server.script("WatchPools", [hello(), view(a_pool("a")), HANG])
    async with PoolCache([server.target], saved_view=path) as cache:
        await cache.wait_synced()
        assert cache.state.saved is not None
        assert "not a regular file" in cache.state.saved.error
    assert cache.state.saved is not None
    assert "cannot be written: it is not a regular file" in cache.state.saved.error
    assert path.is_fifo()
    assert os.listdir(tmp_path) == ["view"]  # noqa: PTH208 - nothing blocks here
