"""Prometheus' own judge of rules, where it is installed (Debian: prometheus)."""

import shutil
import subprocess
from pathlib import Path

import pytest

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)"
)


def promtool(*arguments: str | Path, text: str | None = None) -> str:
    """What it says; fails when it finds a fault."""
    run = subprocess.run(
        ["promtool", *map(str, arguments)],
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr
