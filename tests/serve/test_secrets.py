"""No password that was typed into a flag is shown again, in the log or in a refusal."""

import re

import pytest

from global_discovery.cli.serve_flags import FLAGS
from support.serve_flags import read, refusal

WITH_USERS = [
    "https://hunter2@oidc.example/x",
    "https://me:hunter2@oidc.example",
    "https://me:hun/ter2@oidc.example",
    "https://me@oidc:hunter2@oidc.example",
    "https://me:hunter2?#@oidc.example",
]
NAMES_OF_NO_SECRET = re.compile(r".*-(path|audience|cluster|issuer)")


@pytest.mark.parametrize("url", WITH_USERS)
def test_of_a_url_that_is_taken_the_user_is_not_told(url: str) -> None:
    values = read("--token-audience=a", "--token-cluster=e", f"--token-issuer=e={url}")
    shown = values.shown()
    assert shown["--token-issuer"].startswith("e=https://...@oidc.example")
    assert "ter2" not in str(shown)


@pytest.mark.parametrize("url", WITH_USERS)
@pytest.mark.parametrize("flag", ["--dynamodb-endpoint-url=", "--router=r1="])
def test_a_url_that_is_refused_for_its_user_is_not_told_with_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flag: str, url: str
) -> None:
    store = ["--registration-storage=dynamodb"] if "dynamodb" in flag else []
    told = refusal(capsys, monkeypatch, *store, flag + url)
    assert "ter2" not in told
    assert flag.partition("=")[0] in told


def test_of_several_values_each_is_shown_as_it_was_written() -> None:
    values = read("--trusted-proxy=10.0.0.0/8", "--trusted-proxy=192.0.2.1", "--listen=:0")
    assert values.shown() == {"--listen": ":0", "--trusted-proxy": "10.0.0.0/8, 192.0.2.1"}


def test_no_flag_takes_a_secret() -> None:
    """They are read from files and from where AWS and Kubernetes keep theirs."""
    secretive = re.compile("secret|password|token|key|credential")
    names = [flag.name for flag in FLAGS.flags if secretive.search(flag.name)]
    assert names
    assert [name for name in names if not NAMES_OF_NO_SECRET.fullmatch(name)] == []
