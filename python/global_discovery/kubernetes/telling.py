"""Says each failure of the watches of one kind once, until it changes or heals.

Watches of several namespaces fail together when their server does; that is one
failure. One that comes back before its watch was well again for a while is still
the same one, also when others came between.
"""

from typing import NamedTuple

from global_discovery.domain.events import Event, Report
from global_discovery.kubernetes.envelopes import Key
from global_discovery.kubernetes.failures import CallFailed, Failure

_OF_ONE_SCOPE = frozenset({Failure.FORBIDDEN, Failure.NOT_FOUND})


class _Identity(NamedTuple):
    failure: Failure
    status: int | None
    verb: str = ""
    namespace: str | None = ""


class Telling:
    """What was said and still holds."""

    def __init__(self, report: Report, kind: str) -> None:
        """`kind` is `<plural>.<group>`."""
        self._report = report
        self._kind = kind
        self._failing: dict[_Identity, set[str | None]] = {}
        """Which namespaces fail how. None is all of them."""

    def failed(self, namespace: str | None, verb: str, failed: CallFailed) -> None:
        """A list or watch of this namespace failed."""
        identity = _Identity(failed.failure, failed.status)
        if failed.failure in _OF_ONE_SCOPE:
            identity = identity._replace(verb=verb, namespace=namespace)
        holders = self._failing.setdefault(identity, set())
        new = not holders
        holders.add(namespace)
        if not new:
            return
        fields: dict[str, object] = {"kind": self._kind, "reason": failed.failure.value}
        if failed.status is not None:
            fields["status"] = failed.status
        if failed.failure is Failure.FORBIDDEN:
            fields["missing"] = f"{verb} {self._kind} {scope_of(namespace)}"
        self._report(Event.WATCH_FAILING, **fields, call=verb, message=failed.message)

    def healed(self, namespace: str | None) -> None:
        """The watch of this namespace has been well for a while."""
        if not self._failing:
            return
        for identity, holders in list(self._failing.items()):
            holders.discard(namespace)
            if not holders:
                del self._failing[identity]
        if not self._failing:
            self._report(Event.WATCH_RECOVERED, kind=self._kind)

    def unreadable(self, count: int, example: Key, error: str) -> None:
        """Objects were left out."""
        self._report(
            Event.OBJECTS_UNREADABLE,
            kind=self._kind,
            objects=count,
            example=str(example),
            message=error[:300],
        )


def scope_of(namespace: str | None) -> str:
    """As a person would put it who grants permissions."""
    return "in all namespaces" if namespace is None else f"in namespace {namespace}"
