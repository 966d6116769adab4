"""Names are what they are: text, on every page, whatever they try to be."""

from urllib.parse import quote

import pytest

from global_discovery.domain.printable import printable
from support.asking_pages import page_of
from support.hostile_names import HOSTILE
from support.html_page import Node
from support.page_world import a_call
from support.rest import RestUnderTest

KEY = a_call(name="hostile").registration.key
TAGS = """
a b bdi body button caption code dd details div dl dt footer form h1 h2 h3 head header html img
input kbd label li link main meta meter nav ol option p script section select span strong summary
table tbody td th thead time title tr ul
"""


OWN_SCRIPT = {"src": "/page/page.js", "defer": ""}


def assert_nothing_foreign(page: Node, *scripts: dict[str, str]) -> None:
    """No element and no attribute but those of the templates, and these scripts alone."""
    assert {node.tag for node in page.every()} <= set(TAGS.split())
    assert [node.attributes for node in page.every("script")] == [*scripts]
    for node in page.every():
        assert not [name for name in node.attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            if name in node.attributes:
                assert node.attributes[name].startswith(("/", "#", "?"))


@pytest.mark.parametrize("model", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("path", ["/", "/?group=none", "/?group=region", f"/why?pool={KEY}"])
async def test_a_hostile_model_name_is_shown_as_text(
    rest: RestUnderTest, model: str, path: str
) -> None:
    body = {
        "cluster_id": KEY.cluster_id,
        "namespace": KEY.namespace,
        "dgd_name": KEY.dgd_name,
        "model": model,
        "location": {"region": model[:60].strip()},
        "capabilities": [model[:60].strip()],
        "capacity": [{"gpu_sku": model[:60].strip(), "gpu_count": 1}],
        "relay_id": "<b>relay</b>",
    }
    assert (await rest.post(body)).status == 200
    page = await page_of(rest, path)
    assert_nothing_foreign(page, OWN_SCRIPT)
    assert printable(model) in [node.text for node in page.every("bdi")]


@pytest.mark.parametrize("searched", HOSTILE.values(), ids=HOSTILE)
async def test_what_is_searched_for_comes_back_as_it_was(
    rest: RestUnderTest, searched: str
) -> None:
    searched = searched[:256]
    page = await page_of(rest, f"/?q={quote(searched)}&model={quote(searched)}")
    assert_nothing_foreign(page, OWN_SCRIPT)
    assert page.by_id("q").attributes["value"] == searched
    [hidden] = [one for one in page.every("input") if one.attributes["type"] == "hidden"]
    assert hidden.attributes["value"] == searched


async def test_a_hostile_key_leads_to_its_own_explanation(rest: RestUnderTest) -> None:
    name = "\"><script>&amp;'{{1}}%2F+?#"
    await rest.post(
        {
            "cluster_id": "c<1>",
            "namespace": "n&s",
            "dgd_name": name,
            "model": "m",
            "location": {"region": "r"},
        }
    )
    page = await page_of(rest)
    assert_nothing_foreign(page, OWN_SCRIPT)
    [link] = page.by_id("list").by_class("key")
    explanation = await page_of(rest, link.attributes["href"])
    assert_nothing_foreign(explanation, OWN_SCRIPT)
    assert "It is listed" in explanation.by_id("verdict").text
    assert explanation.by_id("ask").attributes["value"] == f"c<1>/n&s/{name}"


async def test_errors_show_nothing_that_was_sent(rest: RestUnderTest) -> None:
    for path in ("/?hacked=%3Cscript%3E", "/?group=%3Cscript%3E", "/why?pool=%3Cscript%3E/b"):
        page = await page_of(rest, path, status=400)
        assert_nothing_foreign(page)
        assert "script>" not in page.by_id("main").text
