"""Who is let in, and who makes room."""

from ipaddress import ip_network

from global_discovery.domain.limits import Limit
from global_discovery.serving.caller import Callers
from global_discovery.serving.rest.open_connections import OpenConnections


class House:
    def __init__(self, total: int, of_one: int, *trusted: str) -> None:
        self.doors = OpenConnections(total, of_one, Callers([ip_network(each) for each in trusted]))
        self.ended: list[str] = []
        self._names = 0

    def come(self, address: str) -> Limit | None:
        self._names += 1
        name = f"{address}#{self._names}"
        return self.doors.enter(name, address, lambda: self.ended.append(name))


def test_one_address_has_so_many() -> None:
    house = House(100, 3)
    assert [house.come("10.0.0.1") for _ in range(3)] == [None] * 3
    assert house.come("10.0.0.1") is Limit.HTTP_CONNECTIONS_OF_ONE
    assert house.come("10.0.0.2") is None
    assert house.ended == []
    assert len(house.doors) == 4
    assert house.doors.most_of_one == 3


def test_a_caller_has_a_whole_64_of_ipv6() -> None:
    house = House(100, 3)
    for number in range(3):
        assert house.come(f"fd00::{number}") is None
    assert house.come("fd00::ffff") is Limit.HTTP_CONNECTIONS_OF_ONE
    assert house.come("fd00:0:0:1::1") is None


def test_a_trusted_proxy_speaks_for_many() -> None:
    house = House(10, 3, "10.0.0.0/8")
    assert [house.come("10.0.0.1") for _ in range(10)] == [None] * 10
    assert house.come("10.0.0.1") is Limit.HTTP_CONNECTIONS


def test_a_trusted_proxy_is_not_who_fills_a_limit_that_it_does_not_have() -> None:
    house = House(10, 3, "10.0.0.0/8")
    for address in ("10.0.0.1", "10.0.0.1", "192.0.2.1"):
        house.come(address)
    assert house.doors.most_of_one == 1
    house.doors.leave("192.0.2.1#3", "192.0.2.1")
    assert house.doors.most_of_one == 0


def test_the_fullest_address_makes_room_with_its_oldest() -> None:
    house = House(6, 100)
    house.come("10.0.0.2")
    for _ in range(5):
        house.come("10.0.0.1")
    assert house.come("10.0.0.3") is None
    assert house.ended == ["10.0.0.1#2"]
    assert len(house.doors) == 6


def test_who_fills_the_house_is_not_let_in_again_and_again() -> None:
    house = House(6, 100)
    house.come("10.0.0.2")
    for _ in range(5):
        house.come("10.0.0.1")
    assert [house.come("10.0.0.1") for _ in range(50)] == [Limit.HTTP_CONNECTIONS] * 50
    assert house.ended == []


def test_many_addresses_with_one_each_do_not_push_each_other_out() -> None:
    house = House(50, 100)
    for number in range(50):
        assert house.come(f"10.0.1.{number}") is None
    assert house.come("10.0.2.1") is Limit.HTTP_CONNECTIONS
    assert house.ended == []


def test_what_has_left_leaves_room_and_nothing_behind() -> None:
    house = House(2, 100)
    house.come("10.0.0.1")
    house.come("10.0.0.1")
    house.doors.leave("10.0.0.1#1", "10.0.0.1")
    house.doors.leave("10.0.0.1#1", "10.0.0.1")
    assert len(house.doors) == 1
    house.doors.leave("10.0.0.1#2", "10.0.0.1")
    assert len(house.doors) == 0
    assert house.doors._open == {}
