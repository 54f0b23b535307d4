"""Allow-list: which elements, attributes and attribute values an entry's HTML may contain.

nh3 calls :func:`filter_attribute` for each listed attribute, in the same pass as its parsing.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from app.feeds import media_targets, urls
from app.feeds.fetch.address_policy import Policy
from app.feeds.html import anchors, code, drawings, hidden
from app.models.reading.anchors import PREFIX

MAX_DATA_URL = 64 << 10
#: Most characters of all resolved relative addresses of an entry, so that small input stays small.
MAX_ADDRESSES = 2 << 20
#: Characters counted per address besides its own: the attributes that come with it.
_ADDRESS_COST = 32
MAX_CANDIDATES = 32
#: Judged absolute addresses that a process remembers, of links and of media: at most 4 MB. Entries of a feed
#: share many. The answer depends on nothing but the address and our own origin.
_CACHED, _CACHED_LENGTH = 4096, 512


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


TAGS = _words(
    "a abbr acronym address article aside b bdi bdo big blockquote br caption cite code col "
    "colgroup dd del details dfn div dl dt em figcaption figure footer h1 h2 h3 h4 h5 h6 header hr i "
    "img ins kbd li mark ol p picture pre q rp rt ruby s samp section small source span strike strong "
    "sub summary sup table tbody td tfoot th thead time tr tt u ul var wbr"
)
#: Removed with their content; other unknown elements lose only their tags.
DROPPED = _words(
    "script style iframe template title textarea xmp noembed noframes svg select datalist dialog"
)
#: Elements that the lists above must never allow (H01).
NEVER = _words(
    "svg math style noscript template iframe frame frameset form input button select option textarea "
    "object embed base meta link title xmp plaintext noembed noframes script applet marquee portal "
    "dialog"
)
#: Attributes from which scripts load a picture when it scrolls into view.
LAZY = ("data-src", "data-lazy-src", "data-original", "data-pagespeed-lazy-src")
LAZY_SETS = ("data-srcset", "data-lazy-srcset")
#: A media condition that never matches. A source without its condition would match everywhere.
UNMET = "not all"
ATTRIBUTES: dict[str, set[str]] = {
    "*": {"dir", "lang", "title"},
    "a": {"href", "type"},
    "col": {"span"},
    "colgroup": {"span"},
    "details": {"open"},
    "del": {"datetime"},
    "img": {"align", "alt", "src", "srcset", "sizes", "width", "height", *LAZY, *LAZY_SETS},
    "ins": {"datetime"},
    "li": {"value"},
    "ol": {"start", "reversed", "type"},
    "source": {"src", "srcset", "sizes", "type", "media", *LAZY_SETS},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    "time": {"datetime"},
}

_DATA_IMAGE = re.compile(
    r"data:image/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/]*={0,2}", re.IGNORECASE | re.ASCII
)
_SIZES = re.compile(r"[A-Za-z0-9\s().,:%*/+-]{1,500}", re.ASCII)
_MEDIA = re.compile(r"[A-Za-z0-9\s():.,/<>=-]{1,200}", re.ASCII)
#: Values of lazy attributes that are addresses, not sizes, ratios or names.
_ADDRESS = re.compile(r"\s*(?:https?:|\.{0,2}/)|[^?#]*\.[A-Za-z]{3,4}\s*(?:[?#]|\Z)", re.IGNORECASE)
#: A candidate that ends without a space before the next candidate.
_TIGHT = re.compile(r"(\s\d{1,6}(?:\.\d{1,4})?[wx]),")
#: An address that would end at a comma when its set is parsed again. Other commas stay, for signed URLs.
_SPLIT = re.compile(r",(?:https?://|\Z)")
_DESCRIPTOR = re.compile(r"\d{1,6}(?:\.\d{1,4})?[wx]", re.ASCII)
#: Typical hosts without a port: no IP address, no escape, no user name.
_USUAL_HOST = re.compile(r"https?://((?:[a-z0-9-]+\.)+[a-z]{2,})(?=[/?]|\Z)")
_LOOPBACK = re.compile(r"(?:.*\.)?localhost|127(?:\.\d{1,3}){3}|::1|::ffff:(?:127\..*|7f[0-9a-f]{2}:.*)")


class _Context(threading.local):
    """The base addresses of the current entry, per thread; nh3 calls the filter without context."""

    base = ""
    page = ""
    own_origin: tuple[str, int] | None = None
    left = 0
    policy: Policy | None = None
    targets: frozenset[str] = frozenset()


_context = _Context()


def bind(
    base_url: str,
    own_origin: str | None,
    policy: Policy | None = None,
    targets: frozenset[str] = frozenset(),
) -> None:
    """Set the base addresses and our own origin (H05) for the next pass.

    Args:
        base_url: as in :class:`app.models.feeds.parsed.ParsedEntry`.
        own_origin: ``scheme://host[:port]``; None filters no media.
        policy: which media may load; None for the default rules.
        targets: ids of the entry that its own links lead to.
    """
    _context.policy = policy
    _context.targets = targets
    page = base_url.partition("#")[2] if "#http" in base_url else ""
    _context.base, _context.page = _short(base_url), _short(page or base_url)
    _context.own_origin = _own_place(own_origin) if own_origin else None
    _context.left = MAX_ADDRESSES


def get_page() -> str:
    """Return the address of the entry's page, as set by :func:`bind`."""
    return _context.page


def _short(base: str) -> str:
    """Return the base, or only its origin if the base is too long to be part of each relative address."""
    if len(base) <= urls.MAX_LENGTH or len(base := base.partition("#")[0]) <= urls.MAX_LENGTH:
        return base
    origin = "/".join(base.split("/", 3)[:3]) + "/"
    return origin if len(origin) <= urls.MAX_LENGTH else ""


def filter_attribute(tag: str, name: str, value: str) -> str | None:
    """Return the new value of an attribute, or None to drop it."""
    if name == "src" and tag == "img":
        return _img_src(value)
    if name == "class":
        return code.find_mark(value)
    if name in hidden.NAMES:
        return hidden.find_mark(tag, name, value)
    if name == "id" or name == "name":
        return _target(tag, name, value)
    if name == "type" and tag == "a":
        return value if _RECORDING_TYPE.fullmatch(value) else None
    judged_by = _FILTERS.get(name)
    return judged_by(value) if judged_by else value


def _resolve(value: str, base: str) -> str | None:
    if value.startswith(("https://", "http://")):
        return urls.resolve(value, base)  # an absolute address doesn't grow
    if _context.left <= 0:
        return None
    url = urls.resolve(value, base)
    if url:
        _context.left -= len(url) + 4 * url.count("&") + _ADDRESS_COST  # each "&" becomes "&amp;"
    return url


def _target(tag: str, name: str, value: str) -> str | None:
    """Return the id of an element that the entry's links lead to; before HTML5, this was ``<a name>``."""
    fragment = anchors.read_fragment(value) if name == "id" or tag == "a" else None
    return PREFIX + fragment if fragment in _context.targets and fragment else None


def _href(value: str) -> str | None:
    if _context.targets and "#" in value:
        fragment = anchors.find_own_fragment(value, _context.page)
        if fragment in _context.targets:
            return f"#{PREFIX}{fragment}"
    if value.startswith(("https://", "http://")) and len(value) <= _CACHED_LENGTH:
        return _absolute_href(value)
    url = _resolve(value, _context.page if value[:1] == "#" else _context.base)
    return urls.strip_tracking(url) if url and "?" in url else url


@functools.lru_cache(maxsize=_CACHED)
def _absolute_href(value: str) -> str | None:
    url = urls.resolve(value, "")
    return urls.strip_tracking(url) if url and "?" in url else url


@functools.lru_cache(maxsize=_CACHED)
def _absolute_src(value: str, own_origin: tuple[str, int] | None) -> str | None:
    return _judge_src(urls.resolve(value, ""), own_origin)


def _src(value: str) -> str | None:
    own_origin = _context.own_origin
    if value.startswith(("https://", "http://")) and len(value) <= _CACHED_LENGTH:
        url = _absolute_src(value, own_origin)
    else:
        url = _judge_src(_resolve(value, _context.base), own_origin)
    if url is None or media_targets.may_load(url, _context.policy):
        return url
    place = _place(url)
    is_of_page = place is not None and place == _place(_context.page)
    return url if is_of_page and media_targets.may_load(url, _context.policy, requested=True) else None


def _judge_src(url: str | None, own_origin: tuple[str, int] | None) -> str | None:
    if url is None or not url.startswith(("https://", "http://")):
        return None
    return None if own_origin and _is_own(url, own_origin) else url


def _img_src(value: str) -> str | None:
    if value[:5].lower() == "data:":
        if value.startswith(drawings.PREFIX):
            return value if drawings.is_drawing(value) else None
        # Four base64 characters encode three bytes.
        fits = len(value) <= MAX_DATA_URL * 4 // 3 + 32
        return value if fits and _DATA_IMAGE.fullmatch(value) else None
    return _src(value)


def _lazy_src(value: str) -> str | None:
    return _src(value) if _ADDRESS.match(value) else None


def _srcset(value: str) -> str | None:
    """Return the candidates with allowed addresses (HTML standard §4.8.4.2.1), without data: addresses."""
    if len(value) > 16384 or "data:" in value:
        return None
    kept = []
    parts = re.split(r",\s+|,(?=https?://)", _TIGHT.sub(r"\1, ", value.strip()), maxsplit=MAX_CANDIDATES)
    for part in parts[:MAX_CANDIDATES]:
        words = part.strip(" \t\n\f\r,").split()
        url = _src(words[0]) if words else None
        if not url or len(words) > 2 or _SPLIT.search(url):
            continue
        if all(_DESCRIPTOR.fullmatch(w) for w in words[1:]):
            kept.append(" ".join([url, *words[1:]]))
    return ", ".join(kept) or None


def _media(value: str) -> str | None:
    if not value or value.isspace():
        return None  # the same as no condition
    return value if _MEDIA.fullmatch(value) else UNMET


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


#: The types that links to recordings keep; "*" stands for an unknown one.
_RECORDING_TYPE = re.compile(r"(?:audio|video)/(?:\*|[a-z0-9.+-]{1,60})")
_FILTERS: dict[str, Callable[[str], str | None]] = {
    "align": _one_of("left", "right"),
    "colspan": _span,
    "datetime": _like(r"[0-9A-Za-z :.,+-]{1,64}"),
    "dir": _one_of("ltr", "rtl", "auto"),
    "height": _pixels,
    "href": _href,
    "lang": _like(r"[A-Za-z0-9-]{1,35}"),
    "media": _media,
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
    **dict.fromkeys(LAZY, _lazy_src),
    **dict.fromkeys(LAZY_SETS, _srcset),
}


@functools.lru_cache(maxsize=4)
def _own_place(origin: str) -> tuple[str, int] | None:
    return _place(origin)


def _place(url: str) -> tuple[str, int] | None:
    """Return (host, port), treating the default ports as equal: cookies ignore scheme and port.

    All names of the local machine count as one: a server reached by one name answers to the others.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError:
        return None
    host = (parts.hostname or "").rstrip(".")
    return "localhost" if _LOOPBACK.fullmatch(host) else host, 80 if port == 443 else port


def _is_own(url: str, own: tuple[str, int]) -> bool:
    """Return whether a browser may treat the address as ours; odd spellings of hosts count as ours."""
    usual = _USUAL_HOST.match(url)
    if usual and usual[1] != own[0] and not usual[1].endswith("localhost"):
        return False
    place = _place(url)
    if place is None or "@" in urlsplit(url).netloc or "%" in place[0] or not place[0].isascii():
        return True
    label = place[0].rpartition(".")[2]
    numeric = label.isdigit() or label.startswith("0x")
    odd = numeric and not re.fullmatch(r"(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})", place[0])
    return odd or place == own
