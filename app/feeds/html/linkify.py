"""What people type, as HTML: escaped first, then addresses in it become links (bleach).

Nothing else is understood: no markup, no pictures. Lines stay lines, empty lines part paragraphs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote

from markupsafe import escape

Attrs = MutableMapping[Any, str] | None

#: Links leave this site, tell nothing of it, and lend it no weight with search engines.
_REL = "noopener noreferrer nofollow ugc"
_PARTS = re.compile(r"\n[ \t]*\n\s*")


def _link(attrs: Attrs, new: bool = False) -> Attrs:
    if attrs is None or not attrs.get((None, "href"), "").lower().startswith(("http://", "https://")):
        return None
    attrs[(None, "rel")] = _REL
    attrs[(None, "target")] = "_blank"
    return attrs


@functools.cache
def _linkify() -> Callable[[str], str]:
    # Not before somebody's words are shown: the workers that fetch feeds have none.
    from bleach.linkifier import TLDS, Linker

    # An address: with its scheme below any domain, bare below one of bleach's list alone, as "end.Then" is
    # none. Each part has an end and begins a word, so that the time is in proportion to the text; with the
    # pattern of bleach itself ``a-a.a-a.a-…`` of 5,000 characters takes seconds.
    bare = "|".join(sorted(TLDS, reverse=True))
    address = re.compile(
        r"(?<![\w@.:/-])(?:https?://(?:[\w-]{1,63}\.){1,8}[^\W\d_][\w-]{1,62}"
        rf"|(?:[\w-]{{1,63}}\.){{1,8}}(?:{bare}))(?::\d{{1,5}})?(?!\.?\w|[@-])"
        r"(?:[/?#][^\s<>\"]*)?",
        re.IGNORECASE,
    )
    linker = Linker(callbacks=[_link], url_re=address, parse_email=False)
    return lambda escaped: str(linker.linkify(escaped))


def render_html(text: str) -> str:
    """Return typed text, its lines ended by ``\\n``, as HTML: paragraphs, lines, links."""
    parts = (part.strip("\n") for part in _PARTS.split(text))
    return "".join(f"<p>{_linked(part)}</p>" for part in parts if part)


def link_mentions(markup: str, mention: re.Pattern[str], handles: Mapping[str, str]) -> str:
    """Let the names of people in HTML of :func:`html` lead to their pages.

    Args:
        name: what a mention is; its group ``name`` holds the name as it was typed.
        handles: who is meant, by that; others are left as they are.
    """

    def link_mention(match: re.Match[str]) -> str:
        if match.group().startswith("<"):
            return match.group()
        handle = handles.get(match["name"])
        if handle is None:
            return match.group()
        return f'<a class="mention" href="/@{quote(handle)}">{match.group()}</a>'

    # Links are passed over whole, other tags too: what is between them is escaped text.
    return re.sub(rf"<a\b.*?</a>|<[^>]*>|{mention.pattern}", link_mention, markup, flags=re.S)


def render_line(text: str) -> str:
    """Return typed text as HTML without paragraphs."""
    return _linked(text)


def _linked(text: str) -> str:
    return _linkify()(str(escape(text))).replace("\n", "<br>")
