"""The chaos tier finds what is broken. That it finds nothing else is what `make chaos` shows."""

from pathlib import Path

import pytest

from chaos import broken_serve
from chaos.run import ran
from chaos.world import python_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVE = Path(broken_serve.__file__)
SECONDS = 20.0
KILLED, SUSPENDED, NARROWED = "1", "2", "148"
"""Seeds under which, in that time, a server is killed, one is suspended for two leases, and a
relay may register no more while no server begins anew."""

FOUND = [
    ("keep-lapsed", "memory", SUSPENDED, "nothing is listed longer than its lease"),
    ("always-exact", "memory", KILLED, "nothing older than the bound is missing"),
    ("ignore-withdrawal", "memory", SUSPENDED, "a withdrawn pool stays away"),
    ("forget-a-change", "memory", KILLED, "differ at one position"),
    ("keep-the-policy", "memory", NARROWED, "a policy is in force"),
    ("let-anybody-in", "memory", KILLED, "an owner of one cluster touches nothing"),
    ("forget-tombstones", "dynamodb", SUSPENDED, "a withdrawn pool stays away"),
]


@pytest.mark.parametrize(
    ("fault", "scenario", "seed", "promise"), FOUND, ids=[each[0] for each in FOUND]
)
async def test_a_server_that_breaks_a_promise_is_found(
    fault: str, scenario: str, seed: str, promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.run.CONVERGE_SECONDS", 5.0)  # a broken one need not come round
    command = python_command(SERVE, fault)
    told = await ran(scenario, seed=seed, seconds=SECONDS, command=command)
    assert any(promise in breach for breach in told.verdict.breaches), told.verdict.breaches
