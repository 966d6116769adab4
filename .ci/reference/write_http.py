"""Writes docs/reference/http.md from the OpenAPI document that the service serves.

Every word of that page but its headings stands in that document. Call it with
the page's path.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from global_discovery.serving.rest.openapi import document

Schema = dict[str, Any]

HEAD = """\
# HTTP reference

This page is written by `make generate` from the document that the service answers to
`GET /openapi.json` (OpenAPI 3.1); do not edit it. How the calls are used, with examples:
[http.md](../http.md). The same service over gRPC: [protocol.md](protocol.md)."""
OF_EVERY_ANSWER = "X-Global-Discovery-Instance"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def target(schema: Schema) -> str | None:
    """The name of the schema that this one refers to."""
    reference: str | None = schema.get("$ref")
    return reference.rpartition("/")[2] if reference else None


def type_of(schema: Schema) -> str:
    if name := target(schema):
        return f"[{name}](#{name.lower()})"
    kinds = schema.get("type", "any")
    told = [kinds] if isinstance(kinds, str) else list(kinds)
    if "items" in schema:
        told[0] = f"array of {type_of(schema['items'])}"
    return " or ".join(told)


def bounds(schema: Schema) -> str:
    """What a value has to keep to, as far as that can be said in a few words."""
    items = schema.get("items", {})
    of_items = bounds(items) if items else ""
    found = [
        between(schema.get("minimum"), schema.get("maximum"), ""),
        between(schema.get("minLength"), schema.get("maxLength"), " characters"),
        one_of("", schema.get("enum", ())),
        one_of("such as ", items.get("examples", ())),
        f"each {of_items}" if of_items else "",
    ]
    return "; ".join(filter(None, found))


def between(least: int | None, most: int | None, unit: str) -> str:
    if most is None:
        return "" if least is None else f"at least {least}{unit}"
    return f"at most {most}{unit}" if least is None else f"{least} to {most}{unit}"


def one_of(words: str, values: Iterable[str]) -> str:
    told = ", ".join(f"`{each}`" for each in values)
    return f"{words}{told}" if told else ""


def properties(schema: Schema, within: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Name, schema and whether it is required, of each property, and those of objects in it."""
    for name, each in schema.get("properties", {}).items():
        yield f"{within}{name}", each, name in schema.get("required", ())
        yield from properties(each, f"{within}{name}.")
        yield from properties(each.get("items", {}), f"{within}{name}[].")


def of_schema(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}"
    if "description" in schema:
        yield schema["description"]
    rows = ["| field | type | required | keeps to | |", "|---|---|---|---|---|"]
    for field, each, required in properties(schema):
        rows.append(
            f"| `{field}` | {type_of(each)} | {'yes' if required else ''} | {cell(bounds(each))} "
            f"| {cell(each.get('description', ''))} |"
        )
    yield "\n".join(rows)


def of_parameters(parameters: list[Schema]) -> Iterator[str]:
    rows = ["| parameter | in | keeps to | |", "|---|---|---|---|"]
    for each in parameters:
        schema = each["schema"]
        repeatable = "repeatable" if "items" in schema else ""
        limits = "; ".join(filter(None, (bounds(schema.get("items", schema)), repeatable)))
        text = each.get("description", schema.get("description", ""))
        rows.append(f"| `{each['name']}` | {each['in']} | {cell(limits)} | {cell(text)} |")
    yield "\n".join(rows)


def of_responses(operation: Schema, responses: Schema) -> Iterator[str]:
    rows = ["| status | body | headers | |", "|---|---|---|---|"]
    for status, each in sorted(operation["responses"].items()):
        name = target(each)
        answer = responses[name] if name else each
        bodies = [
            f"{type_of(content['schema'])} as `{media_type}`"
            for media_type, content in answer.get("content", {}).items()
        ]
        names = [name for name in answer.get("headers", {}) if name != OF_EVERY_ANSWER]
        headers = ", ".join(f"`{name}`" for name in names)
        text = cell(answer["description"])
        rows.append(f"| {status} | {', '.join(bodies)} | {headers} | {text} |")
    yield "\n".join(rows)


def of_operation(path: str, method: str, operation: Schema, responses: Schema) -> Iterator[str]:
    yield f"### {method.upper()} {path}"
    yield f"{operation['summary']}."
    if "description" in operation:
        yield operation["description"]
    if "parameters" in operation:
        yield from of_parameters(operation["parameters"])
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"The body: {type_of(content['schema'])} as `{media_type}`."
    yield from of_responses(operation, responses)


def parts() -> Iterator[str]:
    described = document()
    components = described["components"]
    yield HEAD
    yield described["info"]["description"]
    yield "## Calls"
    for path, item in described["paths"].items():
        for method, operation in item.items():
            yield from of_operation(path, method, operation, components["responses"])
    yield "## Bodies"
    for name, schema in components["schemas"].items():
        yield from of_schema(name, schema)
    yield "## Headers of answers"
    yield f"`{OF_EVERY_ANSWER}` is in every answer; the others are named with each call."
    rows = ["| header | |", "|---|---|"]
    for name, header in components["headers"].items():
        rows.append(f"| `{name}` | {cell(header['description'])} |")
    yield "\n".join(rows)


def main(out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join(parts()) + "\n")


main(Path(sys.argv[1]))
