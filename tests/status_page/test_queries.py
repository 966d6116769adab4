"""What may be asked of the pages, and how the rest is refused."""

import pytest

from global_discovery.serving.page.query import Group, PageQuery, parse
from global_discovery.view.filters import PoolFilter
from support.asking_pages import page_of
from support.rest import RestUnderTest

BAD = [
    "/?unknown=1",
    "/?Q=1",
    "/?group=models",
    "/?group=",
    "/?group=model&group=region",
    "/?q=a&q=b",
    "/?page=0",
    "/?page=-1",
    "/?page=1.5",
    "/?page=%D9%A1",
    "/?page=1000001",
    "/?page=99999999999999999999",
    "/?page=1&page=2",
    "/?q=%ff",
    "/?q=%zz",
    f"/?q={'a' * 257}",
    "/why?pool=a",
    "/why?pool=a/b",
    "/why?pool=a/b/c/d",
    "/why?pool=a/../c",
    "/why?pool=a/b/%C3%A9",
    "/why?pool=a/b/c&pool=a/b/c",
    "/why?key=a/b/c",
    "/events?x=1",
]


@pytest.mark.parametrize("path", BAD)
async def test_a_bad_query_is_400_as_a_problem_document(rest: RestUnderTest, path: str) -> None:
    reply = await rest.call("GET", path)
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["status"] == 400


@pytest.mark.parametrize("path", [path for path in BAD if not path.startswith("/events")])
async def test_a_bad_query_of_a_browser_is_400_as_a_page(rest: RestUnderTest, path: str) -> None:
    page = await page_of(rest, path, status=400)
    assert page.by_id("error-title").text == "Bad Request 400"
    assert page.every("a", lambda link: link.attributes["href"] == "/")
    assert page.every("script") == [], "an error page must not ask again and again"


async def test_too_many_values_of_a_filter_are_422_as_for_the_list(rest: RestUnderTest) -> None:
    query = "&".join(f"model=m{number}" for number in range(257))
    assert (await rest.call("GET", f"/pools?{query}")).status == 422
    page = await page_of(rest, f"/?{query}", status=422)
    assert "model must have at most 256 different values" in page.text


def test_a_link_asks_for_what_it_was_made_of() -> None:
    query = PageQuery(
        PoolFilter(
            models=frozenset({"a b", "c&d"}),
            regions=frozenset({"é"}),
            cluster_ids=frozenset({"1"}),
            namespaces=frozenset({"n"}),
        ),
        search="x=y #1",
        group=Group.REGION,
        page=7,
    )
    path, _, text = query.link(page=query.page).partition("?")
    assert path == "/"
    assert parse(text) == query
    assert parse(query.link().partition("?")[2]).page == 1


def test_the_page_of_everything_has_the_shortest_address() -> None:
    assert PageQuery().link() == "/"
    assert parse("") == PageQuery()
    assert parse("q=&group=model&page=1").link() == "/"


def test_a_filter_is_taken_and_left_among_the_others() -> None:
    query = parse("model=a&model=b&region=r")
    assert parse(query.without("model", "a").partition("?")[2]) == parse("model=b&region=r")
    assert parse(query.only("model", "c").partition("?")[2]) == parse("model=c&region=r")


async def test_without_a_pool_there_is_a_form_to_name_one(rest: RestUnderTest) -> None:
    page = await page_of(rest, "/why")
    assert page.by_id("ask").attributes["name"] == "pool"
    assert page.by_id("ask").attributes["value"] == ""


async def test_a_key_that_nobody_knows_is_explained(rest: RestUnderTest) -> None:
    page = await page_of(rest, "/why?pool=%20a/b/c%20")
    assert "It is not listed NOT_REGISTERED" in page.by_id("verdict").text
    assert "Look at the relay" in page.by_id("verdict").text
