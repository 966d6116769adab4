"""Keeps out of the log what gRPC would write there about the bytes of a caller.

For metadata that is not UTF-8 it logs an error with a stack trace and the value
itself, at each call; it goes on with the value read as Latin-1. A value may be a
token, and what a caller sends is no fault of ours.
"""

import logging

_LOGGER = "grpc._cython.cygrpc"
_ABOUT_BYTES = "Invalid encoding on"


def leave_out_callers_bytes() -> None:
    """From now on, for the whole process; once is enough, and more do no harm."""
    logging.getLogger(_LOGGER).addFilter(_is_ours)


def _is_ours(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_ABOUT_BYTES)
