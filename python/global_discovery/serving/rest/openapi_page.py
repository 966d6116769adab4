"""What the OpenAPI document says of the paths that are for people."""

from typing import Any

from global_discovery.serving.rest.answer import INSTANCE
from global_discovery.serving.rest.openapi_schemas import Schema, ref

_FOR_PEOPLE = (
    " For people: its content is no interface. A caller whose `Accept` names `text/html` gets "
    "errors as pages, too."
)


def _answer(description: str, media_type: str) -> Schema:
    return {
        "description": description,
        "headers": {INSTANCE: ref("headers", INSTANCE)},
        "content": {media_type: {"schema": {"type": "string"}}},
    }


def _get(summary: str, name: str, responses: Schema, problems: str, **rest: Any) -> Schema:
    told = {status: ref("responses", f"Problem{status}") for status in problems.split()}
    operation = {"operationId": name, "summary": summary, **rest, "responses": responses | told}
    return {"get": operation}


def _query(name: str, description: str, **schema: Any) -> Schema:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": "string"} | schema,
    }


def _repeatable(name: str, what: str) -> Schema:
    text = {"type": "string"}
    return _query(name, f"Only pools of this {what}.", type="array", items=text)


_SAME: Schema = {"304": {"description": "The caller has it already."}}
_ACCEPT_HTML = "text/html"

PAGE_PATHS: Schema = {
    "/": _get(
        "The status page",
        "statusPage",
        {"200": _answer("The page.", _ACCEPT_HTML)} | _SAME,
        "400 401 403 422 429 500 503",
        description="The mark, what needs attention, the pools, the last changes, watchers and "
        "sources." + _FOR_PEOPLE,
        parameters=[
            _repeatable("model", "model"),
            _repeatable("region", "region"),
            _repeatable("cluster_id", "cluster"),
            _repeatable("namespace", "namespace"),
            _query("q", "Only pools with this in key, model or region.", maxLength=256),
            _query(
                "group",
                "By what the pools stand together.",
                enum=["model", "region", "cluster", "none"],
            ),
            _query(
                "page",
                "Which hundred of them; the last one when there are fewer.",
                type="integer",
                minimum=1,
                maximum=1_000_000,
            ),
        ],
    ),
    "/why": _get(
        "Why a pool is listed or not",
        "whyPage",
        {"200": _answer("The page.", _ACCEPT_HTML)} | _SAME,
        "400 401 403 429 500 503",
        description="What the rpc `ExplainPool` answers." + _FOR_PEOPLE,
        parameters=[_query("pool", "`<cluster_id>/<namespace>/<dgd_name>`; without it a form.")],
    ),
    "/events": _get(
        "That there is something new, as it happens",
        "events",
        {"200": _answer("Server-sent events, without an end.", "text/event-stream")},
        "400 401 403 429 500 503",
        description="`mark`, `pools` (with the position as id) and `summary`, for the status page. "
        "Programs should watch over gRPC instead.",
        parameters=[
            {
                "name": "Last-Event-ID",
                "in": "header",
                "description": "The id of the last event that the caller had.",
                "schema": {"type": "string"},
            }
        ],
    ),
    **{
        path: _get(
            "A file of the status page",
            name,
            {"200": _answer("The file.", media_type)} | _SAME,
            "500",
        )
        for path, name, media_type in (
            ("/page/style.css", "style", "text/css"),
            ("/page/page.js", "script", "text/javascript"),
            ("/page/icon.svg", "icon", "image/svg+xml"),
        )
    },
}
"""By path."""
