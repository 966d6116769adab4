"""Which shares a process finds alive in the file of the one before, whatever the clocks did."""

from pathlib import Path

import pytest

from global_discovery.domain.errors import LeaseWithdrawn
from support.clock import FakeClock
from support.lease_world import KEY, keys
from support.sqlite_lives import sqlite_life

DAY = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registrations.db"


def another_clock(clock: FakeClock, *, downtime: float = 1.0, step: float = 0.0) -> FakeClock:
    """After a reboot: the other two clocks begin anew, the wall clock has gone on and was set."""
    after = FakeClock(monotonic=3.0, boottime=3.5)
    after.step_wall(clock.wall() - after.wall() + downtime + step)
    return after


@pytest.mark.parametrize("downtime", [0.0, 20.0, 3600.0, DAY - 60])
@pytest.mark.parametrize("killed", [True, False])
async def test_downtime_is_not_charged(path: Path, downtime: float, *, killed: bool) -> None:
    clock = FakeClock()
    async with sqlite_life(path, clock, killed=killed) as life:
        lease = await life.register(model="kept")
        life.run(14)
        await life.store.flush()
    after = another_clock(clock, downtime=downtime)
    async with sqlite_life(path, after) as life:
        assert life.listed == {KEY: "kept"}
        await life.register(keys(1)[0])  # now it listens
        life.run(14.5)
        assert KEY in life.listed
        assert (await life.renew(lease)).unknown == []
        life.run(14.5)
        assert KEY in life.listed
        life.run(1)
        assert life.listed == {}


@pytest.mark.parametrize("step", [-10 * DAY, -3600.0, 3600.0])
async def test_a_step_of_the_wall_clock_changes_nothing(path: Path, step: float) -> None:
    clock = FakeClock()
    async with sqlite_life(path, clock, killed=True) as life:
        await life.register(keys(2)[0])
        life.run(10)
        await life.register(keys(2)[1])
        life.run(10)  # the first one has lapsed
        await life.store.flush()
    async with sqlite_life(path, another_clock(clock, step=step)) as life:
        assert list(life.listed) == [keys(2)[1]]


async def test_what_was_alive_more_than_a_day_ago_is_gone_but_withdrawn_ids_are_not(
    path: Path,
) -> None:
    clock = FakeClock()
    async with sqlite_life(path, clock) as life:
        await life.register()
        withdrawn = await life.register(keys(1)[0])
        await life.withdraw(keys(1)[0], relay_id="r1")
    async with sqlite_life(path, another_clock(clock, downtime=DAY + 60)) as life:
        assert life.listed == {}
        with pytest.raises(LeaseWithdrawn):
            await life.register(keys(1)[0], lease_id=withdrawn)
    async with sqlite_life(path, another_clock(clock)) as life:
        assert life.listed == {}


async def test_a_kill_keeps_every_registration_that_was_answered(path: Path) -> None:
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        ids = {key: await life.register(key) for key in keys(50)}
        await life.withdraw(keys(50)[7], relay_id="r1")
        ids[keys(50)[8]] = await life.register(keys(50)[8], model="changed")
    async with sqlite_life(path, FakeClock()) as life:
        expected = dict.fromkeys(keys(50), "m")
        del expected[keys(50)[7]]
        expected[keys(50)[8]] = "changed"
        assert life.listed == expected
        lease_ids = [ids[key] for key in expected]
        assert (await life.renew(*lease_ids)).unknown == []


async def test_without_a_renewal_it_is_restored_three_times_and_no_more(path: Path) -> None:
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        await life.register()
    for _ in range(3):
        async with sqlite_life(path, FakeClock(), killed=True) as life:
            await life.register(keys(1)[0])
            life.run(10)
            assert KEY in life.listed
            await life.store.flush()
    async with sqlite_life(path, FakeClock()) as life:
        await life.register(keys(1)[0])
        assert KEY in life.listed
        life.run(4.5)
        assert KEY in life.listed
        life.run(1)
        assert KEY not in life.listed  # its third restoration had five seconds left


async def test_a_restoration_counts_also_while_it_is_not_known_when_the_instance_listens(
    path: Path,
) -> None:
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        await life.register()
        life.run(5)
        await life.store.flush()
    for _ in range(3):
        async with sqlite_life(path, FakeClock(), killed=True) as life:
            life.run(10.5)  # it came due, nobody called, and it waits for the first call
            assert KEY in life.listed
            await life.store.flush()
    async with sqlite_life(path, FakeClock()) as life:
        await life.register(keys(1)[0])
        life.run(6)
        assert KEY not in life.listed


async def test_a_renewal_between_restarts_makes_them_three_again(path: Path) -> None:
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        lease = await life.register()
    for _ in range(6):
        async with sqlite_life(path, FakeClock(), killed=True) as life:
            await life.renew(lease)
            await life.store.flush()
    async with sqlite_life(path, FakeClock()) as life:
        await life.register(keys(1)[0])
        life.run(14.5)
        assert KEY in life.listed


async def test_a_lease_that_a_stall_extended_is_alive_for_the_next_process(path: Path) -> None:
    clock = FakeClock()
    async with sqlite_life(path, clock, killed=True) as life:
        await life.register()
        life.run(14)
        clock.stop(20)
        life.tick()
        await life.store.flush()
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        assert KEY in life.listed


async def test_while_the_loop_stands_still_no_time_passes_in_the_file(path: Path) -> None:
    clock = FakeClock()
    async with sqlite_life(path, clock, killed=True) as life:
        await life.register()
        life.tick()
        clock.stop(600)  # nothing was judged since: the thread may write, but not that time passed
        await life.store.flush()
    async with sqlite_life(path, FakeClock()) as life:
        assert KEY in life.listed


async def test_shares_keep_the_order_in_which_they_began(path: Path) -> None:
    async with sqlite_life(path, FakeClock()) as life:
        for name in ("c", "a", "b"):
            await life.register(relay_id=name)
        await life.register(relay_id="c", model="later")
    async with sqlite_life(path, FakeClock()) as life:
        (pool,) = life.world.registrations._table.pools.values()
        assert [identity[1] for identity in pool.shares] == ["c", "a", "b"]
        assert life.listed == {KEY: "later"}


async def test_shares_that_lapsed_leave_the_file(path: Path) -> None:
    clock = FakeClock()
    async with sqlite_life(path, clock) as life:
        for key in keys(20):
            await life.register(key)
        life.run(100)
        await life.store.flush()
        await life.store.flush()
        assert life.store._kept == {}
        assert life.store._by_lease == {}
        await life.register()
        assert len(life.store._kept) == 1


async def test_a_longer_lease_of_an_earlier_configuration_is_kept_until_it_is_renewed(
    path: Path,
) -> None:
    async with sqlite_life(path, FakeClock()) as life:
        lease = await life.register()
        stored = life.store._by_lease[lease].share
        await life.store.put(stored._replace(granted=60.0))
    async with sqlite_life(path, FakeClock()) as life:
        await life.register(keys(1)[0])
        life.run(50)
        assert KEY in life.listed
        await life.renew(lease)
        assert life.store._by_lease[lease].share.granted == 15.0
        life.run(16)
        assert KEY not in life.listed
