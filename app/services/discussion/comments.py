"""Talk: likes and comments of the actor, and threads as strangers see them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.errors import InvalidError, NotFoundError
from app.gateways.discussion.comments import DiscussionGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.sharing.visibility import RequestCache
from app.models.accounts.actor import Actor, Permission
from app.models.discussion.comments import (
    Comment,
    CommentedShare,
    CommentThread,
    PersonSummary,
    ShareReactions,
)
from app.models.reading.entry import EntryKey
from app.models.sharing.sharing import Share
from app.services.access import Limiter, require_permission, throttle
from app.services.notifications.notifier import Notifier
from app.services.validation import check_id, check_ids, check_text, check_words

log = logs.get(__name__)

TOKEN_MAX = 64
CURSOR_MAX = 4096
#: People on a page of those who like a share; entries that are asked about at once.
ROWS, AT_ONCE = 100, 500


class DiscussionService:
    """Likes and comments.

    Args:
        length: characters of a comment. per_hour: comments of one user, and as many changes of them;
            likes_per_hour: his likes.
        undo_ttl: seconds.
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
        per_hour: int,
        likes_per_hour: int,
        undo_ttl: float,
    ) -> None:
        self._talk, self._entries, self._changes = talk, entries, changes
        self._notifier, self._limiter = notifier, limiter
        self._length, self._per_hour = length, per_hour
        self._likes_per_hour = likes_per_hour
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    # -- likes
    def set_liked(self, actor: Actor, entry_id: int, on: bool = True) -> None:
        """Like an entry, or no more; twice is the same as once.

        A share is liked for all who see it. Any other entry has nobody who could be told: it is a mark of
        the actor's own.

        Raises:
            NotFoundError: no such entry, or not one he may see.
            RateLimitedError: too many within the hour.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        entry_id, now = check_id(entry_id, "entry"), clock.now()
        if on:
            throttle(self._limiter, f"like:{actor.user_id}", limit=self._likes_per_hour, window=clock.HOUR)
        share = self._talk.find_share(actor.user_id, entry_id)
        if share is not None:
            if self._talk.set_liked(actor.user_id, share, on, now):
                self._notifier.notify_liked(actor.user_id, share, on)
        # A share that he liked may have been closed, or taken back, since.
        elif on or not self._talk.unlike(actor.user_id, entry_id):
            self._entries.set_liked(actor.user_id, entry_id, on, now)
        if actor.synced:  # not before, as in ReadingService.set_starred
            self._changes.record_changes(actor.user_id, {}, [entry_id])

    def set_share_liked(self, actor: Actor, share_id: int, on: bool = True) -> ShareReactions:
        """Like a share, or no more; return how it is received then.

        Raises:
            NotFoundError: there is no such share, or it is not for him.
            RateLimitedError: too many within the hour.
        """
        share = self.get_share(actor, share_id)
        self.set_liked(actor, share.id, on)
        return self.get_reactions(actor, share)

    def find_liked(self, actor: Actor, entry_ids: Sequence[int]) -> set[int]:
        """Return those of these entries that the actor likes for himself; for shares see :meth:`of`."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._entries.find_liked(actor.user_id, check_ids(entry_ids, "entry", AT_ONCE))

    def get_reactions(self, actor: Actor | None, share: Share) -> ShareReactions:
        """Return how a share is received that the actor may see: :meth:`share` and the like return such."""
        return self.count_reactions(actor, [share])[share.id]

    def count_reactions(self, actor: Actor | None, shares: Sequence[Share]) -> dict[int, ShareReactions]:
        """Return how shares are received that the actor may see, by share."""
        return self._talk.count_reactions(actor.user_id if actor else None, shares)

    def list_likers(
        self, actor: Actor, share_id: int, after: str = ""
    ) -> tuple[list[PersonSummary], str | None]:
        """Return who likes a share of the actor, the last ones first, and the place to go on from.

        Raises:
            NotFoundError: he has no such share.
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
        """Return a share that may be seen.

        Raises:
            NotFoundError: there is none, or it is not for this person.
        """
        return self._talk.get_share(actor.user_id if actor else None, check_id(share_id, "share"))

    def get_commented_share(self, actor: Actor | None, share_id: int) -> CommentedShare:
        """Return a share with what it is about, for the head of its thread.

        Raises:
            NotFoundError: there is none, or it is not for this person.
        """
        viewer, known = actor.user_id if actor else None, RequestCache()
        share = self._talk.get_share(viewer, check_id(share_id, "share"), known)
        key = EntryKey(share.id, share.feed_id, share.seq, 0)
        found = self._entries.find_rows(viewer, [key], known).get(share.id)
        topic = self._talk.get_commented_share(viewer, share, known)
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
            at: a comment that is to be on it.

        Raises:
            InvalidError: the cursor does not fit.
        """
        viewer = actor.user_id if actor else None
        after = None if cursor is None else check_text(cursor, "cursor", limit=CURSOR_MAX)
        return self._talk.get_thread(viewer, share, after, None if at is None else check_id(at, "at"))

    def comment(
        self, actor: Actor, share_id: int, text: str, parent: int | None = None, *, once: bool = False
    ) -> Comment:
        """Say something to a share, or to a comment on it.

        Args:
            once: the same words to the same share within an hour are one comment: programs send twice what
                they got no answer to.

        Raises:
            NotFoundError: the share or comment is gone, or not for him.
            InvalidError: there are no words, or too many.
            RateLimitedError: too many within the hour.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        share, words = self.get_share(actor, share_id), self._words(text)
        parent = None if parent is None else check_id(parent, "parent")
        hour = clock.now() - dt.timedelta(seconds=clock.HOUR)
        if once and (said := self._talk.find_comment_by_text(actor.user_id, share, words, hour)) is not None:
            return said
        throttle(self._limiter, f"comment:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        if parent is not None:
            self._answerable(actor, share, parent)
        made, above = self._talk.comment(actor.user_id, share, words, parent, clock.now())
        self._notifier.notify_commented(made, share, above)
        log.info("commented", user_id=actor.user_id, share_id=share.id, comment_id=made.id)
        return made

    def _answerable(self, actor: Actor, share: Share, comment_id: int) -> None:
        above, on = self._talk.get_comment(actor.user_id, comment_id)
        if on.id != share.id or not self._talk.can_see_author(actor.user_id, above):
            raise NotFoundError(comment_id=comment_id)

    def _words(self, text: str) -> str:
        words = check_words(text, "text", limit=self._length)
        if not words:
            raise InvalidError("Write something first.", field="text")
        return words

    def get_own_comment(self, actor: Actor, comment_id: int) -> Comment:
        """Return a comment of the actor's own.

        Raises:
            NotFoundError: he has no such comment, or no longer sees what it is about.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        found, _ = self._talk.get_comment(actor.user_id, check_id(comment_id, "comment"))
        if found.user_id != actor.user_id:
            raise NotFoundError(comment_id=comment_id)
        return found

    def update_comment(self, actor: Actor, comment_id: int, text: str) -> Comment:
        """Change one's comment; readers see that it was edited.

        Raises:
            NotFoundError: as for :meth:`mine`.
            InvalidError: there are no words, or too many.
            RateLimitedError: too many within the hour.
        """
        was, words = self.get_own_comment(actor, comment_id), self._words(text)
        if was.text == words:
            return was
        # Each change can tell others that they are mentioned.
        throttle(self._limiter, f"comment_edit:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        done = self._talk.update_comment(actor.user_id, was.id, words, clock.now())
        self._notifier.notify_comment_edited(done, self.get_share(actor, done.share_id))
        return done

    def remove_comment(self, actor: Actor, comment_id: int) -> tuple[Comment, str]:
        """Remove one's comment, or any on one's share; where others answered, its place stays.

        One's own words go whatever one may see by now.

        Returns:
            What it was, and a token for :meth:`restore`, good for a day; empty: he no longer sees what it is
            about, so it could not come back.

        Raises:
            NotFoundError: there is no such comment, or not one that he may remove.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        found, seen = self._talk.get_removable_comment(actor.user_id, check_id(comment_id, "comment"))
        now = clock.now()
        until = now + self._undo_ttl if seen else now
        token = self._talk.remove_comment(actor.user_id, found.id, until, now)
        log.info("comment_removed", user_id=actor.user_id, comment_id=found.id)
        return found, token if seen else ""

    def restore_comment(self, actor: Actor, token: str) -> Comment:
        """Take a :meth:`remove` back.

        Raises:
            NotFoundError: it was too long ago, was taken back already, or was never his; or he no longer
                sees what it is about.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        return self._talk.restore_comment(
            actor.user_id, check_text(token, "token", limit=TOKEN_MAX), clock.now()
        )
