"""The flags of who may do what: what is refused at the start, and what is said then."""

from pathlib import Path

import aiohttp
import pytest

from support.access import POLICY, in_file
from support.serve_flags import read, refusal
from support.serve_process import LOOPBACK, started

EVERYWHERE = ["--listen", "0.0.0.0:0", "--grpc-listen", "0.0.0.0:0"]
AUDIENCE = "--token-audience=global-discovery"
WARNINGS = {"unprotected", "nobody_can_register", "tokens_in_plain_text"}


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--anonymous=write"], "--anonymous 'write': is not all or read or none"),
        (["--token-cluster=east"], "--token-cluster needs --token-audience"),
        (["--token-issuer=east=https://x"], "--token-issuer needs --token-audience"),
        (["--token-audience=two words"], "--token-audience 'two words'"),
        ([AUDIENCE, "--token-cluster=a/b"], "--token-cluster 'a/b': has no name"),
        ([AUDIENCE, "--token-cluster=east="], "--token-cluster 'east=': has no path"),
        ([AUDIENCE, "--token-issuer=east"], "--token-issuer 'east': is not of the form"),
        ([AUDIENCE, "--token-issuer=west=https://x"], "west: is no --token-cluster"),
        ([AUDIENCE, "--token-cluster=a", "--token-cluster=a=x"], "the name 'a' is there twice"),
        (
            [AUDIENCE, "--token-cluster=a", "--token-cluster=b", "--token-issuer=a=https://x"],
            "b: one of several needs --token-issuer b=<issuer>",
        ),
        (
            [
                *(AUDIENCE, "--token-cluster=a", "--token-cluster=b"),
                *("--token-issuer=a=https://x", "--token-issuer=b=https://x"),
            ],
            "the issuer 'https://x' is there twice",
        ),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    told: str,
) -> None:
    assert told in refusal(capsys, monkeypatch, *flags)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (POLICY.replace("may", "can", 1), "rule 1: 'can': is no field of a rule"),
        ("", "has no [[rule]]"),
    ],
)
def test_a_bad_policy_is_refused_and_its_entry_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    text: str,
    told: str,
) -> None:
    path = in_file(tmp_path, text)
    said = refusal(capsys, monkeypatch, f"--policy-path={path}")
    assert told in said
    assert f"--policy-path '{path}'" in said
    path.unlink()
    assert "is no file" in refusal(capsys, monkeypatch, f"--policy-path={path}")


def test_everybody_may_not_do_all_beside_a_policy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = f"--policy-path={in_file(tmp_path)}"
    assert "would undo --policy-path" in refusal(capsys, monkeypatch, "--anonymous=all", policy)
    read("--anonymous=read", policy)
    read(AUDIENCE, "--token-cluster=east", policy)


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ([], {"unprotected"}),
        (["--anonymous=all"], {"unprotected"}),
        (["--anonymous=read"], {"nobody_can_register"}),
        ([AUDIENCE], {"unprotected", "tokens_in_plain_text"}),
        ([AUDIENCE, "--anonymous=read"], {"tokens_in_plain_text"}),
        (["policy"], {"nobody_can_register"}),
        (["policy", AUDIENCE, *LOOPBACK], set()),
    ],
)
async def test_the_warnings_at_the_start_follow_what_is_open(
    tmp_path: Path, flags: list[str], warned: set[str]
) -> None:
    policy = f"--policy-path={in_file(tmp_path)}"
    given = [policy if flag == "policy" else flag for flag in flags]
    async with started(*EVERYWHERE, *given) as server:
        await server.ready()
        assert await server.stop() == 0
        assert {event["event"] for event in server.events} & WARNINGS == warned


async def test_anonymous_read_closes_registration() -> None:
    async with started(*LOOPBACK, "--anonymous=read") as server:
        port = (await server.ready())["rest_port"]
        body = {
            "cluster_id": "c",
            "namespace": "n",
            "dgd_name": "d",
            "model": "m",
            "location": {"region": "r"},
        }
        async with aiohttp.ClientSession() as session:
            async with session.post(f"http://127.0.0.1:{port}/pools", json=body) as refused:
                assert refused.status == 401
                assert (await refused.json())["code"] == "UNAUTHENTICATED"
            async with session.get(f"http://127.0.0.1:{port}/pools") as listed:
                assert (await listed.json())["pools"] == []
        denied = await server.event("access_denied")
        assert (denied["what"], denied["caller"]) == ("pools", "127.0.0.1")


async def test_a_policy_is_read_again_while_it_runs(tmp_path: Path) -> None:
    path = in_file(tmp_path)
    async with started(*LOOPBACK, f"--policy-path={path}") as server:
        await server.ready()
        in_file(tmp_path, POLICY.replace("may", "can", 1))
        assert "rule 1" in (await server.event("policy_refused"))["message"]
        in_file(tmp_path, POLICY + POLICY)
        taken = await server.event("policy_taken")
        assert (taken["rules_before"], taken["rules"]) == (3, 6)
        assert await server.stop() == 0
