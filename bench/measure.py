"""Rounds, medians and percentiles: how a figure comes to be.

The sides of a row are measured in alternating rounds, so that whatever else the
machine does falls on all of them; the figure is the median of the rounds, and a
ratio the median of the rounds' ratios.
"""

import math
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from processes import Server

Measure = Callable[[], Awaitable[dict[str, float]]]
Rounds = dict[str, dict[str, list[float]]]
"""By side, then by quantity: one value a round."""


async def alternating(rounds: int, sides: Mapping[str, Measure]) -> Rounds:
    """Runs each side once a round, beginning with another one each time; the first is warm-up."""
    names = list(sides)
    found: Rounds = {name: {} for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            values = await sides[name]()
            if number:
                for quantity, value in values.items():
                    found[name].setdefault(quantity, []).append(value)
    return found


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def ratio(values: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios of paired rounds."""
    return statistics.median(a / b for a, b in zip(values, others, strict=True) if b)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of sorted values lies (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass
class Cost:
    """What a piece of work cost a server; read after the `with` block."""

    server: Server
    wall: float = 0.0
    cpu: float = 0.0

    def __enter__(self) -> Self:
        self._cpu = self.server.cpu()
        self._wall = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.cpu = self.server.cpu() - self._cpu
