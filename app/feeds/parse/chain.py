"""Share chains that another Eventr writes into its feeds, read strictly: an invalid chain is dropped.

:mod:`app.models.feeds.chain` writes them; docs/sharing-feeds.md describes the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lxml.etree import _Element

from app.feeds.parse.dates import parse_date
from app.feeds.parse.draft import Context, EntryDraft
from app.feeds.parse.names import canonicalise_tag
from app.models.feeds import chain
from app.models.feeds.chain import Chain, Hop


def read_xml(draft: EntryDraft, el: _Element) -> None:
    """Read the element ``ev:chain``; the first one counts."""
    if draft.chain is not None:
        return
    hops: list[Mapping[str, Any]] = []
    root: Mapping[str, Any] = {}
    for child in el:
        name = canonicalise_tag(child.tag, "") if isinstance(child.tag, str) else ""
        if name == "ev:root":
            root = {"url": child.get("href"), "title": child.get("title")}
        elif name == "ev:hop":
            hops.append({**{str(k): str(v) for k, v in child.attrib.items()}, "url": child.get("href")})
        if len(hops) > draft.ctx.limits.hops:
            return
    draft.chain = _chain(draft.ctx, root, hops)


def read_json(draft: EntryDraft, data: Any) -> None:
    """Read the object ``_eventr``."""
    if not isinstance(data, dict):
        return
    hops, root = data.get("chain"), data.get("root", {})
    if isinstance(hops, list) and isinstance(root, dict) and all(isinstance(h, dict) for h in hops):
        draft.chain = _chain(draft.ctx, root, hops)


def _chain(ctx: Context, root: Mapping[str, Any], hops: Iterable[Mapping[str, Any]]) -> Chain | None:
    try:
        read = tuple(_hop(ctx, hop) for hop in hops)
        url, title = _address(root.get("url")), _words(ctx, root.get("title"), chain.TITLE_MAX)
    except ValueError:
        return None
    return Chain(read, url, title) if 0 < len(read) <= ctx.limits.hops else None


def _hop(ctx: Context, said: Mapping[str, Any]) -> Hop:
    state = said.get("state") or ""
    if state:
        if not isinstance(state, str) or state not in chain.STATES:
            raise ValueError("no state")
        return Hop(state=state)
    ident, name = said.get("id"), _words(ctx, said.get("name"), chain.NAME_MAX)
    if not isinstance(ident, str) or not chain.is_share_id(ident) or not name:
        raise ValueError("a share without an id or a name")
    at = said.get("at")
    when = parse_date(at) if isinstance(at, str) and len(at) <= 64 else None
    return Hop(ident, name, _address(said.get("url")), when)


def _address(said: Any) -> str:
    if said is None or said == "":
        return ""
    if not isinstance(said, str) or not chain.is_address(said):
        raise ValueError("no address")
    return said


def _words(ctx: Context, said: Any, limit: int) -> str:
    """Return the value as plain text on one line."""
    if said is None:
        return ""
    if not isinstance(said, str) or len(said) > limit:
        raise ValueError("no text, or too long")
    # Drop characters that could change the direction of the surrounding text, or be invisible.
    return "".join(c for c in ctx.clean_line(said) if c.isprintable())
