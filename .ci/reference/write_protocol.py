"""Writes docs/reference/protocol.md from the comments of protos/.

Every word of that page but its headings stands in the `.proto` files; what is
missing or wrong there is mended here by nobody. Call it with the page's path.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

ROOT = Path(__file__).resolve().parents[2]
FILES = [f"global_discovery/v1/{name}.proto" for name in ("pool_discovery", "pool", "explanation")]
PACKAGE = ".global_discovery.v1."
HEAD = """\
# Protocol reference

Package `global_discovery.v1`. This page is written by `make generate` from the comments in
[protos/](../../protos/global_discovery/v1); do not edit it. The short way in is
[protocol.md](../protocol.md), the HTTP form is in [http.md](http.md).
"""
# The numbers of descriptor.proto: where in a file a comment belongs.
SYNTAX, MESSAGE, ENUM, SERVICE = 12, 4, 5, 6
FIELD = VALUE = METHOD = 2
Kind = FieldDescriptorProto.Type


class Comments:
    """The comments of one file, by the path of what they stand above."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._leading = {
            tuple(location.path): location.leading_comments
            for location in file.source_code_info.location
        }
        self.file = next(
            location.leading_detached_comments[0]
            for location in file.source_code_info.location
            if tuple(location.path) == (SYNTAX,)
        )

    def of(self, *path: int) -> str:
        """As it stands, with the blank that follows each `//` taken off."""
        return plain(self._leading[path])


class Page(NamedTuple):
    """What turns names into links."""

    names: re.Pattern[str]

    def prose(self, text: str, *, level: int) -> str:
        """Markdown of a comment, its headings moved down to `level`."""
        text = re.sub(r"^#+", "#" * level, text, flags=re.MULTILINE)
        parts = re.split(r"(`[^`]*`|^\|.*\|$)", text, flags=re.MULTILINE)
        return "".join(
            part if part[:1] in ("`", "|") else self.names.sub(link, part) for part in parts
        )

    def cell(self, text: str) -> str:
        """The same within a table."""
        paragraphs = re.split(r"\n\s*\n", self.prose(text, level=4).replace("|", r"\|"))
        return "<br><br>".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def plain(comment: str) -> str:
    return "\n".join(line.removeprefix(" ") for line in comment.rstrip().split("\n"))


def link(found: re.Match[str]) -> str:
    return f"[{found[0]}](#{found[0].lower()})"


def files() -> dict[str, FileDescriptorProto]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        subprocess.run(  # noqa: S603  # our own files, by the compiler of the stubs
            [
                *(sys.executable, "-m", "grpc_tools.protoc", "-Iprotos"),
                *("--include_source_info", f"--descriptor_set_out={out}", *FILES),
            ],
            cwd=ROOT,
            check=True,
        )
        return {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}


def type_of(field: FieldDescriptorProto) -> str:
    if field.type_name.startswith(PACKAGE):
        name = field.type_name.removeprefix(PACKAGE)
        told = f"[{name}](#{name.lower()})"
    elif field.type_name:
        told = f"`{field.type_name.removeprefix('.')}`"
    else:
        told = f"`{Kind.Name(field.type).removeprefix('TYPE_').lower()}`"
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {told}"
    return f"optional {told}" if field.proto3_optional else told


def of_service(
    page: Page, service: ServiceDescriptorProto, comments: Comments, at: int
) -> Iterator[str]:
    yield f"## {service.name}"
    yield page.prose(comments.of(SERVICE, at), level=3)
    for number, method in enumerate(service.method):
        given, answered = (
            name.removeprefix(PACKAGE) for name in (method.input_type, method.output_type)
        )
        stream = "stream of " if method.server_streaming else ""
        yield f"### {method.name}"
        yield f"{link_to(given)} → {stream}{link_to(answered)}"
        yield page.prose(comments.of(SERVICE, at, METHOD, number), level=4)


def link_to(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def of_message(page: Page, message: DescriptorProto, comments: Comments, at: int) -> Iterator[str]:
    yield f"### {message.name}"
    yield page.prose(comments.of(MESSAGE, at), level=4)
    if not message.field:
        return
    rows = ["| field | | type | |", "|---|--:|---|---|"]
    for number, field in enumerate(message.field):
        text = page.cell(comments.of(MESSAGE, at, FIELD, number))
        if field.HasField("oneof_index") and not field.proto3_optional:
            text = f"One of `{message.oneof_decl[field.oneof_index].name}`. {text}"
        rows.append(f"| `{field.name}` | {field.number} | {type_of(field)} | {text} |")
    yield "\n".join(rows)


def of_enum(page: Page, enum: EnumDescriptorProto, comments: Comments, at: int) -> Iterator[str]:
    yield f"### {enum.name}"
    yield page.prose(comments.of(ENUM, at), level=4)
    rows = ["| value | | |", "|---|--:|---|"]
    for number, value in enumerate(enum.value):
        text = page.cell(comments.of(ENUM, at, VALUE, number))
        rows.append(f"| `{value.name}` | {value.number} | {text} |")
    yield "\n".join(rows)


def parts(page: Page, file: FileDescriptorProto) -> Iterator[str]:
    comments = Comments(file)
    yield f"## {Path(file.name).name}"
    yield page.prose(plain(comments.file), level=3)
    for at, service in enumerate(file.service):
        yield from of_service(page, service, comments, at)
    for at, message in enumerate(file.message_type):
        yield from of_message(page, message, comments, at)
    for at, enum in enumerate(file.enum_type):
        yield from of_enum(page, enum, comments, at)


def main(out: Path) -> None:
    described = files()
    names = {each.name for file in described.values() for each in file.message_type}
    for file in described.values():
        names |= {each.name for each in file.enum_type}
        names |= {method.name for service in file.service for method in service.method}
    # A name of one word, such as Pool, is also a word.
    telling = sorted(name for name in names if re.fullmatch(r"([A-Z]+[a-z]+){2,}", name))
    page = Page(re.compile(rf"\b(?:{'|'.join(telling)})\b"))
    text = [HEAD.rstrip(), *(part for name in FILES for part in parts(page, described[name]))]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join(text) + "\n")


main(Path(sys.argv[1]))
