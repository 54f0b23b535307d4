"""Feed candidates on a web page: pure, without the network.

In this order: rules for known sites, announcements of the page (``<link rel=alternate>``, anywhere), links
that look like feeds, and common feed addresses. A candidate is only verified by fetching it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, urljoin, urlsplit

from lxml import etree

from app.feeds import sites, urls
from app.feeds.discover import icons
from app.feeds.html.text import extract_plain_text
from app.feeds.parse import charset
from app.models.feeds.discovery import Candidate, Source

MAX_LINKS = 40
MAX_ANCHORS = 20
#: Most links of a page that are examined.
MAX_HREFS = 5000
MAX_PAGES = 6
#: Most elements of a link that are examined for a feed icon.
MAX_ICONS = 8
_TITLE_MAX = 300

_TYPES = {
    "application/rss+xml": "rss",
    "application/x-rss+xml": "rss",
    "application/rss": "rss",
    "text/rss": "rss",
    "text/rss+xml": "rss",
    "application/atom+xml": "atom",
    "application/atom": "atom",
    "application/x.atom+xml": "atom",
    "application/x-atom+xml": "atom",
    "text/atom+xml": "atom",
    "application/rdf+xml": "rdf",
    "application/rdf": "rdf",
    "text/rdf+xml": "rdf",
    "application/feed+json": "json",
    "application/json": "json",
    "application/xml+rss": "rss",
    "application/xml+atom": "atom",
    "rss": "rss",
    "atom": "atom",
    "text/xml": "rss",
    "application/xml": "rss",
}
#: Common feed addresses, likeliest first; each is tried at the site's root and in the page's folder.
GUESSES = (
    "feed/",
    "rss.xml",
    "atom.xml",
    "feed.xml",
    "index.xml",
    "rss/",
    "feed.json",
    "feed.atom",
    "index.rss",
    "rss/feed.xml",
    "feeds/posts/default",
    "?feed=rss2",
    "index.rdf",
    "data/rss",
)

#: Schemes of feed programs; the rest of the address is an http one without its scheme, or a complete one.
_SCHEME = re.compile(r"(?:feed|pcast|podcast|itpc):", re.IGNORECASE)
_FEED_PATH = re.compile(
    r"(?:^|/)(?:feeds?|rss2?|atom|rdf|(?:feed|rss|atom|index|news|blog|posts|main)\.(?:xml|rss|atom|rdf)|feed\.json)/?$"
    r"|\.(?:rss|atom|rdf)$|/feeds?/(?:rss2?|atom|rdf|json|all|posts?|main|index|default)(?:\.xml)?/?$"
    r"|/rss/[^/]*\.xml$|/feeds/posts/default$|(?:rss|atom|feed)2?\.(?:xml|php|aspx?|cfm)$",
    re.IGNORECASE,
)
_FEED_QUERY = re.compile(
    r"(?:^|&)(?:feed=(?:rss2?|atom|rdf)|format=(?:rss|atom|feed)|type=(?:rss|atom)|alt=rss|output=rss|(?:rss2?|atom|feed)(?:=(?:1|true|yes))?)(?:&|$)",
    re.IGNORECASE,
)
_FEED_TEXT = re.compile(
    r"(?:subscribe(?: to)?(?: via| by| with)? |full |our |the |site |blog |news |web)?"
    r"(?:rss(?:[- ]?feeds?)?(?: ?\(?2\.0\)?)?|atom(?:[- ]?feeds?)?|feeds?|(?:xml|web|json)[- ]?feed|rss/atom"
    r"|newsfeeds?|(?:rss[- ]?)?feeds? (?:abonnieren|abonneren)|(?:s'abonner au )?flux(?: rss)?"
    r"|(?:suscribirse (?:al? )?)?(?:canal|fuente)s? (?:rss|web)|(?:prenumerera på )?rss[- ]?flöde"
    r"|(?:подписаться на )?rss[- ]?(?:лент[ау]|канал)|rssを購読(?:する)?|(?:rss ?)?订阅"
    # Portuguese, Italian, Spanish, Polish, Czech, Hungarian, Turkish, Ukrainian, Finnish, Danish, Greek
    r"|(?:assinar|assine|subscrever) (?:o )?(?:feed(?: rss)?|rss)|(?:iscriviti al )?(?:feed|flusso)(?: rss)?"
    r"|suscr[ií]be(?:te|rse) (?:al? |por |v[ií]a )?rss|kana[łl] rss|rss (?:odběr|kanál)|odebírat rss"
    r"|rss[- ]?(?:hír)?csatorna|rss (?:beslemesi|akışı)|rss[- ]?стрічк[ау]|rss[- ]syöte|rss[- ]strøm|ροή rss"
    # Vietnamese, Hebrew, Arabic, Korean, Japanese, Chinese
    r"|nguồn cấp rss|(?:ערוץ|הזנת) rss|خلاصة rss|rss ?(?:피드|구독)|rss ?フィード|(?:rss ?)?訂閱|订阅 ?rss)",
    re.IGNORECASE,
)
#: Attributes that hold an address for a script: of the feed by their name, or of any page.
_DATA_FEEDS = ("data-feed", "data-feed-url", "data-rss", "data-rss-url", "data-atom")
_DATA_LINKS = ("data-href", "data-url", "data-link")
_FEED_ICON = re.compile(r"(?:^|[ _./-])(?:rss|atom|feed)(?:$|[ _./-]|\d)", re.IGNORECASE)
_FEED_HOST = re.compile(
    r"(?:^|\.)(?:feedburner\.com|feeds?\.[a-z0-9-]+\.[a-z.]+|feedpress\.me|rss\.[a-z0-9-]+\.[a-z.]+)$"
)
#: Hosts whose addresses look like feeds but never are: "add to reader" links, validators, sharing.
_NO_FEED_HOST = re.compile(
    r"(?:^|\.)(?:feedly\.com|inoreader\.com|netvibes\.com|newsblur\.com|google\.com|yahoo\.com|feedvalidator\.org"
    r"|validator\.w3\.org|facebook\.com|twitter\.com|x\.com|wikipedia\.org|subtome\.com|follow\.it)$"
)
_PAGES = re.compile(
    r"(?:^|/)(?:blog|news|posts?|articles?|journal|weblog|notes|writing|updates?|aktuell(?:es)?|nachrichten|neuigkeiten"
    r"|magazin(?:e)?|actualites?|noticias|archives?|podcasts?|feeds?|rss)(?:/(?:index\.\w+)?|\.html?|\.php)?$",
    re.IGNORECASE,
)


def find_candidates(page: bytes, url: str, content_type: str | None = None) -> list[Candidate]:
    """Return the candidates for feeds of a page, most promising first.

    Args:
        page: the body as received, in any charset; may be empty when the page couldn't be fetched.
        url: the page's own address, absolute.
        content_type: the page's Content-Type header; None if it had none.
    """
    read = Page(page, url, content_type)
    return _distinct([*read.find_announced(), *read.find_anchors(), *read.guess_addresses()])


class Page:
    """A page, parsed once."""

    def __init__(self, body: bytes, url: str, content_type: str | None = None) -> None:
        self.url = url
        text = charset.decode(body, content_type)[0] if body else ""
        self._tree = _parsed(text) if text else None
        self._text = text
        self._base = self._find_base()

    @property
    def title(self) -> str:
        """The page's own title, as plain text."""
        found = None if self._tree is None else self._tree.find(".//title")
        return extract_plain_text(_text(found))[:_TITLE_MAX] if found is not None else ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the page could be read."""
        return self._tree is None

    def find_announced(self) -> list[Candidate]:
        """Return the candidates from site rules and from the page's ``<link>`` elements."""
        links = list(self._links())
        by_key = {urls.hash_url(link.url): link for link in reversed(links)}
        # An address that a rule and the page both give keeps the page's title and type.
        ruled = [
            by_key.get(urls.hash_url(url), Candidate(url, "", None, Source.SITE))
            for url in self._find_ruled()
        ]
        return _distinct([*ruled, *links])

    def _find_ruled(self) -> list[str]:
        """Return the feeds that the rules for known sites give for the page's address, its canonical address
        at the same host, and its text.
        """
        found = sites.find_feeds(urls.strip_tracking(self.url))
        canonical = self._find_canonical()
        if not found and canonical:
            found = sites.find_feeds(canonical)
        found = [*found, *sites.find_feeds_on_page(self.url, self._text)]
        # A page's text may hold anything in place of an address.
        return [feed for url in found if (feed := self._resolve(url))]

    def find_source_pages(self) -> list[str]:
        """Return other addresses whose text names this page's feed, by the rules for known sites."""
        return sites.find_source_pages(self.url)

    def _find_canonical(self) -> str | None:
        links = [] if self._tree is None else self._tree.iter("link")
        href = next((x.get("href") for x in links if (x.get("rel") or "").lower() == "canonical"), None)
        url = self._resolve(href)
        return url if url and urlsplit(url).hostname == urlsplit(self.url).hostname else None

    def find_icons(self) -> list[str]:
        """Return the addresses of the icons that the page announces, best first."""
        found = [] if self._tree is None else self._tree.iter("link")
        links = (
            icons.IconLink(url, rel, link.get("sizes") or "", link.get("type") or "", link.get("media") or "")
            for link in found
            if (rel := frozenset((link.get("rel") or "").lower().split())) & icons.RELATIONS
            and (url := self._resolve(link.get("href")))
        )
        return icons.sort_icons(itertools.islice(links, icons.LINKS_MAX))

    def find_anchors(self) -> list[Candidate]:
        """Return links whose address or text looks like a feed."""
        found = (
            Candidate(url, text[:_TITLE_MAX], None, Source.ANCHOR)
            for url, text in self._hrefs()
            if looks_like_feed(url, text)
        )
        return _distinct(found)[:MAX_ANCHORS]

    def guess_addresses(self) -> list[Candidate]:
        """Return the common feed addresses below the site's root and the page's folder."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return []
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return []
        root = _root(parts)
        path = parts.path if parts.path.endswith("/") else parts.path.rpartition("/")[0] + "/"
        folders = dict.fromkeys([root, root + path.lstrip("/")])
        places = (urljoin(folder, name) for name in GUESSES for folder in folders)
        return _distinct(Candidate(place, "", None, Source.GUESS) for place in places)

    def find_related_pages(self) -> list[str]:
        """Return pages of the same site that are likely to link its feed: home page, blog, news."""
        parts = urlsplit(self.url)
        links = (
            url.partition("#")[0]
            for url, _ in self._hrefs()
            if urlsplit(url).hostname == parts.hostname and _PAGES.search(urlsplit(url).path)
        )
        found = dict.fromkeys([_root(parts), *links])
        return [url for url in found if urls.hash_url(url) != urls.hash_url(self.url)][:MAX_PAGES]

    def _find_base(self) -> str:
        for base in [] if self._tree is None else self._tree.iter("base"):
            if href := base.get("href"):
                return urls.resolve(href, self.url) or self.url
        return self.url

    def _resolve(self, href: str | None) -> str | None:
        href = (href or "").strip().partition("#")[0]
        if scheme := _SCHEME.match(href):
            rest = href[scheme.end() :]
            href = rest if rest.lower().startswith("http") else "http:" + rest
        url = urls.resolve(href, self._base) if href else None
        fits = url and url.startswith("http") and len(url) <= urls.MAX_LENGTH
        return urls.strip_tracking(url) if url and fits else None

    def _links(self) -> Iterator[Candidate]:
        found = [] if self._tree is None else self._tree.iter("link")
        announcing = (link for link in found if _announces(link.get("rel")))
        for link in itertools.islice(announcing, MAX_LINKS):
            kind = _find_kind(link)
            url = self._resolve(link.get("href") or link.get("data-href"))
            if kind is None and url and _is_feed_all_the_same(link, url):
                kind = "rss"
            if kind and url and not (kind == "json" and "/wp-json/" in url):
                yield Candidate(
                    url, extract_plain_text(link.get("title") or "")[:_TITLE_MAX], kind, Source.LINK
                )

    def _hrefs(self) -> Iterator[tuple[str, str]]:
        anchors = iter(()) if self._tree is None else self._tree.iter("a", "area", "button")
        for anchor in itertools.islice(anchors, MAX_HREFS):
            feed = next(filter(None, map(anchor.get, _DATA_FEEDS)), "")
            href = feed or _find_target(anchor)
            if href and (url := self._resolve(href)):
                # A feed's scheme, type, relation or icon marks a feed, whatever the link's text.
                is_marked = feed or _SCHEME.match(href.strip()) or _is_marked(anchor)
                yield url, "Feed" if is_marked else _label(anchor)


def looks_like_feed(url: str, text: str = "") -> bool:
    """Return whether a link's address or text is typical of links to feeds."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _NO_FEED_HOST.search(host) or "/wp-json/" in url:
        return False
    if _FEED_PATH.search(parts.path) or _FEED_QUERY.search(parts.query):
        return True
    return bool(_FEED_TEXT.fullmatch(text) or (_FEED_HOST.search(host) and parts.path.strip("/")))


def is_comment_feed(candidate_url: str, title: str) -> bool:
    """Return whether a feed is a comment feed, which people hardly ever want."""
    path = urlsplit(candidate_url).path.lower() + "?" + urlsplit(candidate_url).query.lower()
    return bool(
        re.search(r"/comments/|comments?[-_./]?(?:feed|rss|atom|xml|default)|feed=comments", path)
        or re.search(
            r"\b(?:comments?|kommentar(?:e|-feed)?|commentaires|comentarios|commenti)\b", title.lower()
        )
    )


def _root(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}/"


def _announces(rel: str | None) -> bool:
    words = (rel or "").lower().split()
    return ("alternate" in words and "stylesheet" not in words) or "feed" in words


def _is_feed_all_the_same(link: etree._Element, url: str) -> bool:
    """Return whether a link without a known type is a feed: by rel=feed, or untyped with a feed's address."""
    rel, kind = (link.get("rel") or "").lower().split(), (link.get("type") or "").strip()
    return "feed" in rel or (not kind and not link.get("hreflang") and looks_like_feed(url))


def _find_kind(link: etree._Element) -> str | None:
    """Return the format that a link's type names, with or without parameters."""
    words = re.split(r"[;,\s]", (link.get("type") or "")[:200].strip().lower(), maxsplit=1)
    return _TYPES.get(words[0])


def _find_target(anchor: etree._Element) -> str | None:
    """Return the address of a link; a script's if the link has none of its own."""
    href = (anchor.get("href") or "").strip()
    if href and not href.startswith("#") and not href.lower().startswith("javascript:"):
        return href
    return next(filter(None, map(anchor.get, _DATA_LINKS)), None)


def _is_marked(anchor: etree._Element) -> bool:
    """Return whether a link's own attributes or its icon say that it leads to a feed."""
    kind, rel = _find_kind(anchor), (anchor.get("rel") or "").lower().split()
    return kind not in (None, "json") or "feed" in rel or _has_feed_icon(anchor)


def _label(anchor: etree._Element) -> str:
    words = extract_plain_text(_text(anchor))
    return words or extract_plain_text(anchor.get("title") or anchor.get("aria-label") or _alt(anchor))


def _has_feed_icon(anchor: etree._Element) -> bool:
    """Return whether a link without text shows an icon whose class or file is named after a feed format."""
    if extract_plain_text(_text(anchor)):
        return False
    for element in itertools.islice(anchor.iter("a", "i", "span", "svg", "img"), MAX_ICONS):
        name = (element.get("src") or "").partition("?")[0].rpartition("/")[2]
        if _FEED_ICON.search(f"{element.get('class') or ''} {name}"[:_TITLE_MAX]):
            return True
    return False


def _text(element: etree._Element) -> str:
    return " ".join(part for part in element.itertext() if isinstance(part, str))[:1024]


def _alt(anchor: etree._Element) -> str:
    image = anchor.find(".//img")
    return (image.get("alt") or "") if image is not None else ""


def _distinct(found: Iterator[Candidate] | list[Candidate]) -> list[Candidate]:
    """Return the candidates, keeping the first of each address."""
    first: dict[str, Candidate] = {}
    for candidate in found:
        first.setdefault(urls.hash_url(candidate.url), candidate)
    return list(first.values())


def _parsed(text: str) -> etree._Element | None:
    # Pass UTF-8 bytes: in a str, libxml2 would believe a wrong <meta charset>.
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(text.replace("\0", "").encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        return None
