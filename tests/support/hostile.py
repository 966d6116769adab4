"""Hostile examples for as long as one likes.

A test marked with `@hostile(...)` draws its arguments from hypothesis strategies.
By default it takes a short look, always with the same examples where a change is
checked before it lands. With `HOSTILE_SECONDS` it goes on with new ones for that
many seconds. A failure tells the seed that repeats it (`HOSTILE_SEED`) and is kept
as a file in `.hostile/`, with the example that hypothesis found to be the smallest.
"""

import inspect
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "0"))
FOUND = Path(".hostile")
ROUND = 200
"""Examples between two looks at the time."""

SEED = int(
    os.environ.get("HOSTILE_SEED") or (1 if os.environ.get("CI") else random.getrandbits(32))
)
_examples: Counter[str] = Counter()


def examples_run(name: str) -> int:
    """How many examples the test function of this name has had."""
    return _examples[name]


def hostile(
    *, examples: int, **strategies: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`examples` in the short form; the test's other arguments are fixtures."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        name = test.__name__

        def counted(*values: Any, **named: Any) -> None:
            _examples[name] += 1
            test(*values, **named)

        counted.__signature__ = inspect.signature(test)  # type: ignore[attr-defined] # given reads it
        counted.__name__ = counted.__qualname__ = name
        counted.__module__ = test.__module__

        def run(**fixtures: Any) -> None:
            end, seed = time.monotonic() + SECONDS, SEED
            while True:
                _one_round(counted, strategies, examples, seed, fixtures)
                seed += 1
                if time.monotonic() >= end:
                    return

        own = [
            parameter
            for parameter in inspect.signature(test).parameters.values()
            if parameter.name not in strategies
        ]
        run.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined] # pytest reads it
        run.__name__ = run.__qualname__ = name
        run.__module__, run.__doc__ = test.__module__, test.__doc__
        return run

    return decorate


def _one_round(
    test: Callable[..., None],
    strategies: dict[str, st.SearchStrategy[Any]],
    examples: int,
    seed: int,
    fixtures: dict[str, Any],
) -> None:
    bounds = settings(
        max_examples=max(ROUND, examples) if SECONDS else examples,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    given = hypothesis.seed(seed)(bounds(hypothesis.given(**strategies)(test)))
    try:
        given(**fixtures)
    except Exception as error:
        error.add_note(f"repeated by HOSTILE_SEED={seed}")
        FOUND.mkdir(exist_ok=True)
        told = [f"{type(error).__name__}: {error}", *error.__notes__]
        (FOUND / f"{test.__name__}-{seed}.txt").write_text("\n".join(told), errors="replace")
        raise
