"""What `serve` refuses: always with status 2 and one sentence, and nothing is opened for it."""

import subprocess
import sys
from typing import Any

import pytest

from global_discovery.cli.flags import PREFIX, Flag, FlagTable, Heading
from global_discovery.cli.parser import Parser
from global_discovery.cli.serve_flags import FLAGS
from support.serve_flags import refusal
from support.serve_process import COMMAND, clean_environment

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
BAD_LABELS = ["-a", "a-", "A", "a_b", "a.b", "a b", "a/b", "a" * 64, "ä", "a\n"]
BAD_SUFFIXES = ["-", "-a-", "-A", "-a.b", "-a/b", "a" * 63, "-ä"]
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
    + [("--pool-discovery", text) for text in ("Karmada", "MCS", "Registrations", "nothing")]
    + [
        (name, text)
        for name in (
            "--frontend-port-name",
            "--router-namespace",
            "--router-service",
            "--router-port-name",
            "--watch-namespace",
        )
        for text in BAD_LABELS
    ]
    + [
        (name, text)
        for name in ("--pool-relay-suffix", "--frontend-suffix")
        for text in BAD_SUFFIXES
    ]
    + [("--kubeconfig", "a\0b")]
    + [("--kubernetes-strict-x509", text) for text in ("true", "ON", "1")]
    + [("--registration-storage", text) for text in ("SQLite", "redis", "MEMORY", "nothing")]
    + [("--sqlite-path", text) for text in ("directory/",)]
    + [("--dynamodb-table", text) for text in ("ab", "a b c", "t" * 256)]
    + [("--dynamodb-region", text) for text in ("eu west", "EU", "-eu", "e" * 64)]
    + [("--dynamodb-endpoint-url", text) for text in ("localhost:8000", "ftp://h", "http://u@h")]
    + [("--dynamodb-refresh-secs", text) for text in ("0", "61", "0.5")]
    + [("--mass-lapse-protection", text) for text in ("true", "ON", "1")]
    + [("--log-format", text) for text in ("text", "JSON")]
    + [("--log-level", text) for text in ("warn", "INFO", "loud")]
    + [(flag.name, "") for flag in FLAGS.flags]
    + [(flag.name, " ") for flag in FLAGS.flags]
    + [(flag.name, "\udcff") for flag in FLAGS.flags]
)
GOOD_IN_A_VARIABLE = [("--router", " r1=http://10.0.0.1"), ("--watch-namespace", "a\n")]
"""Values stand between separators there."""
BAD_IN_A_VARIABLE = [
    bad for bad in BAD_VALUES if bad not in GOOD_IN_A_VARIABLE and "\0" not in bad[1]
]


@pytest.mark.parametrize(("name", "text"), BAD_VALUES, ids=ascii)
def test_a_bad_value_is_refused_and_the_flag_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    assert name in refusal(capsys, monkeypatch, f"{name}={text}")


@pytest.mark.parametrize(("name", "text"), BAD_IN_A_VARIABLE, ids=ascii)
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
        ["--sqlite=x"],
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


@pytest.mark.parametrize(
    "argv", [["--heartbeat-interval-secs=6"], ["--lease-duration-secs=14"]], ids=str
)
def test_a_heartbeat_of_more_than_a_third_of_the_lease_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    said = refusal(capsys, monkeypatch, *argv)
    assert "--heartbeat-interval-secs" in said
    assert "--lease-duration-secs" in said


@pytest.mark.parametrize(
    ("store", "needed"), [("sqlite", "--sqlite-path"), ("dynamodb", "--dynamodb-table")]
)
def test_a_store_without_its_place_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: str, needed: str
) -> None:
    said = refusal(capsys, monkeypatch, "--registration-storage", store)
    assert "--registration-storage" in said
    assert needed in said


@pytest.mark.parametrize(
    ("store", "flag"),
    [
        ("memory", "--sqlite-path=file"),
        ("dynamodb", "--sqlite-path=file"),
        ("memory", "--dynamodb-table=table"),
        ("sqlite", "--dynamodb-region=eu-west-1"),
        ("sqlite", "--dynamodb-endpoint-url=http://127.0.0.1:1"),
        ("memory", "--dynamodb-refresh-secs=1"),
    ],
)
def test_a_flag_of_another_store_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: str, flag: str
) -> None:
    said = refusal(capsys, monkeypatch, "--registration-storage", store, flag)
    assert flag.partition("=")[0] in said
    assert "--registration-storage" in said


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


MCS = "--pool-discovery=mcs"
ROUTER_SERVICE = {
    "--router-namespace": "infra",
    "--router-service": "router",
    "--router-port-name": "http",
}


@pytest.mark.parametrize(
    ("relay", "frontend"),
    [("-relay", "-pool-relay"), ("-x-frontend", "-frontend"), ("-same", "-same")],
)
def test_suffixes_of_which_one_ends_in_the_other_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, relay: str, frontend: str
) -> None:
    argv = [MCS, f"--pool-relay-suffix={relay}", f"--frontend-suffix={frontend}"]
    said = refusal(capsys, monkeypatch, *argv)
    assert "--pool-relay-suffix" in said
    assert "--frontend-suffix" in said


def test_a_suffix_that_ends_in_the_default_of_the_other_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--frontend-suffix" in refusal(
        capsys, monkeypatch, MCS, "--frontend-suffix=-front-pool-relay"
    )


@pytest.mark.parametrize("suffix", ["--pool-relay-suffix", "--frontend-suffix"])
def test_a_suffix_never_takes_what_looks_like_a_flag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    for following in ("-frontend", "--log-level=info", "--pool-relay-suffix=-a"):
        assert suffix in refusal(capsys, monkeypatch, MCS, suffix, following)


@pytest.mark.parametrize("missing", ROUTER_SERVICE)
def test_the_router_service_is_named_with_all_three_flags_or_not_at_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    argv = [f"{name}={value}" for name, value in ROUTER_SERVICE.items() if name != missing]
    assert missing in refusal(capsys, monkeypatch, MCS, *argv)
    alone = f"{missing}={ROUTER_SERVICE[missing]}"
    said = refusal(capsys, monkeypatch, MCS, alone)
    assert all(name in said for name in ROUTER_SERVICE)


def test_a_flag_of_another_mode_is_refused_also_when_it_says_the_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--router" in refusal(capsys, monkeypatch, MCS, "--router=r1=http://10.0.0.1")
    assert "--frontend-suffix" in refusal(capsys, monkeypatch, "--frontend-suffix=-frontend")
    said = refusal(capsys, monkeypatch, WATCH_NAMESPACE="a")
    assert "GLOBAL_DISCOVERY_WATCH_NAMESPACE (--watch-namespace)" in said


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
