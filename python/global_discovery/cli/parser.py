"""argparse as every command uses it: no abbreviations, and refusals of one line.

`add_subparsers` of such a parser makes its commands' parsers of the same class.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from global_discovery.cli.ending import write

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

REFUSED = 2


class Parser(argparse.ArgumentParser):
    """Refuses with one line on stderr that names what is wrong, and exit status 2."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """As argparse, but a flag must be written out."""
        super().__init__(*args, **kwargs)
        self.allow_abbrev = False

    def error(self, message: str) -> NoReturn:
        """Says it without the usage, and without a control character that was typed in."""
        shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in message)
        self.exit(REFUSED, f"{self.prog}: {shown}\n")

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """As argparse, which however keeps quiet about help that could not be written."""
        if file is not None and file is sys.stdout:
            write(message)
        else:
            super()._print_message(message, file)
