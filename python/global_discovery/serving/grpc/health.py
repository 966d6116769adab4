"""grpc.health.v1: NOT_SERVING until ready, and again from SIGTERM on.

The library's servicer starts as SERVING and holds a lock while it writes to a
watcher, so that one watcher that does not read blocks all others and the change
itself. Here every watcher has an event of its own.
"""

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2

Status = health_pb2.HealthCheckResponse


class Health(health.aio.HealthServicer):  # type: ignore[misc] # the library ships no types
    """The whole server (the empty name) and each service have one status."""

    def __init__(self, services: list[str]) -> None:
        """Everything is NOT_SERVING."""
        super().__init__()
        self._server_status = dict.fromkeys(["", *services], Status.NOT_SERVING)
        self._watchers: set[asyncio.Event] = set()
        self._over = False

    def set_all(self, *, serving: bool) -> None:
        """Says so of everything, at once, whoever watches."""
        status = Status.SERVING if serving else Status.NOT_SERVING
        self._server_status = dict.fromkeys(self._server_status, status)
        for changed in self._watchers:
            changed.set()

    def end(self) -> None:
        """Everything is NOT_SERVING, and every watcher is told so and then ended."""
        self._over = True
        self.set_all(serving=False)

    async def List(  # noqa: N802 - the rpc's name
        self, request: Any, context: Any
    ) -> Any:
        """Every name with its status; the library's servicer does not have this call."""
        del request, context
        statuses = {name: Status(status=status) for name, status in self._server_status.items()}
        return health_pb2.HealthListResponse(statuses=statuses)

    async def Watch(  # noqa: N802 - the rpc's name
        self, request: Any, context: Any
    ) -> None:
        """Sends the status of a service, and each change; SERVICE_UNKNOWN for another name."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        told = None
        try:
            while True:
                changed.clear()
                status = self._server_status.get(request.service, Status.SERVICE_UNKNOWN)
                if status != told:
                    await context.write(Status(status=status))
                    told = status
                elif self._over:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "shutting down")
                else:
                    await changed.wait()
        finally:
            self._watchers.discard(changed)
