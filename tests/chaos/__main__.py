"""`python -m chaos [--seed N] [--seconds S] [--scenario NAME ...]`: a verdict, and its seed."""

import argparse
import asyncio
import math
import random
import sys
from collections.abc import Sequence

from chaos.digest import digest
from chaos.run import Ran, ran
from chaos.world import SCENARIOS

SECONDS = 40.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", default="", help="repeats the faults of an earlier run")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="of faults, a scenario")
    parser.add_argument("--scenario", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    given = parser.parse_args(argv)
    seed = given.seed or str(random.SystemRandom().randrange(1_000_000))
    _say(f"seed {seed}")
    breaches: list[tuple[str, str]] = []
    for name in given.scenario:
        told = asyncio.run(ran(name, seed=seed, seconds=given.seconds))
        _tell(told)
        breaches += [(name, breach) for breach in told.verdict.breaches]
    for line in digest(breaches):
        _say(f"BROKEN in {line}")
    scenarios = " ".join(given.scenario)
    again = f'make chaos SEED={seed} SECONDS={given.seconds:g} SCENARIO="{scenarios}"'
    _say(f"{'FAIL' if breaches else 'PASS'}; to repeat it: {again}")
    return 1 if breaches else 0


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time in which anything could be judged")
    return seconds


def _tell(told: Ran) -> None:
    _say(f"\n{told.name}: {'PASS' if told.verdict.passed else 'FAIL'}")
    began = min((call.sent for call in told.history.calls), default=0.0)
    for window in told.history.windows:
        ended = window.ended - began
        whom = ", ".join(sorted(window.targets)[:3])
        more = f" and {len(window.targets) - 3} more" if len(window.targets) > 3 else ""
        _say(f"  {window.began - began:7.2f} to {ended:7.2f} s  {window.fault}: {whom}{more}")
    for what, count in sorted(told.counts.items()):
        if not what.startswith("fault"):
            _say(f"  {count:8} {what}")
    for what, count in sorted(told.verdict.judged.items()):
        _say(f"  {count:8} judged: {what}")
    for whom, lag in (("this program", told.lag), ("a server", told.server_lag)):
        _say(f"  {lag * 1000:8.0f} ms was {whom} late at most; times near that were widened by it")
    for breach in told.verdict.breaches:
        _say(f"  BROKEN: {breach}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
