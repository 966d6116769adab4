"""Many connections at once wait at the door, and are let in by a few a turn."""

import asyncio
import contextlib
import itertools
import socket

from global_discovery.serving.rest.server import ACCEPTED_A_TURN
from support.rest import a_rest_face

MANY = 300


async def test_many_at_once_are_let_in_by_a_few_a_turn_and_none_is_lost() -> None:
    async with a_rest_face() as rest:
        with contextlib.ExitStack() as opened:
            for _ in range(MANY):  # without a turn of the loop in between
                address = ("127.0.0.1", rest.face.port)
                opened.enter_context(socket.create_connection(address, timeout=5))
            seen = [0]
            while seen[-1] < MANY:
                await asyncio.sleep(0)
                seen.append(len(rest.connections))
            steps = [after - before for before, after in itertools.pairwise(seen)]
            assert max(steps) <= ACCEPTED_A_TURN + 1  # some releases of Python take one more
