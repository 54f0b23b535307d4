"""Likes and comments: writing, changing and removing them, and reading comment threads."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.errors import InvalidError, NotFoundError, RateLimitedError
from app.gateways.discussion.comments import DiscussionGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.models.accounts.actor import Actor, Permission
from app.models.discussion.comments import (
    Comment,
    CommentedShare,
    CommentThread,
    PersonSummary,
    ShareReactions,
)
from app.models.media.attachment import NewAttachment
from app.models.reading.entry import EntryKey
from app.models.sharing.sharing import Share
from app.services.access import Limiter, require_permission, throttle
from app.services.media.attachments import AttachmentLimits, check_attachments
from app.services.notifications.notifier import Notifier
from app.services.reading.reading import MARKS_MAX
from app.services.validation import check_id, check_ids, check_text, check_words

log = logs.get(__name__)

TOKEN_MAX = 64
CURSOR_MAX = 4096
#: People per page in a list of likers; entries per request for likes.
ROWS, AT_ONCE = 100, 500


class DiscussionService:
    """Likes and comments.

    Args:
        length: characters of a comment.
        attachment_limits: of the files of one comment.
        per_hour: comments of one user per hour, and separately edits of comments.
        likes_per_hour: likes of one user per hour.
        undo_ttl: seconds in which a removed comment can be restored.
    """

    def __init__(
        self,
        talk: DiscussionGateway,
        entries: EntryGateway,
        changes: ChangeGateway,
        notifier: Notifier,
        limiter: Limiter,
        *,
        length: int,
        attachment_limits: AttachmentLimits,
        per_hour: int,
        likes_per_hour: int,
        undo_ttl: float,
    ) -> None:
        self._limits = attachment_limits
        self._talk, self._entries, self._changes = talk, entries, changes
        self._notifier, self._limiter = notifier, limiter
        self._length, self._per_hour = length, per_hour
        self._likes_per_hour = likes_per_hour
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    # -- likes
    def set_liked(self, actor: Actor, entry_id: int, on: bool = True) -> None:
        """Like an entry, or unlike it; liking twice is the same as once.

        A like of a share is visible to everyone who sees the share. For any other entry the like is a private
        mark of the actor.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it.
            RateLimitedError: too many likes within the hour.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        entry_id, now = check_id(entry_id, "entry"), clock.now()
        if on:
            self._count_like(actor)
        share = self._talk.find_share(actor.user_id, entry_id)
        if share is not None:
            if self._talk.set_liked(actor.user_id, share, on, now):
                self._notifier.notify_liked(actor.user_id, share, on)
        # A liked share may have been hidden from the actor or unshared since.
        elif on or not self._talk.unlike(actor.user_id, entry_id):
            self._entries.set_liked(actor.user_id, entry_id, on, now)
        if actor.synced:  # after the change, as in ReadingService.set_starred
            self._changes.record_changes(actor.user_id, {}, [entry_id])

    def set_many_liked(self, actor: Actor, entry_ids: Sequence[int], on: bool) -> None:
        """Like or unlike many entries as :meth:`set_liked` does; skip those that the actor may not see.

        Raises:
            InvalidError: more than :data:`MARKS_MAX` entries.
            RateLimitedError: too many likes within the hour; those before the limit are stored.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        wanted = check_ids(entry_ids, "entry_ids", MARKS_MAX)
        keys = self._entries.find_markable_keys(actor.user_id, wanted)
        if on:
            liked = self._entries.find_liked(actor.user_id, list(keys))
            keys = {i: key for i, key in keys.items() if i not in liked}
            wanted = [i for i in wanted if i not in liked]
        entries, refused = list(keys.values()), None
        for count in range(len(entries) if on else 0):
            try:
                self._count_like(actor)
            except RateLimitedError as e:
                entries, refused = entries[:count], e
                break
        if entries:
            self._entries.set_many_liked(actor.user_id, entries, on, clock.now())
            if actor.synced:  # after the change, as in ReadingService.set_starred
                self._changes.record_changes(actor.user_id, {}, [key.id for key in entries])
        if refused is not None:
            raise refused
        for entry_id in wanted:
            if entry_id not in keys:
                with contextlib.suppress(NotFoundError):
                    self.set_liked(actor, entry_id, on)

    def _count_like(self, actor: Actor) -> None:
        throttle(self._limiter, f"like:{actor.user_id}", limit=self._likes_per_hour, window=clock.HOUR)

    def set_share_liked(self, actor: Actor, share_id: int, on: bool = True) -> ShareReactions:
        """Like or unlike a share; return its likes and comments after that.

        Raises:
            NotFoundError: there is no such share, or the actor may not see it.
            RateLimitedError: too many likes within the hour.
        """
        share = self.get_share(actor, share_id)
        self.set_liked(actor, share.id, on)
        return self.get_reactions(actor, share)

    def find_liked(self, actor: Actor, entry_ids: Sequence[int]) -> set[int]:
        """Return which of these entries the actor likes privately; for shares see :meth:`count_reactions`."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._entries.find_liked(actor.user_id, check_ids(entry_ids, "entry", AT_ONCE))

    def get_reactions(self, actor: Actor | None, share: Share) -> ShareReactions:
        """Return the likes and comments of a share that the actor may see, as from :meth:`get_share`."""
        return self.count_reactions(actor, [share])[share.id]

    def count_reactions(self, actor: Actor | None, shares: Sequence[Share]) -> dict[int, ShareReactions]:
        """Return the likes and comments of shares that the actor may see, by share id."""
        return self._talk.count_reactions(actor.user_id if actor else None, shares)

    def list_likers(
        self, actor: Actor, share_id: int, after: str = ""
    ) -> tuple[list[PersonSummary], str | None]:
        """Return a page of the people who like one of the actor's shares, latest first, and the next cursor.

        Raises:
            NotFoundError: the actor has no such share.
        """
        require_permission(actor, Permission.ENTRY_READ)
        share = self.get_share(actor, share_id)
        if share.user_id != actor.user_id:
            raise NotFoundError(share_id=share_id)
        return self._talk.list_likers(
            actor.user_id, share, check_text(after, "after", limit=TOKEN_MAX, empty=True), ROWS
        )

    # -- comments
    def get_share(self, actor: Actor | None, share_id: int) -> Share:
        """Return a share that the actor may see.

        Raises:
            NotFoundError: there is no such share, or the actor may not see it.
        """
        return self._talk.get_share(actor.user_id if actor else None, check_id(share_id, "share"))

    def get_commented_share(self, actor: Actor | None, share_id: int) -> CommentedShare:
        """Return a share with its entry, for the head of its comment thread.

        Raises:
            NotFoundError: there is no such share, or the actor may not see it.
        """
        viewer = actor.user_id if actor else None
        is_social = actor is not None and actor.social
        share = self._talk.get_share(viewer, check_id(share_id, "share"), is_social=is_social)
        key = EntryKey(share.id, share.feed_id, share.seq, 0)
        found = self._entries.find_rows(viewer, [key]).get(share.id)
        topic = self._talk.get_commented_share(viewer, share)
        return (
            dataclasses.replace(topic, title=found.title, url=found.url or "", lost=found.lost)
            if found
            else topic
        )

    def get_thread(
        self, actor: Actor | None, share: Share, *, cursor: str | None = None, at: int | None = None
    ) -> CommentThread:
        """Return a page of the comments on a share that the actor may see.

        Args:
            cursor: where the previous page ended; None: the first page.
            at: id of a comment that the page must contain.

        Raises:
            InvalidError: the cursor is invalid.
        """
        viewer = actor.user_id if actor else None
        after = None if cursor is None else check_text(cursor, "cursor", limit=CURSOR_MAX)
        return self._talk.get_thread(viewer, share, after, None if at is None else check_id(at, "at"))

    def comment(
        self,
        actor: Actor,
        share_id: int,
        text: str,
        parent: int | None = None,
        *,
        once: bool = False,
        files: Sequence[NewAttachment] = (),
    ) -> Comment:
        """Comment on a share, or answer a comment on it: a text, pictures, or both.

        Args:
            parent: id of the comment that is answered; None: the share itself.
            files: files of the actor to add.
            once: return an equal comment of the last hour instead of a second one, because programs resend
                requests that got no answer.

        Raises:
            NotFoundError: the share, comment or a file is gone, or the actor may not see it.
            InvalidError: there is neither a text nor a file, or one is too long.
            RateLimitedError: too many comments within the hour.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        files = check_attachments(files, self._limits)
        share, words = self.get_share(actor, share_id), self._words(text, empty=bool(files))
        parent = None if parent is None else check_id(parent, "parent")
        hour = clock.now() - dt.timedelta(seconds=clock.HOUR)
        if (
            once
            and not files
            and (said := self._talk.find_comment_by_text(actor.user_id, share, words, hour)) is not None
        ):
            return said
        throttle(self._limiter, f"comment:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        if parent is not None:
            self._answerable(actor, share, parent)
        made, above = self._talk.comment(actor.user_id, share, words, parent, clock.now(), files=files)
        self._notifier.notify_commented(made, share, above)
        log.info("commented", user_id=actor.user_id, share_id=share.id, comment_id=made.id)
        return made

    def _answerable(self, actor: Actor, share: Share, comment_id: int) -> None:
        above, on = self._talk.get_comment(actor.user_id, comment_id)
        if on.id != share.id or not self._talk.can_see_author(actor.user_id, above):
            raise NotFoundError(comment_id=comment_id)

    def _words(self, text: str, *, empty: bool = False) -> str:
        words = check_words(text, "text", limit=self._length)
        if not (words or empty):
            raise InvalidError("Write something first.", field="text")
        return words

    def get_own_comment(self, actor: Actor, comment_id: int) -> Comment:
        """Return one of the actor's own comments.

        Raises:
            NotFoundError: the actor has no such comment, or no longer sees its share.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        found, _ = self._talk.get_comment(actor.user_id, check_id(comment_id, "comment"))
        if found.user_id != actor.user_id:
            raise NotFoundError(comment_id=comment_id)
        return found

    def update_comment(
        self,
        actor: Actor,
        comment_id: int,
        text: str,
        *,
        files: Sequence[NewAttachment] | None = None,
    ) -> Comment:
        """Change one of the actor's comments; readers see that it was edited.

        Args:
            files: None leaves them as they are.

        Raises:
            NotFoundError: as for :meth:`get_own_comment`; or a file is gone.
            InvalidError: the text is empty or too long.
            RateLimitedError: too many edits within the hour.
        """
        was = self.get_own_comment(actor, comment_id)
        files = None if files is None else check_attachments(files, self._limits)
        words = self._words(text, empty=bool(was.files if files is None else files))
        if was.text == words and (files is None or files == [(one.file_id, one.alt) for one in was.files]):
            return was
        # Each edit can notify people whom it mentions.
        throttle(self._limiter, f"comment_edit:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        done = self._talk.update_comment(actor.user_id, was.id, words, clock.now(), files=files)
        self._notifier.notify_comment_edited(done, self.get_share(actor, done.share_id))
        return done

    def remove_comment(self, actor: Actor, comment_id: int) -> tuple[Comment, str]:
        """Remove a comment of the actor or a comment on their share; a comment with answers leaves a
        placeholder.

        The actor's own comments can be removed even after they lost access to the share.

        Returns:
            The comment before its removal, and a token for :meth:`restore_comment`, valid for ``undo_ttl``.
            The token is empty if the actor no longer sees the share, because the comment could not come back.

        Raises:
            NotFoundError: there is no such comment, or the actor may not remove it.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        found, seen = self._talk.get_removable_comment(actor.user_id, check_id(comment_id, "comment"))
        now = clock.now()
        until = now + self._undo_ttl if seen else now
        token = self._talk.remove_comment(actor.user_id, found.id, until, now)
        log.info("comment_removed", user_id=actor.user_id, comment_id=found.id)
        return found, token if seen else ""

    def restore_comment(self, actor: Actor, token: str) -> Comment:
        """Undo a :meth:`remove_comment`.

        Raises:
            NotFoundError: the token has expired, was used or isn't the actor's; or the actor no longer sees
                the share.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        return self._talk.restore_comment(
            actor.user_id, check_text(token, "token", limit=TOKEN_MAX), clock.now()
        )
