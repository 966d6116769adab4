"""Runs the commands of a document as its reader would: in one shell, in their order.

What a reader has and a test has not is put in place of what the document says:
well-known ports and hosts become free ports on loopback, folders of the system
become folders of the test, and the id of a lease that the document shows becomes
the one that was given. A command that serves or watches is left running, once it
has said that it is up, and must end well at the end.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from support.certificates import a_pair, trustme
from support.documents import ROOT, Step, blocks_of, steps_of
from support.dynamodb_server import of_this_process
from support.openai_server import openai_server
from support.serve_process import clean_environment

PATIENCE_SECONDS = 60
PORTS = ("8080", "8081", "8082", "50051", "8000")
MODEL_SERVER = "10.0.0.7:8000"
"""The pool that the documents speak of; where a relay asks it, it is there."""
INSTALLED_FROM = ("requirements.lock", "pyproject.toml")
"""What make sets `.venv` up from. Here it is set up: the tests run in it."""
WELL_ENDED = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)
STAYS = (
    (re.compile(r"\bglobal-discovery serve\b"), re.compile(r'"event": "ready"')),
    (re.compile(r"\bglobal-discovery relay\b"), re.compile(r'"event": "registered"')),
    (re.compile(r"\bglobal-discovery register\b"), re.compile(r"^registered ", re.MULTILINE)),
    (re.compile(r"\bglobal-discovery \w+ .*--watch\b"), re.compile(r"snapshot|listed|mark")),
    (
        re.compile(r"\bmake demo\b"),
        re.compile(r"removed   us-1/llm/llama[^*]*\* the other pool stays"),
    ),
    (re.compile(r"&$"), re.compile(r".")),
)
"""Commands that do not end, and what they print when they are up."""
_PORT = re.compile(rf"(?<![\d.])(?:{'|'.join(PORTS)})(?!\d)")
_LEASE = re.compile(r'"lease_id":"([^"]+)"')
_DIFFERS = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "ID"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms)\b"), "DURATION"),
)


class Running(NamedTuple):
    """A command that was left running."""

    command: str
    pid: int
    output: Path
    listens: str
    """What tells whether another `serve` is on the same ports."""


class DocumentShell:
    """One shell in one folder. Not for use by two at a time."""

    def __init__(self, bash: asyncio.subprocess.Process, folder: Path, places: "Places") -> None:
        self._bash = bash
        self._folder = folder
        self._places = places
        self._running: list[Running] = []
        self._commands = 0

    async def take(self, step: Step) -> None:
        """Runs one command, or leaves it running. Fails as the command fails."""
        command = self._places.put_into(step.command)
        up = next((up for long, up in STAYS if long.search(" ".join(command.split()))), None)
        if up is not None:
            await self._start(command, up)
            return
        status, printed = await self._run(command)
        assert status == step.exits, f"{step.command!r} ended with {status}: {printed}"
        if step.prints:
            self._compare(step, printed)

    def save(self, name: str, text: str) -> None:
        """Writes a file that the document shows."""
        (self._folder / name).write_text(self._places.put_into(text) + "\n")

    async def end(self) -> None:
        """Ends what still runs, the newest first; each must end well."""
        for running in reversed(self._running):
            await self._stop(running)
        self._running.clear()

    async def _run(self, command: str) -> tuple[int, str]:
        output = self._next_output()
        status = await self._ask(f'{{ {command}\n}} >"{output}" 2>&1 </dev/null; echo $?')
        return int(status), output.read_text(errors="replace")

    async def _start(self, command: str, up: re.Pattern[str]) -> None:
        command = command.rstrip(" &")
        listens = self._listens(command)
        for other in [other for other in self._running if other.listens == listens != ""]:
            await self._stop(other)
            self._running.remove(other)
        output = self._next_output()
        left = f'{{ exec {command}\n}} >"{output}" 2>&1 </dev/null & echo $!'
        pid = await self._ask(left)
        running = Running(command, int(pid), output, listens)
        self._running.append(running)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not up.search(output.read_text(errors="replace")):
                    assert await self._lives(running), f"{command!r} ended: {output.read_text()}"
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            late = f"{command!r} does not come up: {output.read_text(errors='replace')}"
            raise AssertionError(late) from error

    def _listens(self, command: str) -> str:
        if "global-discovery serve" not in command:
            return ""
        found = re.search(r"--listen[= ](\S+)", command)
        return found[1] if found else "default"

    async def _lives(self, running: Running) -> bool:
        return await self._ask(f"kill -0 {running.pid} 2>/dev/null; echo $?") == "0"

    async def _stop(self, running: Running) -> None:
        assert await self._lives(running), f"{running.command!r} has ended by itself"
        status = await self._ask(f"kill -TERM {running.pid}; wait {running.pid}; echo $?")
        well = (*WELL_ENDED, 2) if running.command.startswith("make ") else WELL_ENDED
        said = running.output.read_text(errors="replace")
        assert int(status) in well, f"{running.command!r} ended with {status}: {said}"

    def _compare(self, step: Step, printed: str) -> None:
        expected = self._places.put_into(step.prints or "")
        shown, given = _LEASE.search(expected), _LEASE.search(printed)
        if shown and given:
            self._places.learn(shown[1], given[1])
            expected = expected.replace(shown[1], given[1])
        parts = [re.escape(alike(part)) for part in expected.split("...")]
        assert re.fullmatch(".*".join(parts), alike(printed)), (
            f"{step.command!r} is said to print\n{expected}\nand prints\n{printed}"
        )

    def _next_output(self) -> Path:
        self._commands += 1
        output = self._folder / f".output-{self._commands}"
        output.touch()
        return output

    async def _ask(self, script: str) -> str:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{script}\n".encode())
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await self._bash.stdout.readline()
        assert answer, f"the shell has ended in {script!r}"
        return answer.decode().strip()


class Places:
    """What is put in place of what a document says."""

    def __init__(self, folder: Path) -> None:
        self.ports = {port: free_port() for port in PORTS}
        self._texts = {
            "/var/lib/global-discovery": str(folder / "var"),
            "/tls/": f"{folder}/tls/",
            "/var/run/discovery": str(folder / "run"),
            "/etc/clusters": str(folder / "clusters"),
            "<this repository>": ".",
            "<your registry>": "registry.example",
            "discovery.example": "127.0.0.1",
            "localhost": "127.0.0.1",
            "=:": "=127.0.0.1:",
        }

    def learn(self, shown: str, given: str) -> None:
        """From now on `given` stands where the document says `shown`."""
        self._texts[shown] = given

    def put_into(self, text: str) -> str:
        """The text with everything put in its place."""
        for said, meant in self._texts.items():
            text = text.replace(said, meant)
        if "global-discovery relay" in text:
            ours = f"global-discovery relay --listen 127.0.0.1:{self.ports['8082']}"
            text = text.replace("global-discovery relay", ours)
            text = text.replace(MODEL_SERVER, "127.0.0.1:8000")
        return _PORT.sub(lambda found: str(self.ports[found[0]]), text)


def alike(text: str) -> str:
    """The text without white space, and with one word for what differs in each run."""
    for pattern, word in _DIFFERS:
        text = pattern.sub(word, text)
    return re.sub(r"\s", "", text)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def furnish(folder: Path) -> None:
    """The checkout as a reader has it, but that nothing is written into it, and some files."""
    for entry in ROOT.iterdir():
        if entry.name in INSTALLED_FROM:
            shutil.copyfile(entry, folder / entry.name)
            os.utime(folder / entry.name, (0, 0))
        elif entry.name != ".git":
            (folder / entry.name).symlink_to(entry)
    (folder / "var").mkdir()
    tls = folder / "tls"
    tls.mkdir()
    authority = trustme.CA()
    for name in ("tls", "client"):
        pair = a_pair(authority, name="discovery.example")
        (tls / f"{name}.crt").write_bytes(pair.cert)
        (tls / f"{name}.key").write_bytes(pair.key)
    authority.cert_pem.write_to_path(str(tls / "ca.crt"))


def environment(places: Places) -> dict[str, str]:
    """Where the commands find programs, each other, and what stands in for AWS."""
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GLOBAL_DISCOVERY_SERVER": f"127.0.0.1:{places.ports['50051']}",
        "GLOBAL_DISCOVERY_LISTEN": f"127.0.0.1:{places.ports['8080']}",
        "GLOBAL_DISCOVERY_GRPC_LISTEN": f"127.0.0.1:{places.ports['50051']}",
        "PYTHONUNBUFFERED": "1",
    }
    return clean_environment(**variables)


@contextlib.asynccontextmanager
async def document_shell(
    folder: Path, variables: dict[str, str] | None = None
) -> AsyncIterator[DocumentShell]:
    """A shell in this folder; whatever it started is gone afterwards."""
    places = Places(folder)
    bash = await asyncio.create_subprocess_exec(
        *("bash", "-u", "-o", "pipefail"),
        cwd=folder,
        env=environment(places) | (variables or {}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with openai_server("Qwen/Qwen3-0.6B") as model_server:
            places.ports["8000"] = model_server.port
            yield DocumentShell(bash, folder, places)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(bash.pid, signal.SIGKILL)
        await bash.communicate()


async def run_document(
    text: str,
    folder: Path,
    *,
    at_hand: Collection[str] = (),
    variables: Mapping[str, str] | None = None,
) -> int:
    """Runs all that is to be run, in a folder without a checkout; how many commands that were.

    What is not run elsewhere for one of the reasons `at_hand` is run too, with these
    variables. Fails as the commands fail.
    """
    furnish(folder)
    blocks = list(blocks_of(text))
    stand_in = dict(variables or {})
    if any(block.runs(at_hand) and "dynamodb" in block.text for block in blocks):
        server = of_this_process()
        stand_in |= server.environment | {"AWS_ENDPOINT_URL_DYNAMODB": server.url}
    commands = 0
    async with document_shell(folder, stand_in) as shell:
        for block in blocks:
            if block.file is not None:
                shell.save(block.file, block.text)
            for step in steps_of(block) if block.runs(at_hand) else ():
                await shell.take(step)
                commands += 1
        await shell.end()
    return commands
