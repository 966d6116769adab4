"""What a slot makes of its server's log, and of what the server says of its lateness."""

import json
from pathlib import Path

import pytest

from chaos.history import Deaf, History, Terms, now
from chaos.lateness import grew
from chaos.slots import LOG_SECONDS, Slot


@pytest.fixture
def history() -> History:
    return History(Terms(3, 1, shared=False))


@pytest.fixture
def slot(history: History, tmp_path: Path) -> Slot:
    return Slot("slot-0", history, tmp_path, lambda: ())


def line(event: str, **fields: object) -> str:
    return json.dumps({"event": event, "level": "info", **fields})


def test_a_stall_of_a_server_that_takes_calls_is_a_time_in_which_it_was_deaf(
    slot: Slot, history: History
) -> None:
    before = now()
    slot.hear(line("ready"))
    slot.hear(line("stalled", seconds=1.5))
    (deaf,) = history.deaf
    assert deaf.told
    assert not deaf.certain
    assert before - 1.5 - LOG_SECONDS <= deaf.heard_until
    assert before <= deaf.back_by <= now()
    assert history.broken == []


def test_a_stall_before_it_takes_calls_is_part_of_its_start(slot: Slot, history: History) -> None:
    slot.hear(line("stalled", seconds=1.5))
    assert history.deaf == []


@pytest.mark.parametrize("ago", [0.1, 5.0])
def test_a_stall_soon_after_a_suspension_is_one_of_its_own(
    slot: Slot, history: History, ago: float
) -> None:
    ended = now() - ago
    history.deaf.append(Deaf("slot-0", ended - 1, ended - 1, ended, ended))
    slot.hear(line("ready"))
    slot.hear(line("stalled", seconds=1.2))
    assert [deaf.told for deaf in history.deaf] == [False, True]


def test_a_line_that_no_document_knows_is_a_breach(slot: Slot, history: History) -> None:
    slot.hear(line("surprise"))
    slot.hear("Traceback (most recent call last):")
    assert len(history.broken) == 2


def test_a_server_ran_as_late_as_its_lag_grew_but_for_what_we_suspended_it(
    history: History,
) -> None:
    grew(history, "slot-0", 0.3, 100.0, 100.5)
    grew(history, "slot-0", 0.01, 100.5, 101.0)
    history.deaf = [Deaf("slot-0", 102.0, 102.1, 104.1, 104.2)]
    grew(history, "slot-0", 2.4, 101.0, 104.5)
    grew(history, "slot-1", 2.4, 101.0, 104.5)
    first, last = history.server_lags["slot-0"][:2], history.server_lags["slot-0"][2:]
    assert first == [(100.0, 0.3), (100.5, 0.3)]
    assert last == [(101.0, pytest.approx(0.4)), (104.5, pytest.approx(0.4))]
    assert history.server_lags["slot-1"] == [(101.0, 2.4), (104.5, 2.4)]
