"""Consent pages: pages that a site shows before the requested page, until a cookie says otherwise."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

#: Hosts and path segments of consent pages.
_HOST = re.compile(r"(?:consent|cookie-?consent|guce|myprivacy|privacy-?gate)\..")
_PATH = re.compile(r"/(?:consent|cookie-?(?:consent|wall)|gdpr-consent|privacy-?(?:gate|wall))(?:[/.]|$)")
#: Parameters of consent pages that name the page behind them.
_BEHIND = frozenset(
    ("callbackurl", "continue", "originalurl", "redirect", "redirecturi", "return", "returnurl", "url")
)
#: Cookies that refuse all optional cookies, by site; each gives the page itself.
_COOKIES = {"youtube.com": "SOCS=CAI", "google.com": "SOCS=CAI"}


def find_page_behind(asked: str, landed: str) -> str | None:
    """Return the page behind a consent page, or None if this isn't a consent page.

    If a consent page itself was requested, that's the address in its query, which may be of any site.

    Args:
        asked: the address that was requested.
        landed: the address of the page that was received.
    """
    if not _is_consent_page(landed):
        return None
    if not _is_consent_page(asked):
        return asked
    try:
        values = parse_qsl(urlsplit(landed).query, max_num_fields=50)
    except ValueError:
        return None
    named = (value for name, value in values if name.lower().replace("_", "") in _BEHIND)
    return next((url for url in named if _is_web_address(url) and not _is_consent_page(url)), None)


def choose_cookie(url: str) -> tuple[tuple[str, str], ...]:
    """Return the headers with which a known site shows no consent page; none for other sites."""
    host = urlsplit(url).hostname or ""
    found = (cookie for site, cookie in _COOKIES.items() if host == site or host.endswith(f".{site}"))
    return tuple(("Cookie", cookie) for cookie in found)


def _is_consent_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(_HOST.match(parts.hostname or "") or _PATH.search(parts.path.lower()))
    except ValueError:
        return False


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
