"""What is taken back by a token after something has changed between two people."""

from __future__ import annotations

from app.models.actor import Actor
from app.models.sharing import Audience
from tests.social.conftest import People


def test_what_was_narrowed_is_not_widened_by_who_passed_it_on(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.open(bob)
    people.follow(bob, "ann")
    sharing = people.services.sharing
    share = sharing.share(ann, entry, audience=Audience.FOLLOWERS).share
    passed = sharing.share(bob, share.id, audience=Audience.PUBLIC).share
    assert passed.audience is Audience.FOLLOWERS
    sharing.remove(ann, share.id)
    assert sharing.edit(bob, passed.id, note="", audience=Audience.PUBLIC).audience is Audience.FOLLOWERS
