"""The policy that is in force while its file changes."""

from pathlib import Path
from typing import Any

import pytest

from global_discovery.domain.events import Event
from global_discovery.domain.policy import BadPolicy
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.access.policy_file import PolicyKeeper
from support.access import EAST, POLICY, in_file

OTHER = POLICY.replace('clusters = ["east"]', 'clusters = ["north"]')
BAD = POLICY.replace("may", "can", 1)


class Kept:
    def __init__(self, path: Path) -> None:
        self.events: list[tuple[Event, dict[str, Any]]] = []
        self.path = path
        self.keeper = PolicyKeeper(
            path, report=lambda event, **fields: self.events.append((event, fields))
        )
        self.changes = 0
        self.keeper.changed = self._changed

    def _changed(self) -> None:
        self.changes += 1

    async def look(self, times: int = 2) -> None:
        for _ in range(times):
            await self.keeper.look()

    @property
    def cluster(self) -> str:
        rights = self.keeper.rights(EAST).register
        clusters = ("east", "north")
        return next(name for name in clusters if rights.holds(PoolKey(name, "ns", "pool")))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(in_file(tmp_path))


async def test_a_new_policy_is_taken_once_it_was_seen_twice(kept: Kept) -> None:
    assert kept.cluster == "east"
    kept.path.write_text(OTHER)
    await kept.look(1)
    assert (kept.cluster, kept.changes) == ("east", 0)
    await kept.look(1)
    assert (kept.cluster, kept.changes) == ("north", 1)
    assert kept.events == [(Event.POLICY_TAKEN, {"rules": 3, "rules_before": 3})]
    await kept.look()
    assert len(kept.events) == 1


async def test_a_half_written_policy_is_never_in_force(kept: Kept) -> None:
    kept.path.write_text(POLICY[: POLICY.index("[[rule]]", 20)])
    await kept.look(1)
    kept.path.write_text(OTHER)
    await kept.look(2)
    assert (kept.cluster, kept.changes, kept.keeper.rules) == ("north", 1, 3)


async def test_a_link_that_is_moved_is_a_new_policy(tmp_path: Path) -> None:
    for name, text in (("v1", POLICY), ("v2", OTHER)):
        (tmp_path / name).mkdir()
        in_file(tmp_path / name, text)
    link = tmp_path / "..data"
    link.symlink_to("v1")
    kept = Kept(link / "policy.toml")
    fresh = tmp_path / "..data_tmp"
    fresh.symlink_to("v2")
    fresh.rename(link)
    await kept.look()
    assert kept.cluster == "north"


@pytest.mark.parametrize("spoilt", [BAD, "", "\0", None])
async def test_a_bad_policy_keeps_the_one_before_it_and_is_told_once(
    kept: Kept, spoilt: str | None
) -> None:
    if spoilt is None:
        kept.path.unlink()
    else:
        kept.path.write_text(spoilt)
    await kept.look(5)
    assert (kept.cluster, kept.changes, kept.keeper.stale) == ("east", 0, True)
    ((event, fields),) = kept.events
    assert event is Event.POLICY_REFUSED
    assert str(kept.path) in fields["message"]
    kept.path.write_text(POLICY)
    await kept.look()
    assert [event for event, _ in kept.events] == [Event.POLICY_REFUSED, Event.POLICY_TAKEN]
    assert (kept.changes, kept.keeper.stale, kept.keeper.refused) == (0, False, 1)


async def test_another_fault_is_told_again_and_a_good_one_is_taken(kept: Kept) -> None:
    for text in (BAD, BAD.replace("can", "cannot"), OTHER):
        kept.path.write_text(text)
        await kept.look(3)
    assert [event for event, _ in kept.events] == [
        Event.POLICY_REFUSED,
        Event.POLICY_REFUSED,
        Event.POLICY_TAKEN,
    ]
    assert kept.cluster == "north"


async def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BadPolicy) as refusal:
            PolicyKeeper(path)
        assert str(refusal.value) == f"{path}: is no file"  # nobody else names it
