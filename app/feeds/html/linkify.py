"""Typed text as HTML: the text is escaped, then addresses in it become links (bleach).

``*text*`` and ``_text_`` are emphasized, ``**text**`` strongly; lines that begin with ``>`` are a quote.
Nothing else is interpreted. Line breaks stay, and empty lines separate paragraphs.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote

from markupsafe import escape

from app.models.sharing.typed_text import EMPHASIS

Attrs = MutableMapping[Any, str] | None

#: Links open outside this site, send no referrer, and give no weight to search engines.
_REL = "noopener noreferrer nofollow ugc"
_PARTS = re.compile(r"\n[ \t]*\n\s*")
#: Quotes within quotes; deeper ones stay text.
_QUOTES = 3


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
    """Return typed text (line breaks ``\\n``) as HTML."""
    return _render_parts(text, _QUOTES)


def _render_parts(text: str, quotes: int) -> str:
    parts = (part.strip("\n") for part in _PARTS.split(text))
    return "".join(_render_part(part, quotes) for part in parts if part)


def _render_part(part: str, quotes: int) -> str:
    html = []
    lines = itertools.groupby(part.split("\n"), lambda line: bool(quotes) and line.startswith(">"))
    for quoted, group in lines:
        if quoted:
            inside = "\n".join(line[1:].removeprefix(" ") for line in group)
            html.append(f"<blockquote>{_render_parts(inside, quotes - 1)}</blockquote>")
        else:
            html.append(f"<p>{_emphasized(chr(10).join(group))}</p>")
    return "".join(html)


def _emphasized(text: str) -> str:
    # The addresses of links keep their stars and underscores.
    links: list[str] = []

    def replace_link(link: re.Match[str]) -> str:
        links.append(link.group())
        return "\0"

    html = _emphasize(re.sub(r"<a\b.*?</a>", replace_link, _linkify()(str(escape(text))), flags=re.S))
    shown = iter(links)
    return re.sub("\0", lambda _link: next(shown), html).replace("\n", "<br>")


def _emphasize(html: str) -> str:
    def mark_text(match: re.Match[str]) -> str:
        if match["strong"] is not None:
            return f"<strong>{_emphasize(match['strong'])}</strong>"
        return f"<em>{match['star'] if match['star'] is not None else match['line']}</em>"

    return EMPHASIS.sub(mark_text, html)


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
