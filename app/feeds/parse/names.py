"""Element names: every spelling of a namespace → one short prefix, and tables that dispatch on them.

Feeds write namespaces with other prefixes, other cases, http for https, with and without the trailing
slash, or omit the declaration. :func:`canonicalise_tag` undoes that once per distinct tag. A
:class:`HandlerTable` caches the result, so that a child costs one dict look-up on the hot path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

T = TypeVar("T")

RSS = ""
ATOM = "atom"
XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
RDF_RESOURCE = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}resource"
THR_COUNT = "{http://purl.org/syndication/thread/1.0}count"
ATOM_10 = "www.w3.org/2005/atom"
RSS_10 = "purl.org/rss/1.0"
RSS_11 = "purl.org/net/rss1.1"

#: Namespace without scheme, trailing "/" or "#", in lower case → prefix.
_PREFIXES = {
    # RSS under its many names: Netscape 0.90, UserLand, RSS 1.0, 1.1 and the modules of 0.91
    "my.netscape.com/rdf/simple/0.9": RSS,
    "my.netscape.com/publish/formats/rss-0.91.dtd": RSS,
    "channel.netscape.com/rdf/simple/0.9": RSS,
    "backend.userland.com/rss": RSS,
    "backend.userland.com/rss2": RSS,
    "backend.userland.com/rss091": RSS,
    "backend.userland.com/rss092": RSS,
    "blogs.law.harvard.edu/tech/rss": RSS,
    "cyber.law.harvard.edu/rss/rss.html": RSS,
    "purl.org/rss/2.0": RSS,
    "purl.org/rss/1.0/modules/rss091": RSS,
    RSS_10: RSS,
    RSS_11: RSS,
    # Atom before it got its name
    ATOM_10: ATOM,
    "purl.org/atom/ns": ATOM,
    "purl.org/atom": ATOM,
    "purl.org/echo": ATOM,
    "purl.org/pie": ATOM,
    "example.com/newformat": ATOM,
    "example.com/necho": ATOM,
    # modules
    "purl.org/rss/1.0/modules/content": "content",
    "purl.org/dc/elements/1.1": "dc",
    "purl.org/dc/elements/1.0": "dc",
    "purl.org/dc/terms": "dcterms",
    "purl.org/rss/1.0/modules/syndication": "sy",
    "search.yahoo.com/mrss": "media",
    "tools.search.yahoo.com/mrss": "media",
    "search.yahoo.com/search/mrss": "media",
    "video.search.yahoo.com/mrss": "media",
    "www.itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "example.com/dtds/podcast-1.0.dtd": "itunes",
    "www.google.com/schemas/play-podcasts/1.0": "googleplay",
    "www.google.com/schemas/play-podcasts/1.0/play-podcasts.xsd": "googleplay",
    "rssnamespace.org/feedburner/ext/1.0": "feedburner",
    "webfeeds.org/rss/1.0": "webfeeds",
    "www.w3.org/1999/xhtml": "xhtml",
    "www.w3.org/1999/02/22-rdf-syntax-ns": "rdf",
    "urn:eventr:chain:1": "ev",
    "prismstandard.org/namespaces/1.2/basic": "prism",
    "prismstandard.org/namespaces/basic/2.0": "prism",
    "wellformedweb.org/commentapi": "wfw",
    "purl.org/rss/1.0/modules/slash": "slash",
    "purl.org/syndication/thread/1.0": "thr",
    "podcastindex.org/namespace/1.0": "podcast",
    "github.com/podcastindex-org/podcast-namespace/blob/main/docs/1.0.md": "podcast",
    "podlove.org/simple-chapters": "psc",
    "news.yandex.ru": "yandex",
}
#: Undeclared prefixes with a known meaning.
_UNDECLARED = {"atom10": ATOM, "a10": ATOM, "a": ATOM, "rss": RSS}
_MOST_REMEMBERED = 2048


def split(tag: str) -> tuple[str, str]:
    """Return (namespace, local name) of a Clark name; the namespace is written like the keys above."""
    if tag[:1] != "{":
        return "", tag
    space, _, local = tag[1:].partition("}")
    return normalise_namespace(space), local


def normalise_namespace(space: str) -> str:
    """Return a namespace without scheme, trailing slash or hash, in lower case."""
    space = space.strip().lower()
    return space.removeprefix("http://").removeprefix("https://").rstrip("/#")


def canonicalise_tag(tag: str, default_prefix: str, root_space: str = "", root_prefix: str = "") -> str:
    """Return ``prefix:local`` in lower case; RSS elements have no prefix.

    Args:
        tag: as lxml returns it.
        default_prefix: the prefix of elements without a namespace, or with that of the root element.
        root_space: the namespace of the root element if it is unknown.
        root_prefix: the prefix of the root element if nothing declares it.
    """
    space, local = split(tag)
    local = local.lower()
    if space in ("", root_space):
        prefix, colon, rest = local.partition(":")
        if colon:
            return _join(default_prefix if prefix == root_prefix else _UNDECLARED.get(prefix, prefix), rest)
        return _join(default_prefix, local)
    return _join(_PREFIXES.get(space, "?"), local)


def is_known_namespace(space: str) -> bool:
    """Return whether a namespace (as :func:`split` returns it) is in the table."""
    return space in _PREFIXES


def _join(prefix: str, local: str) -> str:
    return f"{prefix}:{local}" if prefix else local


class HandlerTable(dict[str, T | None], Generic[T]):
    """Clark name → handler, None for elements that Eventr ignores; fills itself."""

    def __init__(
        self, handlers: Mapping[str, T], home: str, root_space: str = "", root_prefix: str = ""
    ) -> None:
        super().__init__()
        self._handlers, self._home = handlers, home
        self._root_space, self._root_prefix = root_space, root_prefix

    def __missing__(self, tag: str) -> T | None:
        name = canonicalise_tag(tag, self._home, self._root_space, self._root_prefix)
        handler = self._handlers.get(name)
        if len(self) < _MOST_REMEMBERED:  # a hostile feed may contain a million different tags
            self[tag] = handler
        return handler
