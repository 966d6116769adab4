"""What a relay's own word makes of its calls."""

import asyncio
from typing import Any

import pytest

from chaos.history import History, Terms
from chaos.leases import Span, certain
from chaos.links import Link
from chaos.relay_processes import RelayLife
from support.openai_server import OpenAiServer

TERMS = Terms(lease=3.0, interval=1.0, shared=False)


@pytest.fixture
async def relay() -> RelayLife:
    """Of which no process was started."""
    await asyncio.sleep(0)  # a link needs a loop
    ways = {"slot-0": ("127.0.0.1:1", Link()), "slot-1": ("127.0.0.1:2", Link())}
    return RelayLife(
        cluster="rome",
        pool="p",
        ways=ways,
        tls=None,
        model_server=OpenAiServer(),
        history=History(TERMS),
    )


def a_lease(left: float | None, ago: float | None) -> dict[str, Any]:
    return {
        "server": "127.0.0.1:2",
        "duration_secs": 3.0,
        "expires_in_secs": left,
        "last_success_secs_ago": ago,
    }


async def test_a_lease_tells_between_which_moments_its_call_was_sent_and_answered(
    relay: RelayLife,
) -> None:
    call = relay.call_of(a_lease(2.4, 0.5), 100.0, 100.1)
    assert call is not None
    assert (call.slot, call.sent, call.ended) == ("slot-1", 99.4, 99.6)
    assert certain(History(TERMS, calls=[call]), "p") == [Span(99.6, 102.4)]


@pytest.mark.parametrize("lease", [a_lease(None, None), a_lease(None, 4.0), a_lease(0.0, 3.0)])
async def test_without_a_lease_nothing_is_certain(relay: RelayLife, lease: dict[str, Any]) -> None:
    assert relay.call_of(lease, 100.0, 100.1) is None
