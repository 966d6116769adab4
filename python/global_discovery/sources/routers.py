"""The routers of `--router`: a list that never changes and is exact from the start."""

from collections.abc import Callable, Sequence

from global_discovery.domain.change import Change
from global_discovery.domain.completeness import Mark
from global_discovery.domain.pool import Router
from global_discovery.sources.source import Update


class ConfiguredRouters:
    """A source of what was configured."""

    def __init__(self, routers: Sequence[Router]) -> None:
        """`routers` have distinct ids."""
        self._pending = [Change(router.id, router) for router in routers]

    def drain(self) -> Update[str, Router]:
        """Everything, once."""
        changes, self._pending = self._pending, []
        return Update(changes, Mark(frozenset(), bound=0.0))

    def on_change(self, wake: Callable[[], None]) -> None:
        """It never calls: nothing changes."""
