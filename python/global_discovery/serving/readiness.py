"""What the probes ask: alive, ready, healthy. Three questions, three answers.

*Live* fails only when a task that must run for ever is dead (a dead loop does
not answer at all). *Ready* follows the registrar alone: true once registrations
can be taken, which is after the store was read, and false from SIGTERM on. It
never follows a store or a source that fails later: an instance outside its
Service's endpoints hears no heartbeat.
"""

import asyncio

from global_discovery.serving.core import Core


class Readiness:
    """Of one instance."""

    def __init__(self, core: Core) -> None:
        """Not ready, and alive."""
        self._core = core
        self._supervised: list[asyncio.Task[None]] = []
        self._was_read = False

    def supervise(self, task: asyncio.Task[None]) -> None:
        """The instance is live only while this task runs."""
        self._supervised.append(task)

    def live(self) -> bool:
        """Whether every supervised task runs."""
        return not any(task.done() for task in self._supervised)

    def ready(self) -> bool:
        """Whether registrations can be taken."""
        return self._core.registrar.taking_calls

    def was_read(self) -> bool:
        """Whether the store and every source were read once."""
        if not self._was_read:
            core = self._core
            core.pools.refresh()
            core.routers.refresh()
            self._was_read = self.ready() and core.pools.synced and core.routers.synced
        return self._was_read
