"""What people type, as HTML: escaped first, then addresses in it become links (bleach).

Nothing else is understood: no markup, no pictures. Lines stay lines, empty lines part paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import quote

from bleach.linkifier import Linker, build_url_re
from markupsafe import escape

Attrs = MutableMapping[Any, str] | None

#: Links leave this site, tell nothing of it, and lend it no weight with search engines.
_REL = "noopener noreferrer nofollow ugc"
_PARTS = re.compile(r"\n[ \t]*\n\s*")


def _link(attrs: Attrs, new: bool = False) -> Attrs:
    if attrs is None or not attrs.get((None, "href"), "").startswith(("http://", "https://")):
        return None
    attrs[(None, "rel")] = _REL
    attrs[(None, "target")] = "_blank"
    return attrs


_LINKER = Linker(callbacks=[_link], url_re=build_url_re(protocols=["http", "https"]), parse_email=False)


def html(text: str) -> str:
    """Return typed text, its lines ended by ``\\n``, as HTML: paragraphs, lines, links."""
    parts = (part.strip("\n") for part in _PARTS.split(text))
    return "".join(f"<p>{_linked(part)}</p>" for part in parts if part)


def with_people(html: str, name: re.Pattern[str], handles: Mapping[str, str]) -> str:
    """Let the names of people in HTML of :func:`html` lead to their pages.

    Args:
        name: what a mention is; its group ``name`` holds the name as it was typed.
        handles: who is meant, by that; others are left as they are.
    """

    def link(found: re.Match[str]) -> str:
        if found.group().startswith("<"):
            return found.group()
        handle = handles.get(found["name"])
        if handle is None:
            return found.group()
        return f'<a class="mention" href="/@{quote(handle)}">{found.group()}</a>'

    # Links are passed over whole, other tags too: what is between them is escaped text.
    return re.sub(rf"<a\b.*?</a>|<[^>]*>|{name.pattern}", link, html, flags=re.S)


def line(text: str) -> str:
    """Return typed text as HTML without paragraphs."""
    return _linked(text)


def _linked(text: str) -> str:
    linked: str = _LINKER.linkify(str(escape(text)))
    return linked.replace("\n", "<br>")
