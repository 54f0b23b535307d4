"""Comments: threads, words and names in them, pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app import clock
from app.errors import InvalidError, NotFoundError, RateLimitedError
from app.models.accounts.actor import Actor
from app.models.discussion.comments import CappedCount
from app.models.sharing.sharing import Audience, Share
from tests.discussion.test_likes_and_comments import at_once, share, thread
from tests.sharing.conftest import People

__all__ = ["share"]

NOW = clock.now()


def test_answers_are_nested_and_deep_ones_stand_below_each_other(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    talk = people.services.discussion
    first = talk.comment(bob, share.id, "0")
    last = talk.comment(ann, share.id, "z")
    at = first
    for n in range(1, 10):
        at = talk.comment(bob if n % 2 else ann, share.id, str(n), parent=at.id)
    found = talk.get_thread(ann, share).comments
    assert [(c.depth, c.html) for c in found] == [
        *((min(n, 5), f"<p>{n}</p>") for n in range(10)),
        (0, "<p>z</p>"),
    ]
    # Where its place does not tell whom it answers, its words do.
    assert [c.to for c in found] == ["", "", "", "", "", "", "bob", "ann", "bob", "ann", ""]
    assert found[-1].id == last.id


def test_a_comment_is_changed_by_its_author_and_removed_by_him_or_the_sharer(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk = people.services.discussion
    one = talk.comment(bob, share.id, "one")
    two = talk.comment(cleo, share.id, "two", parent=one.id)
    assert not talk.get_thread(bob, share).comments[0].edited
    talk.update_comment(bob, one.id, "uno")
    (first, second) = talk.get_thread(bob, share).comments
    assert (first.edited, first.text, first.mine, second.mine, second.is_removable) == (
        True,
        "uno",
        True,
        False,
        False,
    )
    for wrong in (lambda: talk.update_comment(ann, one.id, "x"), lambda: talk.remove_comment(cleo, one.id)):
        with pytest.raises(NotFoundError):
            wrong()
    _, undo = talk.remove_comment(bob, one.id)
    assert thread(people, cleo, share) == [(0, "", ""), (1, "cleo", "two")]
    assert talk.get_reactions(ann, share).comments == CappedCount(1)
    with pytest.raises(NotFoundError):
        talk.comment(ann, share.id, "to nobody", parent=one.id)
    with pytest.raises(NotFoundError):
        talk.restore_comment(ann, undo)
    talk.restore_comment(bob, undo)
    assert thread(people, None, share) == [(0, "bob", "uno"), (1, "cleo", "two")]
    _, undo = talk.remove_comment(ann, two.id)
    assert thread(people, None, share) == [(0, "bob", "uno")]
    talk.restore_comment(ann, undo)
    with pytest.raises(NotFoundError):
        talk.restore_comment(ann, undo)
    # The place of a removed one goes with the last answer.
    talk.remove_comment(bob, one.id)
    talk.remove_comment(cleo, two.id)
    assert people.services.store.database["comments"].count_documents({}) == 0


@pytest.mark.parametrize(
    "end",
    [
        lambda people, ann, share: people.services.following.block(ann, "bob"),
        lambda people, ann, share: people.services.following.remove_follower(ann, "bob"),
        lambda people, ann, share: people.services.sharing.update_share(
            ann, share.id, note="", audience=Audience.PRIVATE
        ),
        lambda people, ann, share: people.services.sharing.remove_share(ann, share.id),
    ],
    ids=["blocked", "dismissed", "private", "taken back"],
)
def test_ones_own_words_are_taken_away_whatever_one_may_see(
    people: People, ann: Actor, bob: Actor, cleo: Actor, end: Callable[[People, Actor, Share], object]
) -> None:
    people.open(ann, Audience.FOLLOWERS)
    for who in (bob, cleo):
        people.services.following.follow(who, "ann")
        people.services.following.answer_request(ann, "bob" if who is bob else "cleo", True)
    (entry,) = people.blog([ann])
    talk = people.services.discussion
    share = people.services.sharing.share(ann, entry, audience=Audience.FOLLOWERS).share
    said = talk.comment(bob, share.id, "my number is 5550100")
    talk.comment(cleo, share.id, "noted", parent=said.id)
    end(people, ann, share)
    for wrong in (lambda: talk.update_comment(bob, said.id, "x"), lambda: talk.remove_comment(cleo, said.id)):
        with pytest.raises(NotFoundError):
            wrong()
    was, undo = talk.remove_comment(bob, said.id)
    assert (was.id, undo) == (said.id, ""), "no undo is offered that would fail"
    assert "5550100" not in str(list(people.services.store.database["comments"].find()))
    with pytest.raises(NotFoundError):
        talk.remove_comment(bob, said.id)


def test_an_answer_and_a_removal_at_once_leave_no_answer_without_a_place(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    talk, comments = people.services.discussion, people.services.store.database["comments"]
    for _ in range(4):
        one = talk.comment(bob, share.id, "one")

        def work(number: int, comment_id: int = one.id) -> None:
            try:
                if number:
                    talk.comment(ann, share.id, "two", parent=comment_id)
                else:
                    talk.remove_comment(bob, comment_id)
            except NotFoundError:
                assert number  # only the answer may come too late

        at_once(2, work)
        for answer in comments.find({"parent": one.id}):
            assert comments.find_one({"_id": answer["parent"]}), "an answer to nothing"


XSS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    'https://example.org/"onmouseover="alert(1)',
    "javascript:alert(1)",
    "[x](javascript:alert(1))",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    '@ann"onclick="alert(1)',
    "<a href='https://example.org/@ann'>@ann</a>",
    "https://example.org/?<svg/onload=alert(1)>@ann",
    "data:text/html,<script>alert(1)</script>",
]


def test_what_is_typed_is_text(people: People, ann: Actor, bob: Actor, share: Share) -> None:
    from lxml import html

    for vector in XSS:
        people.services.discussion.comment(bob, share.id, vector)
    for spoken, vector in zip(people.services.discussion.get_thread(ann, share).comments, XSS, strict=True):
        root = html.fragment_fromstring(spoken.html, create_parent="div")
        for element in root.iterdescendants():
            assert element.tag in ("p", "a", "br"), spoken.html
            assert set(element.keys()) <= {"href", "rel", "target", "class"}, spoken.html
            href = element.get("href", "https://")
            assert href.startswith(("https://", "/@")), spoken.html
        assert root.text_content() == vector


def test_names_lead_to_pages_that_there_are(people: People, ann: Actor, bob: Actor, share: Share) -> None:
    people.join("eve")
    people.open(bob)
    words = "@bob, @BOB @eve @nobody x@bob.org https://bob.example/@bob (@bob)"
    people.services.discussion.comment(ann, share.id, words)
    (spoken,) = people.services.discussion.get_thread(None, share).comments
    mention = '<a class="mention" href="/@bob">@{}</a>'
    assert spoken.html.count('class="mention"') == 3
    for name in ("bob", "BOB"):
        assert mention.format(name) in spoken.html
    assert "@eve" in spoken.html
    # Whoever is blocked, and may not see this: that is nobody's business.
    people.services.following.block(ann, "bob")
    (again,) = people.services.discussion.get_thread(None, share).comments
    assert again.html == spoken.html
    people.services.following.unblock(ann, "bob")
    people.open(bob, Audience.PRIVATE)
    (spoken,) = people.services.discussion.get_thread(None, share).comments
    assert "mention" not in spoken.html


def test_a_link_does_not_tell_who_may_see_what_is_said(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    for who in (ann, bob, cleo):
        people.open(who)
    people.follow(bob, "ann")
    services = people.services
    post = services.sharing.publish_post(ann, "For few", "words", audience=Audience.FOLLOWERS)
    services.discussion.comment(ann, post.id, "@bob @cleo")
    (spoken,) = services.discussion.get_thread(bob, post).comments
    for name in ("bob", "cleo"):
        assert f'<a class="mention" href="/@{name}">@{name}</a>' in spoken.html
    # But who may not see it is told nothing.
    told = {
        w: len(services.notifications.list_notifications(a).notes) for w, a in (("bob", bob), ("cleo", cleo))
    }
    assert told == {"bob": 1, "cleo": 0}


def test_words_have_bounds(people: People, ann: Actor, bob: Actor, share: Share) -> None:
    talk, settings = people.services.discussion, people.services.settings
    for words in ("", "  \n", "x" * (settings.comment_length + 1)):
        with pytest.raises(InvalidError):
            talk.comment(bob, share.id, words)
    with pytest.raises(InvalidError):
        talk.get_thread(bob, share, cursor="zz")
    other = people.services.sharing.publish_post(ann, "", "another")
    said = talk.comment(bob, other.id, "there")
    with pytest.raises(NotFoundError):
        talk.comment(bob, share.id, "here", parent=said.id)

    def chatter() -> None:
        for n in range(settings.comments_per_hour):
            talk.comment(bob, other.id, str(n))

    with pytest.raises(RateLimitedError):
        chatter()


def test_ten_thousand_comments_are_read_in_pages(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    docs, number = [], 0
    for n in range(5000):
        first = 1_700_000_000_000_000 + 2 * n
        for path in ((first,), (first, first + 1)):
            number += 1
            docs.append(
                {
                    "_id": path[-1],
                    "share_id": share.id,
                    "of": share.of.entry_id,
                    "user_id": bob.user_id,
                    "path": "".join(f"{i:014x}" for i in path),
                    "text": str(number),
                    "at": NOW,
                }
            )
    people.services.store.database["comments"].insert_many(docs)
    talk = people.services.discussion
    assert talk.get_reactions(ann, share).comments == CappedCount(
        people.services.settings.talk_count_max, True
    )
    seen, cursor = list[int](), None
    for _ in range(6):
        page = talk.get_thread(ann, share, cursor=cursor)
        fresh = [c.id for c in page.comments if c.id not in seen[-2:]]
        assert len(fresh) == people.services.settings.comment_rows
        seen += fresh
        cursor = page.cursor
    assert seen == [d["_id"] for d in docs[:300]]
    late = talk.get_thread(ann, share, at=docs[9001]["_id"])
    assert docs[9001]["_id"] in [c.id for c in late.comments]
    assert not late.whole
    end = talk.get_thread(ann, share, at=docs[-1]["_id"])
    assert [c.id for c in end.comments] == [docs[-2]["_id"], docs[-1]["_id"]]
    assert end.cursor is None


def test_pages_go_on_past_people_who_are_not_heard(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    people.open(bob)
    comments = people.services.store.database["comments"]
    base = {"share_id": share.id, "of": share.of.entry_id, "text": "x", "at": NOW}
    rows = people.services.settings.comment_rows
    many = [{**base, "_id": i, "user_id": bob.user_id, "path": f"{i:014x}"} for i in range(1, rows * 11 + 1)]
    last = {**base, "_id": 1 << 40, "user_id": ann.user_id, "path": f"{1 << 40:014x}"}
    comments.insert_many([*many, last])
    people.services.following.set_muted(cleo, "bob", True)
    seen, cursor = list[int](), None
    for _ in range(3):
        page = people.services.discussion.get_thread(cleo, share, cursor=cursor)
        seen += [c.id for c in page.comments]
        cursor = page.cursor
        if cursor is None:
            break
    assert (seen, cursor) == ([1 << 40], None)
