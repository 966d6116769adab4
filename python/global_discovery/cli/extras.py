"""What is said where an optional part of the program was not installed.

One sentence for every command: which module is missing, and which extra of the
package brings it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from global_discovery.cli.ending import Failed


class NotInstalled(Failed):
    """Names the module that is missing and the extra that brings it."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """For imports: raises NotInstalled where a module of that extra is not there.

    A missing module of our own is a fault of ours and stays what it is.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        module = (missing.name or "").partition(".")[0]
        if module == __name__.partition(".")[0]:
            raise
        raise NotInstalled(
            f"{module} is not installed; install global-discovery[{extra}]"
        ) from None
