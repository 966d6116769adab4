"""Flags as rows of a table, from the command line or from the environment.

A flag is one `Flag` under one `Heading`; the table makes `--help` of them, reads
what was set, and refuses what is wrong with one sentence that names the flag.
Each flag has an environment twin, `GLOBAL_DISCOVERY_` and its name: a set
variable counts as set, and the flag wins over it. Other variables that begin
like that are nobody's business here: Kubernetes injects some of its own.

A flag is set once or falls back to its default; given again on one command line,
the last one counts, unless it is repeatable. The variable of a repeatable flag
has its values on lines of their own or between commas, so that a value with a
comma in it can be given by the flag only.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

PREFIX = "GLOBAL_DISCOVERY_"
_USER_INFO = re.compile(r"//\S*@")
"""As far as it can reach: whoever types a password does not escape it."""
_SEPARATORS = re.compile(r"[,\r\n]")
_SHOWN_CHARACTERS = 100


class Refused(Exception):
    """A sentence for the operator that names the flag."""


@dataclass(frozen=True, slots=True, eq=False)
class Heading:
    """What some flags have in common: the mode or store that uses them."""

    title: str
    selector: "Flag[str] | None" = None
    """The flag that chooses whether they are used; None when they always are."""
    used_with: frozenset[str] = frozenset()
    """The selector's values that use them."""


@dataclass(frozen=True, slots=True, eq=False)
class Flag(Generic[T]):
    """One row of the table."""

    name: str
    metavar: str
    read: Callable[[str], T]
    """Makes the value of its text; raises ValueError with what is wrong with it."""
    help: str
    heading: Heading
    default: str | None = None
    """As one would write it; None when nothing is set."""
    otherwise: str = "unset"
    """What holds without a default, for readers."""
    repeatable: bool = False

    @property
    def variable(self) -> str:
        """The environment twin."""
        return PREFIX + self.name.removeprefix("--").replace("-", "_").upper()

    @property
    def shown_default(self) -> str:
        """The default for readers."""
        return self.otherwise if self.default is None else self.default


class Values:
    """What every flag of a table is set to, by flag."""

    def __init__(self) -> None:
        """Filled by FlagTable.read."""
        self._values: dict[Flag[Any], tuple[Any, ...]] = {}
        self._sources: dict[Flag[Any], str] = {}
        self._texts: dict[Flag[Any], Sequence[str]] = {}

    def put(
        self, flag: Flag[T], values: tuple[T, ...], source: str = "", texts: Sequence[str] = ()
    ) -> None:
        """`source` names where they were set, and by which `texts`; empty for the default."""
        self._values[flag] = values
        if source:
            self._sources[flag], self._texts[flag] = source, texts

    def __getitem__(self, flag: Flag[T]) -> T:
        """The value of a flag that has a default or that must be set."""
        value: T = self._values[flag][-1]
        return value

    def get(self, flag: Flag[T]) -> T | None:
        """The value, or None when it has no default and was not set."""
        values = self._values[flag]
        return values[-1] if values else None

    def all(self, flag: Flag[T]) -> tuple[T, ...]:
        """The values of a repeatable flag, in the order in which they were given."""
        return self._values[flag]

    def is_set(self, flag: Flag[Any]) -> bool:
        """Whether it was set, by flag or variable, to whatever value."""
        return flag in self._sources

    def shown(self) -> dict[str, str]:
        """What was set, by flag, as it was written, for the log.

        No flag holds a secret, a test sees to that; of a URL the user information is left out.
        """
        return {
            flag.name: ", ".join(_without_user(text) for text in texts)
            for flag, texts in self._texts.items()
        }

    def source(self, flag: Flag[Any]) -> str:
        """How a refusal names the flag: with its variable when that set it."""
        return self._sources.get(flag, flag.name)


class FlagTable:
    """All flags of one command."""

    def __init__(self, flags: Sequence[Flag[Any]]) -> None:
        """In the order of `--help`."""
        self.flags = tuple(flags)

    @property
    def headings(self) -> list[Heading]:
        """In the order in which they first occur."""
        return list(dict.fromkeys(flag.heading for flag in self.flags))

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Makes the parser take the flags, as texts, and show them by heading."""
        for heading in self.headings:
            group = parser.add_argument_group(heading.title)
            for flag in self.flags:
                if flag.heading is heading:
                    group.add_argument(
                        flag.name,
                        metavar=flag.metavar,
                        action="append",
                        dest=flag.variable,
                        help=_help(flag).replace("%", "%%"),
                    )

    def read(self, args: argparse.Namespace, environ: Mapping[str, str]) -> Values:
        """Every flag's value. Raises Refused."""
        values = Values()
        for flag in self.flags:
            texts, source = _set_texts(flag, args, environ)
            if texts is not None:
                read = tuple(_read(flag, text, source) for text in texts)
                values.put(flag, read, source, texts)
            elif flag.default is not None:
                values.put(flag, (flag.read(flag.default),))
            else:
                values.put(flag, ())
        for flag in self.flags:
            _refuse_unused(flag, values)
        return values


def _help(flag: Flag[Any]) -> str:
    again = " May be given several times." if flag.repeatable else ""
    return f"{flag.help}{again} [default: {flag.shown_default}; environment: {flag.variable}]"


def _set_texts(
    flag: Flag[Any], args: argparse.Namespace, environ: Mapping[str, str]
) -> tuple[list[str] | None, str]:
    """What it was set to, and where; None when it was not set."""
    given: list[str] | None = getattr(args, flag.variable)
    if given is not None:
        return (given if flag.repeatable else given[-1:]), flag.name
    variable = environ.get(flag.variable)
    if variable is None:
        return None, flag.name
    source = f"{flag.variable} ({flag.name})"
    if not flag.repeatable:
        return [variable], source
    parts = [part.strip() for part in _SEPARATORS.split(variable)]
    return [part for part in parts if part] or [""], source


def _read(flag: Flag[T], text: str, source: str) -> T:
    if not text.strip():
        raise Refused(f"{source} must not be empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(f"{source} {_shown(text)}: is not UTF-8") from None
    try:
        return flag.read(text)
    except ValueError as problem:
        raise Refused(f"{source} {_shown(text)}: {problem}") from None


def _refuse_unused(flag: Flag[Any], values: Values) -> None:
    selector = flag.heading.selector
    if selector is None or not values.is_set(flag):
        return
    if values[selector] not in flag.heading.used_with:
        users = " or ".join(sorted(flag.heading.used_with))
        raise Refused(f"{values.source(flag)} is used with {selector.name} {users} only")


def _without_user(text: str) -> str:
    return _USER_INFO.sub("//...@", text)


def _shown(text: str) -> str:
    """The value on one line, whatever is in it, not too much of it, and without a password."""
    text = _without_user(text)
    more = "..." if len(text) > _SHOWN_CHARACTERS else ""
    return ascii(text[:_SHOWN_CHARACTERS]) + more
