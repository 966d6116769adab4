"""What `GET /metrics` shows, with label sets that cannot grow.

Labels have values from fixed sets only: methods, routes, codes, reasons. Nothing
that a caller can make up - a key, a path, an address - is ever a label. Figures
that exist anyway are read when they are asked for, not counted twice.

A file a subject; what the others of `serving` and its rooms use of it is named here.
"""

from global_discovery.serving.metrics.calls import CallMetrics
from global_discovery.serving.metrics.core import CoreCollector
from global_discovery.serving.metrics.families import PREFIX, counter, gauge
from global_discovery.serving.metrics.loop import LoopLag

__all__ = ["PREFIX", "CallMetrics", "CoreCollector", "LoopLag", "counter", "gauge"]
