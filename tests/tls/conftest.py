"""What the tests of TLS have in common. Making a CA takes a while, so there are few."""

import logging
from collections.abc import Iterator

import pytest
import trustme

OLD_LOOP = "PollerCompletionQueue._handle_events"
"""gRPC's one poller hands the last events of a closed loop to the next one; services have one."""


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA(organization_name="the first")


@pytest.fixture(scope="session")
def other_ca() -> trustme.CA:
    return trustme.CA(organization_name="the other")


@pytest.fixture(autouse=True)
def nothing_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever is sent to a TLS port leaves no line of asyncio or gRPC."""
    yield
    records = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    errors = [record.getMessage() for record in records if record.levelno >= logging.WARNING]
    assert [error for error in errors if OLD_LOOP not in error] == []
