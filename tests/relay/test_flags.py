"""How `global-discovery relay` is called wrongly: exit status 2, and one sentence."""

import argparse
import re

import pytest

from global_discovery.cli import relay
from support.client_process import ran

GOOD = {
    "--cluster-id": "c1",
    "--pool": "ns/qwen",
    "--region": "eu",
    "--frontend": "http://127.0.0.1:1",
}


def flags(*more: str, without: str = "", **changed: str) -> list[str]:
    """The flags of a proper call, with one left out or changed, and more."""
    told = {name: value for name, value in GOOD.items() if name != without}
    told |= {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return ["relay", *(part for pair in told.items() for part in pair), *more]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (flags(without="--region"), "--region"),
        (flags(region=""), "--region"),
        (flags(region=" eu"), "--region"),
        (flags(without="--pool"), "--pool"),
        (flags(pool="qwen"), "--pool"),
        (flags(pool="a/b/c"), "--pool"),
        (flags(pool="/b"), "--pool"),
        (flags(pool="a/.."), "--pool"),
        (flags(without="--cluster-id"), "--cluster-id"),
        (flags(cluster_id=""), "--cluster-id"),
        (flags(cluster_id="a/b"), "--cluster-id"),
        (flags(without="--frontend"), "--openai-url"),
        (flags(frontend="ftp://h"), "--frontend"),
        (flags(frontend="h:8000"), "--frontend"),
        (flags(frontend="http://"), "--frontend"),
        (flags(frontend="http://u:p@h"), "--frontend"),
        (flags("--routing-pool-frontends", "http://a,ftp://b"), "--routing-pool-frontends"),
        (flags("--routing-pool-frontends", "http://a,,"), "--routing-pool-frontends"),
        (flags("--openai-url", "nowhere"), "--openai-url"),
        (flags("--openai-url", "http://h?q"), "--openai-url"),
        (flags("--health-url", "nowhere"), "--health-url"),
        (flags("--health-url", "http://h/health#f"), "--health-url"),
        (flags("--health-url", "http://h/health?a b"), "--health-url"),
        (flags("--health-url", "http://h/health?a#f"), "--health-url"),
        (flags("--health-url", "http://h/health?a=%zz"), "--health-url"),
        (flags("--health-url", "http://h/health?ü"), "--health-url"),
        (flags("--health-url", "http://u:p@h/health?a"), "--health-url"),
        (flags("--model", ""), "--model"),
        (flags("--model", "x" * 1025), "--model"),
        (flags("--capability", ""), "--capability"),
        (flags("--capacity", "H100"), "--capacity"),
        (flags("--capacity", "H100=0"), "--capacity"),
        (flags("--relay-id", "ü"), "--relay-id"),
        (flags("--relay-id", "x" * 129), "--relay-id"),
        (flags("--server", "nowhere"), "--server"),
        (flags("--server", "ftp://h"), "--server"),
        (flags("--server", "http://h?q"), "--server"),
        (flags("--listen", "8082"), "--listen"),
        (flags("--nonsense"), "--nonsense"),
    ],
    ids=lambda value: " ".join(value)[-60:] if isinstance(value, list) else value,
)
async def test_a_wrong_flag_is_refused_with_a_sentence_that_names_it(
    arguments: list[str], named: str
) -> None:
    result = await ran(*arguments)
    assert (result.status, result.out) == (2, "")
    assert named in result.err
    assert result.err.startswith("global-discovery")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("DYN_CLUSTER_ID", "", "DYN_CLUSTER_ID"),
        ("DYN_CLUSTER_ID", "a/b", "--cluster-id"),
        ("GLOBAL_DISCOVERY_SERVER", "nowhere", "GLOBAL_DISCOVERY_SERVER"),
        ("POD_UID", "ü", "POD_UID"),
    ],
)
async def test_a_wrong_variable_is_refused_too(variable: str, value: str, named: str) -> None:
    variables = {"DYN_CLUSTER_ID": "c1"} | {variable: value}
    result = await ran(*flags(without="--cluster-id"), **variables)
    assert (result.status, result.out) == (2, "")
    assert named in result.err
    assert len(result.err.splitlines()) == 1


async def test_help_names_every_flag_of_upstream() -> None:
    result = await ran("relay", "--help")
    assert result.status == 0
    shown = set(re.findall(r"--[a-z-]+", result.out))
    assert {"--routing-pool", "--routing-pool-region", "--routing-pool-frontends"} <= shown


@pytest.mark.parametrize(
    ("told", "openai_url", "health_url"),
    [
        ({"--openai-url": "http://h:8000/v1"}, "http://h:8000", "http://h:8000/health"),
        ({"--openai-url": "http://h:8000/v1/"}, "http://h:8000", "http://h:8000/health"),
        ({"--openai-url": "http://h/base/v1"}, "http://h/base", "http://h/base/health"),
        ({"--openai-url": "http://h/v1/v1"}, "http://h/v1", "http://h/v1/health"),
        ({"--openai-url": "http://v1"}, "http://v1", "http://v1/health"),
        ({"--openai-url": "http://h/llm-v1"}, "http://h/llm-v1", "http://h/llm-v1/health"),
        ({"--frontend": "http://f/v1"}, "http://f", "http://f/health"),
        (
            {"--health-url": "http://h/ready/?deep=1&who=%20a/b?c"},
            "http://127.0.0.1:1",
            "http://h/ready/?deep=1&who=%20a/b?c",
        ),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else value,
)
def test_where_the_model_server_is_asked(
    told: dict[str, str], openai_url: str, health_url: str
) -> None:
    parser = argparse.ArgumentParser()
    relay.add_parser(parser.add_subparsers())
    pairs = (GOOD | told).items()
    settings = relay._settings(
        parser.parse_args(["relay", *(part for pair in pairs for part in pair)])
    )
    assert (settings.openai_url, settings.health_url) == (openai_url, health_url)
    assert settings.frontends == (told.get("--frontend", GOOD["--frontend"]),)


def test_a_host_name_that_can_be_no_relay_id_is_named_as_such(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("POD_UID", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "ü")
    parser = argparse.ArgumentParser()
    relay.add_parser(parser.add_subparsers())
    assert relay.run(parser.parse_args(flags())) == 2
    assert "the host name" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "other"), [("relay", "register"), ("register", "relay")])
async def test_help_says_that_the_pool_is_told_otherwise_to_the_other_command(
    command: str, other: str
) -> None:
    result = await ran(command, "--help")
    (pool,) = re.findall(r"\n  --pool [A-Z].*?\n +--", result.out, re.DOTALL)
    assert f"`{other}`" in pool
