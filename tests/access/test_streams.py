"""What a stream shows of a scope, and how it ends when the scope changes."""

import asyncio
from pathlib import Path

import grpc

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.access import EAST, POLICY, READER, WEST
from support.access_world import AccessCaller, AccessWorld
from support.grpc_calls import Watch, eventually, refused


async def test_no_message_names_a_pool_outside_the_scope(world: AccessWorld) -> None:
    east, west = await world.caller("grpc", EAST), await world.caller("grpc", WEST)
    watch = Watch(east.stub)
    await watch.begun()
    # The view is estimated now: what does not match a filter would be told as removed.
    await west.register("west")
    await west.withdraw("west")
    await west.register("west", 1)
    await east.register("east")
    seen: list[str] = []
    while not watch.client.fold:
        message = await watch.read()
        seen.append(str(message))
    assert "west" not in "".join(seen)
    watch.call.cancel()


async def test_a_stream_ends_when_its_scope_changes_and_its_position_means_a_snapshot(
    world: AccessWorld, tmp_path: Path
) -> None:
    east, west = await world.caller("grpc", EAST), await world.caller("grpc", WEST)
    await east.register("east")
    await west.register("west")
    watch, unmoved = Watch(east.stub), Watch(west.stub)
    client = await watch.begun()
    await unmoved.begun()
    await world.change_policy(tmp_path, POLICY.replace('clusters = ["east"]', 'clusters = ["*"]'))
    ended = await watch.end()
    assert ended is not None
    assert (ended.code, ended.reason) == (grpc.StatusCode.UNAVAILABLE, "SCOPE_CHANGED")
    assert ended.retry_seconds is not None

    again = Watch(east.stub, pb.WatchPoolsRequest(position=client.position))
    first = await again.read()
    assert first is not None
    second = await again.read()
    assert second is not None
    assert second.WhichOneof("event") == "snapshot"
    again.call.cancel()
    await west.register("west", 7)
    await unmoved.until(lambda folded: len(folded.fold) == 2)
    unmoved.call.cancel()


async def test_a_caller_that_may_no_longer_read_is_refused_when_it_comes_back(
    world: AccessWorld, tmp_path: Path
) -> None:
    reader = await world.caller("grpc", READER)
    watch, routers = Watch(reader.stub), reader.stub.WatchRouters(pb.WatchRoutersRequest())
    await watch.begun()
    await routers.read()
    assert len(world.service.guard.streams) == 2
    await world.change_policy(tmp_path, POLICY.replace(READER, "dns:nobody.example"))
    ended = await watch.end()
    assert ended is not None
    assert ended.reason == "SCOPE_CHANGED"
    again = Watch(reader.stub, pb.WatchPoolsRequest(position=watch.client.position))
    ended = await again.end()
    assert ended is not None
    assert ended.code is grpc.StatusCode.PERMISSION_DENIED
    await eventually(lambda: not world.service.guard.streams)


async def test_ids_of_pools_outside_the_scope_are_unknown_to_renew_pools(
    world: AccessWorld,
) -> None:
    east, west = await world.caller("grpc", EAST), await world.caller("grpc", WEST)
    own, others = (await east.register("east")).value, (await west.register("west")).value
    request = pb.RenewPoolsRequest(lease_ids=[own, others, "never-known"])
    answer = await east.stub.RenewPools(request)
    assert list(answer.unknown_lease_ids) == [others, "never-known"]
    world.clock.run(10, world.service.core.tick, every=0.5)
    await east.stub.RenewPools(request)
    world.clock.run(8, world.service.core.tick, every=0.5)
    assert (await west.listed()).value == [], "nobody renewed it"
    reader = await world.caller("grpc", READER)
    assert (await refused(reader.stub.RenewPools(request))).reason == "PERMISSION_DENIED"


def explained(key: str) -> pb.ExplainPoolRequest:
    cluster, namespace, name = key.split("/")
    return pb.ExplainPoolRequest(
        key=pool_pb2.PoolKey(cluster_id=cluster, namespace=namespace, dgd_name=name)
    )


async def test_an_explanation_is_within_the_scope_and_a_denial_alike_for_every_key(
    world: AccessWorld,
) -> None:
    east, west = await world.caller("grpc", EAST), await world.caller("grpc", WEST)
    await west.register("west")
    known = await refused(east.stub.ExplainPool(explained("west/ns/pool-00000")))
    unknown = await refused(east.stub.ExplainPool(explained("west/ns/pool-00009")))
    assert known == unknown
    assert known.code is grpc.StatusCode.PERMISSION_DENIED
    answer = await east.stub.ExplainPool(explained("east/ns/pool-00000"))
    assert "west" not in str(answer)
    reader = await world.caller("grpc", READER)
    assert "west" in str(await reader.stub.ExplainPool(explained("east/ns/pool-00000")))


async def test_pages_and_tags_of_another_scope_do_not_fit(world: AccessWorld) -> None:
    east, west = await world.caller("grpc", EAST), await world.caller("grpc", WEST)
    for number in range(3):
        await east.register("east", number)
        await west.register("west", number)
    page = await east.stub.ListPools(pb.ListPoolsRequest(page_size=1))
    request = pb.ListPoolsRequest(page_size=1, page_token=page.next_page_token)
    assert [pool.key.cluster_id for pool in (await east.stub.ListPools(request)).pools] == ["east"]
    assert (await refused(west.stub.ListPools(request))).fields == ["page_token"]
    replies = [await (await _rest(world, name)).reply("GET", "/pools") for name in (EAST, WEST)]
    assert replies[0].headers["etag"] != replies[1].headers["etag"]
    fresh = await (await _rest(world, WEST)).reply(
        "GET", "/pools", headers={"If-None-Match": replies[0].headers["etag"]}
    )
    assert fresh.status == 200


async def _rest(world: AccessWorld, identity: str) -> AccessCaller:
    return await world.caller("rest", identity)


async def test_a_page_that_listens_is_ended_by_a_new_policy(
    world: AccessWorld, tmp_path: Path
) -> None:
    reader = await world.caller("rest", READER)
    url = f"https://localhost:{world.service.rest.port}/events"
    async with reader.session.get(url) as events:
        assert events.status == 200
        await events.content.readuntil(b"\n\n")
        await eventually(lambda: len(world.service.rest.events) == 1)
        await world.change_policy(tmp_path, POLICY.replace(READER, "dns:nobody.example"))
        async with asyncio.timeout(30):
            await events.content.read()
    for path in ("/events", "/", "/why"):
        assert (await reader.reply("GET", path)).status == 403


async def test_pages_show_a_caller_its_scope(world: AccessWorld) -> None:
    east, west = await world.caller("rest", EAST), await world.caller("rest", WEST)
    await west.register("west")
    shown = await east.reply("GET", "/")
    assert (shown.status, b"pool-00000" in shown.body) == (200, False)
    assert b"pool-00000" in (await west.reply("GET", "/")).body
    answers = [await east.reply("GET", f"/why?pool=west/ns/pool-0000{last}") for last in (0, 1)]
    assert {answer.status for answer in answers} == {403}
    assert answers[0].body == answers[1].body
    assert world.denials()[-1]["what"] == "west/ns/pool-00001"
    stranger = await world.caller("rest", "dns:stranger.example")
    assert (await stranger.reply("GET", "/", headers={"Accept": "text/html"})).status == 403
