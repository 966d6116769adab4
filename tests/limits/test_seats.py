"""The places for watchers."""

import pytest

from global_discovery.domain.limits import Limit, LimitReached
from global_discovery.view.seats import Seats


def refused(seats: Seats, account: str) -> Limit:
    with pytest.raises(LimitReached) as error:
        seats.take(account)
    assert error.value.retry_after is not None
    assert 1.0 <= error.value.retry_after <= 10.0
    return error.value.limit


def test_one_caller_has_so_many_and_others_have_theirs() -> None:
    seats = Seats(10, 2)
    leave = seats.take("a")
    seats.take("a")
    assert refused(seats, "a") is Limit.WATCHERS_OF_ONE
    seats.take("b")
    leave()
    seats.take("a")
    assert (len(seats), seats.most_of_one) == (3, 2)


def test_all_together_have_so_many() -> None:
    seats = Seats(3, 2)
    leave = [seats.take(name) for name in "abc"]
    assert refused(seats, "d") is Limit.WATCHERS
    for each in leave:
        each()
    assert len(seats) == 0
    assert seats._taken == {}
