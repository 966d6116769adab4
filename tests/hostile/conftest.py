"""The hostile tier: a short look with every test run, minutes of it with `make fuzz`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.hostile import SECONDS, examples_run
from support.hostile_target import Target, a_target

PATIENCE_SECONDS = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test may take its time and as much again to find the smallest example."""
    for item in (item for item in items if Path(__file__).parent in item.path.parents):
        item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS + 2 * SECONDS))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much each test has tried; only where that was asked for."""
    for report in terminalreporter.getreports("passed") if SECONDS else ():
        for name, value in report.user_properties:
            if report.when == "teardown" and name == "examples":
                terminalreporter.write_line(f"{value:>8} examples: {report.nodeid}")


@pytest.fixture(autouse=True)
def counted(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[None]:
    """Tells how many examples the test has had."""
    yield
    record_property("examples", examples_run(request.node.originalname))


@pytest.fixture(scope="module")
def shared_target() -> Iterator[Target]:
    """One process for all tests of a file."""
    with a_target() as target:
        yield target


@pytest.fixture
def target(shared_target: Target) -> Iterator[Target]:
    """A process that serves, and that serves as well and is no larger when the test is over."""
    shared_target.settle()
    yield shared_target
    shared_target.check()
    shared_target.check_growth()
