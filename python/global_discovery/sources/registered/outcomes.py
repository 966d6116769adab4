"""What a call did to shares."""

from enum import Enum
from typing import NamedTuple

from global_discovery.sources.registered.shares import Share


class Effect(Enum):
    """What a heartbeat did to its share."""

    NONE = 0
    """It was overtaken by a later one."""
    RENEWED = 1
    """Its lease was renewed, and nothing else."""
    CHANGED = 2
    """It began, began anew, or its content or relays changed."""


class Renewed(NamedTuple):
    """What became of a batch of renewals."""

    lease_ids: list[str]
    unknown: list[str]
    """Ids that are not current."""
    regranted: list[Share]
    """Those renewed whose lease is of another length from now on."""
