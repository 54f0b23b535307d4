"""Typed text as HTML: the text is escaped, then addresses in it become links (bleach).

No markup and no pictures are interpreted. Line breaks stay, and empty lines separate paragraphs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote

from markupsafe import escape

Attrs = MutableMapping[Any, str] | None

#: Links open outside this site, send no referrer, and give no weight to search engines.
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
    # Built on first use: the workers that fetch feeds never render typed text.
    from bleach.linkifier import TLDS, Linker

    # Addresses with a scheme match any domain; bare ones only bleach's list, so "end.Then" isn't a link. Each
    # part is bounded and starts a word, so the time is linear. bleach's own pattern takes seconds for
    # ``a-a.a-a.a-…`` of 5,000 characters.
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
    """Return typed text (line breaks ``\\n``) as HTML with paragraphs, line breaks and links."""
    parts = (part.strip("\n") for part in _PARTS.split(text))
    return "".join(f"<p>{_linked(part)}</p>" for part in parts if part)


def link_mentions(markup: str, mention: re.Pattern[str], handles: Mapping[str, str]) -> str:
    """Link mentions of people in HTML of :func:`render_html` to their pages.

    Args:
        markup: HTML of :func:`render_html`.
        mention: the pattern of a mention; its group ``name`` holds the name as typed.
        handles: typed name → handle; other names stay plain text.
    """

    def link_mention(match: re.Match[str]) -> str:
        if match.group().startswith("<"):
            return match.group()
        handle = handles.get(match["name"])
        if handle is None:
            return match.group()
        return f'<a class="mention" href="/@{quote(handle)}">{match.group()}</a>'

    # Skip links as a whole, and other tags: the text between them is escaped.
    return re.sub(rf"<a\b.*?</a>|<[^>]*>|{mention.pattern}", link_mention, markup, flags=re.S)


def render_line(text: str) -> str:
    """Return typed text as HTML without paragraphs."""
    return _linked(text)


def _linked(text: str) -> str:
    return _linkify()(str(escape(text))).replace("\n", "<br>")
