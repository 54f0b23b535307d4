"""Shared streams as other people see them: pages, single shares, and public feeds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
import json
import re
from collections.abc import Collection, Sequence

from app.errors import NotFoundError
from app.feeds.html import linkify
from app.feeds.websub import publish
from app.gateways.reading.entries import EntryGateway
from app.gateways.sharing.visibility import VisibilityGateway, build_sharer
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.sharing.shares import ShareMapper
from app.models.feeds.feed import FeedCard
from app.models.media.signing import PictureSigner
from app.models.reading.entry import Entry, EntryKey
from app.models.sharing.pages import (
    FeedDocument,
    FeedFormat,
    Hop,
    OriginFeed,
    Publication,
    ShareCount,
    SharedItem,
    SharedPart,
)
from app.models.sharing.sharing import Audience, Profile, Share, Sharer, ShareVisibility

#: Longest notes in lists and in chains, in characters; the share's own page has the full note.
SHOWN, CHAINED = 600, 160


class TextExtent(enum.Enum):
    """How much text of an entry and its note to read: all, the beginning for lists, or nothing."""

    WHOLE = enum.auto()
    BEGINNING = enum.auto()
    NONE = enum.auto()


class SharedGateway:
    """Reads the shares in people's streams.

    Args:
        rows: shares per page and per feed.
        passed_limit: the highest number of re-shares that is counted.
        counted: the highest number of a stream's shares that is counted.
        origin: this server's own address, without a trailing slash.
        hub: the address of this server's hub; None: there is no hub.
    """

    def __init__(
        self,
        shares: ShareMapper,
        mapper: EntryMapper,
        feeds: FeedMapper,
        entries: EntryGateway,
        visibility: VisibilityGateway,
        *,
        rows: int,
        passed_limit: int,
        counted: int,
        origin: str,
        hub: str | None,
        pictures: PictureSigner | None = None,
    ) -> None:
        self._shares, self._mapper, self._feeds = shares, mapper, feeds
        self._entries, self._sight = entries, visibility
        self._rows, self._passed_most, self._counted = rows, passed_limit, counted
        self._origin, self.hub, self._pictures = origin, hub, pictures

    def list_shares(self, viewer: int | None, profile: Profile, before: int | None) -> SharedPart:
        """Return a page of a stream's visible shares, newest first, without full texts.

        Args:
            before: the share after which the page starts; None: the first page.
        """
        part = self._part(viewer, profile, before)
        return part._replace(items=tuple(self._counting(part.items)))

    def _part(
        self,
        viewer: int | None,
        profile: Profile,
        before: int | None,
        *,
        text: TextExtent = TextExtent.BEGINNING,
    ) -> SharedPart:
        seen = self._seen(viewer, profile)
        found = self._shares.list_stream(profile.user_id, seen, before, self._rows + 1)
        shown = found[: self._rows]
        items = self._items(viewer, [(share, profile) for share in shown], text)
        return SharedPart(tuple(items), shown[-1].id if len(found) > len(shown) else None)

    def _seen(self, viewer: int | None, profile: Profile) -> list[Audience]:
        """Return the audiences whose shares this viewer may see."""
        tie = self._sight.find_relationship(viewer, profile)
        return [audience for audience in Audience if profile.allows_view(audience, tie)]

    def count_shares(self, viewer: int | None, profile: Profile) -> ShareCount:
        """Return how many shares of a stream a viewer may see."""
        seen = self._seen(viewer, profile)
        found = self._shares.count_stream(profile.user_id, seen, self._counted + 1)
        return ShareCount(min(found, self._counted), found > self._counted)

    def get_share(self, viewer: int | None, profile: Profile, share_id: int) -> SharedItem:
        """Return one share of a person with its text.

        Raises:
            NotFoundError: there is no such share, it was unshared, or the viewer may not see it.
        """
        share = self._shares.find_many([share_id]).get(share_id)
        if share is None or share.user_id != profile.user_id or not self._sight.can_see(viewer, share):
            raise NotFoundError(share_id=share_id)
        items = self._items(viewer, [(share, profile)], TextExtent.WHOLE)
        if not items:
            raise NotFoundError(share_id=share_id)
        return self._counting(items)[0]

    def _items(
        self,
        viewer: int | None,
        shares: Sequence[tuple[Share, Profile]],
        text: TextExtent,
    ) -> list[SharedItem]:
        """Return shares with the data to show, except those whose root entry is hidden from the viewer."""
        keys = [EntryKey(s.id, s.feed_id, s.seq, 0) for s, _ in shares]
        entries = (self._entries.find_with_bodies if text is TextExtent.WHOLE else self._entries.find_rows)(
            viewer, keys
        )
        shares = [(s, p) for s, p in shares if s.id in entries]
        cards = self._feeds.find_cards(list({s.of.feed_id for s, _ in shares}))
        hops = self._hops(viewer, [s for s, _ in shares])
        return [
            SharedItem(
                share=share,
                by=build_sharer(share, profile),
                entry=entries[share.id],
                note=_said(share.note, text),
                cut=text is not TextExtent.WHOLE and len(share.note) > SHOWN,
                way=tuple(hops[i] for i in reversed(share.path)),
                blog=_blog(cards.get(share.of.feed_id), entries[share.id]),
                language=cards[share.of.feed_id].language if share.of.feed_id in cards else None,
            )
            for share, profile in shares
        ]

    def _hops(self, viewer: int | None, shares: Sequence[Share]) -> dict[int, Hop]:
        ids = {i for share in shares for i in share.path}
        found = self._shares.find_many(list(ids))
        names = self._sight.find_sharers(viewer, list(found.values()))
        return {i: _hop(found.get(i), names.get(i)) for i in ids}

    def _counting(self, items: Sequence[SharedItem]) -> list[SharedItem]:
        passed = self.count_reshares([item.share for item in items])
        return [dataclasses.replace(item, passed=passed[item.share.id]) for item in items]

    def count_reshares(self, shares: Sequence[Share]) -> dict[int, ShareCount]:
        """Return the number of public re-shares of each share by id, the same for every viewer."""
        below = self._shares.find_public_descendants(shares, self._passed_most + 1)
        seen = self._sight.find_visible_profiles(None, [share for found in below.values() for share in found])
        counts = {i: sum(share.id in seen for share in found) for i, found in below.items()}
        most = self._passed_most
        return {i: ShareCount(min(count, most), count > most) for i, count in counts.items()}

    def render_notes(self, sharers: Collection[Sharer]) -> dict[int, str]:
        """Return these sharers' notes as HTML, cut to :data:`CHAINED` characters, by share id."""
        return {s.share_id: linkify.render_html(clip_text(s.note, CHAINED)) for s in sharers if s.note}

    def render_bio(self, profile: Profile) -> str:
        """Return a profile's bio as HTML."""
        return linkify.render_html(profile.bio)

    def build_feed(
        self, profile: Profile, form: FeedFormat, etags: Collection[str], since: dt.datetime | None
    ) -> FeedDocument:
        """Return the feed document of the public part of a stream.

        Args:
            etags: the client's entity tags.
            since: the time of the client's copy, if the client has no tag. If the copy is current, no texts
                are read.

        Raises:
            NotFoundError: the stream isn't public.
        """
        if Audience.PUBLIC not in self._seen(None, profile):
            raise NotFoundError(handle=profile.handle)
        if etags or since:
            light = self._stamped(self._part(None, profile, None, text=TextExtent.NONE).items)
            tag, modified = self._tag(profile, form, light), publish.find_last_modified(profile, light)
            if tag in etags or (not etags and since and modified <= since):
                return FeedDocument(profile=profile, tag=tag, modified=modified)
        items = self._part(None, profile, None, text=TextExtent.WHOLE).items
        write = publish.render_atom if form is FeedFormat.ATOM else publish.render_json_feed
        return FeedDocument(
            profile=profile,
            tag=self._tag(profile, form, items),
            modified=publish.find_last_modified(profile, items),
            body=write(
                Publication(
                    origin=self._origin,
                    profile=profile,
                    items=items,
                    hub=self.hub,
                    pictures=self._pictures,
                )
            ),
        )

    def _stamped(self, items: Sequence[SharedItem]) -> list[SharedItem]:
        """Return items with the current revisions of the entries that they share."""
        of = [i.share.of for i in items]
        stamps = (
            self._mapper.find_revisions([EntryKey(o.entry_id, o.feed_id, 0, 0) for o in of]) if of else {}
        )
        return [
            item
            if item.entry.lost
            else dataclasses.replace(
                item, entry=dataclasses.replace(item.entry, revision=revision, cleaned_by=cleaned_by)
            )
            for item in items
            for revision, cleaned_by in [stamps.get(item.share.of.entry_id, (0, 0))]
        ]

    def _tag(self, profile: Profile, form: FeedFormat, items: Sequence[SharedItem]) -> str:
        """Return an entity tag that changes with any content of a feed, from data that is cheap to read."""
        said = [publish.VERSION, form, self._origin, profile.handle, profile.display, profile.bio]
        of_items = [
            [
                *(i.id, str(i.share.edited), i.share.note, i.entry.title, i.entry.url, i.entry.author),
                *(i.entry.revision, i.entry.cleaned_by, *i.blog, i.language, i.entry.lost),
                [[h.link, h.by and [h.by.share_id, h.by.handle, h.by.name]] for h in i.way],
            ]
            for i in items
        ]
        return hashlib.sha256(json.dumps([said, of_items]).encode()).hexdigest()[:32]


def _said(note: str, text: TextExtent) -> str:
    if text is TextExtent.NONE:
        return ""
    return linkify.render_html(note if text is TextExtent.WHOLE else clip_text(note, SHOWN))


def _hop(share: Share | None, by: Sharer | None) -> Hop:
    if by is not None:
        return Hop(ShareVisibility.SEEN, by)
    return Hop(ShareVisibility.PRIVATE if share is not None and share.live else ShareVisibility.REMOVED)


def _blog(card: FeedCard | None, entry: Entry) -> OriginFeed:
    """Return the feed that an entry came from, without the feed's address, which may be a secret."""
    if card is None or card.owner is not None:
        return OriginFeed()
    return OriginFeed(card.title, card.site_url or entry.url or "")


_BREAK = re.compile(r"\s+\S*\Z")


def clip_text(text: str, max_length: int) -> str:
    """Return the beginning of a text, cut between two words."""
    if len(text) <= max_length:
        return text
    return _BREAK.sub("", text[:max_length]).rstrip() + "…"
