"""What a crawl does next: which pages and possible feeds of a site a page or sitemap leads to. Pure."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl, urlsplit

from lxml import etree

from app.errors import ParseError
from app.feeds import urls
from app.feeds.discover.page import Page, is_comment_feed
from app.feeds.pages.extract import PageTree
from app.feeds.safe_xml import build_safe_parser
from app.models.feeds.crawl import CrawlTarget

#: Deepest pages that are read, counted in links from the start.
DEPTH = 2
#: Pages that one page or sitemap adds at most, and possible feeds.
PAGES, FEEDS = 12, 6
#: Endings of pages; an address with another one is a file.
_PAGES = ("html", "htm", "php", "asp", "aspx", "jsp", "xhtml", "shtml")


def get_site(url: str) -> str:
    """Return the host of a site without "www."."""
    return (urlsplit(url).hostname or "").rstrip(".").lower().removeprefix("www.")


def is_of_site(url: str, site: str) -> bool:
    """Return whether an address belongs to a site: its host or one below it."""
    try:
        host = get_site(url)
    except ValueError:
        return False
    return host == site or host.endswith("." + site)


def find_targets(
    body: bytes, url: str, content_type: str | None, *, depth: int, site: str
) -> list[CrawlTarget]:
    """Return the possible feeds that a page names, then the pages of the site to which it links most."""
    page = Page(body, url, content_type)
    feeds = [c for c in (*page.find_announced(), *page.find_anchors()) if not is_comment_feed(c.url, c.title)]
    found = [CrawlTarget(c.url, depth, is_feed=True) for c in feeds[:FEEDS]]
    if depth >= DEPTH:
        return found
    try:
        tree = PageTree(body, url, content_type)
    except ParseError:
        return found
    links = Counter(tree.resolve(link.get("href")) for link in tree.root.iter("a"))
    wanted = [link for link in links if link and may_be_page(link, site)]
    # Sections stand in menus: on a page more than once, and not far below the root.
    wanted.sort(key=lambda link: (urlsplit(link).path.strip("/").count("/"), -links[link]))
    return found + [CrawlTarget(link, depth + 1) for link in wanted[:PAGES]]


def find_in_sitemap(body: bytes, site: str) -> list[CrawlTarget]:
    """Return the pages that a sitemap lists, those nearest to the root first."""
    try:
        root = etree.fromstring(body, build_safe_parser(recover=True))
    except etree.XMLSyntaxError:
        return []
    if root is None:
        return []
    found = dict.fromkeys((loc.text or "").strip() for loc in root.iter("{*}loc"))
    wanted = [url for url in found if may_be_page(url, site)]
    wanted.sort(key=lambda url: urlsplit(url).path.strip("/").count("/"))
    return [CrawlTarget(url, 1) for url in wanted[:PAGES]]


def may_be_page(url: str, site: str) -> bool:
    """Return whether an address is a page of a site without a query, other than the number of the page."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not is_of_site(url, site) or parts.username is not None:
        return False
    if parts.query and [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)] != ["page"]:
        return False
    name, dot, ending = parts.path.rpartition("/")[2].rpartition(".")
    return not urls.is_secret(url) and not (dot and name and ending.lower() not in _PAGES)
