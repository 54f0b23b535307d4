"""What sites allow programs to fetch without a person's request (robots.txt, RFC 9309)."""

from __future__ import annotations

import datetime as dt
from importlib import import_module
from typing import Final
from urllib.parse import urlsplit

from app.mappers.feeds.robots import RobotsMapper
from app.models.feeds.fetched import Fetched

#: Time until the rules of a site are read again: after an answer, and while the site doesn't answer.
KEPT, RETRY = dt.timedelta(days=1), dt.timedelta(hours=1)
#: Longest rules in bytes; the rest counts as missing (RFC 9309 §2.5).
MAX_RULES: Final = 500 << 10
#: Longest pause between two requests that counts, in seconds.
MAX_PAUSE: Final = 3600.0
#: The name by which rules are looked up.
AGENT: Final = "Eventr"


class RobotsGateway:
    """Stores and applies the rules of sites."""

    def __init__(self, robots: RobotsMapper) -> None:
        self._robots = robots

    def may_fetch(self, url: str, now: dt.datetime) -> bool | None:
        """Return whether a page may be fetched; None: the rules of its site aren't known."""
        is_known, rules = self._robots.find(_get_origin(url), now)
        if not is_known:
            return None
        return rules is not None and _is_allowed(rules, url)

    def get_pause(self, url: str, now: dt.datetime) -> dt.timedelta:
        """Return the time that a site wants between two requests; 0: it states none, or isn't known."""
        _, rules = self._robots.find(_get_origin(url), now)
        seconds = import_module("protego").Protego.parse(rules).crawl_delay(AGENT) if rules else None
        return dt.timedelta(seconds=min(max(float(seconds or 0), 0.0), MAX_PAUSE))

    def get_address(self, url: str) -> str:
        """Return the address of the rules for a page."""
        return f"{_get_origin(url)}/robots.txt"

    def store_answer(self, url: str, answer: Fetched, now: dt.datetime) -> bool:
        """Store what a site answered for a page's rules; return whether the page may be fetched.

        A site without rules allows everything; a site that doesn't answer, nothing.
        """
        rules: str | None = ""
        if answer.error is None:
            rules = (answer.body or b"")[:MAX_RULES].decode("utf-8", "replace")
        elif not 400 <= answer.status < 500 or answer.status == 429:
            rules = None
        self._robots.store_rules(_get_origin(url), rules, now + (RETRY if rules is None else KEPT))
        return rules is not None and _is_allowed(rules, url)


def _get_origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}"


def _is_allowed(rules: str, url: str) -> bool:
    # Few processes need it.
    return bool(import_module("protego").Protego.parse(rules).can_fetch(url, AGENT)) if rules else True
