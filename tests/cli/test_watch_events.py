"""What `--watch` tells of its connection: each loss, and each new reason, once."""

from collections.abc import Iterable

import grpc
import pytest

from global_discovery.cli.events import Connected, Events, Unconnected, event_document, event_lines
from global_discovery.cli.kinds import POOLS
from global_discovery.client.errors import CallFailed, ErrorDetails
from global_discovery.client.fold import PoolFold
from global_discovery.client.watch import Connection, WatchState

AWAY = CallFailed("a:1", grpc.StatusCode.UNAVAILABLE, "nobody there")
GONE = CallFailed("a:1", grpc.StatusCode.UNAVAILABLE, "closed", ErrorDetails("SHUTTING_DOWN"))
DENIED = CallFailed(
    "a:1",
    grpc.StatusCode.PERMISSION_DENIED,
    "this identity may not do this",
    ErrorDetails("PERMISSION_DENIED"),
)
OTHER_AWAY = CallFailed("b:1", grpc.StatusCode.UNAVAILABLE, "nobody there")
FULL = CallFailed(
    "a:1", grpc.StatusCode.RESOURCE_EXHAUSTED, "limit reached", ErrorDetails("LIMIT_REACHED")
)
UP = "up"


def told(steps: Iterable[CallFailed | str]) -> list[str]:
    """The first words of what is told of failures, and of connections (UP)."""
    events, lines = Events(), []
    for step in steps:
        if isinstance(step, CallFailed):
            connection = Connection(step.server, connected=False, last_error=step)
        else:
            connection = Connection("a:1", connected=True)
        for event in events.of(WatchState(PoolFold(), None, connection)):
            lines += [line.split()[0] for line in event_lines(event, POOLS)]
    return lines


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ([UP, UP], []),
        ([UP, GONE, UP, UP], ["lost", "restored"]),
        ([UP, GONE, AWAY, AWAY, UP], ["lost", "restored"]),
        ([UP, GONE, DENIED, DENIED, AWAY, UP], ["lost", "failed", "failed", "restored"]),
        ([AWAY, AWAY, UP, GONE, UP], ["failed", "connected", "lost", "restored"]),
        ([FULL, FULL, UP], ["failed", "connected"]),
        ([AWAY, OTHER_AWAY, AWAY, OTHER_AWAY], ["failed", "failed"]),
        ([UP, GONE, OTHER_AWAY, AWAY, UP, GONE], ["lost", "failed", "restored", "lost"]),
    ],
)
def test_a_loss_and_each_new_reason_are_told_once(
    steps: list[CallFailed | str], lines: list[str]
) -> None:
    assert told(steps) == lines


def test_a_line_names_the_reason_and_what_a_refused_caller_lacks() -> None:
    (line,) = event_lines(Unconnected(FULL, lost=False), POOLS)
    assert line == "failed    a:1 refused the call: limit reached (LIMIT_REACHED); trying again"
    (line,) = event_lines(Unconnected(DENIED, lost=False), POOLS)
    assert line.endswith(
        "(PERMISSION_DENIED, no rule of the policy lets this identity read any pool); trying again"
    )
    (line,) = event_lines(Unconnected(AWAY, lost=True), POOLS)
    assert line == "lost      a:1 is unavailable: nobody there (UNAVAILABLE); trying again"


def test_a_document_has_the_code_and_the_reason() -> None:
    assert event_document(Unconnected(FULL, lost=False), POOLS) == {
        "event": "connection_failed",
        "server": "a:1",
        "error": "a:1 refused the call: limit reached",
        "code": "RESOURCE_EXHAUSTED",
        "reason": "LIMIT_REACHED",
    }
    assert event_document(Connected("a:1", again=False), POOLS)["event"] == "connection_made"
