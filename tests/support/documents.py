"""The code blocks of a Markdown document, and what its comments say about running them.

A block is fenced and names its language. Commands are `sh` (commands alone) or
`console` (each behind `$ `, followed by what it prints); these are run unless a
comment right before the block says why they are not, or not with every `make test`:

    <!-- run: needs-cluster -->

Three more comments help a document to be run as it stands: `<!-- save: NAME -->`
writes the block into a file of that name, for the commands after it,
`<!-- exits: 1 -->` says that its commands end so, and `<!-- before: ... -->` holds
commands that a reader of the page is not shown, such as the server that the page
takes for granted; its first line may name a reason too.
"""

import re
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "SECURITY.md", *ROOT.glob("docs/**/*.md")])
COMMANDS = ("sh", "console")
LANGUAGES = {*COMMANDS, "python", "json", "yaml", "hcl", "promql", "text", "toml"}
REASONS = {
    "needs-cluster": "run by the slow tests, against a real API server",
    "needs-kubelet": "not run; the objects that it names must be there after what is run",
    "installs": "run by the slow tests, into an environment of its own",
    "takes-minutes": "not run; what make would start must take its arguments",
}
"""Why commands are not run with the others, and what is done with them instead."""
INSTALL = re.compile(r"pip install ('\.\[[a-z,]+\]'|\.)(?=[\s`]|$)")
"""How a checkout is installed; the slow tests do each of the ways that the documents name."""
_FENCE = re.compile(r"^```(\S*)(.*)$")
_COMMENT = re.compile(r"<!-- (run|save|exits): (\S+) -->")
_BEFORE = re.compile(r"<!-- before:(?: (\S+))?\n(.*?)\n-->", re.DOTALL)


class BadDocument(AssertionError):
    """A document breaks the rules above."""


@dataclass(frozen=True)
class Block:
    """One code block."""

    line: int
    language: str
    text: str
    reason: str | None = None
    """Why its commands are not run; None: they are."""
    file: str | None = None
    """The name under which it is saved."""
    exits: int = 0
    """The exit status of each of its commands."""

    def runs(self, at_hand: Collection[str] = ()) -> bool:
        """Whether its commands are run where the reasons given are none."""
        return self.language in COMMANDS and (self.reason is None or self.reason in at_hand)


@dataclass(frozen=True)
class Step:
    """One command of a block, and what it is said to print."""

    command: str
    prints: str | None
    exits: int = 0


def blocks_of(text: str) -> Iterator[Block]:
    """All blocks of a document, those that its reader does not see too, in order."""
    lines = _BEFORE.sub(_as_hidden_block, text).split("\n")
    said: dict[str, str] = {}
    fence: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(lines, 1):
        if fence is not None:
            if line == "```":
                yield _block(*fence, said)
                fence, said = None, {}
            else:
                fence[2].append(line)
        elif found := _FENCE.match(line):
            fence = (number, found[1], [])
        elif comment := _COMMENT.fullmatch(line.strip()):
            said[comment[1]] = comment[2]
        elif line.strip() and said:
            raise BadDocument(f"line {number}: the comment before it belongs to no block")
    if fence is not None:
        raise BadDocument(f"line {fence[0]}: the block does not end")


def block_with(document: Path, beginning: str) -> str:
    """The text of the one block that begins so."""
    texts = [block.text for block in blocks_of(document.read_text())]
    (text,) = [text for text in texts if text.startswith(beginning)]
    return text


def _as_hidden_block(found: re.Match[str]) -> str:
    reason = f"<!-- run: {found[1]} -->\n" if found[1] else ""
    return f"{reason}```sh\n{found[2]}\n```"


def _block(line: int, language: str, text: list[str], said: dict[str, str]) -> Block:
    if language not in LANGUAGES:
        raise BadDocument(f"line {line}: {language!r} is none of {sorted(LANGUAGES)}")
    exits = int(said.get("exits", "0"))
    block = Block(line, language, "\n".join(text), file=said.get("save"), exits=exits)
    reason = said.get("run")
    if reason is None:
        return block
    if reason not in REASONS or language not in COMMANDS:
        raise BadDocument(f"line {line}: run: {reason} is none of {sorted(REASONS)}")
    return replace(block, reason=reason)


def steps_of(block: Block) -> Iterator[Step]:
    """Its commands, each whole: quotes, here-documents and `\\` continue one over lines."""
    lines = block.text.split("\n")
    while lines:
        if not lines[0].strip() or lines[0].startswith("#"):
            lines.pop(0)
            continue
        if block.language == "sh":
            yield Step(_take_command(lines), None, block.exits)
            continue
        if not lines[0].startswith("$ "):
            raise BadDocument(f"block at line {block.line}: {lines[0]!r} stands before a command")
        lines[0] = lines[0].removeprefix("$ ")
        command = _take_command(lines)
        prints = []
        while lines and not lines[0].startswith("$ "):
            prints.append(lines.pop(0))
        yield Step(command, "\n".join(prints), block.exits)


def _take_command(lines: list[str]) -> str:
    taken = [lines.pop(0)]
    while not _is_whole("\n".join(taken)):
        if not lines:
            raise BadDocument(f"a command does not end: {taken[0]!r}")
        taken.append(lines.pop(0))
    return "\n".join(taken)


def _is_whole(command: str) -> bool:
    """Whether bash needs no further line."""
    if command.endswith("\\"):
        return False
    read = subprocess.run(
        ["bash", "-n"], input=command, capture_output=True, text=True, check=False
    )
    return read.returncode == 0 and not read.stderr
