"""`pools --watch` of a caller whose rights change says what keeps it from its list."""

import json
from pathlib import Path

import trustme

from support.access import EAST, NOTHING, POLICY, certificate_of, in_file
from support.access_world import an_access_world
from support.client_process import running
from support.running import target


def files_of(folder: Path, ca: trustme.CA) -> list[str]:
    """The flags with which a command shows EAST's certificate."""
    pair = certificate_of(ca, EAST)
    texts = {"--ca-path": ca.cert_pem.bytes(), "--client-cert-path": pair.cert}
    texts["--client-key-path"] = pair.key
    folder.mkdir()
    for flag, text in texts.items():
        (folder / flag).write_bytes(text)
    return [word for flag in texts for word in (flag, str(folder / flag))]


async def test_a_watch_that_loses_its_right_says_what_it_lacks_until_it_has_it_again(
    tmp_path: Path, ca: trustme.CA
) -> None:
    policy = in_file(tmp_path)
    async with an_access_world(tmp_path, ca, policy=policy, anonymous=NOTHING) as world:
        flags = [*files_of(tmp_path / "east", ca), "--server", target(world.service)]
        async with running("pools", "--watch", *flags) as command:
            await command.line_with("snapshot")
            await world.change_policy(tmp_path, POLICY.replace(EAST, f"{EAST}/another"))
            assert "(SCOPE_CHANGED); trying again" in await command.line_with("lost ")
            failed = await command.line()
            assert failed.startswith(f"failed    {target(world.service)} refused the call: ")
            assert "(PERMISSION_DENIED, no rule of the policy lets this identity read any" in failed
            await world.change_policy(tmp_path, POLICY)
            # Nothing of the refusals between.
            assert (await command.line()).startswith("restored  ")


async def test_a_watch_that_was_never_allowed_lost_nothing(tmp_path: Path, ca: trustme.CA) -> None:
    policy = in_file(tmp_path, POLICY.replace(EAST, f"{EAST}/another"))
    async with an_access_world(tmp_path, ca, policy=policy, anonymous=NOTHING) as world:
        flags = [*files_of(tmp_path / "east", ca), "--server", target(world.service)]
        async with running("pools", "--watch", "-o", "json", *flags) as command:
            failed = json.loads(await command.line())
            assert (failed["event"], failed["code"]) == ("connection_failed", "PERMISSION_DENIED")
            await world.change_policy(tmp_path, POLICY)
            assert json.loads(await command.line())["event"] == "connection_made"
            assert json.loads(await command.line())["event"] == "snapshot"
