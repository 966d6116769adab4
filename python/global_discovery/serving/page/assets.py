"""The page's own files: style, script and picture, as they are in the package."""

from importlib.resources import files

from global_discovery.serving.rest.representation import Representation

_TYPES = {
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
PREFIX = "/page/"


def load_assets() -> dict[str, Representation]:
    """Each by its path. Asked for again each time, and answered with 304 while it is the same."""
    folder = files("global_discovery.serving.page") / "static"
    return {
        PREFIX + name: Representation((folder / name).read_bytes(), content_type)
        for name, content_type in _TYPES.items()
    }
