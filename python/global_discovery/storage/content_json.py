"""A pool's content as JSON: one text for one content, so that its hash names it.

A reader ignores names that it does not know and takes the default for those that
are missing: versions before and after it write into the same store.
"""

import json
from typing import Any

from global_discovery.domain.pool import Content, Location
from global_discovery.storage import checked


def encode_content(content: Content) -> bytes:
    """UTF-8, names sorted, empty values left out."""
    location = content.location
    fields: dict[str, Any] = {
        "model": content.model,
        "region": location.region,
        "availability_zone": location.availability_zone,
        "datacenter": location.datacenter,
        "capabilities": content.capabilities,
        "capacity": content.capacity,
        "frontends": content.frontends,
    }
    given = {name: value for name, value in fields.items() if value}
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def decode_content(text: bytes | str) -> Content:
    """Raises ValueError for what is no content."""
    try:
        fields = json.loads(text)
        return Content(
            model=checked.text(fields["model"]),
            location=Location(
                checked.text(fields["region"]),
                checked.text(fields.get("availability_zone", "")),
                checked.text(fields.get("datacenter", "")),
            ),
            capabilities=checked.texts(fields.get("capabilities", ())),
            capacity=tuple(
                (checked.text(sku), checked.whole(count, most=checked.MAX_GPU_COUNT))
                for sku, count in fields.get("capacity", ())
            ),
            frontends=checked.texts(fields.get("frontends", ())),
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("no content of a pool") from error
