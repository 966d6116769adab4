"""The one spelling of a frontend's URL (RFC 3986), or what is wrong with it.

`scheme://host[:port][/path]`, http or https. A host that could be read as an
IPv4 address in another notation (`2852039166`, `0x7f.1`, `1.2.3`) is refused,
as the WHATWG URL standard's "ends in a number" rule does: two spellings of one
address are two frontends to us and one to the router. Nothing is resolved.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

MAX_BYTES = 512
MAX_PORT = 65_535
MAX_HOST_CHARACTERS = 253
_DEFAULT_PORT = {"http": 80, "https": 443}
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<rest>[?#].*)?",
    re.DOTALL,
)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?P<port>:[0-9]*)?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class BadUrl(ValueError):
    """Says in its text what is wrong with the URL; the text never repeats it."""


@lru_cache(maxsize=4_096)
def normalize(url: str) -> str:
    """The listed spelling of a frontend URL.

    Scheme and host are lower-cased, a default port and one trailing `/` are
    dropped, IPv6 is compressed (RFC 5952) and bracketed, and IPv4-mapped IPv6 is
    IPv4. Raises BadUrl.
    """
    if len(url.encode(errors="surrogatepass")) > MAX_BYTES:
        raise BadUrl(f"is longer than {MAX_BYTES} bytes")
    match = _URL.fullmatch(url)
    if match is None:
        raise BadUrl("is not of the form scheme://host[:port][/path]")
    scheme = match["scheme"].lower()
    if scheme not in _DEFAULT_PORT:
        raise BadUrl("must be http or https")
    if match["rest"] is not None:
        raise BadUrl("must have no query and no fragment")
    host, port = _authority(match["authority"])
    path = match["path"] or ""
    if _PATH.fullmatch(path) is None:
        raise BadUrl("has a path with a character that must be percent-encoded")
    shown_port = "" if port in (None, _DEFAULT_PORT[scheme]) else f":{port}"
    return f"{scheme}://{host}{shown_port}{path.removesuffix('/')}"


def _authority(authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise BadUrl("must have no user info")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise BadUrl("has no valid host and port (an IPv6 address needs brackets)")
    port: int | None = None
    if match["port"] is not None:
        digits = match["port"][1:].lstrip("0")
        if not 1 <= len(digits) <= len(str(MAX_PORT)) or int(digits) > MAX_PORT:
            raise BadUrl("has a port that is not 1 to 65535")
        port = int(digits)
    host = match["host"]
    return (_ipv6(host[1:-1]) if host.startswith("[") else _name_or_ipv4(host)), port


def _ipv6(address: str) -> str:
    if "%" in address:
        raise BadUrl("has an IPv6 address with a zone")
    try:
        ip = IPv6Address(address)
    except ValueError:
        raise BadUrl("has no valid IPv6 address in its brackets") from None
    return str(ip.ipv4_mapped) if ip.ipv4_mapped else f"[{ip.compressed}]"


def _name_or_ipv4(host: str) -> str:
    if not host:
        raise BadUrl("has no host")
    if not host.isascii():
        raise BadUrl("has a host that is not ASCII (it is written in its xn-- form)")
    host = host.lower()
    name = host.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise BadUrl("has a host that is no IPv4 address in dotted form") from None
    if len(name) > MAX_HOST_CHARACTERS or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadUrl("has no valid host name")
    return host
