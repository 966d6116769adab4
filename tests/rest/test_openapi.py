"""The document describes what is served, and what is served is what it describes."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from global_discovery import __version__
from support.rest import RestUnderTest

EXAMPLES = 25


@pytest.fixture
async def document(rest: RestUnderTest) -> dict[str, Any]:
    reply = await rest.call("GET", "/openapi.json")
    assert reply.headers["content-type"] == "application/json"
    return dict(reply.json)


async def test_the_documented_routes_are_the_served_ones(
    rest: RestUnderTest, document: dict[str, Any]
) -> None:
    documented = {
        (path, method.upper()) for path, item in document["paths"].items() for method in item
    }
    served = {(route.template, method) for route in rest.face.routes for method in route.methods}
    assert documented == served


async def test_the_document_is_of_this_version(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == __version__


async def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if "$ref" in node else set()
            return own.union(*map(references, node.values()))
        if isinstance(node, list):
            return set().union(*map(references, node))
        return set()

    found = references(document)
    assert found
    for reference in found:
        part: Any = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


async def test_every_part_is_described(document: dict[str, Any]) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            assert operation["summary"]
            for parameter in operation.get("parameters", ()):
                assert parameter.get("description") or parameter["schema"]["description"]
            for response in operation["responses"].values():
                assert "$ref" in response or response["description"]


async def test_the_methods_that_are_said_to_be_refused_are_refused_so(
    rest: RestUnderTest, document: dict[str, Any]
) -> None:
    text = document["info"]["description"]
    about = text.partition("A method that a path does not take")[2]
    known, unknown = re.split("[Aa] word that is no method", about.partition("400")[0])
    for sentence, status in ((known, 405), (unknown, 400)):
        methods = set(re.findall(r"`([A-Za-z-]+)`", sentence)) - {"Allow"}
        assert len(methods) >= 3
        for method in methods:
            line = f"{method} /pools HTTP/1.1\r\nHost: a\r\n".encode()
            end = b"\r\n" if status == 400 else b"Connection: close\r\n\r\n"
            [reply] = await rest.send(line + end)
            assert reply.status == status, method


async def test_a_stranger_who_reads_only_the_document_finds_no_contradiction(
    rest: RestUnderTest, tmp_path: Path
) -> None:
    """Schemathesis, with every check but one, on every path but the stream without an end.

    Left out is `positive_data_acceptance`: the rules of addresses, URLs and bytes
    of UTF-8 cannot be stated in JSON Schema; what is accepted has tests of its own.
    """
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"http://127.0.0.1:{rest.face.port}/openapi.json",
        f"--max-examples={EXAMPLES}",
        "--exclude-path=/events",
        "--exclude-checks=positive_data_acceptance",
        "--suppress-health-check=all",
        "--seed=20261130",
        "--no-color",
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    assert b"13 selected / 14 total" in output
