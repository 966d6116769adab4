"""Keeps out of the log what gRPC would write there about the doings of a caller.

For metadata that is not UTF-8 it logs an error with a stack trace and the value
itself, at each call; it goes on with the value read as Latin-1. A value may be a
token, and what a caller sends is no fault of ours.

For a caller that goes while it is answered it logs an error with a stack trace too,
if the answer fails to be sent before gRPC has heard of the end. The call is over, and
there is nobody left to tell.
"""

import logging

_LOGGER = "grpc._cython.cygrpc"
_ABOUT_CALLERS = ("Invalid encoding on", "ExecuteBatchError raised in core by")


def leave_out_callers_doings() -> None:
    """From now on, for the whole process; once is enough, and more do no harm."""
    logging.getLogger(_LOGGER).addFilter(_is_ours)


def _is_ours(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_ABOUT_CALLERS)
