"""Web addresses: parse typed text, resolve links, normalize, redact, and compare feed addresses.

Everything here works on text; ``app.feeds.fetch.address_policy`` decides whether an address may be fetched.
"""

from __future__ import annotations

import functools
import re
from urllib.parse import urljoin, urlsplit

import idna
import xxhash

from app.feeds import sites
from app.models.feeds.link_schemes import has_link_scheme
from app.models.feeds.recipe import get_fragment

MAX_LENGTH = 2048
_PORTS = {"http": 80, "https": 443}

_EDGES = "".join(map(chr, range(0x21)))  # C0 and space, as WHATWG URL §4.4 strips them
_INNER = str.maketrans("", "", "\t\n\r")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
#: Most addresses: absolute, already clean, and safe to return unchanged.
_CLEAN = re.compile(
    r"https?://[a-z0-9-]+(?:\.[a-z0-9-]+)+(?:/[A-Za-z0-9/_.~!$&'()*+,;=:@%-]*)?"
    r"(?:\?[A-Za-z0-9/_.~!$&'()*+,;=:@%?-]*)?(?:#[A-Za-z0-9/_.~!$&'()*+,;=:@%?-]*)?"
)
_UNSAFE = re.compile(r"[\x00-\x20\x7f\"<>`\\^{|}\ud800-\udfff]")
_UNESCAPED = re.compile(r"[ \"<>\\`^{|}]")
_TRACKING = re.compile(
    r"utm_\w+|hsa_\w+|mtm_\w+|pk_(?:campaign|kwd|source|medium|content|keyword)|at_(?:campaign|medium)\w*"
    r"|fbclid|gclid|gclsrc|dclid|wbraid|gbraid|msclkid|yclid|ysclid|twclid|ttclid|igshid|igsh|mc_[ce]id"
    r"|_hsenc|_hsmi|__hs\w+|mkt_tok|vero_(?:id|conv)|oly_(?:anon|enc)_id|rb_clickid|s_cid|srsltid|wickedid"
    r"|ref_src|ref_url|_openstat|ml_subscriber(?:_hash)?|_branch_match_id|cmpid|xtor|wt_mc|wt\.mc_id"
)
_PASTED = re.compile(
    r"(?:https?|feed|rss|itpc|pcast)(?::https?)?://[^\s<>\"]+|feed:[^\s<>\"]+", re.IGNORECASE
)
_BARE = re.compile(
    r"(?:[^\s/?#@:<>\"'()\[\],;!|\\]+\.[^\s/?#@:<>\"'()\[\],;!|\\.]{2,}\.?|localhost|\d+(?:\.\d+){3}|\[[0-9a-f:.]+\])"
    r"(?::\d{1,5})?(?:[/?#][^\s<>\"]*)?",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[^\S\t\n\r]")
_QUOTES = "<>\"'“”«»"
#: Labels of hosts that show the same pages, if a domain follows.
_SAME_SITE = re.compile(r"(?:www|m|amp)\.(?=[^:]+\.)")
#: Query parameters that may be a secret: by their name, or by the length of their value.
_KEY_NAME = re.compile(
    r"tok|key|auth|secret|pass|pw|sig|sess|sid|user|mail|code|hash|private|jwt", re.IGNORECASE
)
_KEY_LENGTH = 20
_OPEN_NAMES = frozenset(
    (
        *("channel_id", "playlist_id", "url", "q", "query", "search", "tag", "category"),
        *("keyword", "keywords", "author"),
    )
)
#: Names like ``k`` say nothing, so their values must look like keys: 6 or more letters and digits.
_SHORT_NAME, _SHORT_KEY = 2, re.compile(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[\w.~-]{6,}", re.ASCII)
#: Path segments that say that a secret follows: always, or if the next one has a digit or 16 characters.
_MARKS = frozenset(("private",))
_MAY_MARK = frozenset(("secret", "secrets", "token", "tokens", "auth", "key", "keys"))
_MARKED = re.compile(r"(?:private|secret|token|auth)[-_.](?=[a-z]*\d)[a-z0-9]{8,}", re.IGNORECASE)
_MARKED_LENGTH = 16
#: Path segments after which long ids are public, as in feeds of YouTube, Acast and Omny.
_OPEN_SEGMENTS = frozenset(("public", "channel", "playlist", "playlists", "shows"))
_RUN = re.compile(r"[A-Za-z0-9]{16,}")
_HEX = re.compile(r"(?=[^a-f]*[a-f])(?=\D*\d)[0-9a-f]{20,}", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_ACCESS_NAME = re.compile(
    r"(?:\w*[_-])?(?:token|auth|secret|password|passwd|jwt|sessionid|sid|(?:private|api|access)_?key)",
    re.IGNORECASE,
)
_FEED_SCHEME = re.compile(r"(?:feed|rss|itpc|pcast|view-source):(?://)?(?=.)", re.IGNORECASE)


def resolve(value: str, base: str) -> str | None:
    """Return the absolute address that a browser would make of ``value``, or None.

    It is http(s), or has one of :data:`app.models.feeds.link_schemes.LINK_SCHEMES`.
    Spaces, quotes and angle brackets are percent-encoded. Unusual spellings (``http:x``, ``http:///x``)
    are refused, not repaired: parsers disagree about them.
    """
    if _CLEAN.fullmatch(value):
        return value
    text = value.strip(_EDGES).translate(_INNER)
    if not text or len(text) > 4 * MAX_LENGTH:
        return None
    scheme = _SCHEME.match(text)
    if scheme and has_link_scheme(text):
        return f"{scheme[1].lower()}:{_quote(text[scheme.end() :])}"
    if scheme is None:
        text = _join(base, _slashes(text))
    elif scheme[1].lower() in ("http", "https"):
        text = scheme[1].lower() + ":" + _slashes(text[scheme.end() :])
    return _checked(text)


def _join(base: str, reference: str) -> str:
    try:
        joined = urljoin(base, reference)
    except ValueError:
        return ""
    return joined if len(joined) <= 4 * MAX_LENGTH else ""


def _slashes(text: str) -> str:
    """Return a reference with ``\\`` replaced by ``/`` before its query, as browsers do."""
    end = min((at for at in (text.find("?"), text.find("#")) if at >= 0), default=len(text))
    return text[:end].replace("\\", "/") + text[end:]


def _checked(url: str) -> str | None:
    if not url.startswith(("http://", "https://")):
        return None
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return _quote(url) if host and not _UNSAFE.search(host) else None


def repair_location(target: str) -> str:
    """Return the target of a redirect with ``\\`` and unescaped characters as browsers read them.

    Control characters stay, and are refused later: parsers disagree about them.
    """
    return _UNESCAPED.sub(lambda m: f"%{ord(m[0]):02X}", _slashes(target.strip(" ")))


def _quote(text: str) -> str:
    return _UNSAFE.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode("utf-8", "replace")), text)


def strip_tracking(url: str) -> str:
    """Return the address without the common tracking parameters (H13)."""
    head, mark, rest = url.partition("?")
    if not mark:
        return url
    query, hash_mark, fragment = rest.partition("#")
    kept = [part for part in query.split("&") if not is_tracking(part.partition("=")[0])]
    query = "&".join(kept)
    return head + ("?" + query if query else "") + hash_mark + fragment


@functools.lru_cache(maxsize=512)
def is_tracking(name: str) -> bool:
    """Return whether a query parameter of this name only tracks where readers come from (H13)."""
    return _TRACKING.fullmatch(name.lower()) is not None


def has_inner_space(text: str) -> bool:
    """Return whether a typed text starts with an address and goes on after a space.

    The part before the space may be another address, so the text must not be cut there without a word. Line
    ends and tabs don't count: they separate pasted lines.
    """
    text = text.strip().strip(_QUOTES).strip()
    if _SPACE.search(text) is None:
        return False
    bare = _BARE.match(text.removeprefix("view-source:").removeprefix("//"))
    return _PASTED.match(text.removeprefix("view-source:")) is not None or (
        bare is not None and "/" in bare[0]
    )


def normalise_address(text: str) -> list[str]:
    """Return the addresses to try, in order, for typed or pasted text; empty if it contains none.

    ``example.org`` gives https, then http. ``feed:`` and similar schemes are removed. In pasted text the
    first address counts, but an address with a space in it (:func:`has_inner_space`) is none.
    :mod:`app.feeds.sites` expands ``@user@host`` and ``r/name``. Tracking parameters
    are removed, so that a feed with many readers has one address (W22).
    """
    text = text.strip().strip(_QUOTES).strip()
    if not text or len(text) > 64 * MAX_LENGTH or has_inner_space(text):
        return []
    short = sites.expand_shorthand(text)
    if short or sites.is_account(text):
        return [short] if short else []
    pasted = _PASTED.search(text)
    word = pasted[0].rstrip(".,;:!?)]}'”»") if pasted and not text.lower().startswith("view-") else text
    return _tries(_FEED_SCHEME.sub("", word, count=1).translate(_INNER).strip())


def _tries(word: str) -> list[str]:
    scheme = _SCHEME.match(word)
    if scheme and scheme[1].lower() in ("http", "https") and word[scheme.end() :].startswith("//"):
        found = [_checked(scheme[1].lower() + ":" + _slashes(word[scheme.end() :]))]
    elif (bare := _BARE.search(word)) and not (scheme and bare.start() > 0):
        place = bare[0].rstrip(".,;:!?)]}'")
        found = [_checked(f"{s}://{_slashes(place)}") for s in ("https", "http")]
    else:
        return []
    return [
        _with_path(strip_tracking(u.partition("#")[0])) + get_fragment(u)
        for u in found
        if u and len(u) <= MAX_LENGTH
    ]


def _with_path(url: str) -> str:
    """Return the address with its host in lower case and a path of at least ``/``."""
    scheme, _, rest = url.partition("://")
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    path = rest[end:]
    who, at, host = rest[:end].rpartition("@")  # user names and passwords keep their case
    return f"{scheme}://{who}{at}{host.lower()}{path if path.startswith('/') else '/' + path}"


def hash_url(url: str) -> str:
    """Return 32 hex digits that are equal for addresses of the same feed.

    Ignored: http or https, case of the host, IDN spelling, the scheme's default port, ``.`` segments,
    trailing slash, case and need of percent-escapes (RFC 3986 §6.2), tracking parameters, fragment. Not
    ignored: ``www.``, the order of parameters, user names, the other scheme's port, and a recipe
    (:mod:`app.models.feeds.recipe`).
    """
    name = _canonical(url) + get_fragment(url)
    return xxhash.xxh3_128_hexdigest(name.encode("utf-8", "surrogatepass"))


def find_page_host(url: str) -> str:
    """Return the host of a page, the same for addresses with the same :func:`hash_page`; empty: no host."""
    try:
        return _strip_labels(_ascii_host((urlsplit(url).hostname or "").rstrip(".")))
    except ValueError:
        return ""


def _strip_labels(host: str) -> str:
    while match := _SAME_SITE.match(host):
        host = host[match.end() :]
    return host


def hash_page(url: str) -> int | None:
    """Return the address key of a page: 64 bits, equal for the addresses of one article; None for no page.

    Two entries with the same key are copies of one story, and two saved pages with the same key have one
    chain root. Ignored, beside what :func:`hash_url` ignores: the host's labels ``www.``, ``m.`` and
    ``amp.``, the order of parameters, and fragments other than ``#!`` routes. The key is signed, as MongoDB
    stores it. Keys are stored, so a change here must not change the keys of common addresses.
    """
    address, _, fragment = url.strip().partition("#")
    scheme, mark, _ = address.partition("://")
    if not mark or scheme.lower() not in _PORTS:
        return None
    page, _, query = _canonical(f"{scheme.lower()}://{address[len(scheme) + 3 :]}").partition("?")
    place, slash, path = page.partition("/")
    user, at, host = place.rpartition("@")
    if not host or page.startswith(f"{scheme.lower()}://"):  # left as it was: it can't be read
        return None
    host = _strip_labels(host)
    pairs = "&".join(sorted(filter(None, query.split("&"))))
    route = f"#{_escapes(fragment)}" if fragment.startswith("!") else ""
    name = f"{user}{at}{host}{slash}{path}?{pairs}{route}".encode("utf-8", "surrogatepass")
    return int.from_bytes(xxhash.xxh3_64_digest(name), "big", signed=True)


def is_upgrade(old: str, new: str) -> bool:
    """Return whether a change of address would replace plain http by https."""
    return old.lower().startswith("http:") and new.lower().startswith("https:")


def _canonical(url: str) -> str:
    try:
        parts = urlsplit(strip_tracking(url.strip().partition("#")[0]))
        port = parts.port
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return url.strip()
    user = parts.netloc.rpartition("@")[0]
    place = _ascii_host(host) + ("" if port in (None, _PORTS.get(parts.scheme)) else f":{port}")
    path = _path(parts.path)
    query = parts.query
    if host == "feeds.feedburner.com" and query.lower() in ("format=xml", "format=rss"):
        query = ""
    return (user + "@" if user else "") + place + path + ("?" + _escapes(query) if query else "")


def _ascii_host(host: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        return idna.encode(host, uts46=True).decode("ascii").lower()
    except idna.IDNAError:
        return host.lower()


def _path(path: str) -> str:
    """Return the path with normalized escapes, without ``.`` segments and trailing slashes."""
    out: list[str] = []
    for segment in _escapes(path).split("/"):
        if segment == "..":
            out = out[:-1] if len(out) > 1 else out
        elif segment != ".":
            out.append(segment)
    return "/".join(out).rstrip("/")


def _escapes(text: str) -> str:
    """Return text with escapes of unreserved characters decoded and all others in upper case."""

    def normalise_escape(match: re.Match[str]) -> str:
        char = chr(int(match[1], 16))
        unreserved = char.isascii() and (char.isalnum() or char in "-._~")
        return char if unreserved else match[0].upper()

    quoted = "".join(
        c if c.isascii() else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace")) for c in text
    )
    return re.sub(r"%([0-9A-Fa-f]{2})", normalise_escape, quoted)


def redact_url(url: str) -> str:
    """Return an address as it may be shown to people who didn't enter it (W22).

    The user name, the password, and parts of the host, path and query that look like secrets are left out.
    """
    parts = urlsplit(url)
    query = "&".join(map(_shown_pair, parts.query.split("&"))) if parts.query else ""
    host = ".".join("…" if _is_key(label) else label for label in parts.netloc.rpartition("@")[2].split("."))
    return parts._replace(netloc=host, path=_shown_path(parts.path), query=query, fragment="").geturl()


def is_secret(url: str) -> bool:
    """Return whether an address contains a secret that gives access to a private feed (W22)."""
    return redact_url(url) != urlsplit(url)._replace(fragment="").geturl()


def has_access_key(url: str) -> bool:
    """Return whether a link or file has a part that is named like a key, such as ``token=…`` (W22).

    Unlike :func:`is_secret`, long ids don't count: addresses of files are full of them.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    names = [pair.partition("=") for pair in parts.query.split("&")]
    if any(value and _ACCESS_NAME.fullmatch(name) for name, _, value in names):
        return True
    segments = parts.path.split("/")
    return "@" in parts.netloc or any(
        ";jsessionid=" in segment.lower()
        or _MARKED.match(segment)
        or (_is_key(segment) and before.lower() in _MARKS | _MAY_MARK)
        for before, segment in zip(["", *segments], segments, strict=False)
    )


def _shown_path(path: str) -> str:
    segments = path.split("/")
    shown, is_open = [], False
    for before, segment in zip(["", *segments], segments, strict=False):
        name, *params = segment.split(";")
        if _is_marked(before, name) or (not is_open and _is_key(name)):
            name = "…"
        shown.append(";".join((name, *map(_shown_pair, params))))
        is_open = is_open or segment.lower() in _OPEN_SEGMENTS
    return "/".join(shown)


def _is_marked(before: str, segment: str) -> bool:
    """Return whether a path segment is a secret by its own prefix, or because of the segment before it."""
    if _MARKED.match(segment):
        return True
    before = before.lower()
    may_be = before in _MAY_MARK and (len(segment) >= _MARKED_LENGTH or _DIGITS.search(segment) is not None)
    return bool(segment) and (before in _MARKS or may_be)


def _is_key(text: str) -> bool:
    """Return whether a path segment or host label looks random: long, and its digits are scattered."""
    if len(text) < _MARKED_LENGTH:
        return False
    if _HEX.fullmatch(text.rpartition(".")[0].replace("-", "") or text.replace("-", "")):
        return True
    for run in _RUN.findall(text):
        groups = len(_DIGITS.findall(run))
        is_mixed = run.lower() != run and run.upper() != run
        if (is_mixed and groups >= 2) or (len(run) >= _KEY_LENGTH and groups >= 3):
            return True
    return False


def _shown_pair(pair: str) -> str:
    name, mark, value = pair.partition("=")
    if not mark:
        return name if len(name) < _KEY_LENGTH else "…"
    is_long = len(value) >= _KEY_LENGTH
    is_short_key = len(name) <= _SHORT_NAME and _SHORT_KEY.fullmatch(value) is not None
    hidden = name not in _OPEN_NAMES and (_KEY_NAME.search(name) or is_long or is_short_key)
    return f"{name}=…" if value and hidden else pair
