"""The reasons for which calls are denied: a fixed set, explained, and counted from the start."""

import re
from pathlib import Path

from global_discovery.serving.access.denials import REASONS
from support.access_world import an_access_world

ACCESS = (Path(__file__).parents[2] / "docs/access.md").read_text()


def test_every_reason_is_explained_and_no_other_one() -> None:
    table = ACCESS.partition("\n## What is told\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert sorted(re.findall(r"`([A-Z_]+)`", " ".join(rows))) == sorted(REASONS)


async def test_a_reason_that_nobody_was_denied_for_yet_is_shown_as_none() -> None:
    async with an_access_world() as world:
        value = world.service.registry.get_sample_value
        name = "global_discovery_access_denied_total"
        assert [value(name, {"reason": reason}) for reason in REASONS] == [0] * len(REASONS)
