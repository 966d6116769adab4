"""What is imported of one Service, in numbers and names, for people. Bounded in size."""

from collections.abc import Sequence

from global_discovery.domain.explanation import ServiceState, SliceState
from global_discovery.slices.endpoints import list_endpoints, port_of
from global_discovery.slices.model import EndpointSlice, Port
from global_discovery.slices.recognise import Service

SLICES_SHOWN = 10
PORTS_SHOWN = 16
MAX_PORT_NAME = 63
"""Characters: longer names are no port names, and are cut."""


def describe_service(
    service: Service, slices: Sequence[EndpointSlice], port: str | None = None
) -> ServiceState:
    """The state of a Service with these slices; with `port` only endpoints behind that count."""
    listing = list_endpoints(slices, port)
    shown = sorted(slices, key=lambda one: one.key)[:SLICES_SHOWN]
    return ServiceState(
        name=f"{service.namespace}/{service.name}",
        slice_count=len(slices),
        slices=tuple(map(_describe_slice, shown)),
        endpoints=len(listing.endpoints),
        ready=sum(found.ready for found in listing.endpoints),
        port_seen=port is not None and any(port_of(one, port) for one in slices),
    )


def port_texts(slices: Sequence[EndpointSlice]) -> tuple[str, ...]:
    """The ports of all of them, the first ones, each once."""
    ports = {_port_text(port): None for one in slices for port in one.ports or () if port}
    return tuple(ports)[:PORTS_SHOWN]


def _describe_slice(one: EndpointSlice) -> SliceState:
    found = list_endpoints([one]).endpoints
    return SliceState(
        name="/".join(one.key),
        family=one.address_type or "",
        endpoints=len(one.endpoints or ()),
        ready=sum(endpoint.ready for endpoint in found),
        ports=port_texts([one]),
    )


def _port_text(port: Port) -> str:
    name = (port.name or "")[:MAX_PORT_NAME]
    number = "no number" if port.port is None else str(port.port)
    return f"{name or 'unnamed'}:{number}/{(port.protocol or 'TCP')[:MAX_PORT_NAME]}"
