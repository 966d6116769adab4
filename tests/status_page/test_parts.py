"""The parts of the page that can be looked at alone: words, colours, the package."""

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from global_discovery.domain.completeness import Reason
from global_discovery.serving.page import words
from global_discovery.serving.page.rendering import TEMPLATES

PAGE = files("global_discovery.serving.page")
STYLE = (PAGE / "static" / "style.css").read_text()
SCRIPT = (PAGE / "static" / "page.js").read_text()


def test_every_reason_is_said_in_words_with_what_to_do() -> None:
    said = words.said(frozenset(Reason))
    assert [one.code for one in said] == sorted(reason.value for reason in Reason)
    assert all(one.what.endswith(".") and one.do.endswith(".") for one in said)
    assert len({one.what for one in said}) == len(Reason)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0~s"),
        (0.4, "0~s"),
        (59.4, "59~s"),
        (59.6, "1~min"),
        (125, "2~min 5~s"),
        (3600, "1~h"),
        (12_345, "3~h 25~min"),
        (86_400 * 12 + 3600 * 4, "12~d 4~h"),
    ],
)
def test_durations_are_told_in_two_units_at_most(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text.replace("~", "\u00a0")


def test_numbers_are_told_in_groups() -> None:
    assert words.number(10_000) == "10\u202f000"
    assert words.number(1.5) == "1.5"
    assert words.count(1, "pool") == "1 pool"
    assert words.count(0, "pool") == "0 pools"


# -- colours: WCAG 2.2, 1.4.3 and 1.4.11 ---------------------------------------

TEXTS = [
    ("ink", "ground"),
    ("ink", "sheet"),
    ("ink", "chip"),
    ("ink", "good-ground"),
    ("ink", "doubt-ground"),
    ("quiet", "ground"),
    ("quiet", "sheet"),
    ("quiet", "good-ground"),
    ("quiet", "doubt-ground"),
    ("quiet", "chip"),
    ("link", "ground"),
    ("link", "sheet"),
    ("link", "good-ground"),
    ("link", "doubt-ground"),
    ("good", "good-ground"),
    ("good", "ground"),
    ("good", "sheet"),
    ("doubt", "doubt-ground"),
    ("doubt", "ground"),
    ("doubt", "sheet"),
    ("bad", "bad-ground"),
    ("bad", "sheet"),
    ("ink", "fresh"),
    ("quiet", "fresh"),
    ("link", "fresh"),
]
SHAPES = [("focus", "ground"), ("focus", "sheet"), ("quiet", "sheet"), ("good-edge", "ground")]


def colours(scheme: str) -> dict[str, str]:
    light, _, rest = STYLE.partition("@media (prefers-color-scheme: dark)")
    found = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light))
    if scheme == "dark":
        found |= dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", rest.partition("@media")[0]))
    return found


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_its_ground(scheme: str) -> None:
    palette = colours(scheme)
    weak = {
        pair: round(contrast(palette[pair[0]], palette[pair[1]]), 2)
        for pair, least in [*((pair, 4.5) for pair in TEXTS), *((pair, 3.0) for pair in SHAPES)]
        if contrast(palette[pair[0]], palette[pair[1]]) < least
    }
    assert weak == {}


def test_every_colour_of_the_light_scheme_has_a_dark_one() -> None:
    dark = STYLE.partition("@media (prefers-color-scheme: dark)")[2].partition("@media")[0]
    assert set(re.findall(r"--([a-z-]+): #", dark)) == set(colours("light"))


def test_motion_is_left_out_for_who_wants_that() -> None:
    assert "prefers-reduced-motion: reduce" in STYLE


# -- what the files do not do ---------------------------------------------------


def test_the_files_name_no_other_host() -> None:
    for text in (STYLE, SCRIPT, (PAGE / "static" / "icon.svg").read_text()):
        assert (
            re.findall(
                r"(?<!\w)(?:https?:)?//[a-z]", text.replace("http://www.w3.org/2000/svg", "")
            )
            == []
        )
        assert "@import" not in text
        assert "url(" not in text


@pytest.mark.parametrize("word", ["innerHTML", "outerHTML", "insertAdjacent", "eval(", "Function("])
def test_the_script_makes_no_markup_of_text(word: str) -> None:
    assert word not in SCRIPT


def test_no_template_turns_escaping_off_or_has_a_style_or_a_script_in_it() -> None:
    for name in (*TEMPLATES, "base.html", "parts.html"):
        text = (PAGE / "templates" / name).read_text()
        assert not re.search(
            r"\|\s*safe|autoescape|<style|style=|<script(?! src=)| on[a-z]+=", text
        )


def test_the_wheel_has_the_pages_files(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    folder = "global_discovery/serving/page"
    for name in ("static/style.css", "static/page.js", "static/icon.svg"):
        assert f"{folder}/{name}" in listed
    for name in (*TEMPLATES, "base.html", "parts.html"):
        assert f"{folder}/templates/{name}" in listed
