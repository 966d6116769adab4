"""The commands of the documents work, in their order, and print what is said."""

import re
from pathlib import Path

import pytest

from support.document_shell import document_shell, furnish, run_document
from support.documents import DOCUMENTS, INSTALL, ROOT, Step, blocks_of, steps_of

TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in DOCUMENTS}
RUN = [name for name, text in TEXTS.items() if any(block.runs() for block in blocks_of(text))]
LONG = [
    step.command
    for text in TEXTS.values()
    for block in blocks_of(text)
    if block.reason == "takes-minutes"
    for step in steps_of(block)
]
TRIED_BY = {"-m chaos": "--help", "bin/pytest": "--collect-only"}
"""What makes a program look at its other arguments and end."""


@pytest.mark.parametrize("document", RUN)
async def test_the_commands_of_a_document_work(document: str, tmp_path: Path) -> None:
    assert await run_document(TEXTS[document], tmp_path) > 0


def test_the_documents_for_newcomers_are_among_them() -> None:
    assert {"README.md", "docs/http.md", "docs/relay.md", "docs/router.md"} <= set(RUN)


@pytest.mark.parametrize("command", LONG)
async def test_what_make_would_run_for_minutes_takes_its_arguments(
    command: str, tmp_path: Path
) -> None:
    furnish(tmp_path)
    dry = re.sub(r"\bmake\b", "make --dry-run --no-print-directory", command, count=1)
    assert dry != command, "only what make runs may take minutes"
    async with document_shell(tmp_path) as shell:
        await shell.take(Step(f"plan=$(\n{dry}\n)", None))
        for program, argument in TRIED_BY.items():
            tried = f'[[ "$plan" != *"{program}"* ]] || eval "$plan {argument}"'
            await shell.take(Step(tried, None))
        known = " && ".join(f'"$plan" != *"{program}"*' for program in TRIED_BY)
        await shell.take(Step(f"! [[ {known} ]]", None))


def test_what_is_run_where_it_is_installed_installs_and_nothing_else() -> None:
    commands = [
        step.command
        for text in TEXTS.values()
        for block in blocks_of(text)
        if block.reason == "installs"
        for step in steps_of(block)
    ]
    assert commands
    assert [each for each in commands if not INSTALL.match(each)] == []
