"""The endpoints behind one exported Service of one cluster, each once.

A pod may be in several slices: while it is moved from one to another, while its
address is already another pod's, and once for each address family. None of
this depends on the order in which slices are given.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from global_discovery.domain.frontend_url import MAX_PORT
from global_discovery.domain.rules import canonical_address
from global_discovery.slices.model import Conditions, Endpoint, EndpointSlice, Port, Target

TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
FAKE_POD = "fake-pod-"
_POD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}")
_DEFAULT_PORT = {"http": 80, "https": 443}
_NOTHING_SAID = Conditions()


class Found(NamedTuple):
    """One endpoint as one slice shows it."""

    identity: tuple[str, ...]
    """What it is the same endpoint by."""
    uid: str
    """Of the pod; empty where none is told."""
    name: str
    """Of the pod where one is named, else the address."""
    address: str
    url: str
    """Empty where no port was asked for."""
    ready: bool
    terminating: bool
    told: datetime | None
    """When the change was seen that this slice shows, if it says so."""


class Listing(NamedTuple):
    """What a Service's slices show."""

    endpoints: tuple[Found, ...]
    damaged: tuple[tuple[EndpointSlice, int], ...]
    """Slices with endpoints that could not be read, and how many."""


def port_of(endpoint_slice: EndpointSlice, name: str) -> Port | None:
    """The TCP port of that name in this slice; ports are a slice's own."""
    for port in endpoint_slice.ports or ():
        if (
            port is not None
            and (port.name or "") == name
            and (port.protocol or "TCP") == "TCP"
            and port.port is not None
            and 1 <= port.port <= MAX_PORT
        ):
            return port
    return None


def list_endpoints(slices: Iterable[EndpointSlice], port: str | None = None) -> Listing:
    """Each endpoint of a Service once, in one address family.

    With `port` only slices that have the TCP port of that name count. The family
    is IPv4 as soon as one of these slices is, whether or not anything in it is
    ready, so that readiness never changes an address.
    """
    having = [(one, None if port is None else port_of(one, port)) for one in slices]
    if port is not None:
        having = [(one, number) for one, number in having if number is not None]
    ipv4 = [(one, number) for one, number in having if one.address_type == "IPv4"]
    found: dict[tuple[str, ...], list[Found]] = {}
    damaged = []
    for one, number in ipv4 or having:
        unread = 0
        told = _time(one.annotation(TRIGGER_TIME))
        for endpoint in one.endpoints or ():
            seen = _found(endpoint, one.address_type, number, told)
            if seen is None:
                unread += 1
            else:
                found.setdefault(seen.identity, []).append(seen)
        if unread:
            damaged.append((one, unread))
    return Listing(tuple(_newest(shown) for shown in found.values()), tuple(damaged))


def preference(found: Found) -> tuple[bool, bool, str, str]:
    """Sorts what is to be believed first: ready, staying; then anything that is fixed."""
    return not found.ready, found.terminating, found.url or found.address, found.name


def _newest(shown: list[Found]) -> Found:
    """What is true of an endpoint that is being moved: the later word, else the better one."""
    if len(shown) == 1:
        return shown[0]
    times = [found.told for found in shown if found.told is not None]
    if len(times) == len(shown):
        newest = max(times)
        shown = [found for found in shown if found.told == newest]
    return min(shown, key=preference)


def _found(
    endpoint: Endpoint | None, address_type: str | None, port: Port | None, told: datetime | None
) -> Found | None:
    """None when the endpoint or its address cannot be read."""
    if endpoint is None or not endpoint.addresses:
        return None
    written = endpoint.addresses[0]
    if (":" in written) != (address_type == "IPv6"):
        return None
    try:
        address = canonical_address(written)
    except ValueError:
        return None
    conditions = endpoint.conditions or _NOTHING_SAID
    terminating = conditions.terminating is True
    # Not said is ready (API text), except of one that is known to be going.
    ready = not terminating if conditions.ready is None else conditions.ready
    url = "" if port is None else _url(address, port)
    pod = _pod(endpoint.target_ref)
    if pod is None:
        return Found(("address", address), "", address, address, url, ready, terminating, told)
    uid, name = pod.uid or "", pod.name or ""
    identity = ("uid", uid) if uid else ("pod", pod.namespace or "", name)
    return Found(identity, uid, name, address, url, ready, terminating, told)


def _pod(target: Target | None) -> Target | None:
    """The pod behind an endpoint, if it can be told apart by it.

    AWS points all endpoints at one Service, Cilium at a pod it made up for each
    address, Lighthouse and mirrors at nothing: there the address must do.
    """
    if target is None or target.kind != "Pod":
        return None
    name = target.name or ""
    return target if _POD_NAME.fullmatch(name) and not name.startswith(FAKE_POD) else None


def _url(address: str, port: Port) -> str:
    """As `frontend_url.normalize` would spell it."""
    scheme = "https" if (port.app_protocol or "").lower() == "https" else "http"
    host = f"[{address}]" if ":" in address else address
    return f"{scheme}://{host}" + ("" if port.port == _DEFAULT_PORT[scheme] else f":{port.port}")


@lru_cache(maxsize=1_024)
def _time(text: str) -> datetime | None:
    """An RFC 3339 time; None for anything else, and for one without a zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
