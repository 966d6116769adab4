"""One heartbeat's schedule, with a test as its server and its clock."""

import grpc

from global_discovery.client.errors import CallFailed, ErrorDetails
from global_discovery.client.heartbeat_schedule import HeartbeatSchedule, Send, Wait
from global_discovery.v1 import pool_pb2
from support.pools import a_registration
from support.scripted_server import granted

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
INTERNAL = grpc.StatusCode.INTERNAL


class Driver:
    """Plays the server and the clock for one schedule."""

    def __init__(self, *servers: str, relay_id: str = "") -> None:
        self.now = 1000.0
        self.schedule = HeartbeatSchedule(servers or ("a",), relay_id=relay_id)

    def set(self, registration: pool_pb2.PoolRegistration | None) -> None:
        self.schedule.set(registration, self.now)

    def next_send(self) -> Send:
        """Moves the clock to the next call."""
        step = self.schedule.poll(self.now)
        if isinstance(step, Wait):
            assert step.until is not None, "nothing will ever be sent"
            self.now = step.until
            step = self.schedule.poll(self.now)
        assert isinstance(step, Send)
        return step

    def answer(
        self,
        lease: int = 15,
        heartbeat: int = 5,
        lease_id: str = "id-1",
        *,
        after: float = 0.0,
        instance: str = "",
    ) -> None:
        self.now += after
        answer = granted(lease, heartbeat, lease_id)
        self.schedule.answered(answer, self.now, instance=instance)

    def fail(
        self, code: grpc.StatusCode = INTERNAL, *, after: float = 0.0, retry_after: float = 0.0
    ) -> None:
        self.now += after
        details = ErrorDetails(retry_after=retry_after)
        self.schedule.failed(CallFailed("a", code, "as the test says", details), self.now)

    def registered(self, lease: int = 15, heartbeat: int = 5) -> "Driver":
        self.set(a_registration())
        self.next_send()
        self.answer(lease, heartbeat)
        return self

    def idle(self) -> bool:
        return self.schedule.poll(self.now) == Wait(None)
