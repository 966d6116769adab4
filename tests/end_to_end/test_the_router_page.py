"""The program of docs/router.md, as it stands there."""

import asyncio
import re
import signal
import sys
from pathlib import Path

from support.client_process import Running, running
from support.serve_process import LOOPBACK, clean_environment, started

PAGE = Path(__file__).resolve().parents[2] / "docs/router.md"
POOL = ["--pool", "c1/ns/qwen", "--model", "Qwen", "--region", "eu", "--frontend", "http://f:1"]


async def follow(folder: Path, server: str) -> Running:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "follow.py", server),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(),
    )
    return Running(process)


async def end(program: Running) -> None:
    program.process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        await program.process.communicate()


async def test_the_program_of_the_page_prints_what_it_says_it_prints(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "follow.py").write_text(program)
    async with started(*LOOPBACK) as service:
        server = f"127.0.0.1:{(await service.ready())['grpc_port']}"
        async with running("register", *POOL, "--server", server):
            following = await follow(tmp_path, server)
            await following.line_with("  Qwen: c1/ns/qwen (listed) http://f:1")
            await end(following)
    # Nobody answers now: it begins with the view that it saved.
    following = await follow(tmp_path, server)
    await following.line_with("  Qwen: c1/ns/qwen (carried for ")
    await end(following)
