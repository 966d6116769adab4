"""From flags to what follows the imported slices. Needs the extra `kubernetes`."""

from global_discovery.cli.flags import Values
from global_discovery.cli.serve_flags import discovery
from global_discovery.cli.serve_flags.general import POOL_DISCOVERY
from global_discovery.serving.watching import SlicesWatching, WatchingSettings
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Discovery
from global_discovery.sources.imported.routers import RouterService

__all__ = ["SlicesWatching", "settings_from"]


def settings_from(values: Values) -> WatchingSettings:
    """What the flags under "with karmada or mcs" say."""
    service = None
    if values.is_set(discovery.ROUTER_SERVICE):
        service = RouterService(*(values[flag] for flag in discovery.ROUTER_FLAGS))
    return WatchingSettings(
        discovery=Discovery(values[POOL_DISCOVERY]),
        naming=Naming(
            values[discovery.POOL_RELAY_SUFFIX],
            values[discovery.FRONTEND_SUFFIX],
            values[discovery.FRONTEND_PORT_NAME],
        ),
        router_service=service,
        kubeconfig=values.get(discovery.KUBECONFIG),
        strict_x509=values[discovery.KUBERNETES_STRICT_X509],
        namespaces=values.all(discovery.WATCH_NAMESPACE),
    )
