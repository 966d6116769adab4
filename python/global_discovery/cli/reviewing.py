"""From flags to what reviews tokens. Needs the extra `kubernetes`."""

from collections.abc import Callable

from global_discovery.cli.flags import Values
from global_discovery.cli.serve_flags.access import (
    LOCAL,
    TOKEN_AUDIENCE,
    TOKEN_CLUSTER,
    TOKEN_ISSUER,
)
from global_discovery.cli.serve_flags.discovery import KUBERNETES_STRICT_X509
from global_discovery.serving.access.reviews import TokenCluster
from global_discovery.serving.reviewing import ReviewingCluster, token_clusters


def clusters_from(values: Values) -> Callable[[], list[TokenCluster]]:
    """What the flags say, to be made inside the loop."""
    issuers = dict(values.all(TOKEN_ISSUER))
    named = values.all(TOKEN_CLUSTER) or ((LOCAL, None),)
    clusters = [ReviewingCluster(name, issuers.get(name, ""), config) for name, config in named]
    audience, strict = values[TOKEN_AUDIENCE], values[KUBERNETES_STRICT_X509]
    return lambda: token_clusters(clusters, audience=audience, strict_x509=strict)
