"""The pages as HTTP: headers, codings, tags, methods, ports."""

import gzip

import pytest

from global_discovery.serving.page.assets import load_assets
from support.asking_pages import FOR_PEOPLE, page_of
from support.page_world import a_call
from support.rest import RestUnderTest, a_rest_face

PAGES = ["/", "/why", "/why?pool=a/b/c", "/?q=x"]
ASSETS = sorted(load_assets())
PATHS = ["/", "/why", *ASSETS]


def policy(header: str) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in header.split(";"))
    return {name: value for name, _, value in parts}


@pytest.mark.parametrize("path", [*PAGES, "/?bad=1"])
async def test_nothing_but_its_own_files_may_run_or_be_loaded(
    rest: RestUnderTest, path: str
) -> None:
    reply = await rest.call("GET", path, headers=FOR_PEOPLE)
    assert policy(reply.headers["content-security-policy"]) == {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_loads_only_what_this_port_serves(rest: RestUnderTest, path: str) -> None:
    page = await page_of(rest, path)
    loaded = {
        node.attributes.get("src") or node.attributes["href"]
        for tag in ("script", "link", "img")
        for node in page.every(tag)
    }
    assert loaded == set(ASSETS)
    assert page.every("style") == []


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/page/style.css", "text/css; charset=utf-8"),
        ("/page/page.js", "text/javascript; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ],
)
async def test_a_file_is_sent_once_and_then_known_by_its_tag(
    rest: RestUnderTest, path: str, content_type: str
) -> None:
    reply = await rest.call("GET", path)
    assert reply.status == 200
    assert reply.headers["content-type"] == content_type
    assert reply.headers["cache-control"] == "no-cache"
    again = await rest.call("GET", path, headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


async def test_a_page_is_compressed_for_who_takes_that(rest: RestUnderTest) -> None:
    plain = await rest.call("GET", "/")
    zipped = await rest.call("GET", "/", headers={"Accept-Encoding": "gzip"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert zipped.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(zipped.body) == plain.body
    assert zipped.headers["etag"] == plain.headers["etag"][:-1] + '-gzip"'
    headers = {"Accept-Encoding": "gzip", "If-None-Match": zipped.headers["etag"]}
    assert (await rest.call("GET", "/", headers=headers)).status == 304


@pytest.mark.parametrize("path", PATHS)
async def test_head_is_get_without_the_body(rest: RestUnderTest, path: str) -> None:
    got, head = await rest.call("GET", path), await rest.call("HEAD", path)
    assert head.status == 200
    assert head.body == b""
    for name in ("content-length", "content-type", "etag"):
        assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize("path", [*PATHS, "/events"])
async def test_other_methods_are_refused_and_told(rest: RestUnderTest, path: str) -> None:
    refused = await rest.call("POST", path)
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    options = await rest.call("OPTIONS", path)
    assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("path", ["/page", "/page/", "/page/../page/page.js", "/page/x", "/why/"])
async def test_there_is_no_other_path(rest: RestUnderTest, path: str) -> None:
    [reply] = await rest.send(
        f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
    )
    assert reply.status == 404


@pytest.mark.parametrize("path", [*PATHS, "/events"])
async def test_no_page_is_served_on_the_port_of_health(path: str) -> None:
    async with a_rest_face(health_listen="127.0.0.1:0") as rest:
        request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
        [reply] = await rest.send(request, port=rest.face.health_port)
        assert reply.status == 404


async def test_the_page_is_there_before_calls_are_taken() -> None:
    async with a_rest_face(opened=False) as rest:
        assert "STARTING" in (await page_of(rest)).by_id("verdict").text


async def test_one_rendering_serves_all_who_ask_for_the_same_within_a_second(
    rest: RestUnderTest,
) -> None:
    first = await rest.call("GET", "/")
    assert (await rest.call("GET", "/")).headers["etag"] == first.headers["etag"]
    rest.pass_time(1.5)
    assert (await rest.call("GET", "/")).headers["etag"] != first.headers["etag"]


async def test_a_rendering_is_old_as_soon_as_the_list_moves(rest: RestUnderTest) -> None:
    await rest.call("GET", "/")
    await rest.core.registrar.register(a_call())
    assert "qwen3-0-6b-0000" in (await page_of(rest)).by_id("list").text
