"""Where the program begins: a signal to stop is held back until its command can take it.

What the commands need takes a good part of a second to load, in which the system's
own reaction to SIGTERM would end the process by the signal, or, were it process 1 of
a container, lose it. The commands that run until a signal therefore begin with both
signals blocked; `StopSignals` takes them, and what has come meanwhile.
"""

import signal
import sys

_UNTIL_A_SIGNAL = {"serve", "relay", "register"}


def main() -> int:
    """Runs the command of the command line; the exit status."""
    if _UNTIL_A_SIGNAL.intersection(sys.argv[1:2]):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    from global_discovery.cli import main as program  # noqa: PLC0415 - see the module's docstring

    return program.main()
