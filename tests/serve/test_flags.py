"""What `serve` takes, by flag and by variable, and how the table of flags works."""

import re
from ipaddress import ip_network

import pytest

from global_discovery.cli.flags import Flag, FlagTable, Heading, Refused, Values
from global_discovery.cli.parser import Parser
from global_discovery.cli.serve_flags import FLAGS, discovery, general
from global_discovery.cli.values import one_of
from global_discovery.domain.pool import Router
from support.serve_flags import read

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
        "--tls-cert-path": (),
        "--tls-key-path": (),
        "--tls-client-ca-path": (),
        "--trusted-proxy": (),
        "--router": (),
        "--pool-relay-suffix": ("-pool-relay",),
        "--frontend-suffix": ("-frontend",),
        "--frontend-port-name": ("http",),
        "--router-namespace": (),
        "--router-service": (),
        "--router-port-name": (),
        "--kubeconfig": (),
        "--kubernetes-strict-x509": (True,),
        "--watch-namespace": (),
        "--sqlite-path": (),
        "--dynamodb-table": (),
        "--dynamodb-region": (),
        "--dynamodb-endpoint-url": (),
        "--dynamodb-refresh-secs": (1,),
        "--mass-lapse-protection": (True,),
        "--slow-watcher-secs": (30,),
        "--anonymous": (),
        "--policy-path": (),
        "--token-audience": (),
        "--token-cluster": (),
        "--token-issuer": (),
        "--max-pools": (100_000,),
        "--max-shares": (200_000,),
        "--max-new-shares-per-second": (10_000,),
        "--max-watchers": (10_000,),
        "--max-watchers-per-caller": (2_500,),
        "--max-failed-authentications-per-second": (10,),
        "--max-bytes-per-second": (16_777_216,),
        "--max-body-bytes": (1_048_576,),
        "--max-header-bytes": (8_192,),
        "--max-streams-per-connection": (1_000,),
        "--max-grpc-connections": (10_000,),
        "--max-http-connections": (16_384,),
        "--max-http-connections-per-caller": (8_192,),
        "--http-idle-secs": (75,),
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
    assert str(read("--listen", text)[general.LISTEN]) == shown


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
    assert read("--listen", text)[general.LISTEN].is_loopback is loopback


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
    assert read("--trusted-proxy", text).all(general.TRUSTED_PROXY) == (ip_network(network),)


def test_modes_with_slices_take_their_flags_and_suffixes_that_start_with_a_dash() -> None:
    values = read(
        "--pool-discovery=karmada",
        "--pool-relay-suffix=-relay",
        "--frontend-suffix=-front",
        "--watch-namespace=a",
        "--watch-namespace=b",
        ROUTER_NAMESPACE="infra",
        ROUTER_SERVICE="router",
        ROUTER_PORT_NAME="http",
    )
    assert values[discovery.POOL_RELAY_SUFFIX] == "-relay"
    assert values[discovery.FRONTEND_SUFFIX] == "-front"
    assert values.all(discovery.WATCH_NAMESPACE) == ("a", "b")
    assert [values[flag] for flag in discovery.ROUTER_FLAGS] == ["infra", "router", "http"]


def test_repeatable_flags_keep_all_values_and_others_the_last() -> None:
    values = read(
        *("--router", "r1=HTTP://10.0.0.1:80/", "--router=r2=http://10.0.0.2/a=b"),
        *("--lease-duration-secs", "20", "--lease-duration-secs", "30"),
    )
    routers = (Router("r1", "http://10.0.0.1"), Router("r2", "http://10.0.0.2/a=b"))
    assert values.all(discovery.ROUTER) == routers
    assert values[general.LEASE] == 30


@pytest.mark.parametrize(("heartbeat", "lease"), [(1, 3), (5, 15), (28_800, 86_400)])
def test_a_heartbeat_of_a_third_of_the_lease_is_taken(heartbeat: int, lease: int) -> None:
    values = read(f"--heartbeat-interval-secs={heartbeat}", f"--lease-duration-secs={lease}")
    assert (values[general.HEARTBEAT], values[general.LEASE]) == (heartbeat, lease)


def test_two_faces_may_both_have_a_free_port() -> None:
    read("--listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", "--health-listen=127.0.0.1:0")


# -- the environment ---------------------------------------------------------


def test_a_variable_sets_a_flag_and_the_flag_wins() -> None:
    assert read(LEASE_DURATION_SECS="30")[general.LEASE] == 30
    assert read("--lease-duration-secs=40", LEASE_DURATION_SECS="30")[general.LEASE] == 40
    assert read("--lease-duration-secs=40", LEASE_DURATION_SECS="bad")[general.LEASE] == 40
    only = read("--router=r1=http://10.0.0.1", ROUTER="r2=http://10.0.0.2")
    assert [router.id for router in only.all(discovery.ROUTER)] == ["r1"]


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
    routers = read(ROUTER=text).all(discovery.ROUTER)
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
        "KUBECONFIG_FILE": "",
    }
    assert read(**injected)[general.LISTEN].port == 8080


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
