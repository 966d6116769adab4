"""How a command ends: its exit status, and what a signal or a closed pipe does to it.

0 it did what was asked; 1 it failed, with a sentence on standard error; 2 it was
called wrongly; 130 Ctrl-C and 143 SIGTERM ended it; 141 nobody reads its output
any more, about which nothing is said.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

DONE, FAILED, MISUSED = 0, 1, 2
INTERRUPTED, NOT_READ, TERMINATED = (
    128 + number for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)
)


class Failed(Exception):
    """A sentence about why a command failed, fit for a terminal."""


def run_until_stopped(work: Coroutine[Any, Any, None]) -> int:
    """Runs work in an event loop of its own; SIGTERM ends it in order, as Ctrl-C does."""
    return asyncio.run(_until_sigterm(work))


async def _until_sigterm(work: Coroutine[Any, Any, None]) -> int:
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return TERMINATED
    return DONE


def stop_writing() -> None:
    """After a closed pipe: what is still buffered goes nowhere, without an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
