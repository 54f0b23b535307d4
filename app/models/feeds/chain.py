"""Chains of shares that feeds carry from server to server, and how they are written.

All of it is a claim of other servers: names are shown as plain text, addresses are http(s), nothing else is
trusted. :mod:`app.feeds.parse.chain` reads chains; docs/sharing-feeds.md describes the format.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

#: The namespace in Atom, and its usual prefix; the object's name in JSON Feed.
NAMESPACE: Final = "urn:eventr:chain:1"
PREFIX: Final = "ev"
JSON_NAME: Final = "_eventr"

#: Most characters of a name, a title, an address and an id.
NAME_MAX: Final = 100
TITLE_MAX: Final = 300
URL_MAX: Final = 2048
ID_MAX: Final = 512

_SPOKEN = re.compile(r"[\x21-\x7e]+")
_SCHEMES = ("http://", "https://")


#: States of shares that hide everything else.
STATES: Final = frozenset({"private", "removed"})


class Hop(NamedTuple):
    """One share in an entry's chain.

    Attributes:
        id: permanent and the same on all servers.
        name: of the sharer.
        url: of the share's page.
        state: ``private`` or ``removed`` (then all other fields are empty); "" for a visible share.
    """

    id: str = ""
    name: str = ""
    url: str = ""
    at: dt.datetime | None = None
    state: str = ""


class Chain(NamedTuple):
    """The chain of an entry, from the first share of its root to the share that the entry is, the last hop.

    Attributes:
        url, title: of the root; empty if the root is hidden or gone.
    """

    hops: tuple[Hop, ...]
    url: str = ""
    title: str = ""


def make_share_id(origin: str, number: int) -> str:
    """Return the global id of a share on this server; see :func:`make_tag_uri`."""
    return make_tag_uri(origin, "share", number)


def make_tag_uri(origin: str, kind: str, ident: int) -> str:
    """Return the tag URI (RFC 4151) of a stream, share or entry on this server, which survives renames.

    Its date is when the id was assigned, because ids are microseconds since the epoch.
    """
    day = dt.datetime.fromtimestamp(ident / 1e6, dt.UTC).date()
    host = urlsplit(origin).hostname or "localhost"
    return f"tag:{host.replace(':', '.')},{day.isoformat()}:{kind}/{ident}"


def is_address(url: str) -> bool:
    """Return whether a text is valid as an address in a chain."""
    return len(url) <= URL_MAX and url.lower().startswith(_SCHEMES) and bool(_SPOKEN.fullmatch(url))


def is_share_id(text: str) -> bool:
    """Return whether a text is valid as the id of a share."""
    return 0 < len(text) <= ID_MAX and bool(_SPOKEN.fullmatch(text))


def to_xml(chain: Chain) -> str:
    """Return the element ``ev:chain`` for an Atom entry; an outer element must declare the prefix."""
    root = _element("root", {"href": _web(chain.url), "title": chain.title[:TITLE_MAX]})
    hops = "".join(_element("hop", fields) for fields in _hops(chain, "href"))
    return f"<{PREFIX}:chain>{root}{hops}</{PREFIX}:chain>"


def to_json(chain: Chain, format_url: str) -> dict[str, Any]:
    """Return the value of ``_eventr`` for an item of a JSON Feed; ``format_url`` identifies the format."""
    root = {"url": _web(chain.url), "title": chain.title[:TITLE_MAX]}
    return {"about": format_url, "root": {k: v for k, v in root.items() if v}, "chain": _hops(chain, "url")}


def _hops(chain: Chain, address: str) -> list[dict[str, str]]:
    return [_fields(hop, address) for hop in chain.hops]


def _fields(hop: Hop, address: str) -> dict[str, str]:
    if hop.state:
        return {"state": hop.state}
    at = hop.at.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if hop.at else ""
    found = {"id": hop.id, "name": hop.name[:NAME_MAX], address: _web(hop.url), "at": at}
    return {name: value for name, value in found.items() if value}


def _web(url: str) -> str:
    return url if is_address(url) else ""


def _element(name: str, fields: dict[str, str]) -> str:
    # XML forbids control characters; white space other than the plain space wouldn't survive in an attribute.
    said = {k: "".join(c if c.isprintable() else " " for c in v) for k, v in fields.items() if v}
    return f"<{PREFIX}:{name}{''.join(f' {k}={quoteattr(v)}' for k, v in said.items())}/>"
