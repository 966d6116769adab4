"""Reviews tokens at the API servers of one or several clusters.

Needs the extra `kubernetes`; nothing else of `serving` imports this but `watching`'s
equal, the command line. Each cluster has a connection of its own, with credentials of
its own, and is shown the tokens that name its issuer and no others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from global_discovery.domain.timer import SuspendAwareTimer
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.credentials import find_credentials
from global_discovery.kubernetes.failures import CallFailed
from global_discovery.kubernetes.token_review import TokenReviewer
from global_discovery.serving.access.reviews import ReviewFailed, TokenCluster


class ReviewingCluster(NamedTuple):
    """One cluster whose tokens are reviewed."""

    name: str
    issuer: str = ""
    """Empty for the only one."""
    kubeconfig: str | None = None
    """None for that of KUBECONFIG, else the service account of the pod."""


class ApiServerReviewer:
    """See reviews.Reviewer."""

    def __init__(self, reviewer: TokenReviewer) -> None:
        """Owns it."""
        self._reviewer = reviewer

    async def review(self, token: str) -> str | None:
        """See Reviewer."""
        try:
            return await self._reviewer.review(token)
        except CallFailed as failed:
            raise ReviewFailed(f"{failed.failure.value}: {failed.message}") from None

    async def close(self) -> None:
        """See Reviewer."""
        await self._reviewer.close()


def token_clusters(
    clusters: Sequence[ReviewingCluster], *, audience: str, strict_x509: bool = True
) -> list[TokenCluster]:
    """Must be called inside the event loop; asks nothing yet."""
    timer = SuspendAwareTimer()

    def reviewer(kubeconfig: str | None) -> ApiServerReviewer:
        connection = ApiConnection(
            find_credentials(kubeconfig), timer=timer, strict_x509=strict_x509
        )
        return ApiServerReviewer(TokenReviewer(connection, audience=audience, timer=timer))

    return [TokenCluster(each.name, each.issuer, reviewer(each.kubeconfig)) for each in clusters]
