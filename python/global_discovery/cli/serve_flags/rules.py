"""What must hold between flags, each of which is right by itself."""

from global_discovery.cli.flags import Refused, Values
from global_discovery.cli.serve_flags import access, tls
from global_discovery.cli.serve_flags.discovery import (
    FRONTEND_SUFFIX,
    POOL_RELAY_SUFFIX,
    ROUTER,
    ROUTER_FLAGS,
)
from global_discovery.cli.serve_flags.general import (
    GRPC_LISTEN,
    HEALTH_LISTEN,
    HEARTBEAT,
    LEASE,
    LISTEN,
    STORAGE,
)
from global_discovery.cli.serve_flags.stores import DYNAMODB_TABLE, SQLITE_PATH


def check(values: Values) -> None:
    """Raises Refused for the first rule that is broken. Files are opened last."""
    _refuse_store_without_place(values)
    _refuse_short_lease(values)
    _refuse_doubled_routers(values)
    _refuse_shared_ports(values)
    _refuse_ambiguous_suffixes(values)
    _refuse_half_a_router_service(values)
    access.check(values)
    tls.refuse_bad_files(values)


def _refuse_store_without_place(values: Values) -> None:
    for store, place in (("sqlite", SQLITE_PATH), ("dynamodb", DYNAMODB_TABLE)):
        if values[STORAGE] == store and not values.is_set(place):
            raise Refused(f"{values.source(STORAGE)} {store} needs {place.name}")


def _refuse_short_lease(values: Values) -> None:
    heartbeat, lease = values[HEARTBEAT], values[LEASE]
    if 3 * heartbeat > lease:
        raise Refused(
            f"{values.source(HEARTBEAT)} {heartbeat}: is more than a third of "
            f"{values.source(LEASE)} {lease}"
        )


def _refuse_doubled_routers(values: Values) -> None:
    seen = set()
    for found in values.all(ROUTER):
        if found.id in seen:
            raise Refused(f"{values.source(ROUTER)}: the id {found.id!a} is there twice")
        seen.add(found.id)


def _refuse_shared_ports(values: Values) -> None:
    taken = {values[LISTEN]: LISTEN}
    for flag in (GRPC_LISTEN, HEALTH_LISTEN):
        wanted = values.get(flag)
        if wanted is None or not wanted.port:
            continue
        if wanted in taken:
            raise Refused(f"{values.source(flag)} {wanted}: is {values.source(taken[wanted])} too")
        taken[wanted] = flag


def _refuse_ambiguous_suffixes(values: Values) -> None:
    """A Service whose name ends in both could be of two pools."""
    suffixes = {flag: values[flag] for flag in (POOL_RELAY_SUFFIX, FRONTEND_SUFFIX)}
    for flag, other in ((POOL_RELAY_SUFFIX, FRONTEND_SUFFIX), (FRONTEND_SUFFIX, POOL_RELAY_SUFFIX)):
        if suffixes[flag].endswith(suffixes[other]):
            raise Refused(
                f"{values.source(flag)} {suffixes[flag]!a}: ends in "
                f"{values.source(other)} {suffixes[other]!a}"
            )


def _refuse_half_a_router_service(values: Values) -> None:
    given = [flag for flag in ROUTER_FLAGS if values.is_set(flag)]
    missing = [flag.name for flag in ROUTER_FLAGS if not values.is_set(flag)]
    if given and missing:
        raise Refused(f"{values.source(given[0])} needs {' and '.join(missing)} too")
