"""Sharing: shares of entries, posts, re-shares and their chains."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.errors import ExistsError, InvalidError, NotFoundError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.saved_pages import SavedPageGateway
from app.gateways.reading.statistics import StatisticsGateway
from app.gateways.sharing.chains import ChainGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.secrecy import SecrecyGateway
from app.gateways.sharing.shares import SharingGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.chain import Chain
from app.models.media.attachment import NewAttachment
from app.models.reading.entry import Entry
from app.models.reading.statistics import Counted
from app.models.reading.targets import Occasion
from app.models.sharing.sharing import (
    Audience,
    ChainPage,
    Origin,
    Profile,
    Share,
    ShareBox,
    Sharer,
    ShareResult,
)
from app.ports import EventPort
from app.services.access import Limiter, require_permission, throttle
from app.services.media.attachments import AttachmentLimits, check_attachments
from app.services.notifications.notifier import Notifier
from app.services.reading.sending import SendingService
from app.services.sharing.hub import HubService
from app.services.sharing.secrecy import AT_ONCE
from app.services.validation import check_id, check_text, check_words

log = logs.get(__name__)

TOKEN_MAX = 64
CURSOR_MAX = 4096
TITLE_MAX = 256


class SharingService:
    """Creates, edits and removes the actor's shares and posts, and reads chains, even for strangers.

    Args:
        note_length: longest note or post, in characters.
        attachment_limits: of the files of one note or post.
        per_hour: shares and posts of one user per hour, and separately edits of them.
        undo_ttl: seconds for which an unshare can be undone.
    """

    def __init__(
        self,
        *,
        sharing: SharingGateway,
        secrecy: SecrecyGateway,
        profiles: ProfileGateway,
        chains: ChainGateway,
        entries: EntryGateway,
        saved_pages: SavedPageGateway,
        accounts: AccountGateway,
        changes: ChangeGateway,
        notifier: Notifier,
        events: EventPort,
        hub: HubService,
        limiter: Limiter,
        note_length: int,
        attachment_limits: AttachmentLimits,
        per_hour: int,
        undo_ttl: float,
        statistics: StatisticsGateway,
        sending: SendingService,
    ) -> None:
        self._statistics, self._sending = statistics, sending
        self._limits = attachment_limits
        self._sharing, self._profiles, self._chains = sharing, profiles, chains
        self._secrecy = secrecy
        self._entries, self._accounts = entries, accounts
        self._saved_pages = saved_pages
        self._changes = changes
        self._notifier, self._events, self._hub, self._limiter = notifier, events, hub, limiter
        self._note_length, self._per_hour = note_length, per_hour
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def share(
        self,
        actor: Actor,
        entry_id: int,
        *,
        note: str = "",
        audience: Audience | None = None,
        files: Sequence[NewAttachment] = (),
    ) -> ShareResult:
        """Share an entry with the actor's followers; twice is the same as once.

        Args:
            audience: None: the audience of the actor's stream.
            files: files of the actor to add to the note.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it; or a file is gone.
            InvalidError: the entry may not be shared, or the note is too long.
            RateLimitedError: too many shares and posts within the hour.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        note, now = check_words(note, "note", limit=self._note_length), clock.now()
        files = check_attachments(files, self._limits)
        entry = self._entries.get(actor.user_id, check_id(entry_id, "entry_id"))
        origin = self._find_origin(entry).entry_id
        if known := self._sharing.find_own_share(actor.user_id, origin):
            return ShareResult(known, existed=True)
        if entry.lost:
            raise NotFoundError(entry_id=entry_id)
        throttle(self._limiter, f"share:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        self._check_open(actor, entry)
        profile = self._profile(actor, now)
        if entry.of is None and self._saved_pages.is_saved(entry.feed_id):
            entry = self._saved_pages.find_root(entry, now)
            origin = entry.id
        try:
            share = self._sharing.share(profile, entry, note, audience or profile.audience, now, files=files)
        except ExistsError:
            other = self._sharing.find_own_share(actor.user_id, origin)
            if other is None:
                raise
            return ShareResult(other, existed=True)
        self._note(actor, {entry_id, entry.id, origin})
        self._statistics.count(actor.user_id, Counted.SHARED, 1, now)
        self._tell(share)
        self._sending.request_automatic(actor.user_id, [entry_id], Occasion.SHARE)
        self._notifier.notify_shared(share)
        log.info("shared", user_id=actor.user_id, share_id=share.id, of=share.of.entry_id)
        return ShareResult(share)

    def _find_origin(self, entry: Entry) -> Origin:
        """Return the root of an entry: of a share, the shared entry; of a saved page, that of its shares."""
        if entry.of is not None:
            return entry.of
        root = self._saved_pages.find_root_id(entry) if self._saved_pages.is_saved(entry.feed_id) else None
        return root or Origin(entry.id, entry.feed_id)

    def _note(self, actor: Actor, entry_ids: set[int]) -> None:
        if actor.synced:
            self._changes.record_changes(actor.user_id, {}, entry_ids)

    def _check_open(self, actor: Actor, entry: Entry) -> None:
        """Refuse entries of a secret feed, such as a paid feed, and entries that contain an access key."""
        if self._is_secret(actor, entry):
            raise InvalidError("This feed is private, so you can't share its entries.")
        if self._secrecy.has_access_key(entry):
            raise InvalidError(
                "A link or file of this entry contains an access key, so you can't share the entry."
            )

    def _is_secret(self, actor: Actor, entry: Entry) -> bool:
        feed_id = entry.of.feed_id if entry.of else entry.feed_id
        return self._secrecy.is_secret(actor.user_id, feed_id)

    def set_feed_private(self, actor: Actor, feed_id: int, private: bool) -> None:
        """Keep a feed private, or not anymore.

        The actor can't share entries of a private feed. Shares of them, and re-shares of these, are visible
        only to the sharers until the feed isn't private anymore.

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        now = clock.now()
        # The mark is for the case that this process dies.
        is_new = self._secrecy.mark_feed(check_id(feed_id, "feed_id"), now, actor.user_id)
        self._secrecy.set_private(actor.user_id, feed_id, private)
        if not self.apply_secrecy(feed_id, actor.user_id):
            self._secrecy.mark_feed(feed_id, clock.now())  # another request may have removed ours
        elif is_new:
            self._secrecy.remove_mark(feed_id, now)
        log.info("feed_private", user_id=actor.user_id, feed_id=feed_id, private=private)

    def apply_secrecy(self, feed_id: int, user_id: int | None = None) -> bool:
        """Close or open the shares of a feed that became secret, or that isn't secret anymore.

        Args:
            user_id: the subscriber whose choice changed; None: for everyone.

        Returns:
            Whether that's all; a job changes the rest of very many shares.
        """
        changed = self._secrecy.apply(feed_id, clock.now(), user_id)
        for count, (was, share) in enumerate(changed, 1):
            self._tell(was, new=0)
            self._tell(share, new=0)
            if count == AT_ONCE:
                return False
        return True

    def publish_post(
        self,
        actor: Actor,
        title: str,
        text: str,
        *,
        audience: Audience | None = None,
        files: Sequence[NewAttachment] = (),
    ) -> Share:
        """Publish a post of the actor: a text, pictures, or both.

        Raises:
            InvalidError: there is neither a text nor a file, or one is too long.
            NotFoundError: a file is gone.
            RateLimitedError: too many shares and posts within the hour.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        text, now = check_words(text, "note", limit=self._note_length), clock.now()
        title = check_text(title, "title", limit=TITLE_MAX, empty=True)
        files = check_attachments(files, self._limits)
        if not text and not files:
            raise InvalidError("Write something first.", field="note")
        throttle(self._limiter, f"share:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        profile = self._profile(actor, now)
        share = self._sharing.publish_post(
            profile, title, text, audience or profile.audience, now, files=files
        )
        self._tell(share)
        self._notifier.notify_shared(share)
        log.info("posted", user_id=actor.user_id, share_id=share.id)
        return share

    def update_share(
        self,
        actor: Actor,
        share_id: int,
        *,
        note: str | None = None,
        audience: Audience | None = None,
        files: Sequence[NewAttachment] | None = None,
    ) -> Share:
        """Change the note, audience or files of one of the actor's shares; readers see that it was edited.

        Args:
            note, audience, files: None leaves the value as it is, even if another edit changes it meanwhile.

        Raises:
            NotFoundError: the actor has no such share.
            InvalidError: the note is too long, or a post would have no text.
            RateLimitedError: too many edits within the hour.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        note = None if note is None else check_words(note, "note", limit=self._note_length)
        files = None if files is None else check_attachments(files, self._limits)
        now, known = clock.now(), self._sharing.get_share(actor.user_id, check_id(share_id, "share"))
        if known.user_id != actor.user_id:
            raise NotFoundError(share_id=share_id)
        kept = known.files if files is None else files
        if known.is_post and not (known.note if note is None else note) and not kept:
            raise InvalidError("Write something first.", field="note")
        if audience not in (None, Audience.PRIVATE) and not known.is_post and self._is_closed(known):
            raise InvalidError("This feed is private, so only you can see your shares of it.")
        # Each edit can notify people whom it mentions.
        throttle(self._limiter, f"share_edit:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        profile = self._profile(actor, now)
        was, edited = self._sharing.update_share(
            profile, known.id, now, note=note, audience=audience, files=files
        )
        if edited.feed_id != was.feed_id:
            self._tell(was, new=0)  # the readers of that feed lose sight of the share
        self._tell(edited, new=int(edited.feed_id != was.feed_id))
        self._notifier.notify_share_edited(was, edited)
        return edited

    def remove_share(self, actor: Actor, share_id: int) -> str:
        """Unshare: remove one of the actor's shares; re-shares by other people stay.

        Returns:
            A token for :meth:`restore_share`, valid for ``undo_ttl``.

        Raises:
            NotFoundError: the actor has no such share.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        now = clock.now()
        was, token = self._sharing.remove_share(
            actor.user_id, check_id(share_id, "share"), now + self._undo_ttl, now
        )
        self._note(actor, {was.of.entry_id})
        self._tell(was, new=0)
        log.info("unshared", user_id=actor.user_id, share_id=was.id)
        return token

    def unshare(self, actor: Actor, entry_id: int) -> str | None:
        """Remove the actor's own share of an entry, or of the entry that a share is of.

        Returns:
            As :meth:`remove_share`; None: the actor doesn't share the entry.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        entry_id = check_id(entry_id, "entry_id")
        mine = self._sharing.find_own_share(actor.user_id, entry_id)
        if mine is None:
            try:
                seen = self._sharing.get_share(actor.user_id, entry_id)
            except NotFoundError:
                return None
            mine = self._sharing.find_own_share(actor.user_id, seen.of.entry_id)
        return self.remove_share(actor, mine.id) if mine else None

    def restore_share(self, actor: Actor, token: str) -> Share:
        """Undo a :meth:`remove_share`.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's.
            ExistsError: the actor has shared the entry again; that share stays as it is.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        now = clock.now()
        profile = self._profile(actor, now)
        token = check_text(token, "token", limit=TOKEN_MAX)
        share = self._sharing.restore_share(profile, token, now, self._is_closed)
        self._note(actor, {share.of.entry_id})
        self._tell(share)
        return share

    def _is_closed(self, share: Share) -> bool:
        return not share.is_post and self._secrecy.is_secret(share.user_id, share.of.feed_id)

    def find_shareable_feeds(self, actor: Actor, feed_ids: Sequence[int]) -> set[int]:
        """Return the feeds among these whose entries the actor may share."""
        require_permission(actor, Permission.ENTRY_READ)
        return set(feed_ids) - self._secrecy.find_unshareable(actor.user_id, feed_ids)

    def get_share_box(self, actor: Actor, entry: Entry) -> ShareBox:
        """Return how the actor can share an entry that they see, and through whom it reached them."""
        require_permission(actor, Permission.SHARE_EDIT)
        of = self._find_origin(entry)
        mine = self._sharing.find_own_share(actor.user_id, of.entry_id)
        first, total = self._chains.find_first(actor.user_id, of)
        html = self._sharing.render_note(mine) if mine else ""
        box = ShareBox(mine, (), self.get_audience(actor), first=first, total=total, html=html)
        if entry.of is None:
            has_key = self._secrecy.has_access_key(entry)
            can_share = not (self._is_secret(actor, entry) or has_key)
            is_own = bool(entry.url) and not has_key and self._secrecy.is_own_copy(entry.feed_id)
            return dataclasses.replace(box, can_reshare=can_share, can_post_link=is_own)
        share = self._sharing.get_share(actor.user_id, entry.id)
        if self._is_secret(actor, entry):
            return dataclasses.replace(box, can_reshare=False)
        passable, widest = self._sharing.check_reshare(actor.user_id, entry)
        via = tuple(self.list_chain_sharers(actor, share))
        return dataclasses.replace(box, via=via, widest=widest, can_reshare=passable and not entry.lost)

    def find_own_share(self, actor: Actor, entry: Entry) -> int | None:
        """Return the id of the actor's own share of an entry, or of a share's entry; None: not shared."""
        require_permission(actor, Permission.ENTRY_READ)
        found = self._sharing.find_own_share(actor.user_id, self._find_origin(entry).entry_id)
        return found.id if found else None

    def find_own_shares(self, actor: Actor, entry_ids: Sequence[int]) -> dict[int, Share]:
        """Return the actor's own shares of feeds' entries, by entry id."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._sharing.find_own_shares(actor.user_id, entry_ids)

    def find_shares(self, actor: Actor, share_ids: Sequence[int]) -> dict[int, Share]:
        """Return those of these shares that are the actor's own, by id."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._sharing.find_shares_of(actor.user_id, share_ids)

    def get_audience(self, actor: Actor) -> Audience:
        """Return the audience of the actor's stream, or the default if there is no profile yet."""
        return self._profiles.get_audience(actor.user_id)

    def get_share(self, actor: Actor | None, share_id: int) -> Share:
        """Return a share that the actor may see.

        Raises:
            NotFoundError: there is no such share, or the actor may not see it.
        """
        return self._sharing.get_share(actor.user_id if actor else None, check_id(share_id, "share"))

    def list_chain(self, actor: Actor | None, share_id: int, cursor: str | None = None) -> ChainPage:
        """Return a page of the tree of all shares of a share's entry, as far as the viewer may see them.

        Raises:
            NotFoundError: there is no such share, or the viewer may not see it.
            InvalidError: the cursor is invalid.
        """
        share = self.get_share(actor, share_id)
        viewer = actor.user_id if actor else None
        after = None if cursor is None else check_text(cursor, "cursor", limit=CURSOR_MAX)
        return self._chains.list_chain(viewer, share.of, after)

    def list_chain_sharers(self, actor: Actor | None, share: Share) -> Sequence[Sharer | None]:
        """Return the sharers in a share's chain, from its source back to the first share of the root entry.

        None stands for a sharer whom the viewer may not see, or who unshared the entry.
        """
        return self._chains.list_chain_sharers(actor.user_id if actor else None, share)

    def find_sources(self, actor: Actor, shares: Sequence[Share]) -> dict[int, int]:
        """Return the source of each of these shares, if the viewer may see the source (W04)."""
        wanted = {share.id: share.source for share in shares if share.source is not None}
        seen = self._chains.filter_visible(actor.user_id, list(set(wanted.values())))
        return {share_id: source for share_id, source in wanted.items() if source in seen}

    def build_chain(self, actor: Actor | None, share: Share) -> Chain:
        """Return the chain of a share for a feed: hops on other servers, then those here, this share last.

        A hop that the viewer may not see, or that was unshared, has no name.
        """
        return self._chains.build_chain(actor.user_id if actor else None, share)

    def _profile(self, actor: Actor, now: dt.datetime) -> Profile:
        user = self._accounts.find_user(actor.user_id)
        if user is None:
            raise NotFoundError(user_id=actor.user_id)
        return self._profiles.get_or_create_profile(user, now)

    def _tell(self, share: Share, new: int = 1) -> None:
        # A private or closed stream has no audience to notify.
        mine = self._profiles.find(share.user_id)
        if mine is not None and mine.visible_to is not Audience.PRIVATE:
            self._events.notify_new_entries({share.feed_id: new})
        self._hub.notify_subscribers(share.feed_id)
        self._events.notify_counts(share.user_id)
