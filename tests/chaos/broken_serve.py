"""`serve` with one promise broken: run as `broken_serve.py FAULT [flag ...]`.

The chaos tier must find each of them; a judge that finds nothing proves nothing.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from global_discovery.cli.main import main
from global_discovery.domain.completeness import Reason
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.access.guard import Visit
from global_discovery.serving.access.policy_file import PolicyKeeper
from global_discovery.sources.registered.found_shares import FoundShares
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.sources.registered.shares import Share
from global_discovery.view.view import Delta, Filter, View


def keep_lapsed(_self: Registrations, _ending: list[Share], _now: float) -> None:
    """Leases end, and their pools stay."""


def always_exact(_self: Registrations, _now: float) -> set[Reason]:
    """A server that has just begun is sure of everything."""
    return set()


def ignore_withdrawal(
    _self: Registrations, lease_ids: Iterable[str], *, caller: str, identity: str
) -> int:
    """It is answered with success, and nothing ends."""
    del caller, identity
    return len(list(lease_ids))


def forget_tombstones(_self: FoundShares, _withdrawn: Iterable[object], _now: float) -> None:
    """What was withdrawn at another server goes on here."""


async def keep_the_policy(_self: PolicyKeeper) -> None:
    """What it read at its start is in force for good."""


def let_anybody_in(_self: Visit, _key: PoolKey) -> None:
    """Whoever may register something may register everything."""


_since = View.since


def forget_a_change(self: View[Any], sequence: int, wanted: Filter) -> Delta[Any] | None:
    """Of several changes that are told together one is lost."""
    delta = _since(self, sequence, wanted)
    if delta is None or not delta.entries or len(delta.entries) + len(delta.removed) < 2:
        return delta
    return delta._replace(entries=delta.entries[1:])


FAULTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "keep-lapsed": (Registrations, "_lapse", keep_lapsed),
    "always-exact": (Registrations, "_reasons", always_exact),
    "ignore-withdrawal": (Registrations, "withdraw", ignore_withdrawal),
    "forget-tombstones": (FoundShares, "withdraw", forget_tombstones),
    "keep-the-policy": (PolicyKeeper, "look", keep_the_policy),
    "let-anybody-in": (Visit, "register", let_anybody_in),
    "forget-a-change": (View, "since", forget_a_change),
}


def run(fault: str, flags: Sequence[str]) -> int:
    """As `global-discovery serve`; the exit status."""
    where, name, broken = FAULTS[fault]
    setattr(where, name, broken)
    return main(["serve", *flags])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
