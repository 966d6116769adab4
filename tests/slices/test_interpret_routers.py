import itertools

from global_discovery.slices.interpret import interpret_routers
from global_discovery.slices.model import EndpointSlice
from support.imported import a_slice, endpoint, sample

SERVICE = "global-router"
EARLY, LATE = "2026-03-01T08:00:00Z", "2026-03-01T08:00:01Z"


def routers(*slices: EndpointSlice) -> dict[str, str]:
    """By id, in any order of the slices."""
    found = [interpret_routers("rome", some, "http")[0] for some in itertools.permutations(slices)]
    assert all(one == found[0] for one in found)
    return {router.id: router.url for router in found[0]}


def test_a_router_is_named_by_its_pod_and_else_by_its_address() -> None:
    assert routers(a_slice(SERVICE, endpoint("10.0.0.1", pod="r-0"), endpoint("10.0.0.2"))) == {
        "rome/r-0": "http://10.0.0.1:8000",
        "rome/10.0.0.2": "http://10.0.0.2:8000",
    }


def test_what_is_behind_a_router_names_it_only_when_it_is_a_pod() -> None:
    service = endpoint("10.0.0.1", pod="derived", kind="Service")
    made_up = endpoint("10.0.0.2", pod="fake-pod-10.0.0.2")
    odd = endpoint("10.0.0.3", pod="a/b c")
    assert routers(a_slice(SERVICE, service, made_up, odd)).keys() == {
        "rome/10.0.0.1", "rome/10.0.0.2", "rome/10.0.0.3",
    }  # fmt: skip


def test_one_that_is_not_ready_is_listed_and_one_on_its_way_out_is_not() -> None:
    slices = a_slice(
        SERVICE,
        endpoint("10.0.0.1", pod="starting", ready=False, terminating=False),
        endpoint("10.0.0.2", pod="draining", ready=True, terminating=True),
        endpoint("10.0.0.3", pod="going", terminating=True),
    )
    assert routers(slices) == {"rome/starting": "http://10.0.0.1:8000"}


def test_a_pod_in_two_slices_is_one_router() -> None:
    old = a_slice(SERVICE, endpoint("10.0.0.1", pod="r"), name="old", told=EARLY)
    new = a_slice(SERVICE, endpoint("10.0.0.2", pod="r"), name="new", told=LATE)
    assert routers(old, new) == {"rome/r": "http://10.0.0.2:8000"}


def test_a_pod_that_is_said_to_be_going_last_is_going() -> None:
    old = a_slice(SERVICE, endpoint("10.0.0.1", pod="r"), name="old", told=EARLY)
    going = endpoint("10.0.0.1", pod="r", ready=False, terminating=True)
    assert routers(old, a_slice(SERVICE, going, name="new", told=LATE)) == {}


def test_the_next_pod_of_a_name_takes_over_from_one_that_is_going() -> None:
    old = endpoint("10.0.0.1", pod="r-0", ready=True, terminating=True)
    new = endpoint("10.0.0.2", pod="r-0", ready=False)
    new["targetRef"]["uid"] = "another"
    assert routers(a_slice(SERVICE, old, new)) == {"rome/r-0": "http://10.0.0.2:8000"}
    assert routers(a_slice(SERVICE, new, old)) == {"rome/r-0": "http://10.0.0.2:8000"}


def test_of_two_pods_with_one_name_the_ready_one_has_it() -> None:
    stale, living = endpoint("10.0.0.1", pod="r-0", ready=False), endpoint("10.0.0.2", pod="r-0")
    living["targetRef"]["uid"] = "another"
    for pair in itertools.permutations([stale, living]):
        assert routers(a_slice(SERVICE, *pair)) == {"rome/r-0": "http://10.0.0.2:8000"}


def test_two_pods_with_one_address_are_one_router_and_the_ready_one() -> None:
    stale, living = endpoint("10.0.0.1", pod="a", ready=False), endpoint("10.0.0.1", pod="b")
    assert routers(a_slice(SERVICE, stale, living)) == {"rome/b": "http://10.0.0.1:8000"}


def test_routers_are_of_one_family_and_need_the_port() -> None:
    v4 = a_slice(SERVICE, endpoint("10.0.0.1", ready=False))
    v6 = a_slice(SERVICE, endpoint("fd00::1"), family="IPv6")
    portless = a_slice(SERVICE, endpoint("10.0.0.2"), name="portless", port="grpc")
    assert routers(v4, v6, portless) == {"rome/10.0.0.1": "http://10.0.0.1:8000"}
    assert routers(v6, portless) == {"rome/fd00::1": "http://[fd00::1]:8000"}


def test_a_router_with_tls_is_listed_with_https_and_damage_is_told() -> None:
    found, notices = interpret_routers("rome", [sample("odd/https-and-bad-addresses")], "http")
    assert [router.url for router in found] == ["https://[fd91::7]:8443"]
    assert [notice.fields["endpoints"] for notice in notices] == [4]
