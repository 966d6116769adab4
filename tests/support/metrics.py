"""Reads one figure of a running service."""

import aiohttp


async def metric(rest_port: int, name: str) -> float:
    """The value of a series, written as the exposition format writes it."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{rest_port}/metrics") as answer,
    ):
        for line in (await answer.text()).splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
    raise KeyError(name)
