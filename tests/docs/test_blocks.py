"""What stands in the code blocks of the documents, run or not, is of this project.

Flags and variables exist, paths and make targets are there, JSON and YAML parse,
Python compiles and imports what there is.
"""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from global_discovery.cli.serve_flags import FLAGS
from support.documents import COMMANDS, DOCUMENTS, ROOT, Block, blocks_of, steps_of
from support.program_flags import FLAG, flags_of, subcommands

BLOCKS = [
    (path, block) for path in DOCUMENTS for block in blocks_of(path.read_text()) if block.text
]
OURS = re.compile(r"global-discovery (dynamodb create-table|[a-z]+)((?: .*|\n +.*)*)")
VARIABLE = re.compile(r"GLOBAL_DISCOVERY_[A-Z0-9_]*[A-Z0-9]")
OTHERS_FLAGS = {"--help", "--flag", "--service-account-issuer"}
NOT_FLAGS = {"GLOBAL_DISCOVERY_PORT"}  # Kubernetes sets it
INDENTED = re.compile(
    r"\n\n    (?:\$ |(?:\.venv/bin/)?global-discovery |kubectl |curl |make |pip |python |docker )"
)


def named(path: Path, block: Block) -> str:
    return f"{path.relative_to(ROOT)}:{block.line}"


def in_language(*languages: str) -> Iterator[tuple[str, Block]]:
    return ((named(path, block), block) for path, block in BLOCKS if block.language in languages)


@pytest.fixture(scope="module")
def known_flags() -> dict[str, set[str]]:
    """The flags of each subcommand, as `--help` has them."""
    return {name: flags_of(name) for name in subcommands()}


def test_the_commands_are_those_of_the_program() -> None:
    assert {"serve", "relay", "pools", "why", "dynamodb create-table"} <= set(subcommands())


def test_no_command_stands_in_an_indented_block() -> None:
    hidden = [path.name for path in DOCUMENTS if INDENTED.search(path.read_text())]
    assert not hidden, "fence commands as ```sh or ```console, so that they are run"


def test_every_flag_of_our_commands_exists(known_flags: dict[str, set[str]]) -> None:
    unknown = []
    for where, block in in_language(*COMMANDS, "text"):
        text = block.text.replace("\\\n", " ")
        for name, arguments in OURS.findall(text):
            if name in known_flags:
                used = FLAG.findall(arguments.partition("|")[0])
                unknown += [(where, name, flag) for flag in used if flag not in known_flags[name]]
    assert not unknown


def test_every_flag_that_a_text_speaks_of_exists(known_flags: dict[str, set[str]]) -> None:
    known = set().union(*known_flags.values()) | OTHERS_FLAGS
    unknown = [
        (path.name, flag)
        for path in DOCUMENTS
        for flag in re.findall(r"`(--[a-z][a-z0-9-]+)[^`]*`", path.read_text())
        if flag not in known
    ]
    assert not unknown


def test_every_flag_in_a_manifest_exists(known_flags: dict[str, set[str]]) -> None:
    known = set().union(*known_flags.values())
    unknown = [
        (where, flag)
        for where, block in in_language("yaml")
        for flag in FLAG.findall(block.text)
        if flag not in known
    ]
    assert not unknown


def test_every_variable_exists() -> None:
    code = "".join(path.read_text() for path in ROOT.glob("python/global_discovery/cli/*.py"))
    known = {flag.variable for flag in FLAGS.flags} | set(VARIABLE.findall(code)) | NOT_FLAGS
    unknown = [
        (path.name, name)
        for path in DOCUMENTS
        for name in VARIABLE.findall(path.read_text())
        if name not in known
    ]
    assert not unknown


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    unknown = [
        (path.name, target)
        for path in DOCUMENTS
        for target in re.findall(r"(?:\n```sh\n|`)make ([a-z-]+)", path.read_text())
        if target not in targets
    ]
    assert not unknown


def test_every_path_of_the_repository_in_a_command_is_there() -> None:
    missing = [
        (where, name)
        for where, block in in_language(*COMMANDS, "yaml")
        for name in re.findall(
            r"(?<![\w/.])((?:deploy|examples|bench|protos|\.ci)/[\w./-]+)", block.text
        )
        if not (ROOT / name).exists()
    ]
    assert not missing


def test_every_extra_that_is_installed_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {
        extra
        for path in DOCUMENTS
        for extras in re.findall(r"pip install '\.\[([a-z,]+)\]'", path.read_text())
        for extra in extras.split(",")
    }
    assert asked <= set(project["optional-dependencies"])
    assert asked


def test_every_command_is_whole() -> None:
    for _, block in in_language(*COMMANDS):
        assert list(steps_of(block))


def test_every_json_block_parses() -> None:
    for where, block in in_language("json"):
        try:
            json.loads(block.text)
        except ValueError as error:
            pytest.fail(f"{where}: {error}")


def test_every_toml_block_parses() -> None:
    for where, block in in_language("toml"):
        try:
            tomllib.loads(block.text)
        except tomllib.TOMLDecodeError as error:
            pytest.fail(f"{where}: {error}")


def test_every_yaml_block_parses() -> None:
    for where, block in in_language("yaml"):
        try:
            list(yaml.safe_load_all(block.text))
        except yaml.YAMLError as error:
            pytest.fail(f"{where}: {error}")


@pytest.mark.parametrize(
    ("where", "block"),
    [pytest.param(*each, id=each[0]) for each in in_language("python")],
)
def test_a_python_block_compiles_and_imports_what_there_is(where: str, block: Block) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    tree = compile(block.text, where, "exec", flags=flags)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), where, "exec"), {})  # noqa: S102  # of our own documents
