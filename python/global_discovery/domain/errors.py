"""What can go wrong with a call, in the words of the contract.

Each error has a fixed `reason`, which both faces show, and a message that is
safe to show to any caller: it names fields and limits, never hosts, paths or
exception texts.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple


class Violation(NamedTuple):
    """One broken rule: where, and what is wrong there."""

    field: str
    message: str


MAX_VIOLATIONS_TOLD = 32
MAX_BYTES_TOLD = 4096
MAX_SUMMARY_BYTES = 1024


class DiscoveryError(Exception):
    """The base of all that a caller can be answered with."""

    reason: ClassVar[str]
    retry_after: float | None = None
    """Seconds after which the same call may succeed here; None when it will not."""


class InvalidInput(DiscoveryError):
    """A value breaks a rule. Names every offending field, up to a limit."""

    reason = "INVALID_ARGUMENT"

    def __init__(self, violations: list[Violation], *, total: int | None = None) -> None:
        """`total` counts all violations when `violations` holds only the first."""
        self.total = len(violations) if total is None else total
        self.violations = _first(violations[:MAX_VIOLATIONS_TOLD], MAX_BYTES_TOLD)
        summary = _first(self.violations, MAX_SUMMARY_BYTES)
        told = "; ".join(f"{field}: {message}" for field, message in summary)
        more = self.total - len(summary)
        super().__init__(f"{told}; and {more} more" if more else told)

    @property
    def untold(self) -> int:
        """How many violations are not in `violations`."""
        return self.total - len(self.violations)


def _first(violations: list[Violation], max_bytes: int) -> list[Violation]:
    """As many of the first violations as fit."""
    fitting = []
    for violation in violations:
        max_bytes -= len(violation.field.encode()) + len(violation.message.encode())
        if max_bytes < 0:
            break
        fitting.append(violation)
    return fitting


def together(*checks: Callable[[], Any]) -> tuple[Any, ...]:
    """What all of these checks give, or one InvalidInput with the violations of all of them."""
    results: list[Any] = []
    violations: list[Violation] = []
    total = 0
    for check in checks:
        try:
            results.append(check())
        except InvalidInput as bad:
            violations += bad.violations
            total += bad.total
    if total:
        raise InvalidInput(violations, total=total)
    return tuple(results)


class LeaseWithdrawn(DiscoveryError):
    """The call carries a lease that was withdrawn: it brings nothing back."""

    reason = "LEASE_WITHDRAWN"

    def __init__(self) -> None:
        """The id is not repeated: no log or message shows one."""
        super().__init__("the lease with this lease_id was withdrawn")


class ShareNotFound(DiscoveryError):
    """There is no live share as the withdrawal names it."""

    reason = "SHARE_NOT_FOUND"

    def __init__(self) -> None:
        """The same words for a pool that exists and one that does not."""
        super().__init__("the pool has no such share")


class TooManyShares(DiscoveryError):
    """The pool has as many live shares as it may have."""

    reason = "TOO_MANY_SHARES"

    def __init__(self, limit: int, *, retry_after: float) -> None:
        """A share may end with its lease, hence the retry time."""
        self.retry_after = retry_after
        super().__init__(f"the pool has {limit} live shares, which is the most it may have")


class PositionGone(DiscoveryError):
    """The list that a page token names is no longer here: begin again."""

    reason = "POSITION_GONE"

    def __init__(self) -> None:
        """Nothing about the list is known any more."""
        super().__init__("the list that this page_token belongs to is gone; list again")


class Unavailable(DiscoveryError):
    """The instance cannot do it now; another may."""

    reason = "NOT_READY"

    def __init__(self, message: str = "not ready yet", *, retry_after: float = 1.0) -> None:
        """`retry_after` is in seconds."""
        self.retry_after = retry_after
        super().__init__(message)


class StoreUnwritable(Unavailable):
    """The store did not take it."""

    reason = "STORE_UNWRITABLE"

    def __init__(self, *, retry_after: float = 1.0) -> None:
        """What the store said goes to the log only."""
        super().__init__("the registration store did not take it", retry_after=retry_after)


class ShuttingDown(Unavailable):
    """The instance is going away."""

    reason = "SHUTTING_DOWN"

    def __init__(self) -> None:
        """Another instance, or the next one here, will answer."""
        super().__init__("this instance is shutting down")


class SlowWatcher(DiscoveryError):
    """The caller did not read its stream for too long."""

    reason = "SLOW_WATCHER"

    def __init__(self, seconds: float) -> None:
        """`seconds` is how long one write may take."""
        self.retry_after = 1.0
        super().__init__(f"the stream was not read for {seconds:g} s")


class Unauthenticated(DiscoveryError):
    """Only a caller that proves who it is may do this, or what it shows proves nothing."""

    reason = "UNAUTHENTICATED"

    def __init__(self, *, bad_token: bool = False) -> None:
        """The same words for whatever is wrong with a token, and whatever was asked for."""
        self.bad_token = bad_token
        super().__init__(
            "the token was not accepted" if bad_token else "this needs a caller with an identity"
        )


class PermissionDenied(DiscoveryError):
    """The caller is known and may not do this."""

    reason = "PERMISSION_DENIED"

    def __init__(self) -> None:
        """The same words for a pool that exists and one that does not."""
        super().__init__("this identity may not do this")


class AuthenticationUnavailable(Unavailable):
    """Whether the caller's token is good cannot be found out now."""

    reason = "AUTHENTICATION_UNAVAILABLE"

    def __init__(self, *, retry_after: float = 1.0) -> None:
        """Why goes to the log only."""
        super().__init__("the token cannot be reviewed now", retry_after=retry_after)


class TooManyBadTokens(DiscoveryError):
    """Tokens from where the caller is turned out bad, too many of late to look at another."""

    reason = "TOO_MANY_BAD_TOKENS"

    def __init__(self, *, retry_after: float) -> None:
        """`retry_after` is in seconds."""
        self.retry_after = retry_after
        super().__init__("too many tokens were not accepted; unknown ones have to wait")


class ScopeChanged(Unavailable):
    """What the caller may read is another thing than when its stream began."""

    reason = "SCOPE_CHANGED"

    def __init__(self) -> None:
        """A new stream is of the new scope."""
        super().__init__("what this caller may read has changed", retry_after=0.1)
