"""Shares and posts: each written in one transaction, however many people follow.

A share is an entry in its sharer's feed and a document of its own, with the same id. Streams, counts and
marks use the entry. The document records the share's source and audience. It stays after an unshare, so that
re-shares keep their chain.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import secrets
from collections.abc import Callable, Sequence
from functools import partial

from app.errors import ConflictError, InvalidError, NotFoundError
from app.feeds.html import linkify, text
from app.feeds.html.sanitize import SANITIZER_VERSION
from app.gateways.feeds.entry_bodies import EXCERPT
from app.gateways.media.attachments import AttachmentGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.feeds.entries import EntryMapper, NumberedEntry
from app.mappers.mongo import ids
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session, Store
from app.mappers.reading.index_queue import IndexQueueMapper
from app.mappers.sharing.shared_feeds import SharedFeedMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.sharing.trends import TrendMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.models.media.attachment import Attachment, NewAttachment, name_share
from app.models.reading.entry import Entry, NewEntry
from app.models.sharing.sharing import Audience, Origin, Profile, Share
from app.models.subscriptions.undo import Removal
from app.runtime import identity_map

#: Attempts to store a share whose number or id another share gets at the same moment.
ROUNDS = 8
#: Most shares further down a chain that are marked as changed when one above comes or goes.
TOLD = 1000


class _OvertakenError(ConflictError):
    """A share has changed since an edit of it was prepared."""


class SharingGateway:
    """Creates, edits, removes and restores shares and posts.

    Args:
        depth: the most shares in a chain.
    """

    def __init__(
        self,
        *,
        store: Store,
        cells: Cells,
        profiles: ProfileGateway,
        visibility: VisibilityGateway,
        feeds: SharedFeedMapper,
        shares: ShareMapper,
        entries: EntryMapper,
        index_queue: IndexQueueMapper,
        removals: RemovalMapper,
        trends: TrendMapper,
        attachments: AttachmentGateway,
        depth: int,
        trend_age: dt.timedelta,
    ) -> None:
        self._attachments = attachments
        self._store, self._cells = store, cells
        self._profiles, self._sight = profiles, visibility
        self._feeds, self._shares, self._entries = feeds, shares, entries
        self._index_queue, self._removals, self._trends = index_queue, removals, trends
        self._trend_age = trend_age
        self._depth = depth

    def share(
        self,
        profile: Profile,
        entry: Entry,
        note: str,
        audience: Audience,
        now: dt.datetime,
        *,
        files: Sequence[NewAttachment] = (),
    ) -> Share:
        """Share an entry that the sharer may see; if the entry is a share itself, re-share it.

        Args:
            files: files of the sharer to attach.

        Raises:
            ExistsError: the sharer already shares the entry.
            InvalidError: the entry is another person's non-public post, or its chain is too long.
            NotFoundError: the entry was unshared, or is gone; or a file is.
        """
        source = self._shares.find(entry.id) if entry.of else None
        if entry.of and (source is None or not source.live):
            raise NotFoundError(entry_id=entry.id)
        if source is not None:
            audience = self._allowed(source, profile, audience)
            self._check_hands(len(source.path) + 1 + len(entry.remote.hops if entry.remote else ()))
        elif entry.remote:
            self._check_hands(len(entry.remote.hops))
        share = Share(
            id=ids.reserve_ids(),
            of=source.of if source else Origin(entry.id, entry.feed_id),
            user_id=profile.user_id,
            feed_id=0,
            seq=0,
            at=now,
            path=(*source.path, source.id) if source and source.user_id != profile.user_id else (),
            note=note,
            audience=audience,
            files=self._attachments.describe(profile.user_id, files),
        )
        return self._put(profile, share, self._body(profile, share, "", now, entry), now)

    def _allowed(self, source: Share, profile: Profile, audience: Audience) -> Audience:
        """Return the audience of a re-share, which is at most that of its source."""
        owner = self._profiles.find(source.user_id)
        whole = source.audience.narrow_to(owner.audience) if owner else Audience.PRIVATE
        if source.is_post and whole is not Audience.PUBLIC and source.user_id != profile.user_id:
            raise InvalidError("This post is for followers only, so you can't re-share it.")
        return audience.narrow_to(whole)

    def check_reshare(self, viewer: int, entry: Entry) -> tuple[bool, Audience]:
        """Return whether a viewer may share an entry that they see, and the widest audience."""
        source = self._shares.find(entry.id) if entry.of else None
        if source is None or source.user_id == viewer:
            return True, Audience.PUBLIC
        owner = self._profiles.find(source.user_id)
        whole = source.audience.narrow_to(owner.audience) if owner else Audience.PRIVATE
        closed = source.is_post and whole is not Audience.PUBLIC
        return not closed and len(source.path) + 1 < self._depth, whole

    def _check_hands(self, hands: int) -> None:
        """Refuse a re-share if the chain, including hops on other servers, is too long."""
        if hands >= self._depth:
            raise InvalidError(
                "You can't re-share this. A chain can have at most %(most)s shares.", most=self._depth
            )

    def publish_post(
        self,
        profile: Profile,
        title: str,
        text: str,
        audience: Audience,
        now: dt.datetime,
        *,
        files: Sequence[NewAttachment] = (),
    ) -> Share:
        """Publish a post, which is its own root entry.

        Raises:
            NotFoundError: a file is gone.
        """
        share_id = ids.reserve_ids()
        share = Share(
            id=share_id,
            of=Origin(share_id, 0),
            user_id=profile.user_id,
            feed_id=0,
            seq=0,
            at=now,
            note=text,
            audience=audience,
            files=self._attachments.describe(profile.user_id, files),
        )
        return self._put(profile, share, _entry_of_post(title, share, profile, now), now)

    def _put(self, profile: Profile, share: Share, entry: NewEntry, now: dt.datetime) -> Share:
        for _ in range(ROUNDS):
            try:
                done = self._store.run_in_transaction(partial(self._write, profile, share, entry, now))
            except ConflictError:
                fresh = ids.reserve_ids()
                of = Origin(fresh, 0) if share.is_post else share.of
                share = dataclasses.replace(share, id=fresh, of=of)
            else:
                self._profiles.apply_audience_changes(profile)
                return done
        raise ConflictError(user_id=profile.user_id)

    def _write(
        self, profile: Profile, share: Share, entry: NewEntry, now: dt.datetime, session: Session
    ) -> Share:
        private = share.audience is Audience.PRIVATE
        feed_id = profile.private_feed_id if private else profile.feed_id
        known, other = (share.seq, share.left) if share.feed_id == feed_id else (share.left, share.seq)
        revised = now if share.seq else None  # it had another place before
        is_new = not (known or other)
        seq = self._number(profile, feed_id, known, at=share.at, now=now, session=session)
        of = Origin(share.id, feed_id) if share.is_post else share.of
        share = dataclasses.replace(share, feed_id=feed_id, seq=seq, left=other, of=of)
        # Before counting the root, so that a second share by the same person changes nothing.
        stars = self._shares.add(share, profile.visible_to, session)
        self._attachments.attach(session, share.user_id, share.files, name_share(share.id))
        numbered = NumberedEntry(
            feed_id, seq, entry._replace(guid_hash=share.id.to_bytes(8, "big"), at=share.at)
        )
        self._entries.add_share(numbered, share.id, of, session, stars=stars, revised=revised)
        if not is_new:
            self._index_queue.cancel_removal(feed_id, share.id, session)
        # A root is counted like a starred entry: retention keeps it.
        if not share.is_post and not self._entries.change_star_count(of.feed_id, of.entry_id, 1, session):
            raise NotFoundError(entry_id=of.entry_id)
        self._count(share, 1, session)
        return share

    def _number(
        self,
        profile: Profile,
        feed_id: int,
        known: int,
        *,
        at: dt.datetime,
        now: dt.datetime,
        session: Session,
    ) -> int:
        """Return the number that a share had in a feed, so that it stays read, or (``known`` 0) a new one."""
        if known and self._feeds.restore_number(feed_id, known, at, now, session):
            return known
        seq = self._feeds.take_number(feed_id, at, now, session)
        if seq is None:
            raise NotFoundError(user_id=profile.user_id)
        return seq

    def _count(self, share: Share, by: int, session: Session) -> None:
        """Count a public share in the trends."""
        if share.audience is not Audience.PUBLIC:
            return
        if by > 0:
            self._trends.add(share.of, share.at, share.at + self._trend_age, session)
        else:
            self._trends.remove(share.of, share.at, session)

    def update_share(
        self,
        profile: Profile,
        share_id: int,
        now: dt.datetime,
        *,
        note: str | None = None,
        audience: Audience | None = None,
        files: Sequence[NewAttachment] | None = None,
        closes: bool = False,
    ) -> tuple[Share, Share]:
        """Change the note, the audience or the attachments of a share.

        Args:
            note, audience, files: None leaves the value as it is.
            closes: make it private, and remember its audience in ``closed``.

        Returns:
            The share before and after the change.

        Raises:
            NotFoundError: the person has no such share or file.
            InvalidError: as for :meth:`share`.
            ConflictError: other requests changed the share at every attempt.
        """
        described = None if files is None else self._attachments.describe(profile.user_id, files)
        for attempt in range(ROUNDS):
            was = self._find_current(share_id) if attempt else self._shares.find(share_id)
            if was is None or not was.live or was.user_id != profile.user_id:
                raise NotFoundError(share_id=share_id)
            with contextlib.suppress(_OvertakenError):
                new = close_share(was) if closes else self._wanted(was, note, audience, described, now)
                return was, self._edit(profile, was, new, now)
        raise ConflictError(share_id=share_id)

    def _find_current(self, share_id: int) -> Share | None:
        with identity_map.bypass():  # the transaction before may have ended without a write
            return self._shares.find(share_id)

    def _wanted(
        self,
        was: Share,
        note: str | None,
        audience: Audience | None,
        files: tuple[Attachment, ...] | None,
        now: dt.datetime,
    ) -> Share:
        """Return the share as it should be after an edit."""
        note, files = was.note if note is None else note, was.files if files is None else files
        audience = was.audience if audience is None else self._widened(was, audience)
        edited = was.edited if (note, files) == (was.note, was.files) else now
        closed = was.closed if audience is Audience.PRIVATE else None
        return dataclasses.replace(
            was, note=note, audience=audience, edited=edited, closed=closed, files=files
        )

    def _edit(self, profile: Profile, was: Share, new: Share, now: dt.datetime) -> Share:
        if (was.audience is Audience.PRIVATE) != (new.audience is Audience.PRIVATE):
            return self._move(profile, was, new, now)
        edited = self._store.run_in_transaction(partial(self._reword, was, new, now))
        if edited.audience is not was.audience:
            self._pass_on(edited, now)
        return edited

    def can_open(self, share: Share) -> bool:
        """Return whether the source of a closed share lets it open."""
        return share.closed is not None and self._widened(share, share.closed) is not share.audience

    def _widened(self, was: Share, audience: Audience) -> Audience:
        """Return the audience that a share gets if ``audience`` is requested.

        The source, even if it's gone, limits how far a share can be widened. It never narrows an existing
        share.
        """
        if was.source is None or audience.width <= was.audience.width:
            return audience
        source = self._shares.find(was.source)
        if source is None:
            return was.audience
        owner = self._profiles.find(source.user_id)
        whole = source.audience.narrow_to(owner.audience) if owner else source.audience
        most = max(whole, was.audience, key=lambda a: a.width)
        return audience.narrow_to(most)

    def _reword(self, was: Share, new: Share, now: dt.datetime, session: Session) -> Share:
        found = self._shares.update(
            was.id,
            was.user_id,
            new.note,
            audience=new.audience,
            files=new.files,
            now=now,
            session=session,
        )
        # Values that the edit leaves alone were read before, so it must not overwrite another edit.
        if found is None or found[0] != was:
            raise _OvertakenError(share_id=was.id)
        before, edited = found
        if edited.files != before.files:
            self._attachments.detach(session, before.files, name_share(was.id))
            self._attachments.attach(session, was.user_id, edited.files, name_share(was.id))
        if before.audience is not edited.audience:
            self._count(before, -1, session)
            self._count(edited, 1, session)
        html = linkify.render_html(new.note)
        excerpt = text.make_excerpt(html, EXCERPT) if was.is_post else None
        self._entries.update_note(was.feed_id, was.id, html, excerpt=excerpt, now=now, session=session)
        self._feeds.mark_changed(was.feed_id, now, session)
        return edited

    def _move(self, profile: Profile, was: Share, new: Share, now: dt.datetime) -> Share:
        """Move a share that becomes private, or that was private, to the sharer's other feed."""
        body = self._body(profile, new, self._title(was) if was.is_post else "", now)

        def move_share(session: Session) -> Share:
            if self._gone(was, now, session) != was:
                raise _OvertakenError(share_id=was.id)
            return self._write(profile, new, body, now, session)

        moved = self._store.run_in_transaction(move_share)
        self._profiles.apply_audience_changes(profile)
        self._pass_on(moved, now)
        return moved

    def remove_share(
        self, user_id: int, share_id: int, expires: dt.datetime, now: dt.datetime
    ) -> tuple[Share, str]:
        """Unshare: remove a share; re-shares by other people stay, and keep their chain.

        Returns:
            The share as it was, and a token for :meth:`restore_share`, valid until ``expires``.

        Raises:
            NotFoundError: the user has no such share.
        """
        was = self._shares.find(share_id)
        if was is None or was.user_id != user_id or not was.live:
            raise NotFoundError(share_id=share_id)
        token, title = secrets.token_urlsafe(16), self._title(was)

        def move_to_undo(session: Session) -> Share:
            gone = self._gone(was, now, session)
            self._removals.add(Removal(token, user_id, share=gone, title=title), expires, session)
            return gone

        gone = self._store.run_in_transaction(move_to_undo)
        self._pass_on(gone, now)
        return gone, token

    def _pass_on(self, share: Share, now: dt.datetime) -> None:
        """Mark re-shares of a share as changed, because the names in their chains change."""
        if further := self._shares.find_descendants(share, TOLD):
            self._entries.mark_revised(further, now)

    def _title(self, share: Share) -> str:
        """Return the title of the shared entry."""
        entry = self._entries.find(share.of.entry_id, [share.of.feed_id])
        return entry.title if entry else ""

    def _body(
        self, profile: Profile, share: Share, title: str, now: dt.datetime, entry: Entry | None = None
    ) -> NewEntry:
        """Return the entry of a share, to store it.

        Args:
            entry: the shared entry as the sharer sees it; None: read it from the store.

        Raises:
            NotFoundError: the shared entry is gone.
        """
        if share.is_post:
            return _entry_of_post(title, share, profile, now)
        if entry is not None:
            return _entry_of(entry, share.note, now, of_post=share.of.entry_id in share.path)
        root = self._entries.find(share.of.entry_id, [share.of.feed_id])
        if root is None:
            raise NotFoundError(entry_id=share.of.entry_id)
        return _entry_of(root, share.note, now, of_post=root.of is not None)

    def _gone(self, known: Share, now: dt.datetime, session: Session) -> Share:
        """Remove a share and return it as it was, since it may have moved after it was read."""
        was = self._shares.remove(known.id, known.user_id, now, session)
        if was is None:
            raise NotFoundError(share_id=known.id)
        self._attachments.detach(session, was.files, name_share(was.id))
        self._entries.remove(was.feed_id, was.id, session)
        self._feeds.remove_number(was.feed_id, was.seq, session)
        self._index_queue.add_removals([(was.feed_id, was.id)], session)
        self._count(was, -1, session)
        if not was.is_post:
            self._entries.change_star_count(was.of.feed_id, was.of.entry_id, -1, session)
            self._feeds.restart_orphan_wait(was.of.feed_id, now, session)
        return was

    def remove_undo(self, user_id: int, share_id: int) -> None:
        """Delete the undo of a removed share, so that it stays removed."""
        self._removals.remove_by_share(user_id, share_id)

    def restore_share(
        self, profile: Profile, token: str, now: dt.datetime, is_closed: Callable[[Share], bool]
    ) -> Share:
        """Restore a removed share, with its note and its place in chains.

        Args:
            is_closed: whether the feed of a share has become secret meanwhile.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the sharer's; or the entry is gone.
            ExistsError: the person has shared the entry again.
        """
        removal = self._removals.find(profile.user_id, token, now)
        share = removal.share if removal else None
        if removal is None or share is None:
            raise NotFoundError("This can no longer be undone.", undo=token)
        if is_closed(share):
            share = close_share(share)
        body = self._body(profile, share, removal.title, now)

        # A transaction of the home store can't include the undo of a person in another cell. So the undo is
        # deleted after it; the share itself can't be stored twice.
        is_home = self._cells.is_home(profile.user_id)

        def restore_from_undo(session: Session) -> Share:
            # Just used, or deleted by an administrator.
            if is_home and not self._removals.remove(profile.user_id, token, session):
                raise NotFoundError("This can no longer be undone.", undo=token)
            return self._write(profile, share, body, now, session)

        try:
            back = self._store.run_in_transaction(restore_from_undo)
        except ConflictError as e:
            raise NotFoundError("This can no longer be undone.", undo=token) from e
        if not is_home:
            self._removals.remove(profile.user_id, token)
        self._profiles.apply_audience_changes(profile)
        self._pass_on(back, now)
        return back

    def find_own_share(self, user_id: int, origin_id: int) -> Share | None:
        """Return a person's own share of an entry."""
        return self._shares.find_own(user_id, [origin_id]).get(origin_id)

    def find_own_shares(self, user_id: int, origin_ids: Sequence[int]) -> dict[int, Share]:
        """Return a person's own shares of entries, by entry id."""
        return self._shares.find_own(user_id, origin_ids) if origin_ids else {}

    def find_shares_of(self, user_id: int, share_ids: Sequence[int]) -> dict[int, Share]:
        """Return those of these shares that are a person's own, by id."""
        found = self._shares.find_many(share_ids) if share_ids else {}
        return {share_id: share for share_id, share in found.items() if share.user_id == user_id}

    def render_note(self, share: Share) -> str:
        """Return a share's note as HTML."""
        return linkify.render_html(share.note)

    def get_share(self, viewer: int | None, share_id: int) -> Share:
        """Return a share that a viewer may see.

        Raises:
            NotFoundError: there is no such share, it was unshared, or the viewer may not see it.
        """
        share = self._shares.find(share_id)
        if share is None or not self._sight.can_see(viewer, share):
            raise NotFoundError(share_id=share_id)
        return share

    def erase(self, user_id: int, now: dt.datetime) -> None:
        """Permanently remove all shares of a user; safe to run again."""
        while shares := self._shares.find_by_user(user_id, 100):
            for share in shares:
                try:
                    self._store.run_in_transaction(partial(self._gone, share, now))
                except NotFoundError:
                    continue  # removed by another run
                self._pass_on(share, now)


def close_share(share: Share) -> Share:
    """Return a share as its feed becomes secret: private, and with the audience that it had."""
    if share.audience is Audience.PRIVATE:
        return share
    return dataclasses.replace(share, audience=Audience.PRIVATE, closed=share.audience)


def _entry_of(root: Entry, note: str, now: dt.datetime, *, of_post: bool) -> NewEntry:
    """Return the entry of a share: the sharer's note, and the root's data for the search.

    Lists read the root's content from the root itself. Nothing of a post is copied, because it may be
    removed.
    """
    entry = NewEntry(
        guid_hash=b"",
        at=now,
        arrived=now,
        title="",
        content=linkify.render_html(note),
        cleaned_by=SANITIZER_VERSION,
    )
    if of_post:
        return entry
    return entry._replace(title=root.title, author=root.author, excerpt=root.excerpt)


def _entry_of_post(title: str, share: Share, profile: Profile, now: dt.datetime) -> NewEntry:
    """Return the entry of a post; its publication time is that of writing, even after a restore."""
    html = linkify.render_html(share.note)
    return NewEntry(
        guid_hash=b"",
        at=now,
        arrived=now,
        title=title,
        published=share.at,
        author=profile.name,
        content=html,
        excerpt=text.make_excerpt(html, EXCERPT),
        cleaned_by=SANITIZER_VERSION,
    )
