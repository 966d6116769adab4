"""The Dockerfile, which cannot be built here: what it copies is there, what it runs works."""

import json
import os
import re
import shlex
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from support.serve_process import clean_environment, started

ROOT = Path(__file__).parents[2]
INSTRUCTION = re.compile(r"(?P<word>[A-Z]+)\s+(?P<rest>.*)", re.DOTALL)


def instructions() -> list[list[tuple[str, str]]]:
    """The instructions of each stage: their words, and the rest with its lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    stages: list[list[tuple[str, str]]] = []
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        match = INSTRUCTION.fullmatch(line)
        if match is None:
            assert not line.strip(), line
        elif match["word"] == "FROM":
            stages.append([("FROM", match["rest"])])
        else:
            stages[-1].append((match["word"], match["rest"]))
    return stages


BUILD, FINAL = instructions()


def only(word: str) -> str:
    """The one instruction with this word in the final stage."""
    (rest,) = [rest for found, rest in FINAL if found == word]
    return rest


def in_the_venv() -> dict[str, str]:
    """The image's environment, with this virtual environment in the place of the image's."""
    variables = dict(pair.split("=", 1) for pair in shlex.split(only("ENV")))
    path = variables.pop("PATH").replace("/opt/venv", str(Path(sys.executable).parents[1]))
    own = {"GLOBAL_DISCOVERY_LISTEN": "127.0.0.1:0", "GLOBAL_DISCOVERY_GRPC_LISTEN": "127.0.0.1:0"}
    return clean_environment(**variables, **own, PATH=path.replace("$PATH", os.environ["PATH"]))


async def test_the_entry_command_serves_and_the_health_check_asks_it() -> None:
    command = json.loads(only("ENTRYPOINT")) + json.loads(only("CMD"))
    assert command[0] == "global-discovery"
    environment = in_the_venv()
    async with started(command=command, env=environment) as server:
        port = (await server.ready())["rest_port"]
        check = json.loads(only("HEALTHCHECK").partition(" CMD ")[2])
        environment["GLOBAL_DISCOVERY_LISTEN"] = f"0.0.0.0:{port}"
        async with started(command=check, env=environment) as healthy:
            assert await healthy.ended() == 0
        assert await server.stop() == 0
        async with started(command=check, env=environment) as unhealthy:
            assert await unhealthy.ended() == 1


@pytest.mark.parametrize("word", ["ENTRYPOINT", "CMD"])
def test_no_shell_is_needed(word: str) -> None:
    assert isinstance(json.loads(only(word)), list)
    assert "RUN" not in [found for found, _ in FINAL]


def test_it_does_not_run_as_root_and_is_stopped_with_sigterm() -> None:
    user, _, group = only("USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert only("STOPSIGNAL") == "SIGTERM"
    assert set(only("EXPOSE").split()) == {"8080", "50051"}


def test_both_stages_begin_with_one_base_of_a_fixed_version() -> None:
    bases = [stage[0][1].partition(" AS ")[0] for stage in (BUILD, FINAL)]
    assert bases[0] == bases[1]
    assert re.fullmatch(r"python:3\.11-slim-\w+", bases[0])


def copied() -> list[str]:
    """What is copied from the repository."""
    return [
        source
        for word, rest in [*BUILD, *FINAL]
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]


@pytest.mark.parametrize("source", copied())
def test_what_is_copied_is_there_and_not_ignored(source: str) -> None:
    assert (ROOT / source).exists()
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch(source, line.removeprefix("!")):
            ignored = not line.startswith("!")
    assert not ignored


def test_everything_that_is_installed_has_a_hash_and_is_locked_as_it_is_tested() -> None:
    tested = pinned("requirements.lock")
    installed = pinned("requirements-server.lock") | pinned("requirements-build.lock")
    assert installed.items() <= tested.items()
    for word, rest in BUILD:
        for command in rest.split("&&") if word == "RUN" else ():
            if " install " in command:
                assert "--require-hashes" in command or "--no-deps --no-index" in command


def pinned(lock: str) -> dict[str, str]:
    """The versions in a lock file, those that have a hash."""
    entry = re.compile(r"^(\S+)==([^\\]+)\\\n    --hash=sha256:", re.MULTILINE)
    text = (ROOT / lock).read_text()
    found = entry.findall(text)
    assert len(found) == sum(line[:1].isalnum() for line in text.splitlines())
    return dict(found)
