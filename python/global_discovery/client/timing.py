"""Time as the client library takes it: an argument, see `domain.timer`."""

from global_discovery.domain.timer import SystemTimer, Timer, within

__all__ = ["SystemTimer", "Timer", "within"]
