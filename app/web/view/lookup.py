"""Where to look for the feed of a site whose known feed fails."""

from __future__ import annotations

from urllib.parse import urlsplit

from app.models.feeds.recipe import get_fragment, split_recipe
from app.web.view.present import keep_http_url

#: Errors of an address that is a page: it may announce its own feed.
PAGES = frozenset(("not_a_feed", "html_page", "no_feed_found", "consent_page"))


def find_lookup_address(url: str, error: str | None, site_url: str | None = None) -> str:
    """Return the address to search for another feed; empty: none on the web.

    A page may announce its own feed. For a missing feed, only the site's page or home page can help.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    place = parts.netloc.rpartition("@")[2]
    if parts.scheme not in ("http", "https") or not place:
        return ""
    if error in PAGES:
        return parts._replace(netloc=place).geturl()
    return keep_http_url(site_url) or f"{parts.scheme}://{place}/"


def remove_login(address: str) -> str:
    """Return an address without a user name and password, and with a scheme."""
    address = address.strip()
    address = address if "://" in address else f"https://{address}"
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def find_page_of(url: str) -> str:
    """Return the page from which a recipe reads a feed; empty: it is an ordinary feed."""
    return split_recipe(url)[0] if get_fragment(url) else ""
