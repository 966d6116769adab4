"""`GET /pools` and `GET /routers`: the documented shape, and the headers around it."""

import asyncio
import gzip
import json
import threading

import pytest

from global_discovery.domain.pool import Router
from global_discovery.serving.rest import list_body, representation
from support.rest import Reply, RestUnderTest, a_body, a_rest_face

FULL = a_body(
    model="Qwen/Qwen3-0.6B",
    location={"region": "eu-1", "availability_zone": "eu-1a", "datacenter": "dc7"},
    capabilities=["tools", "chat"],
    capacity=[{"gpu_sku": "h100", "gpu_count": 8}, {"gpu_sku": "a100", "gpu_count": 2.0}],
    frontends=["HTTP://Host:80/", "http://[FD00::1]:8000"],
    relays=["ip:10.0.0.2", "ip:::ffff:10.0.0.1"],
    relay_id="r",
)

GOLDEN = (
    b'{"pools":[{"cluster_id":"c1","namespace":"ns","dgd_name":"pool-00000",'
    b'"model":"Qwen/Qwen3-0.6B",'
    b'"location":{"region":"eu-1","availability_zone":"eu-1a","datacenter":"dc7"},'
    b'"capabilities":["chat","tools"],'
    b'"capacity":[{"gpu_sku":"a100","gpu_count":2},{"gpu_sku":"h100","gpu_count":8}],'
    b'"frontends":["http://[fd00::1]:8000","http://host"],'
    b'"relays":["ip:10.0.0.1","ip:10.0.0.2"],'
    b'"registered_time":"2023-11-14T22:13:20.125Z","changed_time":"2023-11-14T22:13:20.125Z"},'
    b'{"cluster_id":"c1","namespace":"ns","dgd_name":"pool-00001","model":"m",'
    b'"location":{"region":"r1"},"capabilities":[],"capacity":[],"frontends":[],'
    b'"relays":["ip:127.0.0.1"],'
    b'"registered_time":"2023-11-14T22:13:20.125Z","changed_time":"2023-11-14T22:13:20.125Z"}],'
    b'"complete":false,"reasons":["STARTING"],"bound_secs":1}'
)


async def fill(rest: RestUnderTest, count: int = 20) -> None:
    """Enough pools for a body that is worth compressing."""
    for number in range(count):
        await rest.post(a_body(number))


async def test_the_list_has_the_documented_shape_byte_for_byte(rest: RestUnderTest) -> None:
    rest.clock.advance(0.125)
    await rest.post(a_body(1))
    await rest.post(FULL)
    reply = await rest.call("GET", "/pools")
    assert reply.body == GOLDEN
    assert reply.headers["content-type"] == "application/json"


async def test_a_complete_list_says_so() -> None:
    async with a_rest_face() as rest:
        rest.end_of_starting()
        reply = await rest.call("GET", "/pools")
        assert reply.body == b'{"pools":[],"complete":true,"reasons":[],"bound_secs":1}'


async def test_routers_have_the_documented_shape_byte_for_byte() -> None:
    routers = [Router("b", "http://b:1"), Router("a", "https://a")]
    async with a_rest_face(routers=routers) as rest:
        reply = await rest.call("GET", "/routers")
        assert reply.body == (
            b'{"routers":[{"id":"a","url":"https://a"},{"id":"b","url":"http://b:1"}],'
            b'"complete":true,"reasons":[]}'
        )


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [0, 1, 2, 3]),
        ("?", [0, 1, 2, 3]),
        ("?model=m1", [1, 3]),
        ("?model=m1&model=m0", [0, 1, 2, 3]),
        ("?model=m1&cluster_id=c0", [1]),
        ("?cluster_id=c1&cluster_id=c0&namespace=n%20s", [0, 1, 2, 3]),
        ("?region=r%2F1", [0, 1, 2, 3]),
        ("?namespace=n+s", [0, 1, 2, 3]),
        ("?region=r", []),
        ("?model=M1", []),
        ("?model=", []),
        ("?model=%00", []),
    ],
)
async def test_filters_are_exact_and_combine(
    rest: RestUnderTest, query: str, numbers: list[int]
) -> None:
    for n in range(4):
        location = {"region": "r/1"}
        body = a_body(
            n, cluster_id=f"c{n // 2}", namespace="n s", model=f"m{n % 2}", location=location
        )
        assert (await rest.post(body)).status == 200
    names = [pool["dgd_name"] for pool in await rest.listed("/pools" + query)]
    assert names == [f"pool-{n:05}" for n in numbers]


@pytest.mark.parametrize(
    "query", ["?models=m", "?Model=m", "?model=m&x=1", "?x", "?model[]=m", "?model=%ff", "?model=%"]
)
async def test_a_query_that_means_nothing_is_refused(rest: RestUnderTest, query: str) -> None:
    reply = await rest.call("GET", "/pools" + query)
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/problem+json"


async def test_routers_take_no_parameters(rest: RestUnderTest) -> None:
    assert (await rest.call("GET", "/routers?id=a")).status == 400


async def test_too_many_values_of_a_filter_are_told_by_its_name(rest: RestUnderTest) -> None:
    query = "&".join(f"region=r{n}" for n in range(257))
    reply = await rest.call("GET", "/pools?" + query)
    assert reply.status == 422
    assert reply.fields == ["region"]


# -- tags ---------------------------------------------------------------------


async def test_a_tag_is_of_the_content_and_not_of_the_position(rest: RestUnderTest) -> None:
    first = await rest.call("GET", "/pools")
    await rest.post(a_body(0))
    changed = await rest.call("GET", "/pools")
    assert (await rest.call("DELETE", "/pools/c1/ns/pool-00000")).status == 204
    back = await rest.call("GET", "/pools")
    position = "x-global-discovery-position"
    assert first.headers["etag"] == back.headers["etag"] != changed.headers["etag"]
    assert len({reply.headers[position] for reply in (first, changed, back)}) == 3


async def test_the_mark_is_part_of_the_tag(rest: RestUnderTest) -> None:
    estimated = await rest.call("GET", "/pools")
    rest.end_of_starting()
    exact = await rest.call("GET", "/pools")
    assert estimated.headers["etag"] != exact.headers["etag"]


async def test_a_renewal_that_changes_nothing_changes_no_tag(rest: RestUnderTest) -> None:
    await rest.post(a_body(0))
    before = await rest.call("GET", "/pools")
    await rest.post(a_body(0))
    after = await rest.call("GET", "/pools")
    for name in ("etag", "x-global-discovery-position"):
        assert before.headers[name] == after.headers[name]


async def test_a_list_that_the_caller_has_is_not_sent_again(rest: RestUnderTest) -> None:
    get = await rest.call("GET", "/pools")
    tag = get.headers["etag"]
    for value in (tag, f"W/{tag}", f'"x", {tag}', f'W/"a,b", W/{tag} ', "*"):
        for method in ("GET", "HEAD"):
            reply = await rest.call(method, "/pools", headers={"if-none-match": value})
            assert (reply.status, reply.body) == (304, b"")
            assert reply.headers["etag"] == tag
            assert reply.headers["vary"] == "Accept-Encoding"
            assert reply.headers["cache-control"] == "no-cache"
            assert "x-global-discovery-position" in reply.headers
            assert reply.headers["x-global-discovery-instance"] == rest.core.settings.instance_id


async def test_every_answer_names_the_instance(rest: RestUnderTest) -> None:
    replies = [
        await rest.post(a_body(0)),
        await rest.call("GET", "/routers"),
        await rest.call("HEAD", "/pools"),
        await rest.call("DELETE", "/pools/c1/ns/pool-00000"),
        await rest.call("DELETE", "/pools/c1/ns/pool-00000"),
        await rest.call("GET", "/nowhere"),
        await rest.call("PUT", "/pools"),
        await rest.call("OPTIONS", "/pools"),
    ]
    assert [reply.status for reply in replies] == [200, 200, 200, 204, 404, 404, 405, 204]
    named = {reply.headers["x-global-discovery-instance"] for reply in replies}
    assert named == {rest.core.settings.instance_id}


async def test_several_lines_of_if_none_match_are_one_list(rest: RestUnderTest) -> None:
    tag = (await rest.call("GET", "/pools")).headers["etag"]
    headers = [("If-None-Match", '"x"'), ("If-None-Match", tag)]
    assert (await rest.call("GET", "/pools", headers=headers)).status == 304


async def test_another_tag_gets_the_list(rest: RestUnderTest) -> None:
    tag = (await rest.call("GET", "/pools")).headers["etag"]
    for value in ('"x"', "", tag.strip('"'), tag[:-1], '"' + tag, tag.replace('"', '"-', 1)):
        reply = await rest.call("GET", "/pools", headers={"if-none-match": value})
        assert reply.status == 200


# -- gzip ---------------------------------------------------------------------


async def gzipped(rest: RestUnderTest, **headers: str) -> Reply:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return await rest.call("GET", "/pools", headers=fields)


async def test_the_compressed_list_is_the_list(rest: RestUnderTest) -> None:
    await fill(rest)
    plain = await rest.call("GET", "/pools")
    zipped = await gzipped(rest, accept_encoding="gzip")
    assert gzip.decompress(zipped.body) == plain.body
    assert zipped.headers["content-encoding"] == "gzip"
    assert zipped.headers["etag"] == plain.headers["etag"][:-1] + '-gzip"'
    assert zipped.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in plain.headers
    head = await rest.call("HEAD", "/pools", headers={"accept-encoding": "gzip"})
    assert head.headers["content-length"] == str(len(zipped.body))


async def test_each_coding_has_its_own_tag(rest: RestUnderTest) -> None:
    await fill(rest)
    plain = (await rest.call("GET", "/pools")).headers["etag"]
    zipped = (await gzipped(rest, accept_encoding="gzip")).headers["etag"]
    reply = await gzipped(rest, accept_encoding="gzip", if_none_match=zipped)
    assert (reply.status, reply.headers["etag"]) == (304, zipped)
    assert (await gzipped(rest, accept_encoding="gzip", if_none_match=plain)).status == 200
    assert (await gzipped(rest, if_none_match=zipped)).status == 200


@pytest.mark.parametrize(
    ("accept_encoding", "coding"),
    [
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("br, gzip;q=0.5", "gzip"),
        ("*", "gzip"),
        ("gzip;q=0.001", "gzip"),
        ("gzip ; q=1.0", "gzip"),
        ("gzip, identity", "gzip"),
        ("", None),
        ("identity", None),
        ("br", None),
        ("gzip;q=0", None),
        ("gzip;q=0.0, *", None),
        ("*;q=0", None),
        ("identity, gzip;q=0.5", None),
        ("gzip;q=nan", None),
        ("gzip;q=", None),
        ("gzip;q=-1", None),
    ],
)
async def test_the_coding_follows_what_the_caller_takes(
    rest: RestUnderTest, accept_encoding: str, coding: str | None
) -> None:
    await fill(rest)
    reply = await gzipped(rest, accept_encoding=accept_encoding)
    assert reply.headers.get("content-encoding") == coding


async def test_a_small_list_is_not_compressed(rest: RestUnderTest) -> None:
    reply = await gzipped(rest, accept_encoding="gzip")
    assert "content-encoding" not in reply.headers
    assert reply.headers["vary"] == "Accept-Encoding"


async def test_a_large_list_is_compressed_once_for_all_and_beside_the_loop(
    rest: RestUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    compress = representation._gzipped

    def counted(body: bytes) -> bytes:
        threads.append(threading.current_thread())
        return compress(body)

    monkeypatch.setattr(representation, "_gzipped", counted)
    await fill(rest, 200)
    replies = await asyncio.gather(*(gzipped(rest, accept_encoding="gzip") for _ in range(10)))
    assert len({reply.body for reply in replies}) == 1
    assert len(json.loads(gzip.decompress(replies[0].body))["pools"]) == 200
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_a_list_is_encoded_once_while_nothing_changes(
    rest: RestUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(rest, 3)
    before = (await rest.call("GET", "/pools")).body

    def never(_: object) -> bytes:
        raise AssertionError

    monkeypatch.setattr(list_body, "_pool_json", never)
    monkeypatch.setattr(list_body, "_list_json", never)
    assert (await rest.call("GET", "/pools")).body == before


async def test_only_the_pool_that_changed_is_encoded_again(
    rest: RestUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(rest, 3)
    await rest.call("GET", "/pools")
    encoded = []
    time = list_body._time

    def counted(seconds: float) -> str:
        encoded.append(seconds)
        return time(seconds)

    monkeypatch.setattr(list_body, "_time", counted)
    await rest.post(a_body(1, model="other"))
    assert [pool["model"] for pool in await rest.listed()] == ["m", "other", "m"]
    assert len(encoded) == 2


async def test_what_is_kept_for_filters_is_bounded(
    rest: RestUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = {route.template: route for route in rest.face.routes}["/pools"].handlers
    lists = handlers["GET"].__self__._pools  # type: ignore[attr-defined]  # a bound method's own
    for number in range(list_body.MAX_KEPT + 10):
        await rest.call("GET", f"/pools?model=m{number}")
    assert len(lists._kept) == list_body.MAX_KEPT
    monkeypatch.setattr(list_body, "MAX_KEPT_BYTES", 200)
    await rest.call("GET", "/pools?model=x")
    assert len(lists._kept) == 2
    assert lists._kept_bytes == sum(map(len, lists._kept.values()))


@pytest.mark.parametrize("path", ["/pools", "/routers", "/healthz", "/nothing", "/openapi.json"])
async def test_every_answer_says_how_long_it_may_be_kept(rest: RestUnderTest, path: str) -> None:
    reply = await rest.call("GET", path)
    lists = path in {"/pools", "/routers"}
    assert reply.headers["cache-control"] == ("no-cache" if lists else "no-store")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["server"] == "global-discovery"
