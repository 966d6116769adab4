"""What the documents say of installing is so: from a checkout, into an environment of one's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.documents import DOCUMENTS, INSTALL, ROOT

INSTALLS = sorted(
    {found for path in DOCUMENTS for found in INSTALL.findall(path.read_text())}, key=len
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_way_of_installing_that_a_document_names_works(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    assert len(INSTALLS) > 3
    for what in INSTALLS:
        pip = [environment / "bin" / "pip", "install", "--quiet", what.strip("'")]
        subprocess.run(pip, cwd=ROOT, check=True)
        if what == ".":
            client = "import global_discovery.client, global_discovery.v1.pool_pb2"
            subprocess.run([environment / "bin" / "python", "-c", client], check=True)
    for command in ("serve", "relay", "pools", "dynamodb create-table"):
        call = [environment / "bin" / "global-discovery", *command.split(), "--help"]
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
