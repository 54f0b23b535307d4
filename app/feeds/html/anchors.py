"""Anchors: links that stay inside an entry, such as footnotes, with ids that can't clash with the page's.

The sanitizer writes each id and its links with a prefix (H06). Pages and APIs put the entry's id behind it
(:func:`app.models.reading.anchors.scope_anchors`).
"""

from __future__ import annotations

import html
import re
from urllib.parse import unquote

from app.feeds import urls
from app.feeds.html import tag_patterns
from app.models.reading.anchors import PREFIX

MAX_ANCHORS = 2000

_FRAGMENT_OF = r"\s*+=\s*+[\"']?\s*+([^\s\"'<>#]*+)#([^\s\"'<>]{1,384})"
#: Two expressions, because ignoring case takes twice as long.
_FRAGMENT = re.compile("href" + _FRAGMENT_OF)
_FRAGMENT_IN_ANY_CASE = re.compile("href" + _FRAGMENT_OF, re.IGNORECASE)
#: Ids that need no escapes in HTML.
_ID = re.compile(r"[^\s\"'<>&`\\]{1,128}")
_ANCHOR = re.compile(r"<a( [^<>]*)?>")
_TAG = re.compile(r"<[a-z][^<>]*>")
_LINKED = re.compile(rf'<a [^<>]*?href="#({re.escape(PREFIX)}[^"]*)"')


def find_targets(markup: str, page: str) -> frozenset[str]:
    """Return the fragments that published HTML links to on its own page."""
    own = _plain(page)
    found: set[str] = set()
    fragments = _FRAGMENT_IN_ANY_CASE if "HREF" in markup or "Href" in markup else _FRAGMENT
    for address, fragment in fragments.findall(markup):
        if not address or (own and _plain(html.unescape(address)) == own):
            name = read_fragment(html.unescape(fragment))
            if name and len(found) < MAX_ANCHORS:
                found.add(name)
    return frozenset(found)


def find_own_fragment(value: str, page: str) -> str | None:
    """Return the fragment of a link to the entry's own page, None for any other link."""
    address, mark, fragment = value.strip().partition("#")
    if not mark or (address and _plain(address) != _plain(page)):
        return None
    return read_fragment(fragment)


def read_fragment(fragment: str) -> str | None:
    """Return the id that a fragment means, without our prefix; None if it can't be an id here."""
    name = unquote(fragment).removeprefix(PREFIX)
    return name if _ID.fullmatch(name) else None


def _plain(address: str) -> str:
    """Return an address for comparison: without its scheme, fragment, last slash and tracking parameters."""
    address = urls.strip_tracking(address.partition("#")[0])
    return address.partition("://")[2].rstrip("/")


def settle_anchors(markup: str, page: str, outside: str) -> str:
    """Return sanitized HTML in which links without a target lead to the page instead.

    Args:
        outside: the attributes of links that leave the page, such as ``rel``.
    """
    seen: set[str] = set()
    linked = frozenset(_LINKED.findall(markup))

    def settle_id(tag: re.Match[str]) -> str:
        given = tag_patterns.parse_clean_attributes(tag[0])
        if tag[0].startswith("<a "):
            # Before HTML5, targets were <a name>.
            name = given.get("id") or given.get("name")
            given = {key: value for key, value in given.items() if key not in ("id", "name")}
            given = {"id": name, **given} if name else given
        elif "id" not in given:
            return tag[0]
        if given.get("id") in seen or ("id" in given and given["id"] not in linked):
            # The second of its name, or one that only links without text led to.
            del given["id"]
        elif "id" in given:
            seen.add(given["id"])
        return f"<{tag[0][1:-1].partition(' ')[0]}{tag_patterns.write_attributes(given)}>"

    def settle_link(tag: re.Match[str]) -> str:
        given = tag_patterns.parse_clean_attributes(tag[1] or "")
        href = given.get("href")
        if href is None or href[1:] in seen:
            return tag[0]
        if href.startswith(f"#{PREFIX}"):
            name = html.unescape(href[1 + len(PREFIX) :]).replace("%", "%25")
            address = urls.resolve(f"#{name}", page)
            if address is None:
                del given["href"]
                return f"<a{tag_patterns.write_attributes(given)}>"
            given["href"] = html.escape(urls.strip_tracking(address))
        return f"<a {outside}{tag_patterns.write_attributes(given)}>"

    markup = _TAG.sub(lambda tag: settle_id(tag) if f'="{PREFIX}' in tag[0] else tag[0], markup)
    return _ANCHOR.sub(settle_link, markup)
