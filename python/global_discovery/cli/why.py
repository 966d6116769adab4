"""`global-discovery why`: why a pool is listed or not, and what to do about it.

Exit status 0 when the pool is listed and 1 when it is not. A server that gives
no answer is 1 too, with a sentence on standard error and nothing on standard
output.
"""

import argparse
from typing import Any

import grpc

from global_discovery.cli.arguments import add_server, pool_key, servers_of, shown, tls_of
from global_discovery.cli.ending import DONE, FAILED, Failed, run_until_stopped, write
from global_discovery.cli.events import json_text
from global_discovery.cli.explanation import document, lines
from global_discovery.client import CallFailed, TlsSettings
from global_discovery.client.fold import PoolKey
from global_discovery.client.lists import explain_pool
from global_discovery.domain.errors import InvalidInput
from global_discovery.domain.rules import check_key
from global_discovery.v1 import pool_pb2


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Adds the command to those of the program."""
    parser = subparsers.add_parser(
        "why",
        help="why a pool is listed or not",
        description="Says why a pool is listed or not, what each side knows of it, and what to "
        "do about it. The exit status is 0 when it is listed and 1 when it is not.",
    )
    parser.add_argument(
        "pool",
        metavar="CLUSTER/NAMESPACE/NAME",
        type=_checked_key,
        help="the pool's cluster id, namespace and deployment name",
    )
    add_server(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="text for people, json for programs [default: text]",
    )


def run(args: argparse.Namespace) -> int:
    """The exit status. Raises Failed, and CallFailed for what the server said."""
    told: list[bool] = []
    servers, tls = servers_of(args), tls_of(args)
    work = _explain(servers, tls, args.pool, told, as_json=args.output == "json")
    return run_until_stopped(work) or (DONE if told == [True] else FAILED)


async def _explain(
    servers: list[str], tls: TlsSettings | None, key: PoolKey, told: list[bool], *, as_json: bool
) -> None:
    """Prints the answer, and puts into `told` whether the pool is listed."""
    try:
        server, explanation = await explain_pool(
            servers, pool_pb2.PoolKey(**key._asdict()), tls=tls
        )
    except CallFailed as error:
        if error.code is not grpc.StatusCode.UNIMPLEMENTED:
            raise
        raise Failed(
            f"{error.server} is of a release that cannot explain pools: ask a newer one, or look "
            "for the pool's key in its log"
        ) from error
    text = json_text(document(explanation)) if as_json else "\n".join(lines(explanation, server))
    write(f"{text}\n")
    told.append(explanation.HasField("pool"))


def _checked_key(text: str) -> PoolKey:
    key = pool_key(text)
    try:
        check_key(*key)
    except InvalidInput as bad:
        raise argparse.ArgumentTypeError(f"{shown(text)}: {bad}") from None
    return key
