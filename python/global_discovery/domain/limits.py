"""What is bounded for all callers together, or for each of them, and what a refusal says.

A limit counts what is new: pools, shares, watchers, bytes, failures. The renewal
of a live share is never refused for one, nor is a change of its content.
"""

from enum import Enum

from global_discovery.domain.errors import DiscoveryError


class Limit(Enum):
    """The names of the limits, as answers, metrics and the log have them."""

    POOLS = "pools"
    """Registered pools."""
    SHARES = "shares"
    """Live shares of all pools."""
    NEW_SHARES = "new_shares_per_second"
    """Shares that one caller begins in a second."""
    WATCHERS = "watchers"
    """Open streams of all callers."""
    WATCHERS_OF_ONE = "watchers_per_caller"
    """Open streams of one caller."""
    BYTES = "bytes_per_second"
    """Bytes of one caller's requests in a second, beside those of renewals."""
    FAILED_AUTHENTICATIONS = "failed_authentications_per_second"
    """Calls of one caller in a second that did not prove who it is."""
    LARGE_CALLS = "large_calls"
    """Calls larger than any ordinary one that wait to be read."""
    HTTP_CONNECTIONS = "http_connections"
    """Open HTTP connections of all callers."""
    HTTP_CONNECTIONS_OF_ONE = "http_connections_per_caller"
    """Open HTTP connections of one address."""


class LimitReached(DiscoveryError):
    """A limit is reached: the same call may be taken later."""

    reason = "LIMIT_REACHED"

    def __init__(self, limit: Limit, *, retry_after: float) -> None:
        """`retry_after` is in seconds, and not the same for everyone: they must not come together.

        The message does not tell how much is allowed, nor how much there is.
        """
        self.limit = limit
        self.retry_after = retry_after
        super().__init__(f"the limit of {limit.value} is reached")
