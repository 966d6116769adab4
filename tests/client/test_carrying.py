"""Which pools a cache keeps, against the sentences of the rule and a naive reading of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.client.carrying import CarryingFold, KnownPool, bound_seconds, matches
from global_discovery.client.fold import PoolKey
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.carrying_reference import NaiveRouter

NAMES = "abcd"


def mark(*, exact: bool, bound: float = 1.0, slices: float | None = None) -> pool_pb2.Mark:
    kind = pool_pb2.COMPLETENESS_EXACT if exact else pool_pb2.COMPLETENESS_ESTIMATED
    return pool_pb2.Mark(completeness=kind, bound_secs=bound, slices_bound_secs=slices)


EXACT, ESTIMATED = mark(exact=True), mark(exact=False)


def a_pool(name: str, model: str = "m") -> pool_pb2.Pool:
    key = pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name=name)
    return pool_pb2.Pool(key=key, model=model)


def keys(names: str) -> list[pool_pb2.PoolKey]:
    return [a_pool(name).key for name in names]


def hello(process: str) -> pb.WatchPoolsResponse:
    return pb.WatchPoolsResponse(server=pb.ServerInfo(instance_id=process))


def snapshot(names: str, with_mark: pool_pb2.Mark = ESTIMATED) -> pb.WatchPoolsResponse:
    pools = pb.PoolSnapshot(pools=map(a_pool, names))
    return pb.WatchPoolsResponse(snapshot=pools, position="p", mark=with_mark)


def changes(
    told: str = "", removed: str = "", unlisted: str = "", with_mark: pool_pb2.Mark = ESTIMATED
) -> pb.WatchPoolsResponse:
    message = pb.PoolChanges(
        pools=map(a_pool, told), removed=keys(removed), unlisted=keys(unlisted)
    )
    return pb.WatchPoolsResponse(changes=message, position="p", mark=with_mark)


def idle(with_mark: pool_pb2.Mark) -> pb.WatchPoolsResponse:
    return pb.WatchPoolsResponse(idle=pb.Idle(), position="p", mark=with_mark)


def after(*story: tuple[float, pb.WatchPoolsResponse]) -> CarryingFold:
    """A fold to which these messages came at these times."""
    fold = CarryingFold()
    for now, message in story:
        fold.apply(message, now=now)
    return fold


def offered(fold: CarryingFold) -> str:
    return "".join(sorted(pool.key.dgd_name for pool in fold.offered()))


def test_the_process_that_told_a_pool_ends_it_with_an_exact_view_at_once() -> None:
    fold = after((0, hello("x")), (0, snapshot("ab")), (0, hello("x")), (0, snapshot("a", EXACT)))
    assert offered(fold) == "a"


def test_another_process_ends_a_pool_only_when_it_was_told_longer_ago_than_the_bound() -> None:
    story = [(0.0, hello("x")), (5.0, snapshot("a", EXACT)), (5.5, hello("y"))]
    assert offered(after(*story, (6.0, snapshot("", EXACT)))) == "a"
    assert offered(after(*story, (6.1, snapshot("", EXACT)))) == ""


def test_a_pool_kept_within_the_bound_ends_with_the_next_exact_idle_message() -> None:
    fold = after((0, hello("x")), (0, snapshot("a")), (0, hello("y")), (0.5, snapshot("", EXACT)))
    assert offered(fold) == "a"
    assert fold.exact
    update = fold.apply(idle(EXACT), now=15)
    assert offered(fold) == ""
    assert update is not None
    assert update.removed == (PoolKey("c", "n", "a"),)


def test_a_pool_that_was_told_long_ago_and_repeated_just_now_counts_from_now() -> None:
    fold = after(
        (0, hello("x")),
        (0, snapshot("a")),
        (60, hello("y")),
        (60, snapshot("a")),
        (60, hello("x")),
        (60.5, snapshot("", EXACT)),
    )
    assert offered(fold) == "a"


def test_removed_ends_a_pool_whoever_told_it_and_however_lately() -> None:
    fold = after((0, hello("x")), (0, snapshot("ab")), (0, hello("y")), (0, snapshot("b")))
    fold.apply(changes(removed="ab", with_mark=EXACT), now=0)
    assert offered(fold) == ""


def test_no_estimated_view_ends_a_pool_however_old() -> None:
    fold = after((0, hello("x")), (0, snapshot("a")), (9e9, hello("y")), (9e9, snapshot("")))
    assert offered(fold) == "a"


def test_a_process_that_does_not_name_itself_is_never_the_same_one() -> None:
    fold = after((0, hello("")), (0, snapshot("a")), (0, hello("")), (0, snapshot("", EXACT)))
    assert offered(fold) == "a"
    fold.apply(snapshot("", EXACT), now=2)
    assert offered(fold) == ""


def test_a_stream_that_names_no_process_is_not_taken_for_the_one_before() -> None:
    fold = after((0, hello("x")), (0, snapshot("a")))
    fold.begin_stream()
    fold.apply(snapshot("", EXACT), now=0)
    assert offered(fold) == "a"


def test_the_longer_of_both_bounds_counts() -> None:
    assert bound_seconds(mark(exact=True, bound=1, slices=90)) == 90
    assert bound_seconds(mark(exact=True, bound=4)) == 4


@pytest.mark.parametrize("bound", [float("nan"), float("inf")])
def test_a_bound_that_is_no_number_keeps_nothing_for_ever(bound: float) -> None:
    fold = after((0, hello("x")), (0, snapshot("a")), (0, hello("y")))
    fold.apply(snapshot("", mark(exact=True, bound=bound)), now=1)
    assert offered(fold) == ""


def test_a_restored_view_is_carried_with_its_age_and_ended_as_any_other() -> None:
    def restored() -> CarryingFold:
        fold = CarryingFold()
        fold.restore([KnownPool(a_pool("a"), listed_until=90, told_at=50, told_by="x")])
        return fold

    fold = restored()
    assert (offered(fold), dict(fold.listed)) == ("a", {})
    assert fold.carried[PoolKey("c", "n", "a")].listed_until == 90
    fold.apply(hello("y"), now=100)
    fold.apply(snapshot("", mark(exact=True, bound=60)), now=100)
    assert offered(fold) == "a"
    same = restored()
    same.apply(hello("x"), now=100)
    same.apply(snapshot("", mark(exact=True, bound=60)), now=100)
    assert offered(same) == ""


def test_what_is_known_can_be_restored_by_another_run() -> None:
    fold = after((1, hello("x")), (2, snapshot("ab")), (3, changes(unlisted="a")))
    known = {each.pool.key.dgd_name: each for each in fold.known()}
    assert known["a"] == KnownPool(a_pool("a"), listed_until=3, told_at=2, told_by="x")
    assert known["b"] == KnownPool(a_pool("b"), listed_until=3, told_at=2, told_by="x")


def test_a_restored_pool_that_the_filter_does_not_want_is_not_offered() -> None:
    fold = CarryingFold()
    known = [KnownPool(a_pool(name, model=name), 0, 0, "x") for name in "ab"]
    fold.restore(known, pb.PoolFilter(models=["b", "c"]))
    assert offered(fold) == "b"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pb.PoolFilter(), True),
        (pb.PoolFilter(models=["m"], cluster_ids=["c"], namespaces=["n"], regions=["r"]), True),
        (pb.PoolFilter(models=["M"]), False),
        (pb.PoolFilter(models=["m"], regions=["other"]), False),
        (pb.PoolFilter(cluster_ids=["other"]), False),
        (pb.PoolFilter(namespaces=["other"]), False),
    ],
)
def test_a_filter_is_applied_as_the_server_applies_it(
    wanted: pb.PoolFilter,
    expected: bool,  # noqa: FBT001 - a parameter of the cases above
) -> None:
    pool = a_pool("a")
    pool.location.region = "r"
    assert matches(pool, wanted) is expected


# -- against the reference -----------------------------------------------------------


marks = st.builds(mark, exact=st.booleans(), bound=st.sampled_from([0.0, 1.0, 3.0]))


@st.composite
def messages(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["hello", "snapshot", "changes", "changes", "idle"]))
    if kind == "hello":
        return hello(draw(st.sampled_from(["x", "y", ""])))
    if kind == "idle":
        return idle(draw(marks))
    if kind == "snapshot":
        return snapshot("".join(draw(st.sets(st.sampled_from(NAMES)))), draw(marks))
    fates = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from("tru")))
    told, removed, unlisted = ("".join(n for n in fates if fates[n] == f) for f in "tru")
    return changes(told, removed, unlisted, draw(marks))


steps = st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.5, 10.0]), messages())


@given(st.lists(steps, max_size=30))
def test_any_story_leaves_what_the_rule_leaves(story: list[tuple[float, Any]]) -> None:
    fold, now, reference = CarryingFold(), 100.0, NaiveRouter()
    for pause, message in story:
        now += pause
        fold.apply(message, now=now)
        reference.take(message, now)
        assert set(offered(fold)) == reference.offered
        assert {key.dgd_name for key in fold.listed} == reference.listed
        known = {each.pool.key.dgd_name: (each.told_at, each.told_by) for each in fold.known()}
        fates = {name: reference.fates[name] for name in reference.offered}
        assert known == {name: (fate.told_at, fate.told_by) for name, fate in fates.items()}
