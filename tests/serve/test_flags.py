"""What `serve` takes and refuses, by flag and by variable; nothing is ever opened for it."""

import argparse
import re
import subprocess
import sys
from ipaddress import ip_network
from typing import Any

import pytest

from global_discovery.cli import serve, serve_flags
from global_discovery.cli.flags import PREFIX, Flag, FlagTable, Heading, Refused, Values
from global_discovery.cli.parser import Parser
from global_discovery.cli.serve_flags import FLAGS, read_values
from global_discovery.cli.values import one_of
from global_discovery.domain.pool import Router
from support.serve_process import COMMAND, clean_environment

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


BAD_ADDRESSES = [
    "localhost",
    "8080",
    "127.0.0.1",
    "127.0.0.1:",
    "127.0.0.1:65536",
    "127.0.0.1:-1",
    "127.0.0.1:+1",
    "127.0.0.1: 1",
    "127.0.0.1:1 ",
    "127.0.0.1:1\n",
    "127.0.0.1:1_0",
    "127.0.0.1:http",
    "127.0.0.1:\u0663",
    "127.0.0.1:1:2",
    "::1:8080",
    "fd00::1:8080",
    "[::1]",
    "[::1:8080",
    "[]:8080",
    "[127.0.0.1]:8080",
    "[fe80::1%eth0]:8080",
    "[[::1]]:8080",
    "256.0.0.1:80",
    "1.2.3:80",
    "2852039166:80",
    "0x7f.1:80",
    "a b:80",
    "-a:80",
    "a..b:80",
    "a.:80",
    f"{'a' * 64}:80",
    "unix:/tmp/socket",
    "http://127.0.0.1:80",
    "user@host:80",
    "hóst:80",
]
BAD_SECONDS = ["0", "-5", "+5", "1.5", "5s", "1e1", "0x5", "\u0665", "1_0", " 5", "5 ", "five"]
BAD_ROUTERS = [
    "r1",
    "http://10.0.0.1:8000",
    "=http://10.0.0.1",
    " =http://10.0.0.1",
    " r1=http://10.0.0.1",
    "r1 =http://10.0.0.1",
    "r\n1=http://10.0.0.1",
    "r\x1b[31m=http://10.0.0.1",
    f"{'r' * 254}=http://10.0.0.1",
    "r1=",
    "r1=10.0.0.1:8000",
    "r1=ftp://10.0.0.1",
    "r1=http://user:password@10.0.0.1",
    "r1=http://10.0.0.1:0",
    "r1=http://10.0.0.1/?query",
    "r1=http://10.0.0.1/#fragment",
    "r1=http://fd00::1:80",
]
BAD_NETWORKS = ["10.0.0.1/8", "10.0.0.0/33", "10.0.0", "10", "::1/129", "host", "10.0.0.0/8/8"]
BAD_VALUES = (
    [
        (name, text)
        for name in ("--listen", "--grpc-listen", "--health-listen")
        for text in BAD_ADDRESSES
    ]
    + [
        (name, text)
        for name in (
            "--heartbeat-interval-secs",
            "--lease-duration-secs",
            "--slow-watcher-secs",
        )
        for text in BAD_SECONDS
    ]
    + [("--lease-duration-secs", "86401"), ("--slow-watcher-secs", "3601")]
    + [("--router", text) for text in BAD_ROUTERS]
    + [("--trusted-proxy", text) for text in BAD_NETWORKS]
    + [("--pool-discovery", text) for text in ("karmada", "mcs", "Registrations", "nothing")]
    + [("--registration-storage", text) for text in ("sqlite", "dynamodb", "MEMORY", "nothing")]
    + [("--mass-lapse-protection", text) for text in ("true", "ON", "1")]
    + [("--log-format", text) for text in ("text", "JSON")]
    + [("--log-level", text) for text in ("warn", "INFO", "loud")]
    + [(flag.name, "") for flag in FLAGS.flags]
    + [(flag.name, " ") for flag in FLAGS.flags]
    + [(flag.name, "\udcff") for flag in FLAGS.flags]
)
GOOD_IN_A_VARIABLE = [("--router", " r1=http://10.0.0.1")]  # where values stand between separators


@pytest.mark.parametrize(("name", "text"), BAD_VALUES, ids=ascii)
def test_a_bad_value_is_refused_and_the_flag_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    assert name in refusal(capsys, monkeypatch, f"{name}={text}")


@pytest.mark.parametrize(
    ("name", "text"), [bad for bad in BAD_VALUES if bad not in GOOD_IN_A_VARIABLE], ids=ascii
)
def test_a_bad_value_in_a_variable_is_refused_and_both_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    flag = flag_named(name)
    said = refusal(capsys, monkeypatch, **{flag.variable.removeprefix(PREFIX): text})
    assert f"{flag.variable} ({name})" in said


def flag_named(name: str) -> Flag[Any]:
    return next(flag for flag in FLAGS.flags if flag.name == name)


@pytest.mark.parametrize("flag", FLAGS.flags, ids=lambda flag: flag.name)
def test_a_flag_without_a_value_does_not_take_the_next_flag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flag: Flag[Any]
) -> None:
    following = "--log-level" if flag.name != "--log-level" else "--listen"
    assert flag.name in refusal(capsys, monkeypatch, flag.name, following, "info")
    assert flag.name in refusal(capsys, monkeypatch, flag.name, f"{following}=info")
    assert flag.name in refusal(capsys, monkeypatch, flag.name)


@pytest.mark.parametrize(
    "argv",
    [
        ["--lease", "20"],
        ["--grpc", "127.0.0.1:1"],
        ["--log-f=json"],
        ["--tls-cert-path", "x"],
        ["--sqlite-path=x"],
        ["-l", ":1"],
        ["positional"],
        ["--bad\nflag"],
    ],
    ids=ascii,
)
def test_what_is_no_flag_is_refused_also_when_it_abbreviates_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    assert ascii(argv[0].partition("=")[0])[1:-1] in refusal(capsys, monkeypatch, *argv)


def test_a_value_may_start_with_a_dash() -> None:
    suffix = Flag("--suffix", "TEXT", str, "", Heading("h"))
    parser = Parser()
    FlagTable([suffix]).add_to(parser)
    values = FlagTable([suffix]).read(parser.parse_args(["--suffix=-frontend"]), {})
    assert values[suffix] == "-frontend"
    with pytest.raises(SystemExit):
        parser.parse_args(["--suffix", "-frontend"])


# -- values ------------------------------------------------------------------


def test_the_defaults_are_those_of_the_contract() -> None:
    values = read()
    assert {flag.name: values.all(flag) for flag in FLAGS.flags} == {
        "--listen": (("0.0.0.0", 8080),),
        "--grpc-listen": (("0.0.0.0", 50051),),
        "--health-listen": (),
        "--pool-discovery": ("registrations",),
        "--registration-storage": ("memory",),
        "--heartbeat-interval-secs": (5,),
        "--lease-duration-secs": (15,),
        "--trusted-proxy": (),
        "--router": (),
        "--mass-lapse-protection": (True,),
        "--slow-watcher-secs": (30,),
        "--log-format": (),
        "--log-level": ("info",),
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        (":8080", "0.0.0.0:8080"),
        (":0", "0.0.0.0:0"),
        ("[::1]:8080", "[::1]:8080"),
        ("[::]:8080", "[::]:8080"),
        ("[FD00:0:0::1]:08080", "[fd00::1]:8080"),
        ("localhost:65535", "localhost:65535"),
        ("a-b.example:1", "a-b.example:1"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert str(read("--listen", text)[serve_flags.LISTEN]) == shown


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.9.10:1", True),
        ("[::1]:1", True),
        ("[::ffff:127.0.0.1]:1", True),
        ("localhost:1", True),
        ("LocalHost:1", True),
        ("0.0.0.0:1", False),
        (":1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("localhost.example:1", False),
    ],
)
def test_which_addresses_are_loopback(text: str, *, loopback: bool) -> None:
    assert read("--listen", text)[serve_flags.LISTEN].is_loopback is loopback


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.1", "10.0.0.1/32"),
        ("fd00::/8", "fd00::/8"),
        ("::1", "::1/128"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::/0", "::/0"),
    ],
)
def test_networks(text: str, network: str) -> None:
    assert read("--trusted-proxy", text).all(serve_flags.TRUSTED_PROXY) == (ip_network(network),)


def test_repeatable_flags_keep_all_values_and_others_the_last() -> None:
    values = read(
        *("--router", "r1=HTTP://10.0.0.1:80/", "--router=r2=http://10.0.0.2/a=b"),
        *("--lease-duration-secs", "20", "--lease-duration-secs", "30"),
    )
    routers = (Router("r1", "http://10.0.0.1"), Router("r2", "http://10.0.0.2/a=b"))
    assert values.all(serve_flags.ROUTER) == routers
    assert values[serve_flags.LEASE] == 30


@pytest.mark.parametrize(("heartbeat", "lease"), [(1, 3), (5, 15), (28_800, 86_400)])
def test_a_heartbeat_of_a_third_of_the_lease_is_taken(heartbeat: int, lease: int) -> None:
    values = read(f"--heartbeat-interval-secs={heartbeat}", f"--lease-duration-secs={lease}")
    assert (values[serve_flags.HEARTBEAT], values[serve_flags.LEASE]) == (heartbeat, lease)


@pytest.mark.parametrize(
    "argv", [["--heartbeat-interval-secs=6"], ["--lease-duration-secs=14"]], ids=str
)
def test_a_heartbeat_of_more_than_a_third_of_the_lease_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    said = refusal(capsys, monkeypatch, *argv)
    assert "--heartbeat-interval-secs" in said
    assert "--lease-duration-secs" in said


def test_two_routers_of_one_id_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    routers = ["--router=r1=http://10.0.0.1", "--router=r1=http://10.0.0.2"]
    said = refusal(capsys, monkeypatch, *routers)
    assert "--router" in said
    assert "'r1'" in said


@pytest.mark.parametrize(
    "argv",
    [
        ["--grpc-listen=:8080"],
        ["--health-listen=0.0.0.0:8080"],
        ["--grpc-listen=[::1]:1", "--health-listen=[0::1]:1"],
    ],
    ids=str,
)
def test_one_address_for_two_faces_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    assert argv[-1].partition("=")[0] in refusal(capsys, monkeypatch, *argv)


def test_two_faces_may_both_have_a_free_port() -> None:
    read("--listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", "--health-listen=127.0.0.1:0")


# -- the environment ---------------------------------------------------------


def test_a_variable_sets_a_flag_and_the_flag_wins() -> None:
    assert read(LEASE_DURATION_SECS="30")[serve_flags.LEASE] == 30
    assert read("--lease-duration-secs=40", LEASE_DURATION_SECS="30")[serve_flags.LEASE] == 40
    assert read("--lease-duration-secs=40", LEASE_DURATION_SECS="bad")[serve_flags.LEASE] == 40
    only = read("--router=r1=http://10.0.0.1", ROUTER="r2=http://10.0.0.2")
    assert [router.id for router in only.all(serve_flags.ROUTER)] == ["r1"]


@pytest.mark.parametrize(
    "text",
    [
        "r1=http://10.0.0.1,r2=http://10.0.0.2",
        "r1=http://10.0.0.1\nr2=http://10.0.0.2\n",
        "\r\n  r1=http://10.0.0.1 ,\r\n\tr2=http://10.0.0.2, ",
    ],
    ids=ascii,
)
def test_the_variable_of_a_repeatable_flag_has_several_values(text: str) -> None:
    routers = read(ROUTER=text).all(serve_flags.ROUTER)
    assert [router.id for router in routers] == ["r1", "r2"]


@pytest.mark.parametrize("text", ["", " ", ",", "\n", " ,\n, "], ids=ascii)
def test_the_variable_of_a_repeatable_flag_must_not_be_empty(text: str) -> None:
    with pytest.raises(Refused, match=r"GLOBAL_DISCOVERY_ROUTER \(--router\) must not be empty"):
        read(ROUTER=text)


def test_variables_that_belong_to_no_flag_are_ignored() -> None:
    injected = {
        "PORT": "tcp://10.0.0.1:8080",
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "8080",
        "PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "SQLITE_PATH": "",
    }
    assert read(**injected)[serve_flags.LISTEN].port == 8080


def test_no_variable_has_a_name_that_kubernetes_could_inject() -> None:
    injected = re.compile(
        r"(_SERVICE_HOST|_SERVICE_PORT(_[A-Z0-9_]+)?|_PORT(_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)$"
    )
    assert [flag.variable for flag in FLAGS.flags if injected.search(flag.variable)] == []


# -- headings ----------------------------------------------------------------

MODE = Flag("--mode", "MODE", one_of("a", "b", "c"), "", Heading("always"), default="a")
IN_B = Heading("with b or c", MODE, frozenset({"b", "c"}))
SUFFIX = Flag("--suffix", "TEXT", str, "", IN_B, default="-x")
NAMES = Flag("--name", "TEXT", str, "", IN_B, repeatable=True)
TABLE = FlagTable([MODE, SUFFIX, NAMES])


def read_table(*argv: str, **environ: str) -> Values:
    parser = Parser()
    TABLE.add_to(parser)
    return TABLE.read(parser.parse_args(argv), environ)


@pytest.mark.parametrize(
    ("argv", "environ", "named"),
    [
        (["--suffix=y"], {}, "--suffix"),
        (["--suffix=-x"], {}, "--suffix"),
        (["--name=y", "--mode=a"], {}, "--name"),
        ([], {"GLOBAL_DISCOVERY_SUFFIX": "y"}, "GLOBAL_DISCOVERY_SUFFIX (--suffix)"),
        (["--mode=a"], {"GLOBAL_DISCOVERY_MODE": "b", "GLOBAL_DISCOVERY_NAME": "y"}, "--name"),
    ],
    ids=str,
)
def test_a_flag_that_the_mode_does_not_use_is_refused(
    argv: list[str], environ: dict[str, str], named: str
) -> None:
    with pytest.raises(Refused, match=re.escape(named)) as refused:
        read_table(*argv, **environ)
    assert str(refused.value).endswith("is used with --mode b or c only")


def test_a_flag_that_the_mode_uses_is_taken() -> None:
    assert read_table("--mode=b", "--suffix=y")[SUFFIX] == "y"
    assert read_table("--suffix=y", GLOBAL_DISCOVERY_MODE="c")[SUFFIX] == "y"


def test_a_flag_left_at_its_default_is_refused_with_no_mode() -> None:
    values = read_table("--mode=a")
    assert values[SUFFIX] == "-x"
    assert values.all(NAMES) == ()
    assert not values.is_set(SUFFIX)


# -- the whole program -------------------------------------------------------


def test_a_refusal_of_the_real_program_is_one_sentence_and_status_2() -> None:
    done = subprocess.run(
        [*COMMAND, "--listen=nowhere", "--grpc-listen=127.0.0.1:0"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "global-discovery serve: --listen 'nowhere': is not of the form host:port "
        "(an IPv6 address needs brackets)\n"
    )


def test_a_refusal_comes_before_the_servers_code_is_even_loaded() -> None:
    program = (
        "import sys; from global_discovery.cli import serve; "
        "from global_discovery.cli.parser import Parser; "
        "parser = Parser(); serve.add_parser(parser.add_subparsers()); "
        "status = serve.run(parser.parse_args(['serve', '--listen=nowhere'])); "
        "print(status, 'grpc' in sys.modules, 'aiohttp' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "2 False False\n"
