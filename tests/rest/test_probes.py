"""Alive, ready, healthy, and the figures: what probes and scrapers are told when."""

import asyncio
import gzip
import random
import string

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from global_discovery.domain.errors import StoreUnwritable
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.store import StoredShare
from support.rest import RestUnderTest, a_body, a_rest_face

PROBES = ["/livez", "/readyz", "/healthz"]


async def statuses(rest: RestUnderTest) -> list[int]:
    return [(await rest.call("GET", path)).status for path in PROBES]


async def test_before_the_store_was_read_it_is_alive_and_nothing_else() -> None:
    async with a_rest_face(opened=False) as rest:
        assert await statuses(rest) == [200, 503, 503]
        reply = await rest.call("GET", "/readyz")
        assert reply.headers["retry-after"] == "1"
        assert reply.headers["content-type"] == "application/problem+json"
        await rest.core.registrar.open()
        assert await statuses(rest) == [200, 200, 200]


async def test_healthz_is_degraded_with_its_reasons_while_the_list_is_estimated(
    rest: RestUnderTest,
) -> None:
    reply = await rest.call("GET", "/healthz")
    assert reply.body == b'{"status":"degraded","complete":false,"reasons":["STARTING"]}'
    rest.end_of_starting()
    reply = await rest.call("GET", "/healthz")
    assert reply.body == b'{"status":"ok","complete":true,"reasons":[]}'


async def test_readiness_ends_at_the_end_and_with_it_nothing_but_readiness(
    rest: RestUnderTest,
) -> None:
    assert await statuses(rest) == [200, 200, 200]
    rest.core.registrar.shut()
    assert await statuses(rest) == [200, 503, 200]


class WriteOnlyOnce(MemoryStore):
    """A store that fails for ever after it was opened."""

    async def put(self, share: StoredShare) -> None:
        del share
        raise StoreUnwritable


async def test_readiness_does_not_follow_a_store_that_fails_later() -> None:
    async with a_rest_face(store=WriteOnlyOnce()) as rest:
        assert (await rest.post(a_body())).status == 503
        assert await statuses(rest) == [200, 200, 200]


async def test_a_dead_task_is_no_life(rest: RestUnderTest) -> None:
    ended = asyncio.Event()
    task = asyncio.create_task(_until(ended))
    rest.readiness.supervise(task)
    assert await statuses(rest) == [200, 200, 200]
    ended.set()
    await task
    assert await statuses(rest) == [503, 200, 200]
    reply = await rest.call("GET", "/livez")
    assert (reply.json["code"], reply.headers["retry-after"]) == ("DEAD", "1")


async def _until(event: asyncio.Event) -> None:
    await event.wait()


@pytest.mark.parametrize("path", [*PROBES, "/metrics"])
async def test_a_probe_may_bring_a_query(rest: RestUnderTest, path: str) -> None:
    assert (await rest.call("GET", path + "?verbose&x=%zz")).status == 200


async def test_the_health_port_serves_the_probes_and_nothing_else() -> None:
    async with a_rest_face(health_listen="127.0.0.1:0") as rest:
        assert rest.face.health_port not in {None, rest.face.port}
        expected = dict.fromkeys([*PROBES, "/metrics"], 200)
        expected |= dict.fromkeys(["/pools", "/routers", "/openapi.json", "/pools/a/b/c"], 404)
        for path, status in expected.items():
            request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
            [reply] = await rest.send(request, port=rest.face.health_port)
            assert reply.status == status
            assert (await rest.call("GET", path)).status != 404 or "{" not in path


async def test_without_a_health_port_there_is_none(rest: RestUnderTest) -> None:
    assert rest.face.health_port is None


# -- metrics ------------------------------------------------------------------


async def test_metrics_are_prometheus_text_unless_openmetrics_is_asked_for(
    rest: RestUnderTest,
) -> None:
    plain = await rest.call("GET", "/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "global_discovery_pools" in {family.name for family in prometheus(plain.body.decode())}
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    modern = await rest.call("GET", "/metrics", headers={"accept": accept})
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert "global_discovery_pools" in {family.name for family in openmetrics(modern.body.decode())}


@pytest.mark.parametrize(
    "accept", ["", ";;;", "text/plain;version=x", "application/openmetrics-text;version=zz", "=,="]
)
async def test_metrics_are_given_whatever_is_accepted(rest: RestUnderTest, accept: str) -> None:
    reply = await rest.call("GET", "/metrics", headers={"accept": accept})
    assert reply.status == 200
    assert "zz" not in reply.headers["content-type"]


OPENMETRICS = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "modern"),
    [
        ("*/*", False),
        ("application/*", False),
        ("text/plain", False),
        (OPENMETRICS, True),
        (f"{OPENMETRICS};version=1.0.0, text/plain;q=0.5", True),
        (f"{OPENMETRICS};version=1.0.0;q=0.5, text/plain;version=0.0.4;q=0.5", True),
        (f"{OPENMETRICS};version=1.0.0;q=0.3, text/plain;version=0.0.4;q=0.5", False),
        (f"{OPENMETRICS};q=0", False),
        (f"{OPENMETRICS};version=0.0.1", False),
        (f"{OPENMETRICS};version=2.0.0, {OPENMETRICS};version=1.0.0;q=0.1", True),
    ],
)
async def test_the_format_is_the_most_welcome_one(
    rest: RestUnderTest,
    accept: str,
    modern: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    reply = await rest.call("GET", "/metrics", headers={"accept": accept})
    wanted = f"{OPENMETRICS}; version=1.0.0" if modern else "text/plain; version=0.0.4"
    assert reply.headers["content-type"].startswith(wanted)
    assert reply.body.endswith(b"# EOF\n") == modern
    assert reply.headers["vary"] == "Accept, Accept-Encoding"


async def test_metrics_are_compressed_for_who_takes_that(rest: RestUnderTest) -> None:
    zipped = await rest.call("GET", "/metrics", headers={"accept-encoding": "gzip"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert b"global_discovery_pools 0.0" in gzip.decompress(zipped.body)
    plain = await rest.call("GET", "/metrics", headers={"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in plain.headers
    head = await rest.call("HEAD", "/metrics")
    assert (head.status, head.body) == (200, b"")


def series(registry: CollectorRegistry) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Every series that a scrape would find."""
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in registry.collect()
        for sample in family.samples
    }


async def call_in_every_way(rest: RestUnderTest, rng: random.Random) -> None:
    """One call of each outcome, with everything that a caller can choose made up."""

    def word() -> str:
        return "".join(rng.choices(string.ascii_letters + string.digits, k=12))

    key = {name: word() for name in ("cluster_id", "namespace", "dgd_name")}
    lease = await rest.post(a_body(model=word(), relay_id=word(), **key))
    assert lease.status == 200
    await rest.call("GET", f"/pools?model={word()}")
    await rest.call("GET", f"/pools?{word()}=1")
    await rest.call("GET", f"/{word()}")
    await rest.call(word().upper(), f"/{word()}")
    await rest.call("PATCH", "/pools")
    await rest.call("DELETE", "/pools/" + "/".join(key.values()) + f"?relay_id={word()}")
    await rest.call("DELETE", "/pools/" + "/".join(key.values()) + "?all=true")
    await rest.post(a_body(model=f"{word()}\n"))
    await rest.post("{" + word())
    await rest.send(word().encode() + b"\r\n\r\n")


async def test_what_callers_make_up_adds_no_series(rest: RestUnderTest) -> None:
    rng = random.Random(76)
    await call_in_every_way(rest, rng)
    before = series(rest.registry)
    for _ in range(100):
        await call_in_every_way(rest, rng)
    assert series(rest.registry) == before


async def test_calls_are_counted_by_route_and_code(rest: RestUnderTest) -> None:
    await rest.post(a_body())
    await rest.call("HEAD", "/pools")
    await rest.call("GET", "/pools")
    await rest.call("DELETE", "/pools/c1/ns/none")
    await rest.call("GET", "/nothing")
    await rest.call("OPTIONS", "/pools")
    await rest.send(b"\r\nnoise\r\n\r\n")

    def calls(method: str, code: str) -> float | None:
        labels = {"face": "rest", "method": method, "code": code}
        return rest.registry.get_sample_value("global_discovery_calls_total", labels)

    key = "DELETE /pools/{cluster_id}/{namespace}/{dgd_name}"
    assert calls("POST /pools", "200") == 1
    assert calls("GET /pools", "200") == 2
    assert calls(key, "404") == 1
    assert calls("other", "404") == 1
    assert calls("other", "204") == 1
    assert calls("other", "400") == 1
    refused = {"face": "rest", "reason": "SHARE_NOT_FOUND"}
    assert rest.registry.get_sample_value("global_discovery_rejections_total", refused) == 1
