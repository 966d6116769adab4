"""The values of flags: what each kind of text means, or what is wrong with it.

Every reader raises ValueError with words that can follow the value. Nothing is
resolved and nothing is opened.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import NamedTuple

from global_discovery.domain import frontend_url
from global_discovery.domain.pool import Router

MAX_PORT = 65_535
MAX_ROUTER_ID_BYTES = 253
_EVERY_INTERFACE = "0.0.0.0"  # noqa: S104 - what an address without a host means
_ADDRESS = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*):(?P<port>[0-9]{1,5})")
_NAME = re.compile(
    r"(?=.{1,253}\Z)(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*"
)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_REGION = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_SECONDS = re.compile(r"[0-9]{1,9}")
_NUMBER_OF = re.compile(r"[0-9]{1,12}")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUFFIX = re.compile(r"[-a-z0-9]{0,61}[a-z0-9]")
_MAPPED = IPv6Network("::ffff:0:0/96")


class Address(NamedTuple):
    """Where to listen. Port 0 is a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """As `host:port`, an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host.lower() == "localhost":
            return True
        try:
            ip = ip_address(self.host)
        except ValueError:
            return False
        mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
        return (mapped or ip).is_loopback


def address(text: str) -> Address:
    """`host:port`, `[IPv6 address]:port`, or `:port` for every interface."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError("is not of the form host:port (an IPv6 address needs brackets)")
    port = int(match["port"])
    if port > MAX_PORT:
        raise ValueError(f"has a port above {MAX_PORT}")
    host = match["host"]
    if not host:
        return Address(_EVERY_INTERFACE, port)
    return Address(_ipv6(host[1:-1]) if host.startswith("[") else _name_or_ipv4(host), port)


def _ipv6(host: str) -> str:
    try:
        ip = IPv6Address(host)
    except ValueError:
        raise ValueError("has no valid IPv6 address in its brackets") from None
    if ip.scope_id is not None:
        raise ValueError("has an IPv6 address with a zone")
    return str(ip)


def _name_or_ipv4(host: str) -> str:
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(ip_address(host))
        except ValueError:
            raise ValueError("has a host that is no IPv4 address") from None
    if _NAME.fullmatch(host) is None:
        raise ValueError("has no valid host name")
    return host


def whole_seconds(least: int, most: int) -> Callable[[str], int]:
    """A number of seconds from `least` to `most`, without sign or fraction."""

    def read(text: str) -> int:
        if _SECONDS.fullmatch(text) is None or not least <= int(text) <= most:
            raise ValueError(f"is not a whole number of seconds from {least} to {most}")
        return int(text)

    return read


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A number from `least` to `most`, without sign, fraction or separators."""

    def read(text: str) -> int:
        if _NUMBER_OF.fullmatch(text) is None or not least <= int(text) <= most:
            raise ValueError(f"is not a whole number from {least} to {most}")
        return int(text)

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """One of these words."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"is not {' or '.join(choices)}")
        return text

    return read


def on_or_off(text: str) -> bool:
    """`on` or `off`."""
    return one_of("on", "off")(text) == "on"


def label(text: str) -> str:
    """The name of a namespace, Service or port (RFC 1123 label)."""
    if _LABEL.fullmatch(text) is None:
        raise ValueError("is not 1 to 63 of a-z, 0-9 and -, without - at either end")
    return text


def name_suffix(text: str) -> str:
    """The end of a Service's name."""
    if _SUFFIX.fullmatch(text) is None:
        raise ValueError("is not 1 to 62 of a-z, 0-9 and -, without - at the end")
    return text


def kubeconfig(text: str) -> str:
    """A path, or several as KUBECONFIG joins them; whether there is a file is seen later."""
    if "\0" in text:
        raise ValueError("has a NUL in it")
    return text


def network(text: str) -> IPv4Network | IPv6Network:
    """A CIDR, or one address; an IPv4-mapped one is the IPv4 one, as callers' addresses are."""
    try:
        found = ip_network(text)
    except ValueError:
        raise ValueError(
            "is no network such as 10.0.0.0/8 (its address must have no bits beyond the prefix)"
        ) from None
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        mapped = found.network_address.ipv4_mapped
        return IPv4Network((str(mapped), found.prefixlen - _MAPPED.prefixlen))
    return found


def file_path(text: str) -> Path:
    """The name of a file, relative to where the process starts; it may not be there yet."""
    if "\0" in text:
        raise ValueError("has a NUL in it")
    if text.endswith("/"):
        raise ValueError("is not the name of a file")
    return Path(text)


def table_name(text: str) -> str:
    """A table of DynamoDB."""
    if _TABLE.fullmatch(text) is None:
        raise ValueError("is no name of a DynamoDB table (3 to 255 of A-Z a-z 0-9 _ . -)")
    return text


def region_name(text: str) -> str:
    """A region of AWS, or a name of that form."""
    if _REGION.fullmatch(text) is None:
        raise ValueError("is no name of a region (a-z 0-9 -)")
    return text


def endpoint_url(text: str) -> str:
    """`http://` or `https://`, a host, and nothing after the port but a path."""
    try:
        return frontend_url.normalize(text)
    except frontend_url.BadUrl as problem:
        raise ValueError(str(problem)) from None


def router(text: str) -> Router:
    """`<id>=<url>`: an id of printable characters without `=`, and a URL as frontends have."""
    router_id, equals, url = text.partition("=")
    if not equals:
        raise ValueError("is not of the form <id>=<url>")
    if not router_id.isprintable() or router_id != router_id.strip() or not router_id:
        raise ValueError("has no id of printable characters, without space at either end")
    if len(router_id.encode()) > MAX_ROUTER_ID_BYTES:
        raise ValueError(f"has an id above {MAX_ROUTER_ID_BYTES} bytes")
    try:
        return Router(router_id, frontend_url.normalize(url))
    except frontend_url.BadUrl as problem:
        raise ValueError(f"its URL {problem}") from None
