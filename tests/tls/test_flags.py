"""The flags of TLS: what is refused before anything is opened."""

import datetime as dt
from pathlib import Path

import pytest
import trustme

from global_discovery.cli import serve_flags
from global_discovery.serving.tls.files import TlsPaths
from support.certificates import a_pair, in_files
from support.serve_flags import read, refusal

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture
def paths(tmp_path: Path, ca: trustme.CA) -> TlsPaths:
    return in_files(tmp_path, a_pair(ca), ca.cert_pem.bytes())


def flags(paths: TlsPaths, *names: str) -> list[str]:
    """`--tls-…-path` for these; for all without any."""
    values = {"cert": paths.cert, "key": paths.key, "client-ca": paths.client_ca}
    return [f"--tls-{name}-path={values[name]}" for name in names or values]


def test_files_that_are_good_are_taken(paths: TlsPaths) -> None:
    assert serve_flags.tls_paths(read(*flags(paths))) == paths
    both = serve_flags.tls_paths(read(*flags(paths, "cert", "key")))
    assert both == TlsPaths(paths.cert, paths.key)
    assert serve_flags.tls_paths(read()) is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["cert"], "--tls-cert-path needs --tls-key-path"),
        (["key"], "--tls-key-path needs --tls-cert-path"),
        (["client-ca"], "--tls-client-ca-path needs --tls-cert-path"),
        (["client-ca", "cert"], "--tls-cert-path needs --tls-key-path"),
        (["client-ca", "key"], "--tls-client-ca-path needs --tls-cert-path"),
    ],
    ids=str,
)
def test_a_part_that_is_missing_is_named(
    capsys: Capture, monkeypatch: Patch, paths: TlsPaths, given: list[str], sentence: str
) -> None:
    said = refusal(capsys, monkeypatch, *flags(paths, *given))
    assert said == f"global-discovery serve: {sentence}\n"


def test_a_part_that_is_missing_is_named_with_the_variable(
    capsys: Capture, monkeypatch: Patch, paths: TlsPaths
) -> None:
    said = refusal(capsys, monkeypatch, TLS_CLIENT_CA_PATH=str(paths.client_ca))
    assert "GLOBAL_DISCOVERY_TLS_CLIENT_CA_PATH (--tls-client-ca-path) needs" in said


@pytest.mark.parametrize("name", ["cert", "key", "client-ca"])
@pytest.mark.parametrize(
    ("content", "problem"), [(None, "cannot be read: no such file or directory"), ("", "is empty")]
)
def test_a_file_of_no_use_is_refused_and_its_flag_named(  # noqa: PLR0917 - fixtures
    capsys: Capture,
    monkeypatch: Patch,
    paths: TlsPaths,
    name: str,
    content: str | None,
    problem: str,
) -> None:
    path = getattr(paths, name.replace("-", "_"))
    path.unlink()
    if content is not None:
        path.write_text(content)
    said = refusal(capsys, monkeypatch, *flags(paths))
    assert said == f"global-discovery serve: --tls-{name}-path '{path}': {problem}\n"


def test_the_key_of_another_certificate_is_refused(
    capsys: Capture, monkeypatch: Patch, paths: TlsPaths, ca: trustme.CA
) -> None:
    paths.key.write_bytes(a_pair(ca).key)
    said = refusal(capsys, monkeypatch, *flags(paths))
    assert "--tls-key-path" in said
    assert "is not the key of the certificate" in said


def test_an_expired_certificate_is_refused(
    capsys: Capture, monkeypatch: Patch, paths: TlsPaths, ca: trustme.CA
) -> None:
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    in_files(paths.cert.parent, a_pair(ca, ends=yesterday))
    said = refusal(capsys, monkeypatch, *flags(paths))
    assert "--tls-cert-path" in said
    assert "has expired" in said


def test_a_path_with_control_characters_is_shown_on_one_line(
    capsys: Capture, monkeypatch: Patch, paths: TlsPaths
) -> None:
    refusal(capsys, monkeypatch, "--tls-cert-path=a\nb\x1b[31m", *flags(paths, "key"))
    assert "has a NUL in it" in refusal(
        capsys, monkeypatch, "--tls-key-path=a\0b", *flags(paths, "cert")
    )
