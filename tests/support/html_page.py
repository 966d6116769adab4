"""Reads a page as a browser would, strictly: a tag that is not closed where it must be fails."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "img", "input", "br"}
_APART = {"td", "th", "dt", "dd", "li", "p", "h1", "h2", "h3"}


@dataclass
class Node:
    """One element."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: "list[Node | str]" = field(default_factory=list)

    @property
    def text(self) -> str:
        """What stands in it, with single spaces."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._texts()
                if child.tag in _APART:
                    yield " "

    def every(self, tag: str = "", where: "Callable[[Node], bool] | None" = None) -> "list[Node]":
        """Those below it, in their order."""
        return [
            node
            for node in self._below()
            if (not tag or node.tag == tag) and (where is None or where(node))
        ]

    def by_class(self, name: str) -> "list[Node]":
        return self.every(where=lambda node: name in node.attributes.get("class", "").split())

    def by_id(self, name: str) -> "Node":
        [found] = self.every(where=lambda node: node.attributes.get("id") == name)
        return found

    def _below(self) -> "Iterator[Node]":
        for child in self.children:
            if isinstance(child, Node):
                yield child
                yield from child._below()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute twice in <{tag}>: {names}"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(node)
        if tag not in _VOID:
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        closed = self._open.pop()
        assert closed.tag == tag, f"<{closed.tag}> closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")


def read_page(body: bytes) -> Node:
    """The document."""
    reader = _Reader()
    reader.feed(body.decode())
    reader.close()
    assert len(reader._open) == 1, f"never closed: {[node.tag for node in reader._open[1:]]}"
    return reader.root
