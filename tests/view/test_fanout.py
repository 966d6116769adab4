"""Streams, stepped by hand: what each is sent, when, and how each ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.errors import ShuttingDown, SlowWatcher
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.serving import wire
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.view.fanout import TICK_SECONDS, FanOut
from global_discovery.view.feed import Encoder, Frames
from global_discovery.view.filters import EVERYTHING, PoolFilter
from global_discovery.view.view import Delta, HistoryLimits, View
from support.clock import FakeClock
from support.fold import FoldingClient, key_of
from support.hand_loop import HandLoop
from support.hand_source import ESTIMATED, EXACT, HandSource, a_pool
from support.pools import pool_key
from support.watching import HandStream, by_key, listed

UNSYNCED = Mark(frozenset({Reason.SOURCE_UNSYNCED}), bound=1.0)
ONE, TWO = pool_key(1), pool_key(2)
QUARTER_MIB = 256 * 1024


@dataclass
class Room:
    """One view and its watchers, with all that moves them."""

    source: HandSource = field(default_factory=HandSource)
    age: tuple[float, float] = (480.0, 720.0)
    history: int = 1000
    gather: float = 0.0
    encoder: Encoder[Pool] = wire.POOLS
    streams: list[HandStream] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.loop = HandLoop(self.clock)
        self.view: View[Pool] = View(self.source, limits=HistoryLimits(2 * self.history))
        self.fanout: FanOut[Pool] = FanOut(
            self.view,
            self.encoder,
            write_seconds=30.0,
            stream_age=self.age,
            gather_seconds=self.gather,
            loop=self.loop,  # type: ignore[arg-type]  # as much of one as it uses
        )

    def open(
        self,
        wanted: PoolFilter = EVERYTHING,
        *,
        position: str = "",
        idle: float = 15.0,
        client: FoldingClient | None = None,
    ) -> HandStream:
        stream = HandStream(
            self.fanout,
            self.loop,
            wanted=wanted,
            position=position,
            idle_seconds=idle,
            client=client,
        )
        stream.step()
        self.streams.append(stream)
        return stream

    def pass_time(self, seconds: float = TICK_SECONDS + 0.001, *, step: float = 1.0) -> None:
        self.settle()
        while seconds > 0:
            self.loop.advance(min(seconds, step))
            seconds -= step
            self.settle()

    def settle(self) -> None:
        self.loop.run_due()
        for stream in self.streams:
            stream.step()


@pytest.fixture
def room() -> Room:
    return Room()


def kinds(stream: HandStream) -> list[str | None]:
    return [message.WhichOneof("event") for message in stream.client.messages]


def told(stream: HandStream) -> list[str]:
    """The models that the changes of a stream carried, in order."""
    return [pool.model for message in stream.client.messages for pool in message.changes.pools]


def test_a_stream_begins_with_the_view(room: Room) -> None:
    room.source.put(a_pool(ONE), a_pool(TWO))
    stream = room.open()
    assert kinds(stream) == ["snapshot"]
    assert stream.client.fold == by_key(listed(room.view, room.clock))
    assert stream.client.exact


def test_an_empty_view_is_a_snapshot_too(room: Room) -> None:
    stream = room.open()
    assert kinds(stream) == ["snapshot"]
    assert stream.client.position
    assert stream.client.exact


def test_a_change_in_a_quiet_view_goes_out_at_once(room: Room) -> None:
    stream = room.open()
    room.pass_time(1.0)
    room.source.put(a_pool(ONE))
    room.loop.run_due()
    stream.step()
    assert key_of(stream.client.messages[-1].changes.pools[0].key) == tuple(ONE)


def test_what_changes_within_a_moment_goes_out_together_where_that_is_wanted() -> None:
    room = Room(gather=0.1)
    stream = room.open()
    room.pass_time(1.0)
    begun = len(stream.frames)
    room.source.put(a_pool(ONE))
    room.pass_time(0.06)
    room.view.refresh()
    room.source.put(a_pool(TWO))
    room.pass_time(0.03)
    assert len(stream.frames) == begun
    room.pass_time(0.02)
    (message,) = stream.client.messages[begun:]
    assert {key_of(pool.key) for pool in message.changes.pools} == {tuple(ONE), tuple(TWO)}
    room.pass_time(1.0)
    room.source.put(a_pool(ONE, model="another"))
    room.pass_time(0.101)
    assert told(stream)[-1] == "another"


def test_changes_of_a_moving_view_go_out_together_every_50_ms(room: Room) -> None:
    stream = room.open()
    room.pass_time(1.0)
    begun = len(stream.frames)
    for number in range(100):
        room.source.put(a_pool(pool_key(number)))
        room.pass_time(0.01)
    room.pass_time()
    batches = stream.client.messages[begun:]
    assert 18 <= len(batches) <= 22
    assert len(stream.client.fold) == 100


def test_a_change_is_encoded_once_for_all_watchers_of_a_filter() -> None:
    encoded: list[Delta[Pool]] = []

    def delta(changes: Delta[Pool], position: str) -> Frames:
        encoded.append(changes)
        return wire.POOLS.delta(changes, position)

    room = Room(encoder=Encoder(wire.POOLS.snapshot, delta, wire.POOLS.idle))
    streams = [room.open() for _ in range(20)]
    streams += [room.open(PoolFilter(models=frozenset({"m"}))) for _ in range(20)]
    encoded.clear()
    room.source.put(a_pool(ONE))
    room.loop.run_due()
    assert len(encoded) == 2
    room.settle()
    assert {id(stream.frames[-1]) for stream in streams[:20]} == {id(streams[0].frames[-1])}


def test_a_watcher_that_does_not_read_finds_the_merged_changes(room: Room) -> None:
    slow, quick = room.open(), room.open()
    slow.stop_reading()
    for model in "abcdef":
        room.source.put(a_pool(ONE, model=model))
        room.pass_time()
    assert told(quick) == list("abcdef")
    before = room.fanout.counters.merged
    slow.read()
    assert told(slow) == ["a", "f"]
    assert room.fanout.counters.merged - before == 4
    assert slow.client.fold == quick.client.fold


def test_what_is_pending_for_a_watcher_is_no_queue(room: Room) -> None:
    slow = room.open()
    slow.stop_reading()
    for number in range(500):
        room.source.put(a_pool(ONE, model=str(number)))
        room.pass_time()
    assert room.fanout.furthest_behind >= 498
    assert sum(len(feed._deltas) for feed in room.fanout._feeds.values()) <= 1
    slow.read()
    assert len(slow.frames) == 3


def test_a_watcher_that_fell_behind_the_history_gets_a_snapshot() -> None:
    room = Room(history=4)
    room.source.put(a_pool(ONE))
    stream = room.open()
    stream.stop_reading()
    for number in range(50):
        room.source.put(a_pool(TWO, model=str(number)))
        room.pass_time()
    stream.read()
    assert kinds(stream) == ["snapshot", "changes", "snapshot"]
    assert stream.client.fold == by_key(listed(room.view, room.clock))


class TestFilters:
    def test_a_pool_enters_and_leaves_the_filter(self, room: Room) -> None:
        stream = room.open(PoolFilter(models=frozenset({"a"})))
        for model in ("b", "a", "b"):
            room.source.put(a_pool(ONE, model=model))
            room.pass_time()
        changes = [message.changes for message in stream.client.messages[1:]]
        assert [len(change.pools) for change in changes] == [1, 0]
        assert [key_of(key) for key in changes[1].removed] == [tuple(ONE)]

    def test_changes_of_other_pools_are_not_told_and_the_position_follows(self, room: Room) -> None:
        stream = room.open(PoolFilter(models=frozenset({"a"})), idle=5.0)
        room.source.put(a_pool(ONE, model="b"))
        room.pass_time(6.0)
        assert kinds(stream) == ["snapshot", "idle"]
        wanted = PoolFilter(models=frozenset({"a"}))
        assert stream.client.position == room.view.position(room.view.sequence, wanted)

    def test_a_change_of_the_mark_is_told_whatever_the_filter(self, room: Room) -> None:
        stream = room.open(PoolFilter(models=frozenset({"a"})))
        room.source.say(ESTIMATED)
        room.pass_time()
        assert kinds(stream) == ["snapshot", "changes"]
        assert stream.client.mark == wire.mark_message(ESTIMATED)


class TestIdle:
    @pytest.mark.parametrize("seconds", [1.0, 15.0, 25.0])
    def test_a_quiet_stream_says_so_at_its_interval(self, room: Room, seconds: float) -> None:
        stream = room.open(idle=seconds)
        room.pass_time(seconds - 0.01)
        assert kinds(stream) == ["snapshot"]
        room.pass_time(0.02)
        assert kinds(stream) == ["snapshot", "idle"]
        room.pass_time(3.5 * seconds, step=seconds / 8)
        assert kinds(stream)[1:] == ["idle"] * 4

    def test_a_change_puts_the_idle_message_off(self, room: Room) -> None:
        stream = room.open(idle=5.0)
        room.pass_time(4.0)
        room.source.put(a_pool(ONE))
        room.pass_time(4.5)
        assert kinds(stream) == ["snapshot", "changes"]
        room.pass_time(0.6)
        assert kinds(stream) == ["snapshot", "changes", "idle"]

    def test_it_carries_position_and_mark(self, room: Room) -> None:
        stream = room.open(idle=1.0)
        room.pass_time(1.1)
        idle = stream.client.messages[-1]
        assert idle.position == room.view.position(room.view.sequence, EVERYTHING)
        assert idle.mark == wire.mark_message(EXACT)

    def test_a_change_that_only_a_list_has_seen_goes_before_it(self, room: Room) -> None:
        """Its mark would otherwise stand for data that the stream does not have."""
        room.source.say(ESTIMATED)
        stream = room.open(idle=1.0)
        room.pass_time(0.99)
        room.source._pending.clear()
        room.fanout._scheduled = True  # the tick that would bring it has not come yet
        room.source.put(a_pool(ONE))
        room.source.mark = EXACT
        room.view.refresh()
        room.pass_time(0.02)
        assert kinds(stream) == ["snapshot", "changes"]
        assert stream.client.exact
        assert len(stream.client.fold) == 1

    def test_a_mark_that_nobody_has_drained_yet_goes_before_it(self, room: Room) -> None:
        """As after a stall, when its timer may run before the tick that notices the stall."""
        stream = room.open(idle=1.0)
        room.pass_time(0.5)
        room.source.mark = ESTIMATED
        room.pass_time(0.6)
        assert kinds(stream) == ["snapshot", "changes"]
        assert not stream.client.exact

    def test_a_stream_that_is_being_written_to_is_not_quiet(self, room: Room) -> None:
        stream = room.open(idle=1.0)
        room.source.put(a_pool(ONE))
        stream.stop_reading()
        room.pass_time(20.0)
        stream.read()
        assert kinds(stream) == ["snapshot", "changes"]


class TestUnsynced:
    def test_there_are_idle_messages_with_reasons_and_no_position(self) -> None:
        room = Room(HandSource(mark=UNSYNCED, synced=False))
        room.source.put(a_pool(ONE))
        stream = room.open(idle=1.0)
        room.pass_time(3.5)
        assert kinds(stream) == ["idle"] * 3
        assert {message.position for message in stream.client.messages} == {""}
        reasons = [pool_pb2.ESTIMATED_REASON_SOURCE_UNSYNCED]
        assert stream.client.messages[0].mark.reasons == reasons

    def test_the_snapshot_comes_as_soon_as_it_has_synced(self) -> None:
        room = Room(HandSource(mark=UNSYNCED, synced=False))
        stream = room.open(idle=1.0)
        room.source.put(a_pool(ONE))
        room.pass_time(1.5)
        room.source.say(EXACT)
        room.pass_time()
        assert kinds(stream) == ["idle", "snapshot"]
        assert len(stream.client.fold) == 1

    def test_a_sync_that_only_a_list_has_seen_is_no_exact_mark_without_a_snapshot(self) -> None:
        room = Room(HandSource(mark=UNSYNCED, synced=False))
        stream = room.open(idle=1.0)
        room.pass_time(0.99)
        room.fanout._scheduled = True  # the tick that would bring it has not come yet
        room.source.put(a_pool(ONE))
        room.source.say(EXACT)
        room.view.refresh()
        room.pass_time(0.02)
        assert kinds(stream) == ["snapshot"]
        assert stream.client.exact
        assert len(stream.client.fold) == 1


class TestResuming:
    def test_it_gets_what_it_missed(self, room: Room) -> None:
        room.source.put(a_pool(ONE))
        stream = room.open()
        stream.cut()
        room.source.put(a_pool(TWO))
        room.source.remove(ONE)
        again = room.open(position=stream.client.position, client=stream.client)
        assert kinds(again) == ["snapshot", "changes"]
        assert again.client.fold == by_key(listed(room.view, room.clock))

    def test_it_gets_one_message_when_it_missed_nothing(self, room: Room) -> None:
        room.source.put(a_pool(ONE))
        position = room.open().client.position
        again = room.open(position=position)
        assert kinds(again) == ["changes"]
        assert again.client.messages[0].changes == pb.PoolChanges()
        assert again.client.position == position
        assert again.client.exact

    def test_it_gets_one_message_when_it_missed_nothing_that_it_wants(self, room: Room) -> None:
        wanted = PoolFilter(models=frozenset({"a"}))
        position = room.open(wanted).client.position
        room.source.put(a_pool(ONE, model="b"))
        again = room.open(wanted, position=position)
        assert kinds(again) == ["changes"]
        assert again.client.position != position

    @pytest.mark.parametrize("ahead", [1, 1000])
    def test_a_future_position_leads_to_a_snapshot(self, room: Room, ahead: int) -> None:
        room.source.put(a_pool(ONE))
        room.view.refresh()
        position = room.view.position(room.view.sequence + ahead, EVERYTHING)
        assert kinds(room.open(position=position)) == ["snapshot"]

    def test_a_position_of_another_filter_leads_to_a_snapshot(self, room: Room) -> None:
        position = room.open(PoolFilter(models=frozenset({"a"}))).client.position
        assert kinds(room.open(position=position)) == ["snapshot"]

    def test_the_order_of_a_filters_values_is_no_other_filter(self, room: Room) -> None:
        position = room.open(PoolFilter(models=frozenset(["a", "b"]))).client.position
        again = room.open(PoolFilter(models=frozenset(["b", "a"])), position=position)
        assert kinds(again) == ["changes"]


class TestParts:
    """Pools of about 30 KiB each, as large as they may well be."""

    def fill(self, room: Room, count: int, model: str = "m") -> None:
        urls = [f"http://10.0.0.1:8000/{'x' * 400}/{number}" for number in range(70)]
        pools = [a_pool(pool_key(number), model=model, frontends=urls) for number in range(count)]
        room.source.put(*pools)

    def check(self, frames: Sequence[bytes]) -> list[pb.WatchPoolsResponse]:
        assert len(frames) > 1
        assert max(map(len, frames)) <= QUARTER_MIB
        assert min(map(len, frames[:-1])) > QUARTER_MIB / 2, "needlessly small"
        messages = [pb.WatchPoolsResponse.FromString(frame) for frame in frames]
        assert not any(message.position for message in messages[:-1])
        assert not any(message.HasField("mark") for message in messages[:-1])
        assert messages[-1].position
        assert messages[-1].HasField("mark")
        return messages

    def test_a_large_snapshot_goes_in_parts(self, room: Room) -> None:
        self.fill(room, 40)
        stream = room.open()
        messages = self.check(stream.frames)
        assert {message.WhichOneof("event") for message in messages} == {"snapshot"}
        assert len(stream.client.fold) == 40

    def test_a_large_batch_goes_in_parts(self, room: Room) -> None:
        stream = room.open()
        self.fill(room, 40)
        room.pass_time()
        messages = self.check(stream.frames[1:])
        assert {message.WhichOneof("event") for message in messages} == {"changes"}
        assert len(stream.client.fold) == 40

    @pytest.mark.parametrize("how", ["removed", "unlisted"])
    def test_a_large_departure_goes_in_parts(self, room: Room, how: str) -> None:
        keys = [PoolKey("c" * 253, "n" * 253, f"{number:0253}") for number in range(1000)]
        room.source.put(*map(a_pool, keys))
        stream = room.open()
        begun = len(stream.frames)
        (room.source.remove if how == "removed" else room.source.unlist)(*keys)
        room.pass_time()
        self.check(stream.frames[begun:])
        assert stream.client.fold == {}
        assert len(stream.client.carried) == 0, "the mark is exact"

    def test_a_batch_that_arrives_between_two_parts_waits_for_the_last(self, room: Room) -> None:
        self.fill(room, 40)
        room.view.refresh()
        stream = HandStream(room.fanout, room.loop)
        room.streams.append(stream)
        stream.read(1)
        room.source.put(a_pool(pool_key(0), model="new"))
        room.pass_time()
        assert stream.client.fold == {}
        stream.read()
        assert len(stream.closed) == 2
        assert stream.client.fold == by_key(listed(room.view, room.clock))

    def test_a_small_view_is_one_message(self, room: Room) -> None:
        self.fill(room, 8)
        assert len(room.open().frames) == 1


class TestEndings:
    def test_an_old_stream_ends_with_ok_and_a_position(self) -> None:
        room = Room(age=(100.0, 100.0))
        stream = room.open(idle=5.0)
        room.pass_time(90.0)
        assert not stream.ended()
        room.pass_time(15.0)
        assert stream.ended()
        assert stream.error is None
        assert stream.client.messages[-1].position
        assert len(room.fanout) == 0

    def test_each_stream_draws_its_own_age(self) -> None:
        room = Room(age=(100.0, 1000.0))
        for _ in range(20):
            room.open(idle=1.0)
        room.pass_time(500.0)
        ended = sum(stream.ended() for stream in room.streams)
        assert 0 < ended < 20

    def test_a_stream_that_is_never_quiet_ends_too(self) -> None:
        room = Room(age=(100.0, 100.0))
        stream = room.open(idle=5.0)
        for number in range(120):
            if stream.ended():
                break
            room.source.put(a_pool(ONE, model=str(number)))
            stream.stop_reading()
            room.loop.advance(1.0)
            room.source.put(a_pool(ONE, model=f"{number} again"))
            stream.read()
        assert stream.ended()
        assert stream.error is None
        assert stream.client.messages[-1].position

    def test_a_watcher_that_does_not_read_is_ended(self, room: Room) -> None:
        stream, other = room.open(), room.open()
        stream.stop_reading()
        room.source.put(a_pool(ONE))
        room.pass_time(29.0)
        assert not stream.ended()
        room.pass_time(17.0)
        assert isinstance(stream.error, SlowWatcher)
        assert room.fanout.counters.slow == 1
        assert not other.ended()
        assert len(room.fanout) == 1

    def test_a_watcher_that_reads_a_part_now_and_then_is_not(self, room: Room) -> None:
        TestParts().fill(room, 40)
        room.view.refresh()
        stream = HandStream(room.fanout, room.loop)
        room.streams.append(stream)
        for _ in range(4):
            stream.read(1)
            room.pass_time(28.0)
        assert not stream.ended()

    def test_a_quiet_watcher_is_never_slow(self, room: Room) -> None:
        stream = room.open(idle=25.0)
        room.pass_time(400.0)
        assert not stream.ended()

    def test_at_shutdown_waiting_streams_end_at_once_and_new_ones_are_refused(
        self, room: Room
    ) -> None:
        stream = room.open()
        room.fanout.end_all(ShuttingDown())
        stream.step()
        assert isinstance(stream.error, ShuttingDown)
        with pytest.raises(ShuttingDown):
            room.open()

    def test_at_shutdown_a_write_under_way_is_finished_first(self, room: Room) -> None:
        stream = room.open()
        stream.stop_reading()
        room.source.put(a_pool(ONE))
        room.pass_time()
        room.fanout.end_all(ShuttingDown())
        stream.step()
        assert not stream.ended()
        stream.read()
        assert isinstance(stream.error, ShuttingDown)
        assert len(stream.client.fold) == 1

    def test_a_stream_ended_by_shutdown_has_not_cancelled_itself(self, room: Room) -> None:
        """Or a client that goes during the shutdown would be answered."""
        stream = room.open()
        room.fanout.end_all(ShuttingDown())
        assert stream.watcher.failure is not None
        assert not stream.watcher.gave_up
        stream.step()

    def test_a_closed_stream_leaves_nothing_behind(self, room: Room) -> None:
        for _ in range(10):
            room.open(PoolFilter(models=frozenset({"a"}))).cut()
        assert len(room.fanout) == 0
        assert not room.fanout._feeds
        room.pass_time(100.0)


class TestFaults:
    def test_what_cannot_be_encoded_ends_its_own_streams_and_no_other(self) -> None:
        def delta(changes: Delta[Pool], position: str) -> Frames:
            if any(entry.value.content.model == "bad" for entry in changes.entries):
                raise ZeroDivisionError
            return wire.POOLS.delta(changes, position)

        room = Room(encoder=Encoder(wire.POOLS.snapshot, delta, wire.POOLS.idle))
        broken = room.open()
        other = room.open(PoolFilter(models=frozenset({"m"})))
        room.source.put(a_pool(ONE, model="bad"), a_pool(TWO))
        room.pass_time()
        assert isinstance(broken.error, ZeroDivisionError)
        assert len(other.client.fold) == 1

    def test_a_refresh_that_fails_does_not_stop_the_next_one(
        self, room: Room, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stream = room.open()
        room.pass_time(1.0)
        with monkeypatch.context() as patch:
            patch.setattr(room.source, "drain", lambda: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                room.fanout.flush()
        room.source.put(a_pool(ONE))
        room.pass_time()
        assert len(stream.client.fold) == 1
