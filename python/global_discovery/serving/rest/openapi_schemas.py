"""The parts of the OpenAPI document that its operations refer to."""

from typing import Any

from global_discovery.domain import rules
from global_discovery.domain.completeness import Reason

Schema = dict[str, Any]


def ref(kind: str, name: str) -> Schema:
    """A reference to one of `COMPONENTS`."""
    return {"$ref": f"#/components/{kind}/{name}"}


def _text(description: str, **rest: Any) -> Schema:
    return {"type": "string", "description": description, **rest}


def _object(properties: Schema, *, required: list[str] | None = None, **rest: Any) -> Schema:
    names = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": names, **rest}


def _or_null(schema: Schema) -> Schema:
    return schema | {"type": [schema["type"], "null"]}


def _set(items: Schema, most: int, description: str) -> Schema:
    return {
        "type": "array",
        "items": items,
        "description": f"{description} A set of at most {most}: order and duplicates do not count.",
    }


_SHORT = {"maxLength": rules.MAX_STRING_BYTES}
_BYTES = f"1 to {rules.MAX_STRING_BYTES} bytes, no control characters, no white space at either end"


def key_part(description: str) -> Schema:
    """The schema of one part of a key."""
    return _text(
        f"{description} 1 to {rules.MAX_STRING_BYTES} bytes of printable ASCII without `/`, not "
        "`.` or `..`, no space at either end.",
        minLength=1,
        maxLength=rules.MAX_STRING_BYTES,
        pattern=r"^[!-.0-~]([ -.0-~]*[!-.0-~])?$",
    )


_KEY: Schema = {
    "cluster_id": key_part("The name of the pool's source cluster."),
    "namespace": key_part("The Kubernetes namespace of the deployment."),
    "dgd_name": key_part("The name of the deployment."),
}

_LOCATION: Schema = {
    "region": _text(f"Required. {_BYTES}.", minLength=1, **_SHORT),
    "availability_zone": _text("Absent when it is not known.", **_SHORT),
    "datacenter": _text("Absent when it is not known.", **_SHORT),
}

_CAPACITY_ENTRY: Schema = {
    "gpu_sku": _text(f"Required. {_BYTES}.", minLength=1, **_SHORT),
    "gpu_count": {
        "type": "integer",
        "minimum": 1,
        "maximum": rules.MAX_GPU_COUNT,
        "description": "Required. Entries of one `gpu_sku` are added up.",
    },
}

_FRONTEND = (
    "`scheme://host[:port][/path]`, http or https, at most 512 bytes. Scheme and host are "
    "lower-cased, a default port and one trailing `/` are dropped. Nothing is resolved or fetched."
)

_CONTENT: Schema = {
    "model": _text(
        f"Exactly one model name. 1 to {rules.MAX_MODEL_BYTES} bytes of UTF-8.",
        minLength=1,
        maxLength=rules.MAX_MODEL_BYTES,
    ),
    "location": ref("schemas", "Location"),
    "capabilities": _set(
        {"type": "string", "minLength": 1, **_SHORT},
        rules.MAX_CAPABILITIES,
        "What the pool can do.",
    ),
    "capacity": _set(
        ref("schemas", "Capacity"), rules.MAX_CAPACITY_ENTRIES, "The GPUs of the pool."
    ),
    "frontends": _set(
        {"type": "string", "minLength": 1, "maxLength": 512}, rules.MAX_FRONTENDS, _FRONTEND
    ),
    "relays": _set(
        {"type": "string", "minLength": 1, "pattern": "^ip:"},
        rules.MAX_RELAYS,
        "The identities of the pool's relays, `ip:<address>`.",
    ),
}

_MARK: Schema = {
    "complete": {
        "type": "boolean",
        "description": "Whether nothing registered longer ago than the bound is missing.",
    },
    "reasons": {
        "type": "array",
        "items": {"type": "string", "examples": sorted(reason.value for reason in Reason)},
        "description": "Why the list may not be complete; empty when it is. Sorted. Be prepared "
        "for codes that are not among the examples.",
    },
}

_TIME: Schema = {"type": "string", "format": "date-time"}

_REGISTRATION: Schema = {
    **_KEY,
    "model": _CONTENT["model"],
    "location": _CONTENT["location"],
    **{
        name: _or_null(_CONTENT[name])
        for name in ("capabilities", "capacity", "frontends", "relays")
    },
    "relay_id": _text(
        "Which relay of the pool is speaking: two that share one speak for the same share. At "
        f"most {rules.MAX_RELAY_ID_BYTES} bytes of printable ASCII. Not listed.",
        maxLength=rules.MAX_RELAY_ID_BYTES,
        pattern="^[ -~]*$",
    )
    | {"type": ["string", "null"]},
    "lease_id": _text(
        "The id of the caller's lease, as the last answer gave it. With it the call renews that "
        "lease; without it, or with one that lapsed, it begins a new one.",
        maxLength=rules.MAX_LEASE_ID_BYTES,
        pattern="^[ -~]*$",
    )
    | {"type": ["string", "null"]},
    "sequence": {
        "type": ["integer", "null"],
        "minimum": 0,
        "maximum": rules.MAX_SEQUENCE,
        "description": "Grows within one lease; a call with a lower one changes nothing.",
    },
}

SCHEMAS: Schema = {
    "Location": _object(
        {name: schema for name, schema in _LOCATION.items() if name == "region"}
        | {name: _or_null(_LOCATION[name]) for name in ("availability_zone", "datacenter")},
        required=["region"],
    ),
    "Capacity": _object(_CAPACITY_ENTRY),
    "Registration": _object(
        _REGISTRATION,
        required=[*_KEY, "model", "location"],
        description="Only these names count; unknown fields are ignored, and null is as absent. "
        f"At most {rules.MAX_REGISTRATION_BYTES // 1024} KiB as protobuf, 1 MiB as JSON.",
    ),
    "Lease": _object(
        {
            "lease_duration_secs": {
                "type": "integer",
                "minimum": 1,
                "description": "How long the pool stays listed without another call.",
            },
            "heartbeat_interval_secs": {
                "type": "integer",
                "minimum": 1,
                "description": "How often to call again.",
            },
            "lease_id": _text("Names this lease: an identifier, not a credential."),
        }
    ),
    "Pool": _object(
        {
            **_KEY,
            **_CONTENT,
            "location": _object(_LOCATION, required=["region"]),
            "registered_time": _TIME | {"description": "When it last entered the list."},
            "changed_time": _TIME | {"description": "When what is listed of it last changed."},
        }
    ),
    "PoolList": _object(
        {
            "pools": {
                "type": "array",
                "items": ref("schemas", "Pool"),
                "description": "Sorted by `cluster_id`, `namespace`, `dgd_name`.",
            },
            **_MARK,
            "bound_secs": {"type": "number", "description": "How recent a pool may be missing."},
            "slices_bound_secs": {
                "type": "number",
                "description": "The same for imported EndpointSlices, where there are some.",
            },
        },
        required=["pools", "complete", "reasons", "bound_secs"],
    ),
    "RouterList": _object(
        {
            "routers": {
                "type": "array",
                "items": _object({"id": _text("Unique."), "url": _text("Its address.")}),
                "description": "Sorted by `id`.",
            },
            **_MARK,
        }
    ),
    "Health": _object(
        {"status": {"type": "string", "enum": ["ok", "degraded"]}, **_MARK},
        description="`degraded` while one of the lists is not complete or the store fails; "
        "mark and reasons are those of both lists.",
    ),
    "Status": _object({"status": _text("One word.")}),
    "Problem": _object(
        {
            "title": _text("The status in words."),
            "status": {"type": "integer"},
            "detail": _text("What is wrong, for people. Repeats nothing that was sent."),
            "code": _text("A fixed reason, for programs."),
            "errors": {
                "type": "array",
                "items": _object({"field": _text("Where."), "message": _text("What.")}),
                "description": "Every offending field, up to a limit.",
            },
            "more_errors": {"type": "integer", "description": "How many are not in `errors`."},
            "limit": _text("With LIMIT_REACHED, which limit it is."),
            "request_id": _text("Names a fault of ours in our log."),
        },
        required=["title", "status", "detail", "code"],
        description="RFC 9457.",
    ),
}
