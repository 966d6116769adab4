"""The template engine: everything that a template shows is escaped, twice over.

Once for people, so that invisible and direction-changing characters are seen
(`domain/printable.py`), and once for HTML. A template that must give a value back
unchanged, as a form does, asks for `|e` alone.
"""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from global_discovery.domain.pool import PoolKey
from global_discovery.domain.printable import printable
from global_discovery.serving.page import words
from global_discovery.serving.rest.answer import INSTANCE

HTML = "text/html; charset=utf-8"
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of every page: nothing runs and nothing is loaded but our own files."""


def why_link(key: PoolKey) -> str:
    """To the explanation of a key."""
    return f"/why?{urlencode({'pool': str(key)})}"


class Rendering:
    """Templates of the package, compiled when they are first used."""

    def __init__(self) -> None:
        """Reads nothing yet."""
        self._environment = Environment(
            loader=PackageLoader("global_discovery.serving.page"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_finalize,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "duration": words.duration,
            "number": words.number,
            "sentence": words.sentence,
            "iso": _iso,
            "clock": _clock,
        }
        self._environment.globals |= {
            "count": words.count,
            "why_link": why_link,
            "instance_header": INSTANCE,
        }

    def render(self, template: str, **values: Any) -> bytes:
        """The whole document, in UTF-8."""
        text = self._environment.get_template(template).render(values)
        # A lone surrogate cannot come in, and is escaped if it does.
        return text.encode()


def _finalize(value: Any) -> Any:
    return printable(value) if type(value) is str else value


def _iso(seconds: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return f"{datetime.fromtimestamp(round(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(round(seconds), UTC):%H:%M:%S} UTC"
