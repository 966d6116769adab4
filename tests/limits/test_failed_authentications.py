"""Who fails too often to prove who it is, and everybody else of its address."""

import pytest

from global_discovery.domain.errors import DiscoveryError, PermissionDenied, Unauthenticated
from global_discovery.domain.events import Event
from global_discovery.domain.limits import Limit, LimitReached
from global_discovery.serving.caller import Caller
from global_discovery.serving.limits import LimitsInForce, ServiceLimits, counted
from support.clock import FakeClock


class Judge:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.events: list[tuple[Event, dict[str, object]]] = []
        limits = ServiceLimits(failed_authentications_per_second=3)
        self.limits = LimitsInForce(limits, self.clock, self._report)

    def _report(self, event: Event, **fields: object) -> None:
        self.events.append((event, fields))

    def answer(self, error: DiscoveryError, account: str = "10.0.0.1") -> DiscoveryError:
        return self.limits.judged(error, account)


@pytest.fixture
def judge() -> Judge:
    return Judge()


def test_failures_beyond_so_many_a_second_are_told_to_come_later(judge: Judge) -> None:
    for _ in range(3):
        assert isinstance(judge.answer(Unauthenticated()), Unauthenticated)
    late = judge.answer(Unauthenticated())
    assert isinstance(late, LimitReached)
    assert late.limit is Limit.FAILED_AUTHENTICATIONS
    assert late.retry_after is not None
    assert late.retry_after >= 1.0
    judge.clock.advance(1.0)
    assert isinstance(judge.answer(Unauthenticated()), Unauthenticated)


def test_failures_of_one_are_none_of_another(judge: Judge) -> None:
    for _ in range(10):
        judge.answer(Unauthenticated())
    assert isinstance(judge.answer(Unauthenticated(), "10.0.0.2"), Unauthenticated)


def test_other_refusals_are_answered_as_they_are(judge: Judge) -> None:
    for _ in range(10):
        judge.answer(Unauthenticated())
    denied = PermissionDenied()
    assert judge.answer(denied) is denied


def test_it_is_counted_and_told_once_a_minute(judge: Judge) -> None:
    for _ in range(10):
        judge.answer(Unauthenticated())
    assert judge.limits.refusals[Limit.FAILED_AUTHENTICATIONS] == 7
    assert judge.events == [
        (
            Event.LIMIT_REACHED,
            {"limit": "failed_authentications_per_second", "caller": "10.0.0.1", "refused": 1},
        )
    ]


def test_a_caller_is_its_identity_else_its_address_of_ipv6_the_64() -> None:
    assert counted(Caller("10.0.0.1")) == "10.0.0.1"
    assert counted(Caller("10.0.0.1", "spiffe://a")) == "spiffe://a"
    assert counted(Caller("fd00::1", "spiffe://a")) == "spiffe://a"
    assert counted(Caller("fd00::1")) == counted(Caller("fd00::ffff")) == "fd00::/64"
    assert counted(Caller("fd00:0:0:1::1")) != "fd00::/64"
    assert counted(Caller("unix:nobody")) == "unix:nobody"
