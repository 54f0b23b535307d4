"""Anchors in entries: the ids of footnotes and other targets of links, apart from those of the page."""

from __future__ import annotations

import re
from typing import Final

#: Begins each id in sanitized HTML (H06), and no id of our pages.
PREFIX: Final = "at-"
_TAG: Final = re.compile(r"<[a-z][^<>]*>")


def scope_anchors(markup: str, entry_id: int) -> str:
    """Return sanitized HTML with its ids, and the links to them, made unique for an entry."""
    if f'"{PREFIX}' not in markup:
        return markup

    def scope_tag(tag: re.Match[str]) -> str:
        return (
            tag[0]
            .replace(f' id="{PREFIX}', f' id="{PREFIX}{entry_id}-')
            .replace(f' href="#{PREFIX}', f' href="#{PREFIX}{entry_id}-')
        )

    return _TAG.sub(scope_tag, markup)
