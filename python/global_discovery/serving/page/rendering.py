"""The template engine: everything that a template shows is escaped, twice over.

Once for people, so that invisible and direction-changing characters are seen
(`domain/printable.py`), and once for HTML. A template that must give a value back
unchanged, as a form does, asks for `|e` alone.
"""

import asyncio
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from global_discovery.domain.pool import PoolKey
from global_discovery.domain.printable import printable
from global_discovery.serving.page import words

HTML = "text/html; charset=utf-8"
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of every page: nothing runs and nothing is loaded but our own files."""


def why_link(key: PoolKey) -> str:
    """To the explanation of a key."""
    return f"/why?{urlencode({'pool': str(key)})}"


PIECES_A_TURN = 400
TEMPLATES = ("status.html", "why.html", "error.html")


class Rendering:
    """The templates of the package."""

    def __init__(self) -> None:
        """Compiles them, the first time in a process."""
        self._templates = _compiled()

    async def render(self, template: str, **values: Any) -> bytes:
        """The whole document, in UTF-8; the loop does other things now and then.

        Values must not change meanwhile.
        """
        pieces: list[str] = []
        for piece in self._templates[template].generate(values):
            pieces.append(piece)
            if not len(pieces) % PIECES_A_TURN:
                await asyncio.sleep(0)
        return "".join(pieces).encode()


@cache
def _compiled() -> dict[str, Template]:
    environment = Environment(
        loader=PackageLoader("global_discovery.serving.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "duration": words.duration,
        "number": words.number,
        "sentence": words.sentence,
        "iso": _iso,
        "clock": _clock,
    }
    environment.globals |= {"count": words.count, "why_link": why_link}
    return {
        name: environment.get_template(name) for name in (*TEMPLATES, "base.html", "parts.html")
    }


def _finalize(value: Any) -> Any:
    return printable(value) if type(value) is str else value


def _iso(seconds: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return f"{datetime.fromtimestamp(round(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(round(seconds), UTC):%H:%M:%S} UTC"
