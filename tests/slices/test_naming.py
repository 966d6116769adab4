import pytest

from global_discovery.domain.pool import PoolKey
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Service


def pool_of(name: str, naming: Naming | None = None) -> PoolKey | None:
    return (naming or Naming()).pool_of(Service("rome", "models", name))


@pytest.mark.parametrize(
    ("service", "dgd_name"),
    [
        ("qwen-pool-relay", "qwen"),
        ("qwen-frontend", "qwen"),
        ("x-pool-relay-frontend", "x-pool-relay"),
        ("x-frontend-pool-relay", "x-frontend"),
        ("x-pool-relay-pool-relay", "x-pool-relay"),
        ("x-frontend-frontend", "x-frontend"),
        ("derived-x-frontend", "derived-x"),
    ],
)
def test_one_suffix_is_cut_off_and_once(service: str, dgd_name: str) -> None:
    assert pool_of(service) == PoolKey("rome", "models", dgd_name)


@pytest.mark.parametrize(
    "service", ["-frontend", "-pool-relay", "qwen", "frontend", "qwen-FRONTEND"]
)
def test_other_services_are_of_no_pool(service: str) -> None:
    assert pool_of(service) is None


def test_a_pool_names_its_services_as_they_name_it() -> None:
    naming = Naming(relay_suffix=".r", frontend_suffix=".f")
    key = PoolKey("rome", "models", "qwen")
    assert naming.relays_of(key) == Service("rome", "models", "qwen.r")
    assert naming.frontends_of(key) == Service("rome", "models", "qwen.f")
    assert naming.pool_of(naming.relays_of(key)) == key == naming.pool_of(naming.frontends_of(key))


@pytest.mark.parametrize(
    ("relay", "frontend"),
    [("-a-b", "-b"), ("-b", "-a-b"), ("-a", "-a"), ("", "-a"), ("-a", "")],
)
def test_suffixes_that_leave_a_service_to_two_pools_are_refused(relay: str, frontend: str) -> None:
    with pytest.raises(ValueError, match="suffix"):
        Naming(relay_suffix=relay, frontend_suffix=frontend)
