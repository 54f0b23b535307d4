"""Miniflux's own interface: ``/v1/feeds`` and ``/v1/entries`` with an API token."""

from __future__ import annotations

from typing import Final

from app.errors import N_
from app.feeds.archives.formats import read_miniflux_entry, read_miniflux_folders
from app.feeds.archives.values import get_address, get_dict, get_list, get_text
from app.feeds.readers.steps import Steps, ask, check, drop_text, read_json, read_object
from app.models.feeds.fetched import FetchRequest
from app.models.imports.opml import MINIFLUX, Outline, SubscriptionList
from app.models.imports.pulls import Login, PulledPage

_STARRED, _ALL = "starred", "all"
_REFUSED: Final = N_(
    "%(host)s refused this token. Make a new one in Miniflux under Settings → API Keys, and enter it here."
)


class MinifluxReader:
    """Reads an account of Miniflux: the starred entries, then all, newest first."""

    def __init__(self, address: str, login: Login) -> None:
        self._base = address.removesuffix("/v1")
        self._headers = (("X-Auth-Token", login.secret),)
        self.stages = (_STARRED, _ALL)

    def _ask(self, path: str, *fields: tuple[str, str]) -> FetchRequest:
        return ask(f"{self._base}/v1/{path}", fields, headers=self._headers)

    def connect(self) -> Steps[SubscriptionList]:
        """Return the subscriptions; the token is checked with them."""
        fetched = yield self._ask("feeds")
        check(fetched, refused=_REFUSED)
        feeds = []
        for row in map(get_dict, get_list(read_json(fetched))):
            if url := get_address(row.get("feed_url")):
                feeds.append(Outline(url, get_text(row.get("title")), folders=read_miniflux_folders(row)))
        folders = tuple(dict.fromkeys(feed.folders for feed in feeds if feed.folders))
        return SubscriptionList(MINIFLUX, tuple(feeds), folders, len(feeds))

    def read_page(self, stage: str, cursor: str, size: int) -> Steps[PulledPage]:
        """Return the entries before the one that the cursor names."""
        fields = [("limit", str(size)), ("order", "id"), ("direction", "desc")]
        fields += [("starred", "true")] if stage == _STARRED else []
        fields += [("before_entry_id", cursor)] if cursor else []
        rows = [
            get_dict(row)
            for row in get_list(read_object((yield self._ask("entries", *fields))).get("entries"))
        ]
        numbers = [row["id"] for row in rows if type(row.get("id")) is int]
        last = min(numbers, default=0)
        # A server that doesn't know the field would send the same page for ever.
        goes_on = len(rows) >= size and last > 0 and (not cursor or last < int(cursor))
        found = map(read_miniflux_entry, rows)
        # What the person starred came with its text in the first stage.
        entries = tuple(drop_text(entry) if stage == _ALL else entry for entry in found)
        return PulledPage(entries, str(last) if goes_on else "", len(rows))
