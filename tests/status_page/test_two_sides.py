"""What the page says of pools that two sides must agree on."""

from support.asking_pages import page_at, pools_on, troubles_on
from support.explaining import World, frontend_slice, relay_slice
from support.html_page import Node


async def page(world: World, path: str = "/") -> Node:
    world.service.core.pools.refresh()
    return await page_at(world.service.rest.port, path)


async def listed(world: World, name: str = "qwen") -> None:
    await world.register(name)
    world.show(relay_slice(name), frontend_slice(name))


async def test_pools_that_one_side_lists_for_long_need_attention(mcs: World) -> None:
    await listed(mcs)
    world_leases = [await mcs.register("unexported")]
    mcs.show(relay_slice("unregistered"), frontend_slice("unregistered"))
    for _ in range(70):
        mcs.run(1)
        mcs.service.core.pools.refresh()
        await mcs.register("unexported", lease_id=world_leases[0])
    found = await page(mcs)
    assert [node.every("b")[0].text for node in found.by_class("severe")] == [
        "Imported, and not registered",
        "Registered, and not imported",
    ]
    keys = [link.text for link in found.by_id("attention").every("a")]
    assert "rome/models/unexported" in keys
    assert "rome/models/unregistered" in keys


async def test_a_pool_without_a_ready_frontend_and_its_port_need_attention(mcs: World) -> None:
    await mcs.register()
    mcs.show(relay_slice(), frontend_slice(port="grpc"))
    found = await page(mcs)
    assert pools_on(found) == ["rome/models/qwen"]
    assert troubles_on(found) == {"NO_READY_FRONTEND": 1, "FRONTEND_PORT_MISSING": 1}
    assert "has no TCP port named http" in found.by_id("attention").text


async def test_what_slices_are_not_read_is_counted_by_reason(mcs: World) -> None:
    mcs.show(relay_slice(cluster=""))
    found = await page(mcs)
    assert list(troubles_on(found)) == ["SLICE_REFUSED"]


async def test_the_health_of_the_slices_is_shown(mcs: World) -> None:
    await listed(mcs)
    sources = (await page(mcs)).by_id("sources")
    assert "Imported slices in sync" in sources.text
    mcs.watching.slices.out_of_sync()
    found = await page(mcs)
    assert "Imported slices out of sync" in found.by_id("sources").text
    assert "SOURCE_UNSYNCED" in found.by_id("verdict").text


async def test_the_explanation_of_a_one_sided_pool_is_that_of_the_command(mcs: World) -> None:
    await mcs.register()
    answer = await mcs.explain()
    found = await page(mcs, "/why?pool=rome/models/qwen")
    verdict = found.by_id("verdict").text
    assert "It is not listed NOT_IMPORTED" in verdict
    assert answer.verdict.detail[1:] in verdict
    assert answer.verdict.advice in verdict
    for finding in answer.findings:
        assert finding.detail[1:] in found.by_id("findings").text
        assert finding.advice in found.by_id("findings").text
    assert "llm" not in found.by_id("slices").text
    assert "models/qwen-pool-relay" in found.by_id("slices").text


async def test_an_explanation_shows_slices_shares_and_content(mcs: World) -> None:
    await listed(mcs)
    found = await page(mcs, "/why?pool=rome/models/qwen")
    assert "It is listed LISTED" in found.by_id("verdict").text
    assert "1 of 1 endpoint Ready" in found.by_id("slices").text
    assert "http:8000/TCP" in found.by_id("slices").text
    [meter] = found.by_id("registration").every("meter")
    assert meter.attributes["max"] == "15.0"
    assert "http://10.1.0.2:8000" in found.by_id("content").text
    assert "ip:10.1.0.1" in found.by_id("content").text
