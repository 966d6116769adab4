"""Which model a relay registers, from what its pool serves. Pure: no clock, no call.

A registration names one model, and a serving topology may hold none, one or
several, each Ready or not as far as this relay can see. Each relay of a pool
sees readiness with its own eyes; were the choice to follow readiness, two of
them could register two models. So a registered model is kept for as long as the
pool serves it at all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class UnregisteredReason(StrEnum):
    """Why a pool is not registered."""

    NO_MODEL = "no model yet"
    SEVERAL_MODELS = "several models"
    NO_ANSWER = "no answer yet"
    """The first call is under way."""
    FAILED_CALL = "failed call"
    STOPPED = "stopped"


class ServedModel(NamedTuple):
    """One entry of a serving topology."""

    name: str
    ready: bool
    parent: str = ""
    """The model that this one is an adapter of; empty for a model of its own."""


@dataclass(frozen=True, slots=True)
class RegistrationChoice:
    """The model to register, or why there is none."""

    model: str | None
    reason: UnregisteredReason | None
    """Set exactly when there is no model to register."""


def choose_model(topology: Iterable[ServedModel], registered: str | None) -> RegistrationChoice:
    """The model to register next; `registered` is the one that is registered now.

    The registered model is kept while it is in the topology, in any state. Else
    it is the one Ready model, or the only model while none is Ready. With none,
    or several to choose from, there is nothing to register. Adapters do not
    count; entries of one name are one model, Ready when one of them is.
    """
    ready: dict[str, bool] = {}
    for entry in topology:
        if not entry.parent:
            ready[entry.name] = ready.get(entry.name, False) or entry.ready
    if registered is not None and registered in ready:
        return RegistrationChoice(registered, None)
    candidates = [name for name, is_ready in ready.items() if is_ready] or list(ready)
    if not candidates:
        return RegistrationChoice(None, UnregisteredReason.NO_MODEL)
    if len(candidates) > 1:
        return RegistrationChoice(None, UnregisteredReason.SEVERAL_MODELS)
    return RegistrationChoice(candidates[0], None)
