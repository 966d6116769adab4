"""`global-discovery dynamodb create-table`: makes the table that `serve` keeps registrations in.

It can be repeated: a table that is there and right is left alone, one whose TTL
is off gets it, and one with other keys is refused.
"""

import argparse
import asyncio
import dataclasses
import os
from typing import Any

from global_discovery.cli.arguments import Misused
from global_discovery.cli.ending import DONE, Failed, write
from global_discovery.cli.extras import needs
from global_discovery.cli.flags import FlagTable, Heading, Refused, Values
from global_discovery.cli.serve_flags.stores import (
    DYNAMODB_ENDPOINT_URL,
    DYNAMODB_REGION,
    DYNAMODB_TABLE,
)
from global_discovery.domain.clock import SystemClock

_HEADING = Heading("which table")
TABLE, REGION, ENDPOINT_URL = (
    dataclasses.replace(flag, heading=_HEADING)
    for flag in (DYNAMODB_TABLE, DYNAMODB_REGION, DYNAMODB_ENDPOINT_URL)
)
FLAGS = FlagTable([TABLE, REGION, ENDPOINT_URL])
CALL_SECONDS = 10.0


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Adds the command to those of the program."""
    parser = subparsers.add_parser(
        "dynamodb",
        help="make the table of the DynamoDB store",
        description="What the DynamoDB store needs before `serve` can use it.",
    )
    commands = parser.add_subparsers(dest="dynamodb_command", metavar="COMMAND", required=True)
    create = commands.add_parser(
        "create-table",
        help="make the table, or see that it is right",
        description="Makes the table (keys pk and sk, on-demand, TTL on expires_at), or sees that "
        "it is so. AWS credentials are found as every AWS tool finds them. Can be repeated.",
    )
    FLAGS.add_to(create)


def run(args: argparse.Namespace) -> int:
    """Makes the table; the exit status. Raises Misused and Failed."""
    try:
        values = FLAGS.read(args, os.environ)
    except Refused as refusal:
        raise Misused(f"{refusal}") from None
    if not values.is_set(TABLE):
        raise Misused(f"{TABLE.name} must be set")
    try:
        made = asyncio.run(_create(values))
    except OSError as problem:
        raise Failed(f"{problem}") from None
    write(f"{values[TABLE]} {'is made' if made else 'was there, and is right'}\n")
    return DONE


async def _create(values: Values) -> bool:
    with needs("dynamodb"):
        from global_discovery.storage.dynamodb.http_api import (  # noqa: PLC0415 - an extra
            connect,
        )
        from global_discovery.storage.dynamodb.table import (  # noqa: PLC0415 - an extra
            create_table,
        )
    api = await connect(
        clock=SystemClock(),
        region=values.get(REGION) or "",
        endpoint_url=values.get(ENDPOINT_URL) or "",
        call_seconds=CALL_SECONDS,
    )
    try:
        return await create_table(api, values[TABLE], asyncio.sleep)
    finally:
        await api.close()
