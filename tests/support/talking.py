"""A share that people talk of, and what they are told of it."""

from __future__ import annotations

import datetime as dt

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.discussion.comments import NotificationKind
from tests.support.ago import ago
from tests.support.reader import add_user

_LONG = (
    "I read it twice, and the second time the part about the old workshops was what stayed. There is a "
    "longer piece on them at https://example.org/a-very-long-address/that-does-not-break/anywhere?at=all.\n\n"
    "Thank you, @ann!"
)
#: A chain of replies, from ann, finn and gus in turn.
_REPLIES = (
    "You're welcome! I've only seen the one in Kyoto so far.",
    "Is it open on weekends?",
    "It was when I went, but the line is long after ten.",
    "Then I'll get up early.",
    "Me too. Shall we meet at the station?",
    "Bring an umbrella. It always rains in April.",
    "Noted. See you there.",
)


def fill(services: Services, ann: Actor, entry: int) -> int:
    """Let ann share an entry, and others speak of it, once; return the share."""
    if known := services.gateways.sharing.find_own_share(ann.user_id, entry):
        return known.id
    eve, finn, gus = (add_user(services, name) for name in ("eve", "finn", "gustav-adolf-the-second"))
    with ago(1700):
        share = services.sharing.share(ann, entry, note="This is why I read.\nSee for yourself.").share
    for n, who in enumerate((eve, finn, gus)):
        with ago(1600 - 300 * n):
            services.discussion.set_liked(who, share.id)
            services.following.follow(who, "ann")
            services.sharing.share(who, share.id)
    with ago(1560):
        at = services.discussion.comment(eve, share.id, _LONG)
    for n, text in enumerate(_REPLIES):
        with ago(1300 - 150 * n):
            at = services.discussion.comment((ann, finn, gus)[n % 3], share.id, text, at.id)
    with ago(240):
        gone = services.discussion.comment(finn, share.id, "Do I need a ticket?")
        services.discussion.comment(eve, share.id, "Not for the park, only for the museum.", gone.id)
        services.discussion.remove_comment(finn, gone.id)
    with ago(75):
        mine = services.discussion.comment(ann, share.id, "The third one closes in June.")
    with ago(40):
        services.discussion.update_comment(ann, mine.id, "The third one closes in May, not June.")
    with ago(12):
        services.discussion.comment(gus, share.id, "Thanks, @ann. I would have missed it.", mine.id)
    services.notifier.notify_import_finished(ann.user_id, 17)
    services.notifications.mark_read(ann, f"{NotificationKind.FOLLOWER.value}.0")
    failed = {"error": "http_503"}
    since = {"$set": {"error_since": clock.now() - dt.timedelta(days=9)}}
    services.store.database["feeds"].update_many(failed, since)
    return share.id
