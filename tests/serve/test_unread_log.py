"""A log that nobody reads, or that is not there, stops nothing."""

import asyncio
import json
import os
import signal

import aiohttp
import psutil

from support.serve_process import COMMAND, LOOPBACK, clean_environment

EVENTS = 3_000
"""Of about 130 bytes each: several times what a pipe takes."""


async def first_events(read: int, wanted: str) -> dict[str, object]:
    """The event that is asked for, from the beginning of a log."""
    with os.fdopen(read, "rb", buffering=0, closefd=False) as pipe:
        text = b""
        while wanted.encode() not in text or not text.endswith(b"\n"):
            text += await asyncio.to_thread(pipe.read, 4096)
    lines = [json.loads(line) for line in text.splitlines()]
    return next(line for line in lines if line["event"] == wanted)


async def test_calls_and_the_end_do_not_wait_for_a_reader_of_the_log() -> None:
    read, write = os.pipe()
    command = [*COMMAND, *LOOPBACK, "--log-format", "json"]
    process = await asyncio.create_subprocess_exec(*command, stderr=write, env=clean_environment())
    os.close(write)
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{(await first_events(read, 'ready'))['rest_port']}/pools"
            for number in range(EVENTS):
                pool = {
                    "cluster_id": "c",
                    "namespace": "n",
                    "dgd_name": f"pool-{number}",
                    "model": "m",
                    "location": {"region": "r"},
                }
                async with session.post(url, json=pool) as answer:
                    assert answer.status == 200
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(read)


async def test_a_process_without_stdout_and_stderr_serves() -> None:
    shell = f"exec {' '.join([*COMMAND, *LOOPBACK])} >&- 2>&-"
    process = await asyncio.create_subprocess_shell(shell, env=clean_environment())
    try:
        async with asyncio.timeout(60):
            # It has no other way to say that it runs than to listen.
            while not await asyncio.to_thread(listens, process.pid):
                assert process.returncode is None, "it ended"
                await asyncio.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def listens(pid: int) -> bool:
    """Whether a process has a listening TCP socket."""
    return any(c.status == psutil.CONN_LISTEN for c in psutil.Process(pid).net_connections("tcp"))
