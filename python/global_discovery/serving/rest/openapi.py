"""The OpenAPI 3.1 document of what is served here: the HTTP reference for programs."""

from typing import Any

import orjson

from global_discovery import __version__
from global_discovery.domain import rules
from global_discovery.serving.rest.answer import INSTANCE, JSON, PROBLEM
from global_discovery.serving.rest.list_body import POSITION
from global_discovery.serving.rest.openapi_page import PAGE_PATHS
from global_discovery.serving.rest.openapi_schemas import SCHEMAS, Schema, key_part, ref
from global_discovery.serving.rest.route import KEY_PATH
from global_discovery.view.filters import MAX_VALUES

_ABOUT = """\
Tells LLM routers, in every region, which serving pools exist right now. A relay registers its \
pool with `POST /pools` and repeats the call as a heartbeat; a router reads `GET /pools`. The \
same service over gRPC can also be watched.

Every path takes OPTIONS, and HEAD where it takes GET. A method that a path does not take (`PUT`, \
`TRACE`, `CONNECT`, `PATCH`, `QUERY`, `PROPFIND`) is 405 with `Allow`; a word that is no method to \
the service (`BREW`, `VERSION-CONTROL`, lower-case `get`) is 400, and the connection then ends. \
Paths are compared literally: other spellings (`/pools/`, `//pools`, `/%70ools`) are 404. Every \
error is a problem document (RFC 9457), and every answer names the instance that gave it. Where \
the service asks for client certificates (mTLS), a caller without one is answered 401 on every \
path but the four probes. Where it lets callers read or register only what a policy allows, a \
caller without an identity is answered 401 and one with an identity 403, the same for a pool that \
exists and for one that does not; lists show what the caller may read, as if there was nothing \
else. What is no HTTP/1.1 is 400, what arrives too slowly 408, and the \
connection then ends."""

_PROBLEMS = {
    "400": "The request, a parameter or the body has the wrong form: no JSON object in UTF-8, a "
    "duplicate name, a lone surrogate, nesting above 32, or a value of the wrong type.",
    "401": "This needs a caller with an identity, or the token was not accepted.",
    "403": "The caller's identity may not do this, whether or not there is such a pool.",
    "404": "There was no such share.",
    "408": "The body did not arrive in time.",
    "409": "The `lease_id` was withdrawn: drop it, and register anew one lease later.",
    "413": "The body is larger than 1 MiB.",
    "415": "No Content-Type, another one than application/json in UTF-8, or a Content-Encoding.",
    "422": "Values of the right type that break a rule; `errors` names every field.",
    "429": "There are as many of them as there may be: shares of a pool, event streams, tokens "
    "from one address that were not accepted, or what the `limit` that is named counts.",
    "500": "A fault of ours; `request_id` names it in our log.",
    "503": "This instance cannot do it now; another one may.",
}

_HEADERS: Schema = {
    "ETag": {
        "description": "Of content and mark; ends in `-gzip` in the compressed form.",
        "schema": {"type": "string"},
    },
    "Vary": {"description": "Accept-Encoding.", "schema": {"type": "string"}},
    POSITION: {
        "description": "The position of this list: opaque.",
        "schema": {"type": "string"},
    },
    INSTANCE: {
        "description": "The id of the instance that answered, as `WatchPools` tells it; another "
        "one after each restart.",
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds after which the call may succeed.",
        "schema": {"type": "integer", "minimum": 1},
    },
}

_RETRIED = {"429", "503"}
_CHALLENGE: Schema = {
    "WWW-Authenticate": {
        "description": "How to prove an identity (RFC 6750).",
        "schema": {"type": "string"},
    }
}
_SECURITY: Schema = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A service account's token, of the audience that the service asks for.",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "A client certificate; its URI name, else its first DNS name, counts.",
    },
}
_OPTIONAL: list[Schema] = [{}, {"token": []}, {"certificate": []}]
ACCESS = "401 403 429 503"
"""What every path may answer that shows or changes pools or routers."""
_INSTANCE_HEADER = {INSTANCE: ref("headers", INSTANCE)}
_LIST_HEADERS = _INSTANCE_HEADER | {
    name: ref("headers", name) for name in ("ETag", "Vary", POSITION)
}


def document() -> Schema:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Global Discovery",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _PATHS,
        "components": {
            "schemas": SCHEMAS,
            "headers": _HEADERS,
            "securitySchemes": _SECURITY,
            "responses": {_name(status): _problem(status) for status in _PROBLEMS},
        },
    }


def document_json() -> bytes:
    """As it is served."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2)


def _name(status: str) -> str:
    return f"Problem{status}"


def _problem(status: str) -> Schema:
    headers = dict(_INSTANCE_HEADER)
    if status in _RETRIED:
        headers["Retry-After"] = ref("headers", "Retry-After")
    if status == "401":
        headers |= _CHALLENGE
    return {
        "description": _PROBLEMS[status],
        "headers": headers,
        "content": {PROBLEM: {"schema": ref("schemas", "Problem")}},
    }


def _operation(summary: str, name: str, good: Schema, problems: str, **rest: Any) -> dict[str, Any]:
    told = sorted(set(problems.split()))
    responses = good | {status: ref("responses", _name(status)) for status in told}
    return {"operationId": name, "summary": summary, **rest, "responses": responses}


def _json(description: str, schema: str, headers: Schema | None = None) -> Schema:
    content = {JSON: {"schema": ref("schemas", schema)}}
    return {
        "description": description,
        "headers": _INSTANCE_HEADER | (headers or {}),
        "content": content,
    }


def _query(name: str, description: str, schema: Schema, *, repeatable: bool = False) -> Schema:
    if repeatable:
        schema = {"type": "array", "items": schema}
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _header(name: str, description: str, **rest: Any) -> Schema:
    schema = {"type": "string", **rest}
    return {"name": name, "in": "header", "description": description, "schema": schema}


_IF_NONE_MATCH = _header(
    "If-None-Match", "The ETag of a list that the caller has: 304 if it is it."
)
_NOT_MODIFIED = {"description": "The caller has this list already.", "headers": _LIST_HEADERS}

_LIST_POOLS = _operation(
    "The pools that exist now",
    "listPools",
    {"200": _json("The list.", "PoolList", _LIST_HEADERS), "304": _NOT_MODIFIED},
    f"400 422 500 {ACCESS}",
    security=_OPTIONAL,
    description="Values of one filter are alternatives, filters combine with *and*; comparison is "
    f"exact; at most {MAX_VALUES} different values a filter. A "
    "complete list replaces what the caller had from the same instance, see "
    f"`{INSTANCE}`; what another one told less than `bound_secs` ago, or `slices_bound_secs` where "
    "that is there and longer, may be missing from it, so keep that until a complete list comes "
    "later. One that is not complete is merged. An unknown "
    "query parameter is 400.",
    parameters=[
        *(
            _query(name, f"Only pools of this {what}.", {"type": "string"}, repeatable=True)
            for name, what in (
                ("model", "model"),
                ("region", "region"),
                ("cluster_id", "cluster"),
                ("namespace", "namespace"),
            )
        ),
        _IF_NONE_MATCH,
    ],
)

_REGISTER_POOL = _operation(
    "Register a pool, and renew its lease",
    "registerPool",
    {"200": _json("The lease.", "Lease")},
    f"400 408 409 413 415 422 429 500 503 {ACCESS}",
    security=_OPTIONAL,
    description="The first call registers; each further one is the heartbeat, renews the lease "
    "and replaces the content. Shares of one pool are told apart by `relay_id`, else by `relays`, "
    "else by the caller's address, which is also recorded when no relays are given.",
    requestBody={
        "required": True,
        "content": {JSON: {"schema": ref("schemas", "Registration")}},
    },
)

_WITHDRAW_POOL = _operation(
    "Withdraw a share of a pool",
    "withdrawPool",
    {"204": {"description": "At least one share ended.", "headers": _INSTANCE_HEADER}},
    f"400 404 422 500 503 {ACCESS}",
    security=_OPTIONAL,
    description="For a planned shutdown. The share is named by `If-Match`, else `relay_id`, else "
    "`relay`, else the caller's address. A lease id that is not the current one ends nothing.",
    parameters=[
        *(
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": key_part("Percent-encoded once."),
            }
            for name in ("cluster_id", "namespace", "dgd_name")
        ),
        _header(
            "If-Match",
            "Lease ids, quoted or bare; `*` counts as not given.",
            pattern=r'^("[!#-~]{1,64}"|[!#-+.-~-]{1,64})(, ("[!#-~]{1,64}"|[!#-+.-~-]{1,64}))*$',
        ),
        _query(
            "relay_id",
            "The relay_id of the registration.",
            {
                "type": "string",
                "minLength": 1,
                "maxLength": rules.MAX_RELAY_ID_BYTES,
                "pattern": "^[ -~]+$",
            },
        ),
        _query(
            "relay",
            "The relays of the registration.",
            {"type": "string", "minLength": 1, "pattern": "^ip:"},
            repeatable=True,
        ),
        _query("all", "Ends every share of the pool.", {"type": "string", "enum": ["true"]}),
    ],
)

_LIST_ROUTERS = _operation(
    "The Global Routers",
    "listRouters",
    {"200": _json("The list.", "RouterList", _LIST_HEADERS), "304": _NOT_MODIFIED},
    f"400 500 {ACCESS}",
    security=_OPTIONAL,
    parameters=[_IF_NONE_MATCH],
)

_METRICS = {
    "description": "Prometheus text, or OpenMetrics when `Accept` names it.",
    "content": {
        media_type: {"schema": {"type": "string"}}
        for media_type in ("text/plain", "application/openmetrics-text")
    },
}

_PATHS: Schema = {
    "/pools": {"get": _LIST_POOLS, "post": _REGISTER_POOL},
    KEY_PATH: {"delete": _WITHDRAW_POOL},
    "/routers": {"get": _LIST_ROUTERS},
    "/healthz": {
        "get": _operation(
            "How good the list is",
            "healthz",
            {"200": _json("The store and the sources were read.", "Health")},
            "500 503",
        )
    },
    "/readyz": {
        "get": _operation(
            "Whether registrations can be sent here",
            "readyz",
            {"200": _json("They can. Follows no store that fails later.", "Status")},
            "500 503",
        )
    },
    "/livez": {
        "get": _operation(
            "Whether the process works at all",
            "livez",
            {"200": _json("It does.", "Status")},
            "500 503",
        )
    },
    "/metrics": {"get": _operation("Figures", "metrics", {"200": _METRICS}, "500")},
    "/openapi.json": {
        "get": _operation(
            "This document",
            "openapi",
            {
                "200": {
                    "description": "OpenAPI 3.1.",
                    "content": {JSON: {"schema": {"type": "object"}}},
                }
            },
            "500",
        )
    },
    **PAGE_PATHS,
}
