"""Job e: lists and heartbeats over HTTP."""

import json
from collections.abc import Sequence

import content
import http1
import measure
import report
from report import Aim, Row
from sides import Bare, Ours, fresh, in_parallel

POOLS = 1_000
CONNECTIONS = 8


async def rest(bare: Bare, *, quick: bool) -> list[Row]:
    """Job e."""
    async with fresh(Ours) as ours:
        await ours.register_pools(POOLS)
        etag = await _give_bare_the_list(ours, bare)
        found = {}
        for name, requests in _requests(ours, etag).items():
            calls = (200 if name == "list" else 1_000) if quick else 2_000
            found[name] = await _compare(ours, bare, requests, calls, 2 if quick else 7)
    aim = Aim("bare", 0.9)
    return [
        report.row("e", "GET", "1/s", found["list"], "rate", aim=aim),
        report.row("e", "GET, CPU a call", "µs", found["list"], "cpu"),
        report.row("e", "GET with its ETag: 304", "1/s", found["same"], "rate", aim=aim),
        report.row("e", "GET with its ETag, CPU a call", "µs", found["same"], "cpu"),
        report.row("e", "POST of a heartbeat", "1/s", found["heartbeat"], "rate"),
        report.row("e", "POST of a heartbeat, CPU a call", "µs", found["heartbeat"], "cpu"),
    ]


def _requests(ours: Ours, etag: str) -> dict[str, list[bytes]]:
    return {
        "list": [http1.request("GET", "/pools")],
        "same": [http1.request("GET", "/pools", If_None_Match=etag)],
        "heartbeat": [
            http1.request(
                "POST",
                "/pools",
                json.dumps(content.json_registration(index, ours.lease_ids[index])).encode(),
                Content_Type="application/json",
            )
            for index in range(100)
        ],
    }


async def _give_bare_the_list(ours: Ours, bare: Bare) -> str:
    """Has the bare server answer with the very bytes and headers of ours; gives their ETag."""
    reader = await http1.connect(ours.server.ports["http"])
    answer = await reader.ask(http1.request("GET", "/pools"), keep=True)
    reader.close()
    etag = answer.header("ETag")
    writer = await http1.connect(bare.server.ports["http"])
    await writer.ask(
        http1.request(
            "PUT",
            "/pools",
            answer.body,
            X_Answer_ETag=etag,
            X_Answer_Position=answer.header("X-Global-Discovery-Position"),
        )
    )
    writer.close()
    return etag


async def _compare(
    ours: Ours, bare: Bare, requests: Sequence[bytes], calls: int, rounds: int
) -> measure.Rounds:
    sides: dict[str, measure.Measure] = {}
    connections = []
    expected = None
    for side in (ours, bare):
        mine = [await http1.connect(side.server.ports["http"]) for _ in range(CONNECTIONS)]
        connections += mine
        first = await mine[0].ask(requests[0])
        if expected not in {None, (first.status, first.length)}:
            raise RuntimeError("the bare server answers something else")
        expected = first.status, first.length
        sides[side.name] = _round(side, mine, requests, calls)
    found = await measure.alternating(rounds, sides)
    for connection in connections:
        connection.close()
    return found


def _round(
    side: Ours | Bare, connections: list[http1.Connection], requests: Sequence[bytes], calls: int
) -> measure.Measure:
    async def one_round() -> dict[str, float]:
        free = list(connections)

        async def call(number: int) -> None:
            connection = free.pop()
            answer = await connection.ask(requests[number % len(requests)])
            free.append(connection)
            if answer.status not in {200, 304}:
                raise RuntimeError(f"{side.name} answered {answer.status}")

        with measure.Cost(side.server) as cost:
            await in_parallel(calls, call, CONNECTIONS)
        return {"rate": calls / cost.wall, "cpu": cost.cpu / calls * 1e6}

    return one_round
