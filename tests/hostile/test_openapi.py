"""The documented HTTP contract, tried by a stranger; minutes of it with `make fuzz` only.

What every test run has of it stands in tests/rest/test_openapi.py.
"""

import http.client
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import note
from hypothesis import strategies as st

from support.hostile import SECONDS, SEED, hostile
from support.hostile_protobuf import odd_text
from support.hostile_target import Target, a_target


@pytest.mark.skipif(not SECONDS, reason="its short form is a test of the REST face")
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_a_stranger_finds_no_contradiction(tmp_path: Path, mode: str) -> None:
    """Left out are the stream without an end, and what JSON Schema cannot state of a rule.

    It learns keys from lists, and may well replace pools that it did not register.
    """
    with a_target() as target:
        try_all(target, tmp_path, mode)
        target.check_log()
        target.check_codes()


def try_all(target: Target, tmp_path: Path, mode: str) -> None:
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"http://127.0.0.1:{target.port}/openapi.json",
            f"--mode={mode}",
            f"--max-time={max(1, int(SECONDS))}",
            f"--seed={SEED}",
            "--exclude-path=/events",
            "--exclude-checks=positive_data_acceptance",
            "--suppress-health-check=all",
            "--continue-on-failure",
            "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()[-20_000:]


NAMES = st.one_of(
    st.sampled_from(
        ["cluster_id", "namespace", "dgd_name", "model", "region", "q", "page", "group"]
    ),
    odd_text(),
)


@hostile(
    examples=30,
    path=st.sampled_from(["/", "/why", "/events", "/pools", "/openapi.json"]),
    query=st.lists(st.tuples(NAMES, odd_text()), max_size=4),
)
def test_any_query_is_answered(target: Target, path: str, query: list[tuple[str, str]]) -> None:
    asked = "&".join(f"{quote(n, errors='replace')}={quote(v, errors='replace')}" for n, v in query)
    whole = f"{path}?{asked}"[:8000]
    note(whole)
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
    try:
        connection.request("GET", whole)
        assert connection.getresponse().status in {200, 400, 404, 422}
    finally:
        connection.close()
