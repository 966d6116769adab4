"""What the pool serves, over the polls that fail, and what is registered of it.

A failed poll leaves the topology as it was for one lease; then it is empty. That
is counted from before the last good poll, as a lease is from before its call.
"""

from global_discovery.client.topology import RegistrationChoice, ServedModel, choose_model
from global_discovery.relay.model_server import Poll


class ServingTopology:
    """The newest good poll, and the choice that follows from it. Reads no clock."""

    def __init__(self) -> None:
        """Empty."""
        self._models: tuple[ServedModel, ...] = ()
        self._good_at: float | None = None
        self.choice: RegistrationChoice = choose_model((), None)
        """What is registered, or why nothing is."""

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """What is served, adapters included."""
        return self._models

    def ends_at(self, lease_seconds: float) -> float | None:
        """When it is emptied, unless a poll succeeds before; None while it is empty."""
        return None if self._good_at is None else self._good_at + lease_seconds

    def take(self, poll: Poll, *, began: float, now: float, lease_seconds: float) -> None:
        """A poll that began then has ended now."""
        if poll.models is not None:
            self._models, self._good_at = poll.models, began
        else:
            ends_at = self.ends_at(lease_seconds)
            if ends_at is not None and now >= ends_at:
                self._models, self._good_at = (), None
        self.choice = choose_model(self._models, self.choice.model)
