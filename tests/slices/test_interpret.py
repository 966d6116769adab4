import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from global_discovery.domain.events import Event
from global_discovery.domain.frontend_url import normalize
from global_discovery.domain.pool import PoolKey
from global_discovery.slices.interpret import Interpretation, interpret_pool, interpret_routers
from global_discovery.slices.model import EndpointSlice
from global_discovery.slices.naming import Naming
from support.imported import SAMPLES, a_slice, endpoint, read, sample, without_each_key

KEY = PoolKey("rome", "models", "qwen")
RELAYS, FRONTENDS = "qwen-pool-relay", "qwen-frontend"
EARLY, LATE = "2026-03-01T08:00:00Z", "2026-03-01T09:00:01+01:00"
Slices = Sequence[EndpointSlice]


def interpret(relays: Slices = (), frontends: Slices = ()) -> Interpretation:
    """What they say in any order."""
    found = [
        interpret_pool(Naming(), KEY, some, others)
        for some in itertools.permutations(relays)
        for others in itertools.permutations(frontends)
    ]
    assert all(one == found[0] for one in found)
    return found[0]


def relays(*slices: EndpointSlice) -> list[str]:
    return [relay.removeprefix("ip:") for relay in interpret(relays=slices).pool.relays]


def frontends(*slices: EndpointSlice) -> list[str]:
    return [*interpret(frontends=slices).pool.frontends]


def notices(*slices: EndpointSlice) -> list[tuple[Event, dict[str, Any]]]:
    found = interpret(frontends=slices).notices
    return [(notice.event, notice.fields) for notice in found]


# -- what each implementation's slices say ------------------------------------


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["karmada/hub-v4"], ["10.81.0.5"]),
        (["karmada/hub-v6"], ["fd81::5"]),
        (["karmada/hub-v4", "karmada/hub-v6"], ["10.81.0.5"]),
        (["mcs/cilium-remote-v4", "mcs/cilium-remote-v6"], ["10.32.0.9"]),
        (["mcs/cilium-local-mirror"], ["10.31.0.1"]),
        (["mcs/aws-cloud-map"], ["10.41.1.25", "10.41.2.76", "10.41.3.81"]),
        (["mcs/lighthouse-headless"], ["10.21.0.5"]),
        (["odd/moving-old"], ["10.91.0.3"]),
        (["odd/moving-old", "odd/moving-new"], []),
        (["odd/readiness-not-said"], ["10.91.1.1", "10.91.1.2", "10.91.1.3", "10.91.1.4"]),
    ],
)
def test_the_relays_of_samples(names: list[str], expected: list[str]) -> None:
    assert relays(*map(sample, names)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mcs/kep-labels-and-nothing-else", ["http://10.11.0.7:8000"]),
        ("mcs/lighthouse-service-address", ["http://172.20.3.4:8000"]),
        ("mcs/ovn-user-defined-network", ["http://10.51.0.2:8000"]),
        ("karmada/dispatched", ["http://10.81.0.9:8000"]),
        ("odd/ghost-with-a-reused-address", ["http://10.91.0.1:8000"]),
        ("odd/scaled-to-zero", []),
        ("odd/port-without-a-number", []),
        ("odd/draining", ["http://10.91.0.5:8000"]),
        ("odd/https-and-bad-addresses", ["https://[fd91::7]:8443"]),
        ("odd/wrong-types", ["http://10.91.0.8:8000"]),
    ],
)
def test_the_frontends_of_samples(name: str, expected: list[str]) -> None:
    assert frontends(sample(name)) == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_a_slice_without_any_one_of_its_keys_takes_nothing_from_another(name: str) -> None:
    address = "198.51.100.1"
    beside = [
        a_slice(FRONTENDS, endpoint(address, pod="beside"), name="beside"),
        a_slice(RELAYS, endpoint(address, pod="beside"), name="beside-r"),
    ]
    for smaller in without_each_key(SAMPLES[name]):
        pool = interpret_pool(Naming(), KEY, [read(smaller), beside[1]], [read(smaller), beside[0]])
        assert f"http://{address}:8000" in pool.pool.frontends
        assert f"ip:{address}" in pool.pool.relays
        interpret_routers("rome", [read(smaller)], "http")


# -- ports --------------------------------------------------------------------


@pytest.mark.parametrize(
    "port", [{"port": "metrics"}, {"protocol": "UDP"}, {"number": None}, {"number": 0},
             {"number": 65_536}, {"number": -1}, {"port": "HTTP"}],
)  # fmt: skip
def test_a_slice_without_the_port_has_no_frontends(port: dict[str, Any]) -> None:
    assert frontends(a_slice(FRONTENDS, endpoint("10.0.0.1"), **port)) == []
    found = interpret(frontends=[a_slice(FRONTENDS, endpoint("10.0.0.1"), **port)]).pool
    assert (found.frontend_slices, found.frontend_port_seen) == (1, False)


def test_each_slice_has_its_own_number_of_the_port() -> None:
    assert frontends(
        a_slice(FRONTENDS, endpoint("10.0.0.1", pod="a"), name="one", number=8000),
        a_slice(FRONTENDS, endpoint("10.0.0.1", pod="b"), name="two", number=9000),
    ) == ["http://10.0.0.1:8000", "http://10.0.0.1:9000"]


def test_a_relay_needs_no_port() -> None:
    assert relays(a_slice(RELAYS, endpoint("10.0.0.1"), port="", number=None)) == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("protocol", "number", "url"),
    [
        ("http", 80, "http://10.0.0.1"),
        ("https", 443, "https://10.0.0.1"),
        ("HTTPS", 8443, "https://10.0.0.1:8443"),
        ("https", 80, "https://10.0.0.1:80"),
        ("kubernetes.io/h2c", 8000, "http://10.0.0.1:8000"),
        (None, 443, "http://10.0.0.1:443"),
    ],
)
def test_a_frontend_is_spelled_as_registered_ones_are(
    protocol: str | None, number: int, url: str
) -> None:
    raw = {
        "metadata": {"name": "one", "namespace": "models"},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": number, "appProtocol": protocol}],
        "endpoints": [endpoint("10.0.0.1")],
    }
    assert frontends(read(raw)) == [url] == [normalize(url)]


def test_a_frontend_slice_with_endpoints_and_without_the_port_is_told() -> None:
    [(event, fields)] = notices(
        a_slice(FRONTENDS, endpoint("10.0.0.1"), name="one", port="grpc"),
        a_slice(FRONTENDS, endpoint("10.0.0.2"), name="two"),
        a_slice(FRONTENDS, name="three", port="grpc"),
    )
    assert event is Event.FRONTEND_PORT_MISSING
    assert fields["slice"] == "models/one"
    assert fields["pool"] == "rome/models/qwen"
    assert fields["port"] == "http"
    assert fields["ports"] == ["grpc"]


def test_a_service_scaled_to_zero_is_no_mistake() -> None:
    assert notices(sample("odd/scaled-to-zero")) == []


# -- families -----------------------------------------------------------------


def test_readiness_never_changes_the_family() -> None:
    v4 = a_slice(FRONTENDS, endpoint("10.0.0.1", ready=False))
    v6 = a_slice(FRONTENDS, endpoint("fd00::1", ready=True), family="IPv6")
    assert frontends(v4, v6) == []
    assert frontends(a_slice(FRONTENDS), v6) == []
    assert relays(v4, v6) == []


def test_only_slices_with_the_port_choose_the_family_of_frontends() -> None:
    v4 = a_slice(FRONTENDS, endpoint("10.0.0.1"), port="metrics")
    v6 = a_slice(FRONTENDS, endpoint("fd00::1"), family="IPv6")
    assert frontends(v4, v6) == ["http://[fd00::1]:8000"]
    assert relays(v4, v6) == ["10.0.0.1"]


def test_relays_and_frontends_choose_their_families_apart() -> None:
    found = interpret(
        relays=[a_slice(RELAYS, endpoint("10.0.0.1"))],
        frontends=[a_slice(FRONTENDS, endpoint("fd00::1"), family="IPv6")],
    )
    assert found.pool.relays == ("ip:10.0.0.1",)
    assert found.pool.frontends == ("http://[fd00::1]:8000",)


def test_a_frontend_of_both_families_is_listed_once_though_no_slice_names_it() -> None:
    v4 = a_slice(FRONTENDS, endpoint("10.0.0.1"), endpoint("10.0.0.2"))
    v6 = a_slice(FRONTENDS, endpoint("fd00::1"), endpoint("fd00::2"), family="IPv6")
    assert frontends(v4, v6) == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]


# -- addresses ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "family", "relay"),
    [
        ("FD00:0:0:0::1", "IPv6", "fd00::1"),
        ("::ffff:10.0.0.1", "IPv6", "10.0.0.1"),
        ("10.0.0.1", "IPv4", "10.0.0.1"),
    ],
)
def test_an_address_has_one_spelling(written: str, family: str, relay: str) -> None:
    assert relays(a_slice(RELAYS, endpoint(written), family=family)) == [relay]


@pytest.mark.parametrize(
    ("written", "family"),
    [
        ("10.0.0.01", "IPv4"),
        ("10.0.0.1/24", "IPv4"),
        ("", "IPv4"),
        ("host", "IPv4"),
        ("fd00::1", "IPv4"),
        ("10.0.0.1", "IPv6"),
        ("fe80::1%1", "IPv6"),
        ("[fd00::1]", "IPv6"),
    ],
)
def test_a_bad_address_costs_itself_and_is_told(written: str, family: str) -> None:
    good = "10.0.0.9" if family == "IPv4" else "fd00::9"
    one = a_slice(FRONTENDS, endpoint(written), endpoint(good), family=family, name="one")
    assert len(frontends(one)) == 1
    assert notices(one) == [(Event.SLICE_DAMAGED, {"slice": "models/one", "endpoints": 1})]


def test_only_the_first_address_of_an_endpoint_means_anything() -> None:
    raw = {"addresses": ["10.0.0.1", "10.0.0.2"]}
    assert relays(a_slice(RELAYS, raw)) == ["10.0.0.1"]


# -- the same pod, the same address -------------------------------------------


def test_the_later_word_on_a_pod_that_is_moved_counts() -> None:
    up, down = endpoint("10.0.0.1", pod="a", ready=True), endpoint("10.0.0.1", pod="a", ready=False)
    assert relays(a_slice(RELAYS, up, name="x", told=EARLY), a_slice(RELAYS, down, told=LATE)) == []
    assert relays(a_slice(RELAYS, down, name="x", told=EARLY), a_slice(RELAYS, up, told=LATE)) == [
        "10.0.0.1"
    ]


@pytest.mark.parametrize("told", ["", "yesterday", "2026-03-01T09:00:01"])
def test_without_two_times_that_compare_ready_wins(told: str) -> None:
    up, down = endpoint("10.0.0.1", pod="a", ready=True), endpoint("10.0.0.1", pod="a", ready=False)
    old = a_slice(RELAYS, up, name="x", told=EARLY)
    assert relays(old, a_slice(RELAYS, down, told=told)) == ["10.0.0.1"]


def test_a_time_says_nothing_about_a_slice_without_one() -> None:
    up, down = endpoint("10.0.0.1", pod="a", ready=True), endpoint("10.0.0.1", pod="a", ready=False)
    assert relays(a_slice(RELAYS, down, name="x", told=LATE), a_slice(RELAYS, up)) == ["10.0.0.1"]


def test_equal_times_leave_it_to_readiness() -> None:
    up, down = endpoint("10.0.0.1", pod="a", ready=True), endpoint("10.0.0.1", pod="a", ready=False)
    slices = a_slice(RELAYS, up, name="x", told=EARLY), a_slice(RELAYS, down, told=EARLY)
    assert relays(*slices) == ["10.0.0.1"]


def test_a_moved_pod_with_another_address_is_one_pod() -> None:
    old, new = endpoint("10.0.0.1", pod="a"), endpoint("10.0.0.2", pod="a")
    slices = a_slice(RELAYS, old, name="x", told=EARLY), a_slice(RELAYS, new, told=LATE)
    assert relays(*slices) == ["10.0.0.2"]


def test_a_pod_without_a_uid_is_told_apart_by_its_name() -> None:
    old = {**endpoint("10.0.0.1"), "targetRef": {"kind": "Pod", "namespace": "n", "name": "p"}}
    new = {**old, "addresses": ["10.0.0.2"]}
    slices = a_slice(RELAYS, old, name="x", told=EARLY), a_slice(RELAYS, new, told=LATE)
    assert relays(*slices) == ["10.0.0.2"]


@pytest.mark.parametrize("pod", ["", "fake-pod-10.0.0.1"])
def test_an_endpoint_of_no_real_pod_is_told_apart_by_its_address(pod: str) -> None:
    up, down = endpoint("10.0.0.1", pod=pod), endpoint("10.0.0.1", pod=pod, ready=False)
    slices = a_slice(RELAYS, up, name="x", told=EARLY), a_slice(RELAYS, down, told=LATE)
    assert relays(*slices) == []


def test_a_service_behind_every_endpoint_makes_them_not_one() -> None:
    one, two = (endpoint(f"10.0.0.{n}", pod="derived", kind="Service") for n in (1, 2))
    assert relays(a_slice(RELAYS, one, two)) == ["10.0.0.1", "10.0.0.2"]


def test_a_ghost_does_not_take_the_address_of_a_living_pod() -> None:
    ghost = endpoint("10.0.0.1", pod="old", ready=False, terminating=True)
    living = endpoint("10.0.0.1", pod="new", ready=True)
    for pair in itertools.permutations([ghost, living]):
        assert relays(a_slice(RELAYS, *pair)) == ["10.0.0.1"]
        assert frontends(a_slice(FRONTENDS, *pair)) == ["http://10.0.0.1:8000"]


# -- limits -------------------------------------------------------------------


def many(count: int) -> list[dict[str, Any]]:
    made = [endpoint(f"10.0.{n // 250}.{n % 250}", pod=f"p{n}") for n in range(count)]
    random.Random(7).shuffle(made)
    return made


def test_the_first_1024_frontends_are_listed_and_the_rest_is_told_once() -> None:
    found = interpret(frontends=[a_slice(FRONTENDS, *many(1_030))])
    assert found.pool.frontends == tuple(
        sorted(f"http://10.0.{n // 250}.{n % 250}:8000" for n in range(1_030))[:1_024]
    )
    [notice] = found.notices
    assert notice.event is Event.TOO_MANY_ENDPOINTS
    assert notice.fields == {
        "pool": "rome/models/qwen", "of": "frontends", "found": 1_030, "listed": 1_024,
    }  # fmt: skip


def test_the_first_256_relays_are_listed_and_the_rest_is_told_once() -> None:
    found = interpret(relays=[a_slice(RELAYS, *many(257))])
    assert len(found.pool.relays) == 256
    [notice] = found.notices
    assert (notice.event, notice.fields["of"]) == (Event.TOO_MANY_ENDPOINTS, "relays")


def test_no_slice_is_an_empty_pool() -> None:
    found = interpret()
    assert found.pool.relays == found.pool.frontends == ()
    assert not found.pool.frontend_port_seen
    assert found.notices == ()
