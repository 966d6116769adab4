"""The commands of the documents work, in their order, and print what is said."""

from pathlib import Path

import pytest

from support.document_shell import run_document
from support.documents import DOCUMENTS, ROOT, blocks_of

TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in DOCUMENTS}
RUN = [name for name, text in TEXTS.items() if any(block.runs for block in blocks_of(text))]


@pytest.mark.parametrize("document", RUN)
async def test_the_commands_of_a_document_work(document: str, tmp_path: Path) -> None:
    assert await run_document(TEXTS[document], tmp_path) > 0


def test_the_documents_for_newcomers_are_among_them() -> None:
    assert {"README.md", "docs/http.md", "docs/relay.md", "docs/router.md"} <= set(RUN)
