"""When the sink is told that its set follows the server, and when that it may be old."""

from pathlib import Path

import pytest

from global_discovery.domain.events import Event
from global_discovery.kubernetes.failures import Failure
from global_discovery.kubernetes.figures import Relist
from support.fake_kube_api import Hang, Stream, fake_kube_api, gone, status
from support.kube_reading import a_slice, reading


async def test_nothing_is_told_before_the_first_complete_list(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.fail_always(status(503))
        it.drive(until=60)
        await it.driving
        assert it.sink.calls == []
        assert it.reader.figures.seconds_since_list is None


async def test_a_watch_that_ends_normally_and_goes_on_is_not_broken(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        for _ in range(3):
            await it.following()
            api.fail_next(status(503), verb="watch")
            api.end_watches()
            await api.watching(0)
            await it.following()
            it.timer.advance(30)
        await it.following()
        api.put(a_slice("a"))
        await it.right_again()
        assert it.sink.calls == ["replaced", "in_sync", "put"]


async def test_a_watch_that_ended_normally_is_broken_after_ten_seconds(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.fail_always(status(503), verb="watch")
        api.end_watches()
        await it.until(lambda: not it.sink.synced)
        assert 10 <= it.sink.lost_at[0] < 11
        api.heal()
        await it.following()
        await it.right_again()
        assert api.count("list") == 1


async def test_a_list_of_everything_that_is_not_followed_by_a_watch_is_broken_after_ten_seconds(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.fail_always(status(503), verb="watch")
        it.drive()
        await it.until(lambda: "out_of_sync" in it.sink.calls)
        assert it.sink.calls == ["replaced", "in_sync", "out_of_sync"]


@pytest.mark.parametrize("end", ["reset", "half a line", "an error", "410"])
async def test_a_watch_that_breaks_is_told_at_once(end: str, tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.fail_next(Hang(), verb="list")
        api.fail_next(Hang(), verb="watch")
        if end == "reset":
            api.reset_watches()
        elif end == "half a line":
            api.inject(b'{"type":')
            api.end_watches()
        elif end == "an error":
            api.inject(b'{"type":"ERROR","object":{"code":500}}\n')
        else:
            api.inject(b'{"type":"ERROR","object":{"code":410}}\n')
        await it.until(lambda: not it.sink.synced)
        assert it.passed < 1


async def test_a_watch_that_broke_is_in_sync_again_once_the_next_one_shows_something(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.reset_watches()
        await api.asked_for(2, "watch")
        await api.watching()
        assert not it.sink.synced
        await it.following()
        assert it.sink.synced
        assert it.sink.calls == ["replaced", "in_sync", "out_of_sync", "in_sync"]


async def test_a_watch_that_broke_is_in_sync_again_when_the_next_one_stays_open_for_a_second(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.reset_watches()
        await api.asked_for(2, "watch")
        await it.timer.slept_for(1)
        assert not it.sink.synced
        it.timer.advance(1)
        await it.until(lambda: it.sink.synced)


async def test_a_watch_that_is_accepted_and_refused_at_once_is_not_in_sync(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.fail_next(Stream(b'{"type":"ERROR","object":{"code":500}}\n'), verb="watch")
        api.reset_watches()
        await api.asked_for(2, "list")
        assert it.sink.calls[:3] == ["replaced", "in_sync", "out_of_sync"]
        await it.right_again()
        assert it.sink.calls[3:5] == ["replaced", "in_sync"]


async def test_silence_is_noticed_before_the_bound_and_bookmarks_are_no_silence(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        for _ in range(3):
            it.timer.advance(60)
            await it.following()
        assert it.reader.figures.seconds_since_heard == 0
        it.timer.advance(84.5)
        await it.timer.slept_for(0.5)
        assert it.sink.synced
        it.timer.advance(0.5)
        await it.until(lambda: not it.sink.synced)
        await it.following()
        await it.right_again()
        # A server that was set back to an older copy is silent too: everything is listed.
        assert api.count("list") == 2
        assert it.reader.figures.failures == {Failure.SILENT: 1}


async def test_the_silence_of_a_watch_counts_from_the_proper_end_of_the_one_before(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.fail_next(*[status(503)] * 2, verb="watch")
        api.end_watches()
        await api.asked_for(4, "watch")
        await it.timer.slept_for(1)
        waited = it.passed
        assert 4 < waited < 10
        it.timer.advance(84.5 - waited)
        await it.timer.slept_for(0.5)
        assert it.sink.synced
        it.timer.advance(0.5)
        await it.until(lambda: not it.sink.synced)


async def test_an_answer_that_does_not_come_is_not_waited_for_long(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.fail_next(Hang(), verb="list")
        it.drive()
        await api.asked_for(1)
        await it.timer.slept_for(30)
        it.timer.advance(30)
        await api.hung_up.wait()
        await it.right_again()
        await it.following()
        api.fail_next(Hang(), verb="watch")
        api.end_watches()
        await api.asked_for(2, "watch")
        await it.timer.slept_for(15)
        it.timer.advance(15)
        await api.asked_for(3, "watch")
        assert "out_of_sync" in it.sink.calls
        await it.following()
        await it.right_again()
        assert it.reader.figures.failures == {Failure.SILENT: 2}


async def test_a_list_that_stops_in_its_middle_is_not_waited_for_long(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.fail_next(Stream(b'{"items":[', "hang"), verb="list")
        it.drive()
        await api.asked_for(1)

        def asked_again() -> bool:
            it.timer.advance(1)
            return api.count("list") > 1

        await it.until(asked_again)
        await it.right_again()
        assert it.reader.figures.failures[Failure.SILENT] >= 1


async def test_waits_double_and_start_over_after_half_a_minute_of_a_good_watch(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        for _ in range(7):
            await it.following()
            api.reset_watches()
            await api.watching(0)
        await it.following()
        assert [round(wait, 3) for wait in it.waits[1:]] == [0.7, 1.4, 2.8, 5.6, 11.2, 22.4, 26.25]
        it.timer.advance(29)
        await it.following()
        assert not it.said(Event.WATCH_RECOVERED)
        it.timer.advance(1)
        await it.until(lambda: it.said(Event.WATCH_RECOVERED))
        api.reset_watches()
        await api.watching(0)
        await it.following()
        assert round(it.waits[-1], 3) == 0.7
        assert len(it.said(Event.WATCH_FAILING)) == 2
        assert api.count("list") == 1


async def test_a_good_watch_that_ends_normally_is_followed_by_the_next_one_at_once(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        it.timer.advance(30)
        await it.following()
        api.end_watches()
        await api.watching(0)
        await it.following()
        assert it.waits == [0, 0]
        assert 240 <= int(api.asked[-1].params["timeoutSeconds"]) <= 480


async def test_a_periodic_list_that_fails_lets_a_good_watch_go_on(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.fail_always(status(503), verb="list")
        while api.count("list") < 2:
            it.timer.advance(30)
            await it.following()
        api.put(a_slice("a"))
        await it.following()
        await it.right_again()
        api.heal()
        assert "out_of_sync" not in it.sink.calls
        while api.count("list") < 3:
            it.timer.advance(30)
            await it.following()
        assert it.reader.figures.relists == {Relist.FIRST: 1, Relist.PERIODIC: 2}


async def test_a_list_that_was_due_and_failed_does_not_lengthen_silence(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        due = it.reader._watches[0]._relist_at
        while due - it.timer.now() > 100:
            it.timer.advance(50)
            await it.following()
        it.timer.advance(due - it.timer.now() - 60)
        await it.following()
        api.fail_next(status(503), verb="list")
        it.timer.advance(60)
        await api.asked_for(2, "list")
        await api.asked_for(2, "watch")
        await it.timer.slept_for(1)
        it.timer.advance(1)
        await it.until(lambda: it.reader._watches[0]._sync._alarm is None)
        it.timer.advance(25)
        await it.until(lambda: not it.sink.synced)


async def test_410_once_is_healed_by_one_list(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.fail_next(gone(), verb="watch")
        api.end_watches()
        await api.asked_for(3, "watch")
        assert it.sink.calls == ["replaced", "in_sync", "out_of_sync", "replaced", "in_sync"]
