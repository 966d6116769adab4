"""From flags to what follows the imported slices. Needs the extra `kubernetes`."""

from global_discovery.cli import serve_flags as flags
from global_discovery.cli.flags import Values
from global_discovery.serving.watching import SlicesWatching, WatchingSettings
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Discovery
from global_discovery.sources.imported_routers import RouterService

__all__ = ["SlicesWatching", "settings_from"]


def settings_from(values: Values) -> WatchingSettings:
    """What the flags under "with karmada or mcs" say."""
    service = None
    if values.is_set(flags.ROUTER_SERVICE):
        service = RouterService(*(values[flag] for flag in flags.ROUTER_FLAGS))
    return WatchingSettings(
        discovery=Discovery(values[flags.POOL_DISCOVERY]),
        naming=Naming(
            values[flags.POOL_RELAY_SUFFIX],
            values[flags.FRONTEND_SUFFIX],
            values[flags.FRONTEND_PORT_NAME],
        ),
        router_service=service,
        kubeconfig=values.get(flags.KUBECONFIG),
        strict_x509=values[flags.KUBERNETES_STRICT_X509],
        namespaces=values.all(flags.WATCH_NAMESPACE),
    )
