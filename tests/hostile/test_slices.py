"""EndpointSlices that say anything: each costs itself at most, and the others' pools are listed."""

import asyncio
import json
import tempfile
from pathlib import Path

import msgspec
from hypothesis import note
from hypothesis import strategies as st

from global_discovery.domain import frontend_url
from global_discovery.domain.pool import PoolKey
from global_discovery.domain.rules import relay_identity
from global_discovery.kubernetes.envelopes import UNREADABLE, read_event, read_page
from global_discovery.kubernetes.objects import Objects
from global_discovery.kubernetes.reader import Reader
from global_discovery.kubernetes.scope import ENDPOINT_SLICES
from global_discovery.slices.model import decode_slice
from support.fake_kube_api import fake_kube_api
from support.fake_kube_api.faults import Stream
from support.hostile import hostile
from support.hostile_json import damaged_json
from support.imported import SAMPLES, SlicesWorld, a_slice, endpoint, mode_of
from support.kube_reading import reading

GOOD = PoolKey("good", "own", "llm")
SLICES = st.sampled_from(sorted(SAMPLES)).flatmap(
    lambda name: st.tuples(st.just(name), damaged_json(SAMPLES[name]))
)


@hostile(examples=80, several=st.lists(SLICES, min_size=1, max_size=3))
def test_a_damaged_slice_is_read_or_refused_and_the_others_pools_are_listed(
    several: list[tuple[str, str]],
) -> None:
    note("\n".join(text[:2000] for _, text in several))
    asyncio.run(_put(several))


async def _put(several: list[tuple[str, str]]) -> None:
    told: list[str] = []
    objects = Objects(decode_slice, lambda _, key, fault: told.append(f"{key}: {fault}"))
    world = SlicesWorld(mode_of(several[0][0]))
    mcs = SlicesWorld()
    for each in (world, mcs):
        each.slices.replaced([])
        each.slices.in_sync()
    for service, address in (("llm-pool-relay", "10.9.0.1"), ("llm-frontend", "10.9.0.2")):
        good = a_slice(service, endpoint(address, ready=True), cluster="good", namespace="own")
        mcs.slices.put(good)
    wanted = mcs.pools[GOOD]
    raws = [msgspec.Raw(text.encode(errors="surrogatepass")) for _, text in several]
    read, bad = await objects.read_all(raws)
    objects.listed(bad)
    for one in read.values():
        for each in (world, mcs):
            each.slices.put(one)
    assert mcs.pools[GOOD] == wanted
    for each in (world, mcs):
        for pool in each.pools.values():
            json.dumps([*pool.key, *pool.relays, *pool.frontends]).encode()
            assert [relay_identity(relay) for relay in pool.relays] == list(pool.relays)
            assert [frontend_url.normalize(url) for url in pool.frontends] == list(pool.frontends)
        assert isinstance(each.routers, dict)
        json.dumps(each.events, default=str).encode()


EVENT = {"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "1"}}}
PAGE = {"metadata": {"resourceVersion": "1", "continue": "x"}, "items": [EVENT["object"]]}


@hostile(examples=80, event=damaged_json(EVENT), page=damaged_json(PAGE))
def test_an_envelope_is_read_or_unreadable(event: str, page: str) -> None:
    for read, text in ((read_event, event), (read_page, page)):
        try:
            read(text.encode(errors="surrogatepass"))
        except UNREADABLE:
            continue


# -- through the real reader ----------------------------------------------------

GOOD_SLICES = [
    {
        "metadata": {
            "name": f"good-{service}",
            "namespace": "own",
            "labels": {
                "multicluster.kubernetes.io/service-name": service,
                "multicluster.kubernetes.io/source-cluster": "good",
            },
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    for service, address in (("llm-pool-relay", "10.9.0.1"), ("llm-frontend", "10.9.0.2"))
]
LINES = st.one_of(
    SLICES.map(lambda named: '{"type":"MODIFIED","object":' + named[1] + "}"),
    damaged_json(EVENT),
    st.sampled_from(
        [
            '{"type":"ERROR","object":{"code":410}}',
            '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"x"}}}',
            '{"type":"BOOKMARK"}',
            "x" * 1_000_000,
            "",
        ]
    ),
)


@hostile(
    examples=6,
    pages=st.lists(st.lists(SLICES.map(lambda named: named[1]), max_size=3), max_size=2),
    lines=st.lists(LINES, max_size=4),
)
def test_a_reader_of_anything_is_right_again_and_lists_the_good_pool(
    pages: list[list[str]], lines: list[str]
) -> None:
    note("\n".join(text[:2000] for text in (*lines, *map(str, pages))))
    asyncio.run(_read(pages, lines))


async def _read(pages: list[list[str]], lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with fake_kube_api() as api, reading(api, Path(folder)) as reader:
            world = SlicesWorld()
            reader.reader = Reader(
                reader.connection,
                ENDPOINT_SLICES,
                decode_slice,
                world.slices,
                timer=reader.timer,
                report=reader.report,
                jitter=lambda: 0.5,
            )
            for each in GOOD_SLICES:
                api.put(each)
            own = ",".join(map(json.dumps, GOOD_SLICES))
            for items in pages:
                api.fail_next(Stream(_page(",".join([*items, own]))), verb="list")
            reader.drive()
            await reader.until(lambda: GOOD in world.pools)
            wanted = world.pools[GOOD]
            for line in lines:
                await api.watching()
                api.inject(line.encode(errors="surrogatepass") + b"\n")
                await reader.until(lambda: world.pools.get(GOOD) == wanted)
            await api.watching()
            api.compact()
            api.reset_watches()
            await reader.until(lambda: world.mark.exact and set(world.pools) == {GOOD})
            assert world.pools[GOOD] == wanted
            assert not reader.driving.done()
            json.dumps([fields for _, fields in reader.events], default=str).encode()


def _page(items: str) -> bytes:
    page = '{"metadata":{"resourceVersion":"1"},"items":[' + items + "]}"
    return page.encode(errors="surrogatepass")
