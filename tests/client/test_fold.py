"""The fold, against what the protocol's comments tell a client to do."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.client.fold import PoolFold, PoolKey, RouterFold, Update
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.fold import FoldingClient

ESTIMATED = pool_pb2.Mark(
    completeness=pool_pb2.COMPLETENESS_ESTIMATED,
    reasons=[pool_pb2.ESTIMATED_REASON_STARTING],
    bound_secs=1,
)
EXACT = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_EXACT, bound_secs=1)


def a_pool(name: str, model: str = "m") -> pool_pb2.Pool:
    return pool_pb2.Pool(key=a_key(name), model=model)


def a_key(name: str) -> pool_pb2.PoolKey:
    return pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name=name)


def named(*names: str) -> tuple[PoolKey, ...]:
    return tuple(PoolKey("c", "n", name) for name in names)


def snapshot(*names: str, mark: pool_pb2.Mark | None = ESTIMATED, position: str = "p") -> Any:
    return pb.WatchPoolsResponse(
        snapshot=pb.PoolSnapshot(pools=map(a_pool, names)), mark=mark, position=position
    )


def changes(
    *pools: pool_pb2.Pool,
    removed: str = "",
    unlisted: str = "",
    mark: pool_pb2.Mark | None = ESTIMATED,
    position: str = "p",
) -> Any:
    message = pb.PoolChanges(
        pools=pools, removed=map(a_key, removed.split()), unlisted=map(a_key, unlisted.split())
    )
    return pb.WatchPoolsResponse(changes=message, mark=mark, position=position)


SERVER = pb.WatchPoolsResponse(server=pb.ServerInfo(instance_id="i"))


class Folding:
    """A fold with a clock of its own."""

    def __init__(self, *messages: Any) -> None:
        self.fold = PoolFold()
        self.now = 100.0
        for message in messages:
            self.take(message)

    def take(self, message: Any, *, after: float = 0.0) -> Update[Any, Any] | None:
        self.now += after
        return self.fold.apply(message, now=self.now)

    @property
    def listed(self) -> set[str]:
        return {key.dgd_name for key in self.fold.listed}

    @property
    def carried(self) -> set[str]:
        return {key.dgd_name for key in self.fold.carried}

    @property
    def offered(self) -> set[str]:
        return {pool.key.dgd_name for pool in self.fold.offered()}


def test_nothing_is_known_at_first() -> None:
    fold = PoolFold()
    assert (dict(fold.listed), fold.position, fold.mark, fold.exact) == ({}, "", None, False)


def test_a_snapshot_is_the_fold_with_its_position_and_mark() -> None:
    folding = Folding(SERVER, snapshot("a", "b", position="7"))
    assert folding.listed == {"a", "b"}
    assert (folding.fold.position, folding.fold.mark) == ("7", ESTIMATED)


def test_parts_are_applied_together_with_the_last_one() -> None:
    folding = Folding(snapshot("old", position="1"))
    assert folding.take(snapshot("a", mark=None, position="")) is None
    assert folding.take(snapshot("b", mark=None, position="")) is None
    assert (folding.listed, folding.fold.position) == ({"old"}, "1")
    folding.take(snapshot("c", position="2"))
    assert (folding.listed, folding.fold.position) == ({"a", "b", "c"}, "2")


def test_parts_of_a_batch_are_applied_together_too() -> None:
    folding = Folding(snapshot("a", "b"))
    folding.take(changes(a_pool("c"), mark=None, position=""))
    assert folding.listed == {"a", "b"}
    folding.take(changes(removed="a", position="2"))
    assert folding.listed == {"b", "c"}


@pytest.mark.parametrize("how", ["begin_stream", "server message"])
def test_parts_without_an_end_are_forgotten_when_a_new_stream_begins(how: str) -> None:
    folding = Folding(snapshot("old"), snapshot("lost", mark=None, position=""))
    if how == "begin_stream":
        folding.fold.begin_stream()
    else:
        folding.take(SERVER)
    folding.take(changes(a_pool("new")))
    assert folding.listed == {"old", "new"}


def test_a_change_replaces_the_whole_content() -> None:
    folding = Folding(snapshot("a"))
    folding.take(changes(a_pool("a", model="other")))
    assert folding.fold.listed[named("a")[0]].model == "other"


def test_a_deleted_key_that_it_never_had_is_ignored() -> None:
    folding = Folding(snapshot("a"))
    update = folding.take(changes(removed="x", unlisted="y"))
    assert folding.offered == {"a"}
    assert update == Update(False, (), (), (), False)


def test_unlisted_leaves_the_fold_and_is_carried() -> None:
    folding = Folding(snapshot("a", "b"))
    update = folding.take(changes(unlisted="a"))
    assert (folding.listed, folding.carried, folding.offered) == ({"b"}, {"a"}, {"a", "b"})
    assert update is not None
    assert update.carried == named("a")


def test_a_snapshot_never_drops_what_was_known_while_estimated() -> None:
    folding = Folding(snapshot("a", "b"), changes(unlisted="a"))
    update = folding.take(snapshot("c"))
    assert (folding.listed, folding.carried) == ({"c"}, {"a", "b"})
    assert update is not None
    assert (update.snapshot, update.carried, update.removed) == (True, named("b"), ())


def test_removed_always_drops_carried_or_not() -> None:
    folding = Folding(snapshot("a", "b"), changes(unlisted="a"))
    update = folding.take(changes(removed="a b"))
    assert folding.offered == set()
    assert update is not None
    assert set(update.removed) == set(named("a", "b"))


def test_the_first_exact_mark_drops_everything_carried() -> None:
    folding = Folding(snapshot("a", "b"), snapshot("c"))
    update = folding.take(changes(mark=EXACT))
    assert (folding.listed, folding.carried) == ({"c"}, set())
    assert folding.fold.exact
    assert update is not None
    assert set(update.removed) == set(named("a", "b"))
    assert update.mark_changed


def test_an_exact_snapshot_replaces_what_was_known() -> None:
    folding = Folding(snapshot("a", "b"))
    update = folding.take(snapshot("b", mark=EXACT))
    assert folding.offered == {"b"}
    assert update is not None
    assert (update.removed, update.carried) == (named("a"), ())


def test_a_carried_pool_that_is_listed_again_is_carried_no_more() -> None:
    folding = Folding(snapshot("a"), changes(unlisted="a"), changes(a_pool("a")))
    assert (folding.listed, folding.carried) == ({"a"}, set())
    folding.take(changes(unlisted="a"))
    folding.take(snapshot("a"))
    assert (folding.listed, folding.carried) == ({"a"}, set())


def test_an_idle_message_moves_position_and_mark_only() -> None:
    folding = Folding(snapshot("a", position="1"))
    update = folding.take(pb.WatchPoolsResponse(idle=pb.Idle(), position="2", mark=ESTIMATED))
    assert (folding.listed, folding.fold.position) == ({"a"}, "2")
    assert update == Update(False, (), (), (), False)


def test_an_idle_message_without_a_position_keeps_the_last_one() -> None:
    folding = Folding(snapshot("a", position="1", mark=EXACT))
    folding.take(pb.WatchPoolsResponse(idle=pb.Idle(), mark=ESTIMATED))
    assert (folding.fold.position, folding.fold.exact, folding.listed) == ("1", False, {"a"})


def test_an_event_of_a_later_release_counts_for_its_position_and_mark() -> None:
    later = pb.WatchPoolsResponse(position="9", mark=EXACT).SerializeToString() + b"\x7a\x00"
    folding = Folding(snapshot("a", position="1"))
    folding.take(pb.WatchPoolsResponse.FromString(later))
    assert (folding.listed, folding.fold.position, folding.fold.exact) == ({"a"}, "9", True)


def test_an_unknown_completeness_counts_as_estimated() -> None:
    unknown = pool_pb2.Mark.FromString(b"\x08\x63")
    folding = Folding(snapshot("a"), snapshot("b", mark=unknown))
    assert not folding.fold.exact
    assert folding.carried == {"a"}


def test_an_unknown_reason_changes_nothing() -> None:
    unknown = pool_pb2.Mark.FromString(EXACT.SerializeToString() + b"\x12\x01\x63")
    assert Folding(snapshot("a", mark=unknown)).fold.exact


def test_what_is_unlisted_ages_from_then_on() -> None:
    folding = Folding(snapshot("a"))
    folding.take(changes(unlisted="a"), after=5)
    assert folding.fold.carried[named("a")[0]].listed_until == 105


def test_what_another_server_does_not_list_ages_from_the_last_word_of_the_old_one() -> None:
    folding = Folding(snapshot("a"))
    folding.take(pb.WatchPoolsResponse(idle=pb.Idle(), position="2", mark=EXACT), after=7)
    folding.take(SERVER, after=60)
    folding.take(pb.WatchPoolsResponse(idle=pb.Idle(), mark=ESTIMATED), after=1)
    folding.take(snapshot("b"), after=1)
    assert folding.fold.carried[named("a")[0]].listed_until == 107


def test_a_snapshot_without_a_position_leaves_none_of_before() -> None:
    folding = Folding(snapshot("a", position="1"))
    folding.take(SERVER)
    folding.take(snapshot("b", position=""))
    assert (folding.listed, folding.fold.position) == ({"b"}, "")


def test_what_is_polled_ages_from_the_last_answer_that_repeated_it() -> None:
    folding = Folding(SERVER, snapshot("a", position=""))
    folding.take(pb.WatchPoolsResponse(idle=pb.Idle(), mark=ESTIMATED), after=5)
    folding.take(snapshot("b", position=""), after=5)
    assert folding.fold.carried[named("a")[0]].listed_until == 105


def test_a_new_stream_is_followed_once_it_has_told_its_view() -> None:
    folding = Folding(SERVER, snapshot("a"))
    seen = [folding.fold.following]
    for message in (SERVER, snapshot("a", mark=None, position=""), snapshot("b")):
        folding.take(message)
        seen.append(folding.fold.following)
    assert seen == [True, False, False, True]


def test_a_change_of_the_mark_alone_is_told() -> None:
    folding = Folding(snapshot("a"))
    update = folding.take(changes(mark=EXACT))
    assert update == Update(False, (), (), (), True)


def test_a_snapshot_tells_what_differs_from_before() -> None:
    folding = Folding(snapshot("a", "b", mark=EXACT))
    update = folding.take(snapshot("b", "c", mark=EXACT))
    assert update == Update(True, (a_pool("c"),), named("a"), (), False)


def test_routers_fold_by_their_ids() -> None:
    fold = RouterFold()
    routers = [pool_pb2.Router(id=name, url=f"http://{name}") for name in "ab"]
    fold.apply(
        pb.WatchRoutersResponse(snapshot=pb.RouterSnapshot(routers=routers), mark=EXACT), now=0
    )
    assert list(fold.listed) == ["a", "b"]
    gone = pb.RouterChanges(removed=["a"], unlisted=["b"])
    fold.apply(pb.WatchRoutersResponse(changes=gone, mark=ESTIMATED), now=1)
    assert list(fold.carried) == ["b"]


# -- against the tests' own reading of the protocol ------------------------------

names = st.sampled_from("abcdef")
marks = st.sampled_from([EXACT, ESTIMATED])


@st.composite
def batches(draw: st.DrawFn) -> list[Any]:
    """A snapshot or a batch in one to three parts, an idle message, or a cut part."""
    mark, position = draw(marks), draw(st.text("123", min_size=1, max_size=3))
    kind = draw(st.sampled_from(["snapshot", "changes", "idle", "cut"]))
    if kind == "idle":
        return [pb.WatchPoolsResponse(idle=pb.Idle(), position=position, mark=mark)]
    told = draw(st.lists(names, unique=True))
    if kind == "cut":
        return [snapshot(*told, mark=None, position=""), SERVER]
    if kind == "snapshot":
        parts = [snapshot(name, mark=None, position="") for name in told]
        return [*parts, snapshot(mark=mark, position=position)]
    fates = {name: draw(st.sampled_from(["pool", "removed", "unlisted"])) for name in told}
    parts = [_one_change(name, fate, draw(st.sampled_from("xy"))) for name, fate in fates.items()]
    return [*parts, changes(mark=mark, position=position)]


def _one_change(name: str, fate: str, model: str) -> Any:
    if fate == "pool":
        return changes(a_pool(name, model), mark=None, position="")
    return changes(mark=None, position="", **{fate: name})


@given(st.lists(batches(), max_size=20))
def test_any_stream_folds_as_the_protocol_says_and_its_updates_add_up(
    stream: list[list[Any]],
) -> None:
    reference, folding = FoldingClient(), Folding()
    followed: dict[PoolKey, pool_pb2.Pool] = {}
    for message in (message for batch in stream for message in batch):
        if message.HasField("server"):
            reference.begin_stream()
        reference.take(message)
        update = folding.take(message, after=1)
        assert {tuple(key): pool for key, pool in folding.fold.listed.items()} == reference.fold
        carried = {tuple(key): old.entry for key, old in folding.fold.carried.items()}
        assert carried == reference.carried
        assert folding.fold.position == reference.position
        if update is not None:
            followed |= {PoolKey.of(pool.key): pool for pool in update.changed}
            for key in update.removed:
                del followed[key]
            assert all(key in folding.fold.carried for key in update.carried)
        assert set(followed) == set(folding.fold.listed) | set(folding.fold.carried)
        listed = dict(folding.fold.listed)
        assert {key: pool for key, pool in followed.items() if key in listed} == listed
