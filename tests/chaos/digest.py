"""What was broken, in so few characters that the end of a cut-off log shows all of it."""

from collections.abc import Iterable, Sequence

ROOM = 700
"""Characters. Whoever shows only the end of a failed run shows about a thousand, make's too."""
LEAST = 60
"""Characters below which a sentence says nothing any more."""


def digest(breaches: Iterable[tuple[str, str]], *, room: int = ROOM) -> list[str]:
    """A line for each breach, given with its scenario; those that have no room are counted.

    Long ones lose their middle: a breach begins with the promise, and a traceback ends
    with its exception. All stories are left out.
    """
    sentences = [f"{name}: {breach.splitlines()[0]}" for name, breach in breaches]
    shown = sentences[: max(1, room // LEAST)]
    lines = _within(shown, room)
    if len(sentences) > len(shown):
        lines.append(f"and {len(sentences) - len(shown)} more")
    return lines


def _within(sentences: Sequence[str], room: int) -> list[str]:
    """Short ones whole; the long ones share what these leave."""
    lines = list(sentences)
    by_length = sorted(range(len(lines)), key=lambda index: len(lines[index]))
    for done, index in enumerate(by_length):
        lines[index] = _cut(lines[index], room // (len(lines) - done))
        room -= len(lines[index])
    return lines


def _cut(sentence: str, most: int) -> str:
    if len(sentence) <= most:
        return sentence
    head = (most - 1) // 2
    return f"{sentence[:head]}…{sentence[head + 1 - most :]}"
