"""What the tests of access have in common. Making a CA takes a while, so there is one."""

import pytest
import trustme


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA(organization_name="of callers")
