"""Tells people of what others do; what it cannot tell is lost, and stops nobody."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec

from app import clock, logs
from app.errors import StoreError
from app.gateways.notifications.notifications import NotificationGateway
from app.models.discussion.comments import Comment, NotificationKind, find_mentions
from app.models.sharing.sharing import STRANGER, Relationship, Share
from app.ports import EventPort
from app.services.notifications.push import PushService

log = logs.get(__name__)

P = ParamSpec("P")


def _by_the_way(call: Callable[Concatenate[Notifier, P], None]) -> Callable[Concatenate[Notifier, P], None]:
    """What is told of is done already: without the store nobody hears of it."""

    @functools.wraps(call)
    def call_safely(self: Notifier, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            call(self, *args, **kwargs)
        except StoreError:
            log.warning("not_told", of=call.__name__)

    return call_safely


class Notifier:
    """One method per happening; each is one line where it happens."""

    def __init__(self, notes: NotificationGateway, events: EventPort, push: PushService) -> None:
        self._notes, self._events, self._push = notes, events, push

    @_by_the_way
    def notify_followed(
        self, by: int, target_id: int, old_relationship: Relationship, relationship: Relationship
    ) -> None:
        """Somebody follows, or asks to; ``was``: what they were before."""
        if relationship.follows and not old_relationship.follows:
            self._tell(target_id, NotificationKind.FOLLOWER, 0, by)
        elif relationship.requested and not old_relationship.requested:
            self._tell(target_id, NotificationKind.REQUEST, 0, by)

    def notify_follow_requested(self, by: int, people: Sequence[int]) -> None:
        """Somebody asks to follow these people."""
        for whom in people:
            self._events.notify_counts(whom)
            self.notify_followed(by, whom, STRANGER, Relationship(requested=True))

    @_by_the_way
    def notify_shared(self, share: Share) -> None:
        """Somebody shares, or posts."""
        self._reshared(share)
        self._mention(share, share.note, share.user_id, 0, set())

    def _reshared(self, share: Share, was: Share | None = None) -> None:
        """Tell from whom something was taken; not who saw it as it ``was`` before: he has been told."""
        source = self._notes.find_share(share.source) if share.source else None
        if source is None or (was is not None and self._notes.can_see(source.user_id, was)):
            return
        kind = NotificationKind.RESHARE
        self._tell(source.user_id, kind, source.id, share.user_id, share=source, what=share.id, also=share)

    @_by_the_way
    def notify_share_edited(self, was: Share, share: Share) -> None:
        """Somebody changes what he wrote, or for whom it is."""
        if was.audience is not share.audience:
            self._reshared(share, was)
        if was.note != share.note or was.audience is not share.audience:
            self._mention(share, share.note, share.user_id, 0, set())

    @_by_the_way
    def notify_liked(self, by: int, share: Share, on: bool) -> None:
        """Somebody likes a share, or no more."""
        if on:
            self._tell(share.user_id, NotificationKind.LIKE, share.id, by, share=share)
        else:
            self._notes.remove_like(by, share)

    @_by_the_way
    def notify_commented(self, comment: Comment, share: Share, parent: Comment | None) -> None:
        """Somebody comments; who is meant in more than one way is told once."""
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
        """Somebody changes his comment; the sharer and whom it answers were told when it was made."""
        told = {share.user_id, self._notes.find_author(comment.parent)}
        self._mention(share, comment.text, comment.user_id or 0, comment.id, told)

    @_by_the_way
    def notify_import_finished(self, user_id: int, import_id: int) -> None:
        """An import has ended."""
        self._tell(user_id, NotificationKind.IMPORT, import_id, 0)

    @_by_the_way
    def notify_export_finished(self, user_id: int) -> None:
        """The file of all that is somebody's own is ready; there is one at a time."""
        self._tell(user_id, NotificationKind.EXPORT, 0, 0)

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
