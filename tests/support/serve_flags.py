"""`serve` called with flags and variables, as far as it reads or refuses them."""

import argparse
import sys

import pytest

from global_discovery.cli import process, serve
from global_discovery.cli.flags import PREFIX, Values
from global_discovery.cli.parser import Parser
from global_discovery.cli.serve_flags import FLAGS, read_values

_opened: list[str] = []
_watching = False


def _audit(event: str, _args: object) -> None:
    if _watching and event.startswith("socket."):
        _opened.append(event)


sys.addaudithook(_audit)  # a hook cannot be taken away again: it sleeps instead


def parse(*argv: str) -> argparse.Namespace:
    parser = Parser("global-discovery")
    serve.add_parser(parser.add_subparsers())
    return parser.parse_args(["serve", *argv])


def read(*argv: str, **variables: str) -> Values:
    environ = {PREFIX + name: value for name, value in variables.items()}
    return read_values(parse(*argv), environ)


def refusal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *argv: str, **env: str
) -> str:
    """The sentence with which these flags and variables are refused, having opened nothing."""
    global _watching  # noqa: PLW0603 - the hook must know
    for flag in FLAGS.flags:
        monkeypatch.delenv(flag.variable, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(PREFIX + name, value)
    monkeypatch.setattr(process, "run", lambda *_: pytest.fail("it was not refused"))
    _opened.clear()
    _watching = True
    try:
        status = serve.run(parse(*argv))
    except SystemExit as refused:
        status = refused.code
    finally:
        _watching = False
    out, err = capsys.readouterr()
    assert status == 2, err
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    assert err.isascii()
    assert err.isprintable() or err[:-1].isprintable()
    assert _opened == []
    return err
