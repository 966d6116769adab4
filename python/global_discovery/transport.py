"""What aiohttp raised, as a sentence for a log or a terminal.

It says of every server that was not reached `ssl:default`, or which object in memory
holds its TLS settings, also where there is no TLS. Here it says where and why.
"""

import aiohttp


def transport_text(error: Exception) -> str:
    """Never empty. It comes from the network and from the system: escape it."""
    if not isinstance(error, aiohttp.ClientConnectorError):
        return str(error) or type(error).__name__
    host = f"[{error.host}]" if ":" in error.host else error.host
    why = error.strerror or str(error.os_error) or type(error.os_error).__name__
    return f"cannot connect to {host}:{error.port}: {why}"
