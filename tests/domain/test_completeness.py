from hypothesis import given
from hypothesis import strategies as st

from global_discovery.domain.completeness import Mark, Reason, join

marks = st.builds(
    Mark,
    st.frozensets(st.sampled_from(Reason)),
    st.floats(0, 1e6),
    st.none() | st.floats(0, 1e6),
)


def test_a_mark_without_reasons_is_exact() -> None:
    assert Mark(frozenset(), bound=1.0).exact
    assert not Mark(frozenset({Reason.STARTING}), bound=1.0).exact


def test_the_reasons_are_the_fixed_codes_of_the_contract() -> None:
    assert {reason.value for reason in Reason} == {
        "STARTING",
        "STALLED",
        "STORE_UNREADABLE",
        "REGION_SILENT",
        "MASS_LAPSE",
        "SOURCE_UNSYNCED",
        "DAMPED",
    }


@given(st.lists(marks))
def test_a_view_is_exact_only_while_every_source_of_it_is(sources: list[Mark]) -> None:
    assert join(sources).exact == all(mark.exact for mark in sources)


@given(st.lists(marks))
def test_a_view_has_the_reasons_of_all_its_sources(sources: list[Mark]) -> None:
    every = {reason for mark in sources for reason in mark.reasons}
    assert join(sources).reasons == every


@given(st.lists(marks))
def test_the_bounds_are_the_largest_and_stay_apart(sources: list[Mark]) -> None:
    joined = join(sources)
    slices = [mark.slices_bound for mark in sources if mark.slices_bound is not None]
    assert joined.bound == max((mark.bound for mark in sources), default=0.0)
    assert joined.slices_bound == max(slices, default=None)


@given(marks)
def test_one_source_speaks_for_itself(mark: Mark) -> None:
    assert join([mark]) == mark
