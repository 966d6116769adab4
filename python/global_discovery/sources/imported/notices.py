"""Tells what is odd once, for as long as it stays so."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator

from global_discovery.domain.events import Event, Report
from global_discovery.slices.interpret import Notice


class Notices:
    """Which notices hold, by whatever they were found in."""

    def __init__(self, report: Report) -> None:
        """Nothing holds yet."""
        self._report = report
        self._holding: dict[Hashable, dict[tuple[Event, str], Notice]] = {}

    def of(self, found_in: Hashable) -> Collection[Notice]:
        """Those that hold there."""
        return self._holding.get(found_in, {}).values()

    def all(self) -> Iterator[tuple[Hashable, Notice]]:
        """Every one that holds, and where."""
        for found_in, holding in self._holding.items():
            for notice in holding.values():
                yield found_in, notice

    def counts(self) -> Counter[Event]:
        """How many hold, by what they say."""
        return Counter(event for holding in self._holding.values() for event, _ in holding)

    def hold(self, found_in: Hashable, notices: Iterable[Notice]) -> None:
        """These hold from now on there, and no others; reports those that are new."""
        before = self._holding.pop(found_in, {})
        now = {(notice.event, notice.about): notice for notice in notices}
        for same, notice in now.items():
            if same not in before:
                self._report(notice.event, **notice.fields)
        if now:
            self._holding[found_in] = now
