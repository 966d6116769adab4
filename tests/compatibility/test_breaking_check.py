"""`make check` finds a change of the protocol that breaks callers of the one on main."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
POOL = "protos/global_discovery/v1/pool.proto"
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@example.com")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One with the protocol on main, and a branch to change it on."""
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copyfile(ROOT / "buf.yaml", tmp_path / "buf.yaml")
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "buf").symlink_to(Path(sys.executable).parent / "buf")
    for arguments in (
        ("init", "--quiet", "--initial-branch", "main"),
        ("add", "protos", "buf.yaml"),
        ("commit", "--quiet", "--message", "the protocol"),
        ("switch", "--quiet", "--create", "change"),
    ):
        subprocess.run([*GIT, *arguments], cwd=tmp_path, check=True)
    return tmp_path


def checked(repository: Path, before: str, after: str) -> subprocess.CompletedProcess[str]:
    changed = repository / POOL
    text = changed.read_text()
    assert before in text
    changed.write_text(text.replace(before, after))
    subprocess.run([*GIT, "commit", "-qam", "a change"], cwd=repository, check=True)
    call = [".ci/check-breaking", "main"]
    return subprocess.run(
        call, cwd=repository, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_new_field_breaks_nobody(repository: Path) -> None:
    added = "  string url = 2;\n\n  // Its kind.\n  string kind = 3;\n"
    run = checked(repository, "  string url = 2;\n", added)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("string model = 2;", "string model = 12;"),
        ("string url = 2;", "string address = 2;"),
        ("int32 gpu_count = 2;", "string gpu_count = 2;"),
        ("  string datacenter = 3;\n", ""),
    ],
)
def test_another_number_name_or_type_or_none_at_all_is_found(
    repository: Path, before: str, after: str
) -> None:
    run = checked(repository, before, after)
    assert run.returncode != 0
    assert "pool.proto" in run.stdout + run.stderr
