"""What people type, as HTML: escaped first, then addresses in it become links (bleach).

Nothing else is understood: no markup, no pictures. Lines stay lines, empty lines part paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

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


def line(text: str) -> str:
    """Return typed text as HTML without paragraphs."""
    return _linked(text)


def _linked(text: str) -> str:
    linked: str = _LINKER.linkify(str(escape(text)))
    return linked.replace("\n", "<br>")
