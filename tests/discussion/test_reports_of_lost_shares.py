"""A report shows no more of a share than its page does to who reports."""

from __future__ import annotations

import pytest

from app.models.accounts.actor import Actor
from app.models.discussion.moderation import ReportedItem
from app.models.sharing.sharing import ShareVisibility
from tests.sharing.conftest import People
from tests.sharing.test_lost import DEEDS, Deed


@pytest.mark.parametrize(("deed", "link"), DEEDS)
def test_a_report_tells_nothing_of_what_is_gone(
    people: People, ann: Actor, bob: Actor, cleo: Actor, deed: Deed, link: ShareVisibility
) -> None:
    services = people.services
    post = services.sharing.publish_post(ann, "The secret of Ann", "Words of Ann.")
    share = services.sharing.share(bob, post.id, note="Look!").share
    said = services.discussion.comment(bob, share.id, "More of it")

    def found() -> tuple[ReportedItem, ReportedItem]:
        return services.moderation.describe_share(cleo, share.id), services.moderation.describe_comment(
            cleo, said.id
        )

    assert {thing.title for thing in found()} == {"The secret of Ann"}
    back = deed(services, ann, post.id)
    of_share, of_comment = found()
    assert (of_share.note, of_comment.note) == ("Look!", "More of it")
    for thing in (of_share, of_comment):
        assert (thing.title, thing.url, thing.excerpt) == ("", "", "")
        assert "secret" not in thing.quote
        assert "Words of Ann" not in thing.quote
    back()
    assert {thing.title for thing in found()} == {"The secret of Ann"}


def test_a_report_tells_nothing_of_who_blocks(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    services = people.services
    post = services.sharing.publish_post(ann, "The secret of Ann", "Words of Ann.")
    share = services.sharing.share(bob, post.id, note="Look!").share
    services.following.block(ann, "cleo")
    assert services.moderation.describe_share(cleo, share.id).title == ""
