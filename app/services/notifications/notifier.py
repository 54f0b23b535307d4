"""Tells people of what others do; what it cannot tell is lost, and stops nobody."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec

from app import clock, logs
from app.errors import StoreError
from app.gateways.notifications.notifications import NoteGateway
from app.models.discussion.comments import Comment, NoteKind, mentioned
from app.models.sharing.sharing import STRANGER, Share, Tie
from app.ports import EventPort
from app.services.notifications.push import PushService

log = logs.get(__name__)

P = ParamSpec("P")


def _by_the_way(call: Callable[Concatenate[Notifier, P], None]) -> Callable[Concatenate[Notifier, P], None]:
    """What is told of is done already: without the store nobody hears of it."""

    @functools.wraps(call)
    def wrapper(self: Notifier, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            call(self, *args, **kwargs)
        except StoreError:
            log.warning("not_told", of=call.__name__)

    return wrapper


class Notifier:
    """One method per happening; each is one line where it happens."""

    def __init__(self, notes: NoteGateway, events: EventPort, push: PushService) -> None:
        self._notes, self._events, self._push = notes, events, push

    @_by_the_way
    def followed(self, by: int, whom: int, was: Tie, tie: Tie) -> None:
        """Somebody follows, or asks to; ``was``: what they were before."""
        if tie.follows and not was.follows:
            self._tell(whom, NoteKind.FOLLOWER, 0, by)
        elif tie.requested and not was.requested:
            self._tell(whom, NoteKind.REQUEST, 0, by)

    def asked(self, by: int, people: Sequence[int]) -> None:
        """Somebody asks to follow these people."""
        for whom in people:
            self._events.counts(whom)
            self.followed(by, whom, STRANGER, Tie(requested=True))

    @_by_the_way
    def shared(self, share: Share) -> None:
        """Somebody shares, or posts."""
        self._reshared(share)
        self._mention(share, share.note, share.user_id, 0, set())

    def _reshared(self, share: Share, was: Share | None = None) -> None:
        """Tell from whom something was taken; not who saw it as it ``was`` before: he has been told."""
        source = self._notes.owner(share.source) if share.source else None
        if source is None or (was is not None and self._notes.sees(source.user_id, was)):
            return
        kind = NoteKind.RESHARE
        self._tell(source.user_id, kind, source.id, share.user_id, share=source, what=share.id, also=share)

    @_by_the_way
    def edited(self, was: Share, share: Share) -> None:
        """Somebody changes what he wrote, or for whom it is."""
        if was.audience is not share.audience:
            self._reshared(share, was)
        if was.note != share.note or was.audience is not share.audience:
            self._mention(share, share.note, share.user_id, 0, set())

    @_by_the_way
    def liked(self, by: int, share: Share, on: bool) -> None:
        """Somebody likes a share, or no more."""
        if on:
            self._tell(share.user_id, NoteKind.LIKE, share.id, by, share=share)
        else:
            self._notes.unliked(by, share)

    @_by_the_way
    def commented(self, comment: Comment, share: Share, above: Comment | None) -> None:
        """Somebody comments; who is meant in more than one way is told once."""
        by, told = comment.user_id or 0, set[int]()
        if above is not None and above.user_id:
            told.add(above.user_id)
            self._tell(above.user_id, NoteKind.REPLY, above.id, by, share=share, what=comment.id)
        if share.user_id not in told:
            told.add(share.user_id)
            self._tell(share.user_id, NoteKind.COMMENT, share.id, by, share=share, what=comment.id)
        self._mention(share, comment.text, by, comment.id, told)

    @_by_the_way
    def reworded(self, comment: Comment, share: Share) -> None:
        """Somebody changes his comment; the sharer and whom it answers were told when it was made."""
        told = {share.user_id, self._notes.author(comment.parent)}
        self._mention(share, comment.text, comment.user_id or 0, comment.id, told)

    @_by_the_way
    def imported(self, user_id: int, import_id: int) -> None:
        """An import has ended."""
        self._tell(user_id, NoteKind.IMPORT, import_id, 0)

    @_by_the_way
    def exported(self, user_id: int) -> None:
        """The file of all that is somebody's own is ready; there is one at a time."""
        self._tell(user_id, NoteKind.EXPORT, 0, 0)

    def _mention(self, share: Share, text: str, by: int, comment_id: int, told: set[int]) -> None:
        names = mentioned(text)
        for user_id in self._notes.addressed(share, names) if names else ():
            if user_id not in told:
                subject = comment_id or share.id
                self._tell(user_id, NoteKind.MENTION, subject, by, share=share, what=comment_id)

    def _tell(
        self,
        user_id: int,
        kind: NoteKind,
        subject: int,
        by: int,
        *,
        share: Share | None = None,
        what: int = 0,
        also: Share | None = None,
    ) -> None:
        now = clock.now()
        if self._notes.tell(user_id, kind, subject, by, now, share=share, what=what, also=also):
            self._events.counts(user_id)
            self._push.ring(user_id, kind, subject, now)
