"""The pictures of the documents can be read by everyone, and ask nobody for anything."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from support.documents import DOCUMENTS, ROOT

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = sorted(ROOT.glob("docs/images/*.svg"))
SHOWN = {
    (document.parent / path).resolve(): words
    for document in DOCUMENTS
    for words, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", document.read_text())
}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_tells_in_words_what_it_shows(picture: Path) -> None:
    root = ET.parse(picture).getroot()  # noqa: S314  # of our own repository
    assert root.get("role") == "img"
    assert all((root.findtext(f"{SVG}{name}") or "").strip() for name in ("title", "desc"))
    assert root.find(f"{SVG}text") is not None
    assert len(SHOWN[picture]) > 40, "what an image says to those who do not see it"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_can_be_read_on_dark_and_on_light(picture: Path) -> None:
    text = picture.read_text()
    assert "prefers-color-scheme: dark" in text
    assert 'class="paper"' in text, "a background of its own"
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
