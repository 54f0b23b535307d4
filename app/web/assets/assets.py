"""Static files: read once at startup, named by their hash, compressed in advance, cached forever."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import json
import re
from importlib import resources
from importlib.resources.abc import Traversable

from app.web.assets import bundle

#: In a checkout, a link to the top folder ``static``; a wheel contains the files themselves.
STATIC = resources.files("app.web").joinpath("static")
ENTRY = "app"
#: The order of the cascade: tokens, then elements, then components, then screens.
STYLES = (
    "tokens",
    "base",
    "controls",
    "shell",
    "tree",
    "list",
    "labels",
    "share",
    "article",
    "forms",
    "keys",
    "media",
)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
#: Files that are compressed already.
_COMPRESSED = (".ico", ".jpg", ".png", ".webp", ".woff2")
_REFERENCE = re.compile(r'url\("([\w.-]+)"\)')


@dataclasses.dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent; ``packed`` is its gzip form, or the file itself if that isn't smaller."""

    path: str
    type: str
    body: bytes
    packed: bytes


class Assets:
    """All static files by hashed address, and their addresses by plain name."""

    def __init__(self, folder: Traversable = STATIC) -> None:
        self._by_path: dict[str, Asset] = {}
        self._urls: dict[str, str] = {}
        # First, because style sheets refer to fonts.
        for name, file in _vendored(folder / "vendor").items():
            self._add(name, file.read_bytes())
        styles = _read_files(folder / "css", ".css")
        self._add_style("app.css", [styles[f"{name}.css"] for name in STYLES])
        modules = {_stem(name): text for name, text in _read_files(folder / "js", ".js").items()}
        self._add("app.js", bundle.bundle_javascript(modules, ENTRY))
        for name, text in _read_files(folder / "js" / "screens", ".js").items():
            self._add(name, bundle.bundle_screen(modules, ENTRY, _stem(name), text))
        for name, text in _read_files(folder / "css" / "screens", ".css").items():
            self._add_style(name, [text])
        for file in sorted((folder / "img").iterdir(), key=lambda file: file.name):
            self._add(file.name, file.read_bytes())
        #: The service worker, whose address must never change.
        self.worker = _read(folder / "js" / "worker" / "push.js")

    def _add_style(self, name: str, parts: list[str]) -> None:
        text = bundle.bundle_stylesheet(parts)
        self._add(name, _REFERENCE.sub(lambda file: f'url("{self.get_url(file[1])}")', text))

    def _add(self, name: str, content: str | bytes) -> None:
        body = content.encode() if isinstance(content, str) else content
        stem, _, suffix = name.rpartition(".")
        path = f"{stem}.{hashlib.sha256(body).hexdigest()[:12]}.{suffix}"
        packed = body if name.endswith(_COMPRESSED) else gzip.compress(body, 9, mtime=0)
        self._by_path[path] = Asset(path, _TYPES[f".{suffix}"], body, packed)
        self._urls[name] = f"/static/{path}"

    def get_url(self, name: str) -> str:
        """Return the hashed address of a file, ``app.css`` → ``/static/app.3f….css``."""
        return self._urls[name]

    def get(self, path: str) -> Asset | None:
        """Return the file at an address below ``/static/``."""
        return self._by_path.get(path)

    @property
    def all(self) -> tuple[Asset, ...]:
        """Return all files."""
        return tuple(self._by_path.values())


def _read(path: Traversable) -> str:
    return path.read_text("utf-8")


def _read_files(folder: Traversable, suffix: str = "") -> dict[str, str]:
    """Return file name → text of a folder's own files with this suffix, sorted by name."""
    files = (file for file in folder.iterdir() if file.is_file() and file.name.endswith(suffix))
    return {file.name: _read(file) for file in sorted(files, key=lambda file: file.name)}


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _vendored(folder: Traversable) -> dict[str, Traversable]:
    listed = json.loads(_read(folder / "vendor.json"))
    return {entry["serve_as"]: folder / entry["folder"] / entry["file"] for entry in listed}


@functools.cache
def load_assets() -> Assets:
    """Return the static files of this process, read at the first call."""
    return Assets()
