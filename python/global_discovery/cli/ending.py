"""How a command ends: its exit status, and what a signal or its output does to it.

0 it did what was asked; 1 it failed, with a sentence on standard error; 2 it was
called wrongly; 130 Ctrl-C and 143 SIGTERM ended it; 141 nobody reads its output
any more, about which nothing is said. Output that cannot be written for another
reason, as on a full disk, is a failure like any other.
"""

import asyncio
import contextlib
import os
import signal
import stat
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, TextIO

DONE, FAILED, MISUSED = 0, 1, 2
INTERRUPTED, NOT_READ, TERMINATED = (
    128 + number for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)
)


class Failed(Exception):
    """A sentence about why a command failed, fit for a terminal."""


def write(text: str) -> None:
    """Writes to standard output, now. Raises BrokenPipeError, and Failed as `writing`."""
    with writing():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """For what writes to standard output, and does nothing else that may fail.

    Raises Failed where it cannot be written; what comes later then goes nowhere.
    BrokenPipeError stays what it is.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        stop_writing(sys.stdout)
        raise Failed(f"standard output cannot be written: {error.strerror or error}") from None


def complain(sentence: str) -> None:
    """Says on standard error what is wrong, where that can be written to."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"global-discovery: {sentence}\n")
    except OSError:  # the exit status is all that is left to say it with
        stop_writing(sys.stderr)


def run_until_stopped(work: Coroutine[Any, Any, None]) -> int:
    """Runs work in an event loop of its own, until a reader or a signal ends it.

    SIGTERM ends it in order, as Ctrl-C does. When standard output is a pipe, it
    ends as soon as nobody reads that any more, not only with the next line.
    """
    return asyncio.run(_until_stopped(work))


async def _until_stopped(work: Coroutine[Any, Any, None]) -> int:
    task = asyncio.ensure_future(work)
    ended_by: list[int] = []

    def end(status: int) -> None:
        ended_by.append(status)
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end, TERMINATED)
    # asyncio would raise at the second Ctrl-C, in whatever is being done then.
    loop.add_signal_handler(signal.SIGINT, end, INTERRUPTED)
    output = sys.stdout.fileno()
    piped = stat.S_ISFIFO(os.fstat(output).st_mode)
    if piped:
        # The writing end of a pipe has nothing to read but the error of its other end.
        loop.add_reader(output, end, NOT_READ)
    try:
        await task
    except asyncio.CancelledError:
        if not ended_by:
            raise
        if ended_by[0] == NOT_READ:
            stop_writing(sys.stdout)
        return ended_by[0]
    finally:
        if piped:
            loop.remove_reader(output)
    return DONE


def closed_output() -> TextIO:
    """For a process that was started without a standard output: no write to it succeeds."""
    return os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")


def stop_writing(stream: TextIO) -> None:
    """After an error of it: what is still buffered goes nowhere, without an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
