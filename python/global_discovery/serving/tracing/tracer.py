"""What a face asks of a tracer. Nothing here needs OpenTelemetry."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

Headers = Iterable[tuple[str, str | bytes]]
"""Names in lower case, or in any where HTTP allows that; of gRPC the metadata."""


class CallSpan(Protocol):
    """One call under way. Its methods neither block nor raise."""

    def end(self, code: str) -> None:
        """The call is over: a gRPC code's name, or an HTTP status. To be called once."""
        ...


class Tracer(Protocol):
    """Makes a span of each call. Its methods neither block nor raise.

    A span has names and codes from fixed sets only: nothing that a caller chose
    but the trace that it says it belongs to.
    """

    def rpc(self, method: str, metadata: Headers) -> CallSpan:
        """A unary gRPC call begins, by the short name of its method."""
        ...

    def request(self, method: str, route: str, headers: Headers) -> CallSpan:
        """An HTTP request begins, on a route that is served."""
        ...

    def store(self, name: str, operation: str) -> AbstractContextManager[None]:
        """A call needs the store for as long as this lasts; a part of that call's span."""
        ...

    async def close(self, seconds: float) -> None:
        """Sends what is left, for at most so long."""
        ...
