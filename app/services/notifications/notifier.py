"""Notifications about other people's actions; a failure to notify never fails the action itself."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Concatenate, ParamSpec

from app import clock, logs
from app.errors import CellError, MovingError, StoreError
from app.gateways.notifications.notifications import NotificationGateway
from app.models.discussion.comments import Comment, NotificationKind, find_mentions
from app.models.jobs.jobs import Job, Queue, Task
from app.models.notifications.waiting import WaitingNotification
from app.models.sharing.sharing import STRANGER, Relationship, Share
from app.ports import EventPort, JobPort
from app.services.notifications.push import PushService

log = logs.get(__name__)

#: Most readers notified of new entries in one go; if there are more, jobs notify all of them in batches.
READERS = 1000

P = ParamSpec("P")


def _by_the_way(call: Callable[Concatenate[Notifier, P], None]) -> Callable[Concatenate[Notifier, P], None]:
    """Log a StoreError instead of raising it: the action is done, only the notification is lost."""

    @functools.wraps(call)
    def call_safely(self: Notifier, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            call(self, *args, **kwargs)
        except StoreError:
            log.warning("not_told", of=call.__name__)

    return call_safely


class Notifier:
    """Creates notifications and announces them; has one method per kind of event."""

    def __init__(
        self, notes: NotificationGateway, events: EventPort, push: PushService, jobs: JobPort
    ) -> None:
        self._notes, self._events, self._push, self._jobs = notes, events, push, jobs

    @_by_the_way
    def notify_followed(
        self, by: int, target_id: int, old_relationship: Relationship, relationship: Relationship
    ) -> None:
        """Notify a person of a new follower or follow request; only a change counts."""
        if relationship.follows and not old_relationship.follows:
            self._tell(target_id, NotificationKind.FOLLOWER, 0, by)
        elif relationship.requested and not old_relationship.requested:
            self._tell(target_id, NotificationKind.REQUEST, 0, by)

    def notify_follow_requested(self, by: int, people: Sequence[int]) -> None:
        """Notify these people of a follow request, and publish their changed counts."""
        for whom in people:
            self._events.notify_counts(whom)
            self.notify_followed(by, whom, STRANGER, Relationship(requested=True))

    @_by_the_way
    def notify_shared(self, share: Share) -> None:
        """Notify the source of a re-share, and the people mentioned in the note."""
        self._reshared(share)
        self._mention(share, share.note, share.user_id, 0, set())

    def _reshared(self, share: Share, was: Share | None = None) -> None:
        """Notify the person whose share was re-shared, unless they could see it as it ``was`` before."""
        source = self._notes.find_share(share.source) if share.source else None
        if source is None or (was is not None and self._notes.can_see(source.user_id, was)):
            return
        kind = NotificationKind.RESHARE
        self._tell(source.user_id, kind, source.id, share.user_id, share=source, what=share.id, also=share)

    @_by_the_way
    def notify_share_edited(self, was: Share, share: Share) -> None:
        """Notify people who are newly mentioned or newly see the share after an edit."""
        if was.audience is not share.audience:
            self._reshared(share, was)
        if was.note != share.note or was.audience is not share.audience:
            self._mention(share, share.note, share.user_id, 0, set())

    @_by_the_way
    def notify_liked(self, by: int, share: Share, on: bool) -> None:
        """Notify the sharer of a like, or remove an undone like from the notification."""
        if on:
            self._tell(share.user_id, NotificationKind.LIKE, share.id, by, share=share)
        else:
            self._notes.remove_like(by, share)

    @_by_the_way
    def notify_commented(self, comment: Comment, share: Share, parent: Comment | None) -> None:
        """Notify the parent's author, the sharer and mentioned people of a comment, each only once."""
        by, told = comment.user_id or 0, set[int]()
        if parent is not None and parent.user_id:
            told.add(parent.user_id)
            self._tell(parent.user_id, NotificationKind.REPLY, parent.id, by, share=share, what=comment.id)
        if share.user_id not in told:
            told.add(share.user_id)
            self._tell(share.user_id, NotificationKind.COMMENT, share.id, by, share=share, what=comment.id)
        self._mention(share, comment.text, by, comment.id, told)

    @_by_the_way
    def notify_comment_edited(self, comment: Comment, share: Share) -> None:
        """Notify people whom an edited comment mentions.

        The sharer and the parent's author were notified when the comment was made.
        """
        told = {share.user_id, self._notes.find_author(comment.parent)}
        self._mention(share, comment.text, comment.user_id or 0, comment.id, told)

    @_by_the_way
    def notify_import_finished(self, user_id: int, import_id: int) -> None:
        """Notify a user that their import has ended."""
        self._tell(user_id, NotificationKind.IMPORT, import_id, 0)

    @_by_the_way
    def notify_feed_found(self, user_id: int, crawl_id: int) -> None:
        """Notify a user that a crawl has found a feed of the site for whose feed they looked."""
        self._tell(user_id, NotificationKind.FOUND, crawl_id, 0)

    @_by_the_way
    def notify_export_finished(self, user_id: int) -> None:
        """Notify a user that their data export is ready; there is one export at a time."""
        self._tell(user_id, NotificationKind.EXPORT, 0, 0)

    @_by_the_way
    def notify_new_entries(self, entries: Mapping[int, int]) -> None:
        """Notify the readers who asked for it of new entries (feed → number), in one row for each feed.

        If there are many readers, jobs notify them, one for each feed.
        """
        now = clock.now()
        if not entries:
            return
        readers, after = self._notes.find_notified(list(entries), 0, READERS)
        if after is None:
            self._notify_readers(readers, entries, now)
        else:
            at = clock.to_millis(now)
            self._jobs.enqueue_many([_entries_job(feed_id, n, 0, at) for feed_id, n in entries.items()])

    @_by_the_way
    def notify_rule(self, user_id: int, feed_id: int, count: int, now: dt.datetime, begin: int) -> None:
        """Notify a user of entries of a feed that their rules chose.

        Args:
            begin: the number after which these entries begin. A repeat with it adds what is new.
        """
        self._notify_readers([(feed_id, user_id)], {feed_id: count}, now, begin)

    @_by_the_way
    def notify_search(
        self, user_id: int, search_id: int, feed_id: int, count: int, now: dt.datetime, *, begin: int
    ) -> None:
        """Notify a user of new results of their saved search; ``begin``: as in :meth:`notify_rule`."""
        if self._notes.notify_search(user_id, search_id, feed_id, count, now, begin=begin):
            self._events.notify_counts(user_id)
            self._push.notify_devices(user_id, NotificationKind.SEARCH, search_id, now)

    def notify_next_readers(self, feed_id: int, count: int, after: int, at: int) -> int:
        """Notify the next readers of a feed of its new entries, and queue a job for the rest.

        Safe to repeat.

        Args:
            count: the number of new entries.
            after: the user id of the previous batch's last reader, or 0.
            at: when the entries were found, milliseconds since the epoch.

        Returns:
            The number of readers notified.

        Raises:
            StoreError: the store doesn't respond; some readers may have been notified.
        """
        readers, last = self._notes.find_notified([feed_id], after, READERS)
        told = self._notify_readers(readers, {feed_id: count}, clock.from_millis(at))
        if last is not None:
            self._jobs.enqueue(_entries_job(feed_id, count, last, at))
        return told

    def _notify_readers(
        self,
        readers: Iterable[tuple[int, int]],
        entries: Mapping[int, int],
        now: dt.datetime,
        begin: int | None = None,
    ) -> int:
        told = 0
        for feed_id, user_id in readers:
            if self._notes.notify_entries(user_id, feed_id, entries[feed_id], now, begin):
                told += 1
                self._events.notify_counts(user_id)
                self._push.notify_devices(user_id, NotificationKind.ENTRIES, feed_id, now)
        return told

    def deliver_waiting(self) -> int:
        """Store and announce notifications whose recipients couldn't be written to; return how many.

        Safe to repeat, also at the same time in two processes.

        Raises:
            StoreError: the home store isn't responding.
        """
        now, done, later = clock.now(), list[WaitingNotification](), list[WaitingNotification]()
        away = set[int]()
        for event in self._notes.list_waiting(now):
            try:
                told = event.user_id not in away and self._notes.deliver_event(event, now)
            except (MovingError, CellError):
                away.add(event.user_id)
            if event.user_id in away:  # what came later doesn't overtake it
                later.append(event)
                continue
            if told:
                self._events.notify_counts(event.user_id)
                self._push.notify_devices(event.user_id, event.kind, event.subject, now)
            done.append(event)
        self._notes.end_waiting(done)
        self._notes.postpone(later, now)
        return len(done)

    def _mention(self, share: Share, text: str, by: int, comment_id: int, told: set[int]) -> None:
        names = find_mentions(text)
        for user_id in self._notes.find_mentioned(share, names) if names else ():
            if user_id not in told:
                subject = comment_id or share.id
                self._tell(user_id, NotificationKind.MENTION, subject, by, share=share, what=comment_id)

    def _tell(
        self,
        user_id: int,
        kind: NotificationKind,
        subject: int,
        by: int,
        *,
        share: Share | None = None,
        what: int = 0,
        also: Share | None = None,
    ) -> None:
        now = clock.now()
        if self._notes.notify(user_id, kind, subject, by, now, share=share, target_id=what, also_about=also):
            self._events.notify_counts(user_id)
            self._push.notify_devices(user_id, kind, subject, now)


def _entries_job(feed_id: int, count: int, after: int, at: int) -> Job:
    args = {"feed_id": feed_id, "count": count, "after": after, "at": at}
    return Job(Task.NOTIFY, args, Queue.PULL_SYSTEM)
