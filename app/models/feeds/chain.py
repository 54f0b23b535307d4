"""The chain of an entry as feeds carry it from server to server, and how it is written.

All of it is what other servers claim: names are shown as plain text, addresses are http(s), nothing more is
believed. It is read in :mod:`app.feeds.parse.chain`; the format is in docs/sharing-feeds.md.
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

#: Characters of one name or title, of an address, of an id.
NAME_MAX: Final = 100
TITLE_MAX: Final = 300
URL_MAX: Final = 2048
ID_MAX: Final = 512

_SPOKEN = re.compile(r"[\x21-\x7e]+")
_SCHEMES = ("http://", "https://")


#: Of shares that nobody may know more of.
STATES: Final = frozenset({"private", "removed"})


class Hop(NamedTuple):
    """One share on the way of an entry.

    Attributes:
        id: lasting and the same on all servers. name: of the sharer. url: of the page of this share.
        state: ``private`` or ``removed``, and all else is empty; "" for a share that may be seen.
    """

    id: str = ""
    name: str = ""
    url: str = ""
    at: dt.datetime | None = None
    state: str = ""


class Chain(NamedTuple):
    """The way of an entry from its root to the share whose entry it is, which is the last hop.

    Attributes:
        url, title: of the root; empty where nobody may know them, or it is gone.
    """

    hops: tuple[Hop, ...]
    url: str = ""
    title: str = ""


def make_share_id(origin: str, number: int) -> str:
    """Return the id of a share of this server for all the world; see :func:`lasting`."""
    return make_tag_uri(origin, "share", number)


def make_tag_uri(origin: str, kind: str, ident: int) -> str:
    """Return the name of a stream, share or entry of this server, a tag URI (RFC 4151): no rename changes it.

    Its day is when the id was given, since ids are microseconds since the epoch.
    """
    day = dt.datetime.fromtimestamp(ident / 1e6, dt.UTC).date()
    host = urlsplit(origin).hostname or "localhost"
    return f"tag:{host.replace(':', '.')},{day.isoformat()}:{kind}/{ident}"


def is_address(url: str) -> bool:
    """Return whether something can stand as an address in a chain."""
    return len(url) <= URL_MAX and url.lower().startswith(_SCHEMES) and bool(_SPOKEN.fullmatch(url))


def is_share_id(text: str) -> bool:
    """Return whether something can be the id of a share."""
    return 0 < len(text) <= ID_MAX and bool(_SPOKEN.fullmatch(text))


def to_xml(chain: Chain) -> str:
    """Return the element ``ev:chain`` for an Atom entry; the prefix must be declared around it."""
    root = _element("root", {"href": _web(chain.url), "title": chain.title[:TITLE_MAX]})
    hops = "".join(_element("hop", fields) for fields in _hops(chain, "href"))
    return f"<{PREFIX}:chain>{root}{hops}</{PREFIX}:chain>"


def to_json(chain: Chain, format_url: str) -> dict[str, Any]:
    """Return the value of ``_eventr`` for an item of a JSON Feed; ``about``: what format it is."""
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
    # Control characters are none of XML; white space but the plain one would not survive in an attribute.
    said = {k: "".join(c if c.isprintable() else " " for c in v) for k, v in fields.items() if v}
    return f"<{PREFIX}:{name}{''.join(f' {k}={quoteattr(v)}' for k, v in said.items())}/>"
