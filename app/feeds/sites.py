"""Known sites: the rules that give the feeds of a page without looking for them, and shorthand for accounts.

:mod:`app.feeds.site_rules` holds the table. The pages of these sites often announce no feed, or do so only
after a script has run.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, quote, unquote, urlsplit

from app.feeds.site_rules import SITE_RULES, SiteRule

_ACCOUNT = re.compile(r"@?([A-Za-z0-9_][A-Za-z0-9_.-]*)@([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
#: Characters at the start of a page in which the program behind it is sought.
_START = 1 << 18
_SUBREDDIT = re.compile(r"/?(r|u|user)/([A-Za-z0-9_-]{2,})/?")
#: Mail hosts: ``user@host`` is a mail address there, so there is nothing to subscribe to.
_MAIL = frozenset(
    ["gmail.com", "googlemail.com", "outlook.com", "hotmail.com", "yahoo.com", "icloud.com", "gmx.de"]
)


def expand_shorthand(text: str) -> str | None:
    """Return the page for ``@user@host`` (fediverse) and ``r/name`` (Reddit), else None."""
    if account := _ACCOUNT.fullmatch(text):
        host = account[2].lower()
        return None if host in _MAIL else f"https://{host}/@{account[1]}"
    if reddit := _SUBREDDIT.fullmatch(text):
        kind = "r" if reddit[1] == "r" else "user"
        return f"https://www.reddit.com/{kind}/{reddit[2]}/"
    return None


def is_account(text: str) -> bool:
    """Return whether the text is ``user@host``: an account or a mail address, but not a web address."""
    return _ACCOUNT.fullmatch(text) is not None


def find_feeds(url: str) -> list[str]:
    """Return the feed addresses that a rule gives for a page by its address; empty when no rule matches."""
    return _fill_in(url, (rule for rule in find_rules(url) if not rule.text), "feeds")


def find_feeds_on_page(url: str, text: str) -> list[str]:
    """Return the feed addresses that a rule gives for a page by its text; empty when no rule matches."""
    return _fill_in(url, (rule for rule in find_rules(url) if rule.text), "feeds", text)


def find_source_pages(url: str) -> list[str]:
    """Return the addresses whose text names the feed of this page."""
    return _fill_in(url, (rule for rule in find_rules(url) if not rule.text), "pages")


def find_rules(url: str) -> list[SiteRule]:
    """Return the rules for the page's host, in order; those for all hosts only if there are no others."""
    try:
        parts = urlsplit(url)
        host = _strip_host(parts.hostname or "")
    except ValueError:
        return []
    if parts.scheme not in ("http", "https") or not host:
        return []
    exact, wild, anywhere = _group_by_host()
    found = list(exact.get(host, ()))
    name = host
    while not found and "." in name:
        name = name.partition(".")[2]
        found = list(wild.get(name, ()))
    return found or list(anywhere)


def _strip_host(host: str) -> str:
    return host.rstrip(".").removeprefix("www.").removeprefix("m.")


@functools.cache
def _group_by_host() -> tuple[dict[str, list[SiteRule]], dict[str, list[SiteRule]], list[SiteRule]]:
    exact: dict[str, list[SiteRule]] = {}
    wild: dict[str, list[SiteRule]] = {}
    for rule in SITE_RULES:
        for host in rule.hosts.split():
            if host.startswith("*."):
                wild.setdefault(host[2:], []).append(rule)
            else:
                exact.setdefault(host, []).append(rule)
    return exact, wild, exact.pop("*", [])


def _fill_in(url: str, rules: Iterator[SiteRule], what: str, text: str = "") -> list[str]:
    """Return the addresses of the first rule that fits."""
    for rule in rules:
        values = match_rule(rule, url, text)
        if values is not None:
            templates = rule.feeds if what == "feeds" else rule.pages
            return [template.format_map(values) for template in templates]
    return []


def match_rule(rule: SiteRule, url: str, text: str = "") -> dict[str, str] | None:
    """Return the values for the addresses of a rule whose host fits; None if anything else of it doesn't."""
    parts = urlsplit(url)
    path = "".join(f"/{part}" for part in parts.path.split("/") if part)
    # Compiled once: re caches expressions, and most processes never need them.
    found = [re.match(f"(?:{rule.path})(?:/|$)", path), re.search(rule.query, parts.query)]
    if rule.text:
        # Programs name themselves at the start of a page; a site's data may stand anywhere.
        found.append(re.search(rule.text, text[:_START] if rule.hosts == "*" else text))
    values = _describe_page(parts)
    for match in found:
        if match is None:
            return None
        values |= {name: _clean(name, value) for name, value in match.groupdict().items()}
    return values


def _describe_page(parts: SplitResult) -> dict[str, str]:
    return {
        "root": f"{parts.scheme}://{parts.netloc}",
        "search": f"?{parts.query}" if parts.query else "",
    }


def _clean(name: str, value: str) -> str:
    """Return a part of an address, percent-encoded once, or a complete address out of a script's text."""
    if name != "url":
        return quote(unquote(value), safe="/@:~,+")
    try:
        return str(json.loads(f'"{value}"'))
    except ValueError:
        return value
