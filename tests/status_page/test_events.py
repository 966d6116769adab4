"""The stream of events over real sockets: what it tells, what it costs, how it ends."""

import asyncio
import signal
import socket
from contextlib import AsyncExitStack

import pytest

from global_discovery.serving.page import events
from global_discovery.serving.rest.connection import Limits
from support.event_stream import following, following_port
from support.page_world import a_call
from support.rest import RestUnderTest, a_rest_face
from support.serve_process import LOOPBACK, started


async def test_a_stream_begins_with_the_mark_and_the_position(rest: RestUnderTest) -> None:
    await rest.core.registrar.register(a_call())
    async with following(rest) as stream:
        assert stream.head.startswith("HTTP/1.1 200 OK\r\n")
        head = stream.head.lower()
        assert "content-type: text/event-stream; charset=utf-8\r\n" in head
        assert "cache-control: no-store\r\n" in head
        assert "x-content-type-options: nosniff\r\n" in head
        assert "content-encoding" not in head
        mark, pools = await stream.next(), await stream.next()
    assert (mark.name, mark.data) == ("mark", {"complete": False, "reasons": ["STARTING"]})
    assert (pools.name, pools.data) == ("pools", {"pools": 1})
    assert rest.core.pools.resume(pools.id, events.EVERYTHING) == rest.core.pools.sequence


async def test_a_change_is_told_and_many_at_once_are_told_as_one(rest: RestUnderTest) -> None:
    async with following(rest) as stream:
        await stream.next()
        assert (await stream.next()).data == {"pools": 0}
        for number in range(300):
            await rest.core.registrar.register(a_call(number))
        rest.core.pools.refresh()
        rest.face.events.look()
        assert (await stream.next()).data == {"pools": 300}
        await rest.core.registrar.register(a_call(300))
        rest.face.events.look()
        assert (await stream.next()).data == {"pools": 301}


async def test_a_change_is_told_without_anybody_asking(rest: RestUnderTest) -> None:
    async with following(rest) as stream:
        await stream.next()
        await stream.next()
        await rest.core.registrar.register(a_call())
        assert (await stream.next()).data == {"pools": 1}


async def test_a_new_mark_is_told(rest: RestUnderTest) -> None:
    await rest.core.registrar.register(a_call())
    async with following(rest) as stream:
        while (await stream.next()).name != "pools":
            pass
        rest.end_of_starting()
        rest.face.events.look()
        assert (await stream.next()).data == {"complete": True, "reasons": []}


async def test_a_summary_comes_each_three_seconds(rest: RestUnderTest) -> None:
    async with following(rest) as stream:
        await stream.next()
        await stream.next()
        for _ in range(2):
            rest.clock.advance(3.0)
            rest.face.events.look()
            while (summary := await stream.next()).name != "summary":
                pass
            assert summary.data == {"pools": 0, "watchers": 0, "furthest_behind": 0}
        for number in range(2):
            await rest.core.registrar.register(a_call(number))
            rest.face.events.look()
            assert (await stream.next()).name == "pools"


async def test_renewals_are_not_told(rest: RestUnderTest) -> None:
    lease = await rest.core.registrar.register(a_call())
    async with following(rest) as stream:
        await stream.next()
        await stream.next()
        await rest.core.registrar.renew([lease.lease_id])
        rest.face.events.look()
        await rest.core.registrar.register(a_call(1))
        rest.face.events.look()
        assert (await stream.next()).data == {"pools": 2}


async def test_who_comes_back_with_the_newest_position_is_not_told_it_again(
    rest: RestUnderTest,
) -> None:
    async with following(rest) as stream:
        await stream.next()
        newest = (await stream.next()).id
    async with following(rest, Last_Event_ID=newest) as stream:
        assert (await stream.next()).name == "mark"
        await rest.core.registrar.register(a_call())
        rest.face.events.look()
        assert (await stream.next()).data == {"pools": 1}


@pytest.mark.parametrize("position", ["", "garbage", "AAAA", "x" * 5000])
async def test_a_position_that_says_nothing_is_taken_for_none(
    rest: RestUnderTest, position: str
) -> None:
    async with following(rest, Last_Event_ID=position) as stream:
        assert [(await stream.next()).name for _ in range(2)] == ["mark", "pools"]


async def test_there_are_only_so_many_streams_and_the_rest_is_told_when_to_come_back(
    rest: RestUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS", 3)
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(following(rest)) for _ in range(3)]
        for stream in streams:
            await stream.next()
        refused = await rest.call("GET", "/events")
        assert refused.status == 429
        assert refused.headers["retry-after"] == "30"
        assert refused.json["code"] == "TOO_MANY_EVENT_STREAMS"
        assert (await rest.call("GET", "/")).status == 200
        streams[0].writer.close()
        await rest.until(lambda: len(rest.face.events) == 2)
        async with following(rest) as another:
            await another.next()


async def test_a_caller_that_leaves_is_noticed_while_nothing_is_written(
    rest: RestUnderTest,
) -> None:
    async with following(rest) as stream:
        await stream.next()
        assert len(rest.face.events) == 1
    await rest.until(lambda: not len(rest.face.events))
    await rest.until(lambda: not rest.connections)


async def test_a_stream_ends_with_its_age_and_its_connection_lives_on(rest: RestUnderTest) -> None:
    async with following(rest) as stream:
        await stream.next()
        rest.clock.advance(rest.core.settings.stream_age[1])
        rest.face.events.look()
        await stream.ended()
        assert not rest.connections[0]._force_close


async def test_head_tells_the_headers_and_holds_nothing(rest: RestUnderTest) -> None:
    reply = await rest.call("HEAD", "/events")
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert len(rest.face.events) == 0


async def test_who_does_not_read_is_ended_and_costs_what_the_socket_holds() -> None:
    async with a_rest_face(limits=Limits(write_seconds=0.2)) as rest:
        listener = rest.face._main._listener
        assert listener is not None
        listener.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(slow, ("127.0.0.1", rest.face.port))
        await loop.sock_sendall(slow, b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        await rest.until(lambda: len(rest.face.events))
        [connection] = rest.connections
        assert connection._unread is not None
        lease = ""
        for number in range(20_000):
            call = a_call(frontends=number % 2 + 1)._replace(lease_id=lease)
            lease = (await rest.core.registrar.register(call)).lease_id
            rest.face.events.look()
            await asyncio.sleep(0)
            if not len(rest.face.events):
                break
            assert connection._unread.size < 256 * 1024
        await rest.until(lambda: not len(rest.face.events))
        slow.close()


async def test_a_stop_ends_every_stream_at_once() -> None:
    async with a_rest_face() as rest, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(following(rest)) for _ in range(20)]
        for stream in streams:
            await stream.next()
        async with asyncio.timeout(20):
            await rest.face.stop(grace=60.0)
        for stream in streams:
            await stream.ended()
        assert len(rest.face.events) == 0


async def test_a_process_with_open_streams_ends_at_sigterm_with_0() -> None:
    async with started(*LOOPBACK) as server:
        port = (await server.ready())["rest_port"]
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(following_port(port)) for _ in range(10)]
            for stream in streams:
                await stream.next()
            server.send(signal.SIGTERM)
            for stream in streams:
                await stream.ended()
            assert await server.ended() == 0


async def test_streams_are_counted_under_one_name(rest: RestUnderTest) -> None:
    for _ in range(3):
        async with following(rest) as stream:
            await stream.next()
    text = (await rest.call("GET", "/metrics")).body.decode()
    name = 'global_discovery_calls_total{code="200",face="rest",method="GET /events"} 3.0'
    assert name in text
    assert 'call_seconds_count{face="rest",method="GET /events"' not in text


async def test_a_fault_in_a_stream_breaks_it_off_and_is_logged(
    rest: RestUnderTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with following(rest) as stream:
        await stream.next()
        await stream.next()

        def broken(_: object) -> list[str]:
            raise RuntimeError("a fault of ours")

        monkeypatch.setattr(events._Stream, "news", broken)
        rest.face.events.look()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await stream.next()
    await rest.until(lambda: not len(rest.face.events))
    assert "internal_error" in "".join(capsys.readouterr())
