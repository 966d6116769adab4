"""How to reach a server's HTTP port in this world."""

import ssl

from global_discovery.client import TlsSettings


def rest_trust(tls: TlsSettings | None) -> tuple[str, ssl.SSLContext | bool]:
    """The scheme, and what aiohttp is to trust and to show."""
    if tls is None:
        return "http", True
    context = ssl.create_default_context(cafile=str(tls.ca_path))
    if tls.cert_path is not None:
        context.load_cert_chain(str(tls.cert_path), str(tls.key_path))
    return "https", context
