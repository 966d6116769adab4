"""Asks an OpenAI-compatible server which models it serves, and whether it is well.

`/v1/models` names the models; entries with a `parent` are adapters of one. All of
them are Ready while the health URL answers 2xx. When the model is given outright
only the health URL is asked: the model is served while that answers at all.

Nothing that the server answers is trusted: bodies and time are bounded, and
whatever is not a list of models is a failed poll, never an exception.
"""

import asyncio
import json
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import aiohttp
from yarl import URL

from global_discovery.client.http_answer import open_session, read_bounded
from global_discovery.client.topology import ServedModel
from global_discovery.domain.rules import MAX_MODEL_BYTES
from global_discovery.domain.timer import Timer, within
from global_discovery.transport import transport_text

MAX_MODELS_BYTES = 1024 * 1024
_GOOD = range(200, 300)


class Health(Enum):
    """What the health URL said."""

    GOOD = auto()
    BAD = auto()
    """It answered, and not with 2xx."""
    SILENT = auto()
    """It did not answer."""


class PollFailed(Exception):
    """The model server could not be asked; what led to it is the cause."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll brought."""

    models: tuple[ServedModel, ...] | None
    """None when it failed."""
    health: Health
    error: PollFailed | None = None
    """Why it failed, or why the health URL was silent."""


class ModelServer:
    """One model server. Close it."""

    def __init__(self, openai_url: str, health_url: str, model: str | None, timer: Timer) -> None:
        """`model` is the only one that counts; None asks for the list."""
        self._models_url = f"{openai_url}/v1/models"
        self._health_url = health_url
        self._model = model
        self._timer = timer
        self._session: aiohttp.ClientSession | None = None

    async def poll(self, seconds: float) -> Poll:
        """Asks for models and health at once, each for at most `seconds`."""
        names, (health, health_error) = await asyncio.gather(
            self._named(seconds), self._health(seconds)
        )
        if self._model is not None and health is not Health.SILENT:
            names = [(self._model, "")]
        if names is None or isinstance(names, PollFailed):
            return Poll(None, health, names or health_error)
        ready = health is Health.GOOD
        models = tuple(ServedModel(name, ready, parent) for name, parent in names)
        return Poll(models, health, health_error)

    async def answers(self, seconds: float) -> bool:
        """Whether the health URL answers at all, within `seconds`."""
        health, _ = await self._health(seconds)
        return health is not Health.SILENT

    async def close(self) -> None:
        """Closes what is open."""
        if self._session is not None:
            await self._session.close()

    async def _named(self, seconds: float) -> list[tuple[str, str]] | PollFailed | None:
        """Names and parents as the server lists them; None when the model is given outright."""
        if self._model is not None:
            return None
        try:
            status, body = await self._get(self._models_url, seconds, MAX_MODELS_BYTES)
            if status not in _GOOD:
                return PollFailed(f"{self._models_url} answered {status}")
            return listed_models(body)
        except Exception as error:  # noqa: BLE001 - whatever a server does is a failed poll
            return _failed(self._models_url, error, seconds)

    async def _health(self, seconds: float) -> tuple[Health, PollFailed | None]:
        try:
            status, _ = await self._get(self._health_url, seconds, None)
        except Exception as error:  # noqa: BLE001 - whatever a server does is no answer
            return Health.SILENT, _failed(self._health_url, error, seconds)
        return (Health.GOOD if status in _GOOD else Health.BAD), None

    async def _get(self, url: str, seconds: float, limit: int | None) -> tuple[int, bytes]:
        """Status and body; without a limit the body is not read."""
        return await within(self._timer, seconds, self._exchange(url, limit))

    async def _exchange(self, url: str, limit: int | None) -> tuple[int, bytes]:
        if self._session is None:
            self._session = open_session()
        target = URL(url, encoded=True)
        async with self._session.get(target, allow_redirects=False) as response:
            body = b"" if limit is None else await read_bounded(response, limit)
            return response.status, body


def listed_models(body: bytes) -> list[tuple[str, str]]:
    """Names and parents in an answer of `/v1/models`. Raises ValueError when it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("the answer is not JSON") from error
    entries = document.get("data") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("the answer is not a list of models")
    return [(_name(entry.get("id")), _parent(entry.get("parent"))) for entry in entries]


def _name(value: Any) -> str:
    """Raises ValueError, also for a lone surrogate, which cannot be encoded."""
    if isinstance(value, str) and 1 <= len(value.encode()) <= MAX_MODEL_BYTES:
        return value
    raise ValueError("the answer has a model without a proper name")


def _parent(value: Any) -> str:
    """Whatever is neither absent nor empty is a parent."""
    return "" if value is None else str(value)


def _failed(url: str, error: Exception, seconds: float) -> PollFailed:
    late = f"no answer within {seconds:g} s"
    why = late if isinstance(error, TimeoutError) else transport_text(error)
    failure = PollFailed(f"{url}: {why}")
    failure.__cause__ = error
    return failure
