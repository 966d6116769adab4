"""Cuts a stream of bytes into lines, whatever the pieces it comes in."""

MAX_LINE = 4 * 1024 * 1024
"""Bytes; etcd takes no object above 1.5 MiB."""


class TooLong(ValueError):
    """A line is longer than any that was to be expected."""


class Lines:
    """Holds at most one unfinished line."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        """`limit` is in bytes."""
        self._limit = limit
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without blank ones. Raises TooLong."""
        first, newline, rest = chunk.partition(b"\n")
        self._rest += first
        self._check(len(self._rest))
        if not newline:
            return []
        lines = [bytes(self._rest), *rest.split(b"\n")]
        self._rest = bytearray(lines.pop())
        self._check(max(map(len, [*lines, self._rest])))
        return [line for line in lines if line.strip()]

    @property
    def unfinished(self) -> bool:
        """Whether the stream stopped within a line."""
        return bool(self._rest.strip())

    def _check(self, length: int) -> None:
        if length > self._limit:
            raise TooLong(f"a line has more than {self._limit} bytes")
