"""Each error's fixed reason, and whether the same call may succeed later."""

import pytest

from global_discovery.domain import errors


@pytest.mark.parametrize(
    ("error", "reason", "retried"),
    [
        (errors.InvalidInput([]), "INVALID_ARGUMENT", False),
        (errors.LeaseWithdrawn(), "LEASE_WITHDRAWN", False),
        (errors.ShareNotFound(), "SHARE_NOT_FOUND", False),
        (errors.TooManyShares(64, retry_after=15.0), "TOO_MANY_SHARES", True),
        (errors.PositionGone(), "POSITION_GONE", False),
        (errors.Unavailable(), "NOT_READY", True),
        (errors.StoreUnwritable(), "STORE_UNWRITABLE", True),
        (errors.ShuttingDown(), "SHUTTING_DOWN", True),
        (errors.SlowWatcher(30.0), "SLOW_WATCHER", True),
        (errors.Unauthenticated(), "UNAUTHENTICATED", False),
        (errors.PermissionDenied(), "PERMISSION_DENIED", False),
        (errors.AuthenticationUnavailable(), "AUTHENTICATION_UNAVAILABLE", True),
        (errors.TooManyBadTokens(retry_after=1.0), "TOO_MANY_BAD_TOKENS", True),
        (errors.ScopeChanged(), "SCOPE_CHANGED", True),
    ],
)
def test_an_error_has_a_fixed_reason_and_says_whether_to_retry(
    error: errors.DiscoveryError, reason: str, *, retried: bool
) -> None:
    assert error.reason == reason
    assert (error.retry_after is not None and error.retry_after > 0) == retried
    assert len(str(error)) < 200


def test_every_error_of_the_domain_is_in_that_table() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.DiscoveryError)
    ]
    assert len(kinds) == 15


def test_a_message_is_cut_at_whole_violations() -> None:
    first = errors.Violation("a", "x" * 1000)
    second = errors.Violation("b", "y" * 100)
    error = errors.InvalidInput([first, second])
    assert error.violations == [first, second]
    assert str(error) == f"a: {'x' * 1000}; and 1 more"
