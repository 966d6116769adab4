"""The process around a relay: its log, its end, and its exit status.

0 after an orderly stop; 1 when it cannot start, or when one of its tasks dies.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from global_discovery import log
from global_discovery.relay.relay import Relay
from global_discovery.relay.settings import RelaySettings
from global_discovery.relay.status_server import status_server

STOPPED, FAILED = 0, 1


def run(
    settings: RelaySettings,
    stopped: Callable[[], Coroutine[Any, Any, None]],
    *,
    log_format: str | None,
    log_level: str,
) -> int:
    """Relays until `stopped()` returns; the exit status. `log_format` None suits stderr."""
    terminal = "console" if sys.stderr and sys.stderr.isatty() else "json"
    log.configure(log_format or terminal, level=log_level)
    return asyncio.run(_relay(settings, stopped))


class _CannotStart(Exception):
    """For a reason outside of the program, which its text names."""


async def _relay(settings: RelaySettings, stopped: Callable[[], Coroutine[Any, Any, None]]) -> int:
    logger = structlog.get_logger()
    status = STOPPED
    try:
        await _live(settings, stopped)
    except _CannotStart as reason:
        status = FAILED
        logger.error("cannot_start", message=str(reason))  # noqa: TRY400 - no fault of ours
    except Exception:
        status = FAILED
        logger.exception("failed", message="a fault of this program ended it")
    logger.info("stopped", status=status)
    return status


async def _live(settings: RelaySettings, stopped: Callable[[], Coroutine[Any, Any, None]]) -> None:
    relay = Relay(settings)
    async with contextlib.AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(status_server(relay))
        except OSError as error:
            raise _CannotStart(str(error)) from error
        structlog.get_logger().info(
            "started",
            pool=str(settings.pool),
            relay_id=settings.relay_id,
            servers=settings.servers,
            openai_url=settings.openai_url,
            port=port,
        )
        await relay.run(stopped)
