"""Pages with a list of entries, each marked by hand: those of the corpus, and those beside this module."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support import corpus

_HERE = Path(__file__).parent
#: The list of entries of each page: the addresses of its entries.
MARKS: dict[str, list[str]] = json.loads((_HERE / "page_lists.json").read_bytes())


def read_marked(name: str) -> tuple[str, bytes]:
    """Return the address and the content of a page of :data:`MARKS`."""
    place = _HERE if name.startswith("list_pages/") else corpus.root() / "html"
    return f"https://{Path(name).name.rpartition('-')[0]}/", (place / name).read_bytes()
