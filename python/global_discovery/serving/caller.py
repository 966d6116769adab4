"""Who is calling: the connection's address, or what a trusted proxy says it is.

Only when the connection itself comes from a network given by `--trusted-proxy`,
the right-most `X-Forwarded-For` address outside those networks is the caller's
(entries further left are the caller's own claim). Otherwise the header is
ignored. An entry that is no address ends the search: nothing to its left can be
believed.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import unquote

from global_discovery.domain.rules import canonical_address

Network = IPv4Network | IPv6Network
HEADER = "x-forwarded-for"


class Caller(NamedTuple):
    """Who makes a call. Immutable and hashable."""

    address: str
    """In its canonical form, or whatever names the peer; shares are told apart by it."""
    identity: str = ""
    """What was proven of it; empty when nothing was."""

    @property
    def account(self) -> str:
        """What is counted and logged per caller: the identity where there is one."""
        return self.identity or self.address


class Callers:
    """Finds the caller of each call."""

    def __init__(self, trusted: Sequence[Network] = ()) -> None:
        """`trusted` are the networks of `--trusted-proxy`."""
        self._trusted = tuple(trusted)

    @property
    def trusts_nobody(self) -> bool:
        """Whether the header is never looked at."""
        return not self._trusted

    def address(self, connection: str, forwarded_for: Iterable[str] = ()) -> str:
        """The caller's address in its canonical form (IPv4-mapped as IPv4).

        `connection` is the peer's address, `forwarded_for` the values of the
        header in the order in which they stand.
        """
        if not self._is_trusted(connection):
            return connection
        entries = [entry for value in forwarded_for for entry in value.split(",")]
        for entry in reversed(entries):
            address = _forwarded_address(entry.strip())
            if address is None:
                break
            if not self._is_trusted(address):
                return address
        return connection

    def trusts(self, address: str) -> bool:
        """Whether a connection from there speaks for others."""
        return self._is_trusted(address)

    def _is_trusted(self, address: str) -> bool:
        if not self._trusted:
            return False
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self._trusted)


@lru_cache(maxsize=4096)
def grpc_peer_address(peer: str) -> str:
    """The address in a gRPC peer, such as `ipv4:10.0.0.1:1234` or `ipv6:%5B::1%5D:1234`."""
    scheme, _, rest = peer.partition(":")
    if scheme not in {"ipv4", "ipv6"}:
        return peer
    host = unquote(rest).rpartition(":")[0].strip("[]")
    return peer_address(host)


@lru_cache(maxsize=4096)
def peer_address(host: str) -> str:
    """The canonical form of a socket's peer address; a zone is dropped."""
    try:
        return canonical_address(host.partition("%")[0])
    except ValueError:
        return host


def _forwarded_address(entry: str) -> str | None:
    """The address of one entry, with or without a port and brackets."""
    if entry.startswith("["):
        entry = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        entry = entry.partition(":")[0]
    try:
        return canonical_address(entry)
    except ValueError:
        return None
