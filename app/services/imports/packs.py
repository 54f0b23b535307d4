"""Starter packs: listing them, subscribing to their feeds, and editing them as an admin."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from app import clock, logs
from app.errors import InvalidError
from app.gateways.feeds.feed_search import FeedSearchGateway
from app.gateways.imports.packs import PackGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.feed_search import KnownFeed
from app.models.imports.imports import Import, Pack
from app.models.imports.opml import Outline, SubscriptionList
from app.models.reading.tokenizer import fold_text
from app.services.access import require_permission
from app.services.imports.imports import ImportService
from app.services.validation import check_text

log = logs.get(__name__)

SLUG_MAX, TITLE_MAX, ABOUT_MAX = 80, 80, 400
#: Characters of an import's name that is made of the names of several packs.
NAME_MAX = 120
#: Feeds of a pack that a list of packs names.
SAMPLES = 4


@dataclasses.dataclass(frozen=True, slots=True)
class PackView:
    """A pack with its feeds in their order, without duplicates.

    Attributes:
        samples: the feeds that a list of packs names: first those that a search has found.
    """

    pack: Pack
    feeds: tuple[Outline, ...]
    samples: tuple[Outline, ...] = ()

    @property
    def language(self) -> str:
        """The pack's language as a BCP 47 tag; empty for English and mixed packs."""
        return self.pack.language


class PackService:
    """Lists starter packs, subscribes users to them, and lets admins edit them."""

    def __init__(self, packs: PackGateway, feeds: FeedSearchGateway, imports: ImportService) -> None:
        self._packs = packs
        self._feeds = feeds
        self._imports = imports

    def list_packs(self, actor: Actor, language: str = "en", query: str = "") -> list[PackView]:
        """Return all packs by title: first those in ``language``, then those without one.

        Args:
            query: words of a pack's title or description, or of its feeds' names or descriptions; empty: all
                packs.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        words = fold_text(query).split()
        views = [self._view(pack, words) for pack in self._packs.list_packs()]
        return sorted(
            (view for view in views if view.samples or not words),
            key=lambda view: (view.language != language, view.language != ""),
        )

    def find_icons(self, actor: Actor, feeds: Iterable[Outline]) -> dict[str, str]:
        """Return the paths of the icons of those feeds that this server fetches, by address."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._packs.find_icons(feed.url for feed in feeds)

    def find_known(self, actor: Actor, feeds: Iterable[Outline]) -> dict[str, KnownFeed]:
        """Return what the actor may know about those feeds that this server has, by address."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._feeds.find_known(actor.user_id, (feed.url for feed in feeds), clock.now())

    def get(self, actor: Actor, slug: str) -> PackView:
        """Return a pack.

        Raises:
            NotFoundError: there is no such pack.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._view(self._packs.get(check_text(slug, "slug", limit=SLUG_MAX)))

    def subscribe(self, actor: Actor, slug: str, chosen: Collection[int] | None = None) -> Import:
        """Import a pack: all its feeds, or those at the positions in ``chosen``.

        Raises:
            NotFoundError: there is no such pack.
            InvalidError: nothing is selected, or the actor already has all the feeds.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        view = self._view(self._packs.get(check_text(slug, "slug", limit=SLUG_MAX)))
        feeds = tuple(f for n, f in enumerate(view.feeds) if chosen is None or n in chosen)
        if not feeds:
            raise InvalidError("Select at least one feed first.")
        found = self._packs.read(view.pack)
        only = dataclasses.replace(found, feeds=_place_in_folder(feeds, view.pack), folders=())
        return self._imports.import_list(actor, only, view.pack.title)

    def subscribe_all(self, actor: Actor, slugs: Sequence[str]) -> Import:
        """Import all feeds of several packs as one list; each pack becomes a folder.

        Raises:
            NotFoundError: one of the packs doesn't exist.
            InvalidError: no pack is selected, or the actor already has all the feeds.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        if not slugs:
            raise InvalidError("Select at least one topic first.")
        chosen = [check_text(slug, "slug", limit=SLUG_MAX) for slug in dict.fromkeys(slugs)]
        views = [self._view(self._packs.get(slug)) for slug in chosen]
        feeds = tuple(feed for view in views for feed in _place_in_folder(view.feeds, view.pack))
        title = ", ".join(view.pack.title for view in views)[:NAME_MAX]
        return self._imports.import_list(actor, SubscriptionList(title, feeds, (), len(feeds)), title)

    def add(self, actor: Actor, title: str, about: str, body: bytes) -> Pack:
        """Create a pack from an OPML file.

        Raises:
            InvalidError: the file isn't OPML, or has no feeds.
            TooLargeError: the file exceeds one of the settings ``opml_…``.
            ExistsError: there is a pack with this name.
        """
        require_permission(actor, Permission.PACK_EDIT)
        title, about = _texts(title, about)
        pack = self._packs.add(title, about, body)
        log.info("pack_added", user_id=actor.user_id, pack=pack.slug)
        return pack

    def update(self, actor: Actor, slug: str, title: str, about: str, body: bytes | None = None) -> Pack:
        """Change a pack; if ``body`` is None, its list of feeds stays.

        Raises:
            NotFoundError: there is no such pack.
            InvalidError: the file isn't OPML, or has no feeds.
            TooLargeError: the file exceeds one of the settings ``opml_…``.
        """
        require_permission(actor, Permission.PACK_EDIT)
        title, about = _texts(title, about)
        pack = self._packs.update(check_text(slug, "slug", limit=SLUG_MAX), title, about, body)
        log.info("pack_edited", user_id=actor.user_id, pack=pack.slug)
        return pack

    def remove(self, actor: Actor, slug: str) -> None:
        """Delete a pack; subscriptions stay.

        Raises:
            NotFoundError: there is no such pack.
        """
        require_permission(actor, Permission.PACK_EDIT)
        self._packs.remove(check_text(slug, "slug", limit=SLUG_MAX))
        log.info("pack_removed", user_id=actor.user_id, pack=slug)

    def _view(self, pack: Pack, words: Sequence[str] = ()) -> PackView:
        by_url = {feed.url: feed for feed in reversed(self._packs.read(pack).feeds)}
        feeds = tuple(reversed(by_url.values()))
        about = f"{pack.title} {pack.about}"
        found = [feed for feed in feeds if _has_words(_list_words(feed), words)]
        if not found and not _has_words(about, words):
            # The words may stand in both.
            found = [feed for feed in feeds if _has_words(f"{about} {_list_words(feed)}", words)]
            return PackView(pack, feeds, tuple(found[:SAMPLES]))
        samples = dict.fromkeys((*found, *feeds))
        return PackView(pack, feeds, tuple(samples)[:SAMPLES])


def _list_words(feed: Outline) -> str:
    return f"{feed.title} {feed.url} {feed.about}"


def _has_words(text: str, words: Sequence[str]) -> bool:
    """Return whether each of these folded words is in a text."""
    folded = fold_text(text)
    return all(word in folded for word in words)


def _place_in_folder(feeds: Sequence[Outline], pack: Pack) -> tuple[Outline, ...]:
    """Return the feeds in a folder named after their pack, unless the pack has folders itself."""
    return tuple(dataclasses.replace(feed, folders=feed.folders or (pack.title,)) for feed in feeds)


def _texts(title: str, about: str) -> tuple[str, str]:
    return check_text(title, "title", limit=TITLE_MAX), check_text(
        about, "about", limit=ABOUT_MAX, empty=True
    )
