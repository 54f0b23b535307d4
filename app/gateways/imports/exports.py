"""Export of subscriptions as OPML files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from app.feeds.opml import opml
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.feed import FeedCard
from app.models.imports.imports import Import, ImportItem, build_import_paths
from app.models.imports.opml import Outline
from app.models.sharing.sharing import STRANGER, Audience
from app.models.subscriptions.folder import build_folder_paths
from app.models.subscriptions.sort_key import rank
from app.models.subscriptions.subscription import TOP


class ExportGateway:
    """Exports subscriptions in the order of the tree."""

    def __init__(
        self,
        subscriptions: SubscriptionMapper,
        feeds: FeedMapper,
        folders: FolderGateway,
        profiles: ProfileGateway,
    ) -> None:
        self._subscriptions = subscriptions
        self._profiles = profiles
        self._feeds = feeds
        self._folders = folders

    def export_subscriptions(self, user_id: int) -> bytes:
        """Return all of a user's subscriptions as OPML, with the user's titles.

        A feed in several folders appears in each of them; empty folders are included. A person appears as
        their Atom feed; people who don't share publicly have none, and are left out.
        """
        mine = self._subscriptions.find_by_user(user_id)
        cards = self._open(self._feeds.find_cards([one.feed_id for one in mine]))
        places = build_folder_paths(self._folders.find_by_user(user_id))
        ranked = []
        for one in mine:
            if (card := cards.get(one.feed_id)) is not None:
                title, site = one.title or card.title, card.site_url
                for folder in [f for f in one.folder_ids if f in places] or [TOP]:
                    outline = Outline(card.url, title, site, places.get(folder, ()))
                    ranked.append((rank(one.orders.get(folder, ""), title or card.url, one.feed_id), outline))
        ranked.sort(key=itemgetter(0))
        return opml.write("Eventr subscriptions", [outline for _, outline in ranked], places.values())

    def _open(self, cards: Mapping[int, FeedCard]) -> dict[int, FeedCard]:
        """Replace people's streams by their Atom feeds; leave out those without one, and saved pages."""
        people = self._profiles.find_many([c.owner for c in cards.values() if c.owner is not None])
        found = {}
        for feed_id, card in cards.items():
            if card.saved:
                continue  # no other reader can fetch it
            if card.owner is None:
                found[feed_id] = card
            elif card.owner in people and people[card.owner].allows_view(Audience.PUBLIC, STRANGER):
                found[feed_id] = card._replace(url=f"{card.url}/atom.xml", site_url=card.url)
        return found


def export_items(one: Import, items: Sequence[ImportItem], explain: Callable[[ImportItem], str]) -> bytes:
    """Return failed outlines of an import as an OPML file that can be imported again; ``explain``: why."""
    places = build_import_paths(one.folders)
    outlines = []
    for item in items:
        inside = [places[f] for f in item.folders] or [()]
        reason = explain(item)
        outlines += [Outline(item.url, item.title, None, place, problem=reason) for place in inside]
    return opml.write(one.title or one.name or "Subscriptions", outlines)
