"""What the last lines of a run say."""

from chaos.digest import LEAST, ROOM, digest

STORY = "\n    100.000: relay calls slot-0 (v0): answered"


def test_each_breach_is_a_line_of_its_scenario_without_its_story() -> None:
    breaches = [("memory", f"a promise: a sentence{STORY}"), ("mcs", "another: more")]
    assert digest(breaches) == ["memory: a promise: a sentence", "mcs: another: more"]


def test_long_breaches_lose_their_middle_and_short_ones_nothing() -> None:
    long = f"seen at once: {'Traceback ' * 200}ConnectionResetError"
    first, short, last = digest([("a", long), ("b", "short"), ("c", long)])
    assert short == "b: short"
    for line in (first, last):
        assert "seen at once" in line
        assert line.endswith("ConnectionResetError")
    assert ROOM - 3 <= len(first) + len(short) + len(last) <= ROOM


def test_what_has_no_room_is_counted() -> None:
    lines = digest([("memory", "x" * 500)] * 40)
    assert lines[-1] == f"and {40 - ROOM // LEAST} more"
    assert sum(map(len, lines[:-1])) <= ROOM


def test_nothing_broken_is_no_line() -> None:
    assert digest([]) == []
