"""DynamoDB's low-level API as the store sees it: one call, and four ways to fail."""

from collections.abc import Mapping
from typing import Any, Protocol

Item = dict[str, dict[str, Any]]
"""As on the wire: each attribute with its type, `{"c": {"N": "7"}}`."""


class CallFailed(Exception):
    """A call did not do what it was asked; the text is for the log only."""

    code = "Unreachable"


class Unreachable(CallFailed):
    """No answer, or one that says nothing: what was asked may have been done or not."""


class Throttled(CallFailed):
    """Not done, because too much is asked for; the same call may succeed later."""

    def __init__(self, code: str, message: str) -> None:
        """`code` is DynamoDB's."""
        super().__init__(f"{code}: {message}")
        self.code = code


class Refused(CallFailed):
    """Not done, and the same call would be refused again."""

    def __init__(self, code: str, message: str) -> None:
        """`code` is DynamoDB's."""
        super().__init__(f"{code}: {message}")
        self.code = code


class ConditionFailed(CallFailed):
    """Not done: the item is not as the condition has it."""

    code = "ConditionalCheckFailedException"

    def __init__(self, item: Item | None) -> None:
        """`item` is what is there instead; None where nothing is."""
        super().__init__("the condition does not hold")
        self.item = item


class DynamoDB(Protocol):
    """One region of DynamoDB."""

    region: str

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Does one operation, once and within a bounded time. Raises CallFailed."""
        ...

    async def close(self) -> None:
        """Lets go of the connections. Never raises."""
        ...
