"""The names of callers that proved who they are.

Each kind has a form of its own, so that no certificate can be made that passes for
a service account, nor the other way round:

    spiffe://east.example/ns/dynamo/sa/pool-relay    URI name of a client certificate
    dns:relay.east.example                           DNS name of a client certificate
    sa:east/dynamo/pool-relay                        service account of a cluster

A certificate that has a URI name is known by it, and by nothing when it has
several: an SVID has exactly one (SPIFFE X509-SVID, 2), and of two nobody can tell
which is meant; nor by one whose scheme is that of another kind, `dns://` or `sa://`.
Else it is known by its first DNS name. Its subject is no identity
(RFC 9525, 2).
"""

import re
from collections.abc import Sequence

MAX_IDENTITY = 2048
_KINDS = frozenset({"dns", "sa"})
"""What identities of other kinds begin with."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[!-)+-~]+")
_DNS = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_ACCOUNT = re.compile(r"system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})")


def certificate_identity(uris: Sequence[str], dns_names: Sequence[str]) -> str:
    """The identity in the names of a verified certificate; empty when it has none."""
    if uris:
        (uri, *others) = uris
        scheme, separator, rest = uri.partition("://")
        known = not others and len(uri) <= MAX_IDENTITY and _URI.fullmatch(uri)
        scheme = scheme.lower()
        return f"{scheme}{separator}{rest}" if known and scheme not in _KINDS else ""
    name = dns_names[0] if dns_names else ""
    return f"dns:{name.lower()}" if _DNS.fullmatch(name) else ""


def service_account_identity(cluster: str, username: str) -> str:
    """The identity of a service account, by its name in the API server; empty for other users."""
    account = _ACCOUNT.fullmatch(username)
    return f"sa:{cluster}/{account[1]}/{account[2]}" if account else ""
