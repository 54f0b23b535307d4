"""Entry HTML made safe to show: an explicit allow-list over a browser-grade parser (nh3, html5ever).

    prepare (plain text work: frames to links, svg and noscript away) → shape check (X02) → nh3 with one
    filter per attribute (addresses resolved and judged in the same pass) → finish (links and images get
    their fixed attributes, tracking pixels go)

Everything before nh3 may be fooled by odd markup without harm, since nh3 sees its result. What comes after
relies on one property of nh3's output, which a test guards: ``<`` only ever starts a tag there, it is escaped
in text and in attribute values.
"""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

import nh3

from app.feeds import embeds, prescan, text, urls

#: Raised whenever the same input may come out differently, so that stored entries are cleaned again (H03).
SANITIZER_VERSION = 1

MAX_HTML = 1 << 20
MAX_DATA_URL = 64 << 10
_SETTLE = 8

TAGS = frozenset(
    [
        *(
            "a",
            "abbr",
            "acronym",
            "address",
            "article",
            "aside",
            "audio",
            "b",
            "bdi",
            "bdo",
            "big",
            "blockquote",
        ),
        *(
            "br",
            "caption",
            "cite",
            "code",
            "col",
            "colgroup",
            "dd",
            "del",
            "details",
            "dfn",
            "div",
            "dl",
            "dt",
        ),
        *(
            "em",
            "figcaption",
            "figure",
            "footer",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "header",
            "hr",
            "i",
            "img",
        ),
        *("ins", "kbd", "li", "mark", "ol", "p", "picture", "pre", "q", "rp", "rt", "ruby", "s", "samp"),
        *(
            "section",
            "small",
            "source",
            "span",
            "strike",
            "strong",
            "sub",
            "summary",
            "sup",
            "table",
            "tbody",
        ),
        *("td", "tfoot", "th", "thead", "time", "tr", "tt", "u", "ul", "var", "video", "wbr"),
    ]
)
#: Removed with all that is in them; of any other unknown element the content stays.
DROPPED = frozenset(
    [
        *("script", "style", "iframe", "template", "title", "textarea", "xmp", "noembed", "noframes", "svg"),
        *("select", "button", "canvas", "datalist", "dialog"),
    ]
)
#: No edit of the lists above may ever let one of these in (H01).
NEVER = frozenset(
    [
        *("svg", "math", "style", "noscript", "template", "iframe", "frame", "frameset", "form", "input"),
        *(
            "button",
            "select",
            "option",
            "textarea",
            "object",
            "embed",
            "base",
            "meta",
            "link",
            "title",
            "xmp",
        ),
        *("plaintext", "noembed", "noframes", "script", "applet", "marquee", "portal", "dialog"),
    ]
)
_LAZY = ("data-src", "data-lazy-src", "data-original")
ATTRIBUTES: dict[str, set[str]] = {
    "*": {"dir", "lang", "title"},
    "a": {"href"},
    "audio": {"src"},
    "col": {"span"},
    "colgroup": {"span"},
    "details": {"open"},
    "del": {"datetime"},
    "img": {"alt", "src", "srcset", "sizes", "width", "height", *_LAZY},
    "ins": {"datetime"},
    "li": {"value"},
    "ol": {"start", "reversed", "type"},
    "source": {"src", "srcset", "sizes", "type"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    "time": {"datetime"},
    "video": {"src", "poster", "width", "height"},
}

_RENAMED = re.compile(
    r"<(/?)(?:center|main|nav|fieldset|form|dir|menu|hgroup|layer)(?=[\s/>])[^<>]*>", re.IGNORECASE
)
_NOSCRIPT = re.compile(r"</?noscript(?=[\s/>])[^<>]*>", re.IGNORECASE)
_SVG = re.compile(r"<svg(?=[\s/>]).*?</svg\s*>", re.IGNORECASE | re.DOTALL)
_SVG_END = re.compile(r"</svg\s*>", re.IGNORECASE)
_PRE = re.compile(r"<pre>\n+")
_IMAGE = re.compile(r"<img(?: ([^>]*))?>")
_SOURCE = re.compile(r'(?:^| )(?:src|srcset)="')
_PIXEL = (re.compile(r'(?:^| )width="[01]"'), re.compile(r'(?:^| )height="[01]"'))
_BEACON = re.compile(
    r'(?:^| )src="https?://(?:feeds\.feedburner\.com/~(?:r|ff)/|feeds\.wordpress\.com/1\.0/|stats\.wordpress\.com/'
    r"|pixel\.wp\.com/|pixel\.quantserve\.com/|(?:s)?b\.scorecardresearch\.com/|da\.feedsportal\.com/"
    r"|www\.google-analytics\.com/|(?:ad|googleads\.g)\.doubleclick\.net/|[^/\"]+/(?:wp-json/)?pixel\.gif\?)"
)
_LAZY_VALUE = re.compile(r' ?(?:data-src|data-lazy-src|data-original)="([^"]*)"')
_EMPTY_SRC = re.compile(r'(?:^| )src="(?:data:[^"]*|[^"]*(?:blank|spacer|placeholder|lazy|loading)[^"]*)"')
_DATA_IMAGE = re.compile(
    r"data:image/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/]*={0,2}", re.IGNORECASE | re.ASCII
)
_SIZES = re.compile(r"[A-Za-z0-9\s().,:%*/+-]{1,500}", re.ASCII)
_DESCRIPTOR = re.compile(r"\d{1,6}(?:\.\d{1,4})?[wx]", re.ASCII)

_LINK_ATTRIBUTES = 'rel="noopener noreferrer nofollow ugc" target="_blank" referrerpolicy="no-referrer"'
_IMAGE_ATTRIBUTES = 'loading="lazy" decoding="async" referrerpolicy="no-referrer"'


class _Context(threading.local):
    """Where the addresses of the entry in hand are relative to; nh3 calls the filter without context."""

    base = ""
    own: tuple[str, int] | None = None


_context = _Context()


def sanitize(markup: str, base_url: str, *, own_origin: str | None = None) -> str:
    """Return entry HTML that is safe inside a page of ours. Never raises; the time is linear in the size.

    Args:
        markup: HTML as published.
        base_url: absolute address that relative ones are resolved against.
        own_origin: our own ``scheme://host[:port]``; media from there are dropped (H05).

    What cannot be parsed at fair cost comes out as its text in one paragraph.
    """
    markup = _encodable(markup if len(markup) <= MAX_HTML else text.cut(markup, MAX_HTML))
    if "<" not in markup and "&" not in markup and ">" not in markup:
        return markup.replace("\0", "")
    try:
        return _clean(markup, base_url, _own(own_origin))
    except BaseException as e:
        # A panic inside nh3 arrives as a BaseException of a class that cannot be imported.
        if type(e).__name__ not in ("PanicException", "RecursionError", "ValueError"):
            raise
        return _as_text(markup)


def _clean(markup: str, base_url: str, own: tuple[str, int] | None) -> str:
    markup = _prepare(markup, base_url)
    if prescan.hostile(markup):
        return _as_text(markup)
    _context.base, _context.own = base_url, own
    result = _finish(_CLEANER.clean(markup))
    # Taking out what is not allowed can leave a tree that its own text does not give: settle it.
    for _ in range(_SETTLE):
        if not prescan.nests_oddly(result):
            return result
        again = _finish(_CLEANER.clean(result))
        if again == result:
            return result
        result = again
    return _as_text(result)


def _encodable(markup: str) -> str:
    try:
        markup.encode("utf-8")
    except UnicodeEncodeError:
        return markup.encode("utf-8", "replace").decode("utf-8")
    return markup


def _as_text(markup: str) -> str:
    words = text.flat(markup)
    return f"<p>{html.escape(words, quote=False)}</p>" if words else ""


# -- before nh3

_PREPARED = re.compile(
    r"<(?:/?noscript|svg|iframe|embed|center|main|nav|fieldset|form|dir|menu|hgroup|layer)[\s/>]",
    re.IGNORECASE,
)


def _prepare(markup: str, base_url: str) -> str:
    if not _PREPARED.search(markup):
        return markup
    markup = _NOSCRIPT.sub("", _without_svg(markup))
    return _RENAMED.sub(r"<\1div>", embeds.as_links(markup, base_url))


def _without_svg(markup: str) -> str:
    # Only up to the last end tag, so that no unclosed <svg makes each search run to the end.
    last = max((m.end() for m in _SVG_END.finditer(markup)), default=0)
    return _SVG.sub("", markup[:last]) + markup[last:] if last else markup


# -- inside nh3: one function per attribute, None drops it


def _href(value: str) -> str | None:
    url = urls.resolve(value, _context.base)
    return urls.without_tracking(url) if url and "?" in url else url


def _src(value: str) -> str | None:
    url = urls.resolve(value, _context.base)
    if url is None or url[0] != "h":
        return None
    return None if _context.own and _is_own(url, _context.own) else url


def _img_src(value: str) -> str | None:
    if value[:5].lower() == "data:":
        # Four characters of base64 carry three bytes.
        fits = len(value) <= MAX_DATA_URL * 4 // 3 + 32
        return value if fits and _DATA_IMAGE.fullmatch(value) else None
    return _src(value)


def _srcset(value: str) -> str | None:
    """Return the candidates whose address stands; HTML standard §4.8.4.2.1, without data: addresses."""
    if len(value) > 16384 or "data:" in value:
        return None
    kept = []
    for part in re.split(r",\s+|,(?=https?://)", value.strip()):
        words = part.strip(" \t\n\f\r,").split()
        url = _src(words[0]) if words else None
        if url and len(words) <= 2 and all(_DESCRIPTOR.fullmatch(w) for w in words[1:]):
            kept.append(" ".join([url.replace(",", "%2C"), *words[1:]]))
    return ", ".join(kept) or None


def _pixels(value: str) -> str | None:
    number = value.strip().removesuffix("px")
    return str(int(number)) if number.isascii() and number.isdigit() and len(number) <= 5 else None


def _span(value: str) -> str | None:
    number = _pixels(value)
    return number if number and 0 < int(number) <= 1000 else None


def _flag(value: str) -> str:
    return ""


def _one_of(*words: str) -> Callable[[str], str | None]:
    return lambda value: value if value.lower() in words else None


def _like(pattern: str) -> Callable[[str], str | None]:
    fits = re.compile(pattern, re.ASCII)
    return lambda value: value if fits.fullmatch(value) else None


_FILTERS: dict[str, Callable[[str], str | None]] = {
    "colspan": _span,
    "datetime": _like(r"[0-9A-Za-z :.,+-]{1,64}"),
    "dir": _one_of("ltr", "rtl", "auto"),
    "height": _pixels,
    "href": _href,
    "lang": _like(r"[A-Za-z0-9-]{1,35}"),
    "open": _flag,
    "poster": _src,
    "reversed": _flag,
    "rowspan": _span,
    "scope": _one_of("row", "col", "rowgroup", "colgroup"),
    "sizes": lambda value: value if _SIZES.fullmatch(value) else None,
    "span": _span,
    "src": _src,
    "srcset": _srcset,
    "start": _like(r"-?\d{1,6}"),
    "type": _like(r"[1aAiI]|[a-z]+/[A-Za-z0-9.+-]{1,60}"),
    "value": _like(r"-?\d{1,6}"),
    "width": _pixels,
    **dict.fromkeys(_LAZY, _src),
}


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "src" and tag == "img":
        return _img_src(value)
    judge = _FILTERS.get(name)
    return judge(value) if judge else value


_CLEANER = nh3.Cleaner(
    tags=set(TAGS),
    clean_content_tags=set(DROPPED),
    attributes=ATTRIBUTES,
    attribute_filter=_attribute,
    link_rel=None,
    url_schemes={"http", "https", "mailto", "data"},  # data: only gets past _img_src
)


def _own(origin: str | None) -> tuple[str, int] | None:
    return _place(origin) if origin else None


def _place(url: str) -> tuple[str, int] | None:
    """Return (host, port) with the default ports as one: cookies know neither scheme nor port."""
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError:
        return None
    return (parts.hostname or "").rstrip("."), 80 if port == 443 else port


def _is_own(url: str, own: tuple[str, int]) -> bool:
    """Return whether a browser may take the address for ours; odd spellings of hosts count as ours."""
    place = _place(url)
    if place is None or "@" in urlsplit(url).netloc or "%" in place[0] or not place[0].isascii():
        return True
    label = place[0].rpartition(".")[2]
    numeric = label.isdigit() or label.startswith("0x")
    odd = numeric and not re.fullmatch(r"(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})", place[0])
    return odd or place == own


# -- after nh3


def _finish(markup: str) -> str:
    if "<pre>\n" in markup:
        markup = _PRE.sub("<pre>", markup)  # a parser drops that line break, and only the first one
    if "<img" in markup:
        markup = _IMAGE.sub(_image, markup)
    if "<a " in markup:
        markup = markup.replace("<a ", f"<a {_LINK_ATTRIBUTES} ")
    if "<video" in markup or "<audio" in markup:
        for name in ("video", "audio"):
            markup = markup.replace(f"<{name}", f'<{name} controls="" preload="none"')
    return markup


def _image(match: re.Match[str]) -> str:
    attributes = match[1] or ""
    if "data-" in attributes:
        attributes = _unlazy(attributes)
    if not _SOURCE.search(attributes) or _BEACON.search(attributes):
        return ""
    if all(side.search(attributes) for side in _PIXEL):
        return ""
    return f"<img {_IMAGE_ATTRIBUTES} {attributes}>"


def _unlazy(attributes: str) -> str:
    """Return attributes with the address that a script would have put in as ``src``."""
    real = _LAZY_VALUE.search(attributes)
    rest = _LAZY_VALUE.sub("", attributes).strip()
    if real is None or (' src="' in f" {rest}" and not _EMPTY_SRC.search(rest)):
        return rest
    return f'src="{real[1]}" {_EMPTY_SRC.sub("", rest).strip()}'.strip()
