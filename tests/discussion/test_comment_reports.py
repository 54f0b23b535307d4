"""Comments: reported by who sees them, removed by administrators, gone with who is suspended."""

from __future__ import annotations

import pytest

from app.bootstrap.services import Services
from app.errors import ExistsError, ForbiddenError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.discussion.comments import CappedCount, Comment
from app.models.discussion.moderation import Reason, ReportSubject
from app.models.sharing.sharing import Audience, Share
from tests.discussion.test_likes_and_comments import share, thread
from tests.discussion.test_moderation import _session, _suspend, boss, doors
from tests.sharing.conftest import People
from tests.sharing.test_access import World
from tests.sharing.visiting import Doors

__all__ = ["boss", "doors", "share"]


def _report(people: People, who: Actor, comment: Comment, text: str = "bad") -> None:
    moderation = people.services.moderation
    moderation.report(who, moderation.describe_comment(who, comment.id), Reason.ABUSE, text)


def test_a_comment_is_reported_and_removed(
    people: People, doors: Doors, ann: Actor, bob: Actor, cleo: Actor, boss: Actor, share: Share
) -> None:
    talk = people.services.discussion
    one = talk.comment(bob, share.id, "Words <i>of</i> bob, who shares nothing")
    talk.comment(cleo, share.id, "an answer", parent=one.id)
    visitor, office = doors(cleo), doors(boss)
    link = f"/report?comment={one.id}"
    assert link in visitor.get(f"/shares/{share.id}/comments").text
    assert link not in doors(bob).get(f"/shares/{share.id}/comments").text
    page = visitor.get(link).text
    assert "Words &lt;i&gt;of&lt;/i&gt; bob" in page
    assert "Comment on a share by ann" in page
    form = {"comment": str(one.id), "reason": "abuse", "text": "It insults me"}
    assert visitor.post("/report", form).status_code == 303
    assert visitor.post("/report", form).status_code == 409
    found = office.get("/admin/moderation").text
    for words in (
        "Comment by",
        "Words &lt;i&gt;of",
        "It insults me",
        "reported by @cleo",
        f"at={one.id}#c{one.id}",
    ):
        assert words in found, words
    assert people.services.notifications.list_notifications(ann).notes[0].count == 2
    office.post("/admin/moderation/remove", {"thing": str(one.id), "about": "comment"})
    assert "No open reports." in office.get("/admin/moderation").text
    assert thread(people, None, share) == [(0, "", ""), (1, "cleo", "an answer")]
    assert talk.get_reactions(None, share).comments == CappedCount(1)
    (note,) = people.services.notifications.list_notifications(ann).notes
    assert [f.handle for f in note.faces] == ["cleo"]
    assert not people.services.store.database["comments"].count_documents({"user_id": bob.user_id})
    assert visitor.get(link).status_code == 404
    # Nobody brings it back, whoever holds what its removal left.
    for left in people.services.store.database["comment_undos"].find():
        with pytest.raises(NotFoundError):
            talk.restore_comment(Actor(left["user_id"]), left["token"])
    with pytest.raises(NotFoundError):
        people.services.moderation.remove_comment(boss, one.id)


def test_a_report_of_a_comment_is_dismissed_also_when_that_is_gone(
    people: People, ann: Actor, bob: Actor, boss: Actor, share: Share
) -> None:
    moderation, talk = people.services.moderation, people.services.discussion
    one = talk.comment(bob, share.id, "peculiar")
    _report(people, ann, one)
    with pytest.raises(ExistsError):
        _report(people, ann, one)
    assert moderation.dismiss(boss, ReportSubject.COMMENT, one.id) == 1
    assert moderation.list_cases(boss).cases == ()
    _report(people, ann, one)
    talk.remove_comment(bob, one.id)
    (case,) = moderation.list_cases(boss).cases
    assert not case.thing.live
    assert "peculiar" in case.reports[0].quote
    assert moderation.dismiss(boss, ReportSubject.COMMENT, one.id) == 1
    with pytest.raises(NotFoundError):
        moderation.dismiss(boss, ReportSubject.COMMENT, one.id)


def test_what_was_taken_away_while_it_was_reported_stays_away(
    people: People, ann: Actor, bob: Actor, cleo: Actor, boss: Actor, share: Share
) -> None:
    services = people.services
    one = services.discussion.comment(bob, share.id, "peculiar")
    _report(people, cleo, one)
    services.moderation.report(cleo, services.moderation.describe_share(cleo, share.id), Reason.ABUSE, "bad")
    _, token = services.discussion.remove_comment(bob, one.id)
    services.moderation.dismiss(boss, ReportSubject.COMMENT, one.id)
    with pytest.raises(NotFoundError):
        services.discussion.restore_comment(bob, token)
    undo = services.sharing.remove_share(ann, share.id)
    services.moderation.dismiss(boss, ReportSubject.SHARE, share.id)
    with pytest.raises(NotFoundError):
        services.sharing.restore_share(ann, undo)


def test_who_comments_and_shares_nothing_is_suspended_like_others(
    people: People, ann: Actor, bob: Actor, cleo: Actor, boss: Actor, share: Share
) -> None:
    talk, moderation = people.services.discussion, people.services.moderation
    one = talk.comment(bob, share.id, "bad")
    talk.comment(cleo, share.id, "answer", parent=one.id)
    _report(people, cleo, one)
    _suspend(people, boss, bob)
    assert moderation.list_cases(boss).cases == ()
    assert [p.handle for p in moderation.list_cases(boss).suspended] == ["bob"]
    assert thread(people, ann, share) == [(0, "", ""), (1, "cleo", "answer")]
    assert talk.get_reactions(ann, share).comments == CappedCount(1)
    with pytest.raises(NotFoundError):
        moderation.describe_comment(cleo, one.id)
    moderation.lift_suspension(boss, _session(people, boss), bob.user_id)
    assert thread(people, ann, share) == [(0, "bob", "bad"), (1, "cleo", "answer")]


def test_W04_a_comment_is_reported_by_those_alone_who_see_it(people: People, doors: Doors) -> None:
    world = World(people, "public")
    post = people.services.sharing.publish_post(world.owner, "For few", "words", audience=Audience.FOLLOWERS)
    said = people.services.discussion.comment(world.actor("follower"), post.id, "among us")
    own = people.services.discussion.comment(world.owner, post.id, "mine")

    def seen(comment: Comment) -> set[str]:
        answers = {n: doors(a).get(f"/report?comment={comment.id}") for n, a in world.viewers.items()}
        return {name for name, answer in answers.items() if answer.status_code not in (303, 404)}

    # To who wrote it it is refused with a reason.
    assert seen(said) == seen(own) == {"owner", "follower"}
    with pytest.raises(InvalidError):
        people.services.moderation.describe_comment(world.owner, own.id)
    for name in ("stranger", "blocked"):
        with pytest.raises(NotFoundError):
            _report(people, world.actor(name), said)
    _report(people, world.owner, said)
    office = doors(world.actor("admin")).get("/admin/moderation").text
    assert "among us" in office
    assert "followers only" in office
    for name in ("stranger", "follower", "owner"):
        with pytest.raises(ForbiddenError):
            people.services.moderation.remove_comment(world.actor(name), said.id)
    # Who mutes somebody does not get his words, nor what reports of them would tell.
    people.services.following.update_profile(
        world.actor("follower"),
        display="",
        bio="",
        links=(),
        audience=Audience.PUBLIC,
        listed=False,
        open_lists=False,
    )
    people.services.following.set_muted(world.owner, "follower", True)
    assert seen(said) == {"follower"}


def test_G02_reports_of_comments_go_with_their_authors(
    services: Services, people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    _report(people, ann, services.discussion.comment(bob, share.id, "bad"))
    services.mappers.erasure.forget(bob.user_id)
    assert services.store.database["reports"].count_documents({}) == 0
