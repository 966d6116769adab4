"""What docs/relay.md says of flags, events, metrics and reasons is so."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from global_discovery.client.topology import UnregisteredReason
from global_discovery.relay.status import RelayCollector
from support.client_process import ran
from support.openai_server import openai_server
from support.relaying import relay_settings, relaying

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/relay.md").read_text()


def first_cells(heading: str) -> str:
    """The first column of the table under a heading."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return "\n".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))


async def test_every_flag_stands_in_the_table_and_no_other_one() -> None:
    shown = set(re.findall(r"--[a-z][a-z-]+", (await ran("relay", "--help")).out)) - {"--help"}
    assert set(re.findall(r"--[a-z][a-z-]+", first_cells("Flags"))) == shown


def test_every_event_stands_in_the_table_and_no_other_one() -> None:
    said = set()
    for module in (ROOT / "python/global_discovery/relay").glob("*.py"):
        pattern = r"logger\(?\)?\.(?:info|warning|error|exception)\(\s*\"([a-z_]+)\""
        said |= set(re.findall(pattern, module.read_text()))
    assert set(re.findall(r"`([a-z_]+)`", first_cells("Log events"))) == said
    assert len(said) > 10


async def test_every_metric_stands_in_the_table_and_no_other_one() -> None:
    registry = CollectorRegistry()
    async with (
        openai_server() as models,
        relaying(relay_settings(models, "127.0.0.1:1")) as relay,
    ):
        registry.register(RelayCollector(relay.relay))
        served = {
            family.name + ("_total" if family.type == "counter" else "")
            for family in registry.collect()
        }
    assert set(re.findall(r"`([a-z_]+)`", first_cells("`/metrics`"))) == served


def test_every_reason_stands_in_the_table_and_no_other_one() -> None:
    told = set(re.findall(r"`([a-z ]+)`", first_cells("`/health`")))
    assert told - {"null"} == {reason.value for reason in UnregisteredReason}
