"""What a relay writes to its log: a line for what is new, none for what goes on."""

import structlog

from global_discovery.client import HeartbeatState
from global_discovery.client.errors import causes
from global_discovery.client.topology import RegistrationChoice
from global_discovery.relay.model_server import Poll
from global_discovery.relay.serving_topology import ServingTopology


class Telling:
    """Remembers what was said last."""

    def __init__(self) -> None:
        """Nothing was said."""
        self._logger = structlog.get_logger()
        self._choice: RegistrationChoice | None = None
        self._polls_fail = False
        self._calls_fail = False
        self._leased = False

    def polled(self, poll: Poll, topology: ServingTopology) -> None:
        """The model server was asked."""
        fails = poll.models is None
        if fails and not self._polls_fail and poll.error is not None:
            self._logger.warning("model_server_failing", causes=list(causes(poll.error)))
        if self._polls_fail and not fails:
            self._logger.info("model_server_answers")
        self._polls_fail = fails
        if topology.choice != self._choice:
            self._choice = topology.choice
            self._chosen(topology)

    def called(self, state: HeartbeatState) -> None:
        """A call to a server of Global Discovery has ended."""
        if state.failing and not self._calls_fail and state.last_error is not None:
            self._logger.warning("calls_failing", causes=list(causes(state.last_error)))
        if self._calls_fail and not state.failing:
            self._logger.info("calls_succeed", server=state.server)
        self._calls_fail = state.failing
        lease = state.lease
        if lease is not None and not self._leased:
            self._logger.info(
                "registered",
                server=state.server,
                lease_secs=lease.seconds,
                heartbeat_secs=lease.heartbeat_seconds,
                can_withdraw=state.can_withdraw,
            )
        self._leased = lease is not None

    def stopped(self, state: HeartbeatState, *, withdraw: bool, withdrawn: bool) -> None:
        """The relay has stopped."""
        if withdrawn:
            self._logger.info("withdrawn", server=state.server)
        elif state.lease is None:
            return
        elif not withdraw:
            self._logger.info("lease_kept", message="the pool stays; its lease bridges a restart")
        elif not state.can_withdraw:
            self._logger.info(
                "cannot_withdraw",
                server=state.server,
                message="the server knows no withdrawal; the pool leaves when its lease ends",
            )
        else:
            error = state.last_error if state.failing else None
            self._logger.warning("not_withdrawn", causes=[] if error is None else [*causes(error)])

    def _chosen(self, topology: ServingTopology) -> None:
        choice = topology.choice
        if choice.model is not None:
            self._logger.info("model_chosen", model=choice.model)
        elif choice.reason is not None:
            names = sorted({entry.name for entry in topology.models if not entry.parent})
            self._logger.info("no_model_chosen", reason=choice.reason.value, models=names[:32])
