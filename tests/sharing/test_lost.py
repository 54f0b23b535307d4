"""Re-shares of what is gone or closed: a row that says so, so that what is counted can be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.bootstrap.services import Services
from app.errors import NotFoundError
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamKind, StreamRef
from app.models.sharing.pages import FeedFormat
from app.models.sharing.sharing import Audience, ShareVisibility
from tests.sharing.conftest import ALL, FOLLOWING, SHARES, People, names

Deed = Callable[[Services, Actor, int], Callable[[], object]]


def taken_back(services: Services, ann: Actor, post: int) -> Callable[[], object]:
    token = services.sharing.remove_share(ann, post)
    return lambda: services.sharing.restore_share(ann, token)


def closed(services: Services, ann: Actor, post: int) -> Callable[[], object]:
    people = People(services)
    people.open(ann, Audience.PRIVATE)
    return lambda: people.open(ann, Audience.PUBLIC)


def for_followers(services: Services, ann: Actor, post: int) -> Callable[[], object]:
    people = People(services)
    people.open(ann, Audience.FOLLOWERS)
    return lambda: people.open(ann, Audience.PUBLIC)


def suspended(services: Services, ann: Actor, post: int) -> Callable[[], object]:
    services.gateways.profiles.set_suspended(ann.user_id, True)
    return lambda: services.gateways.profiles.set_suspended(ann.user_id, False)


def narrowed(services: Services, ann: Actor, post: int) -> Callable[[], object]:
    services.sharing.update_share(ann, post, note="Mine alone.", audience=Audience.PRIVATE)
    return lambda: services.sharing.update_share(ann, post, note="Words of Ann.", audience=Audience.PUBLIC)


DEEDS = [
    pytest.param(taken_back, ShareVisibility.REMOVED, id="taken back"),
    pytest.param(closed, ShareVisibility.PRIVATE, id="closed"),
    pytest.param(for_followers, ShareVisibility.PRIVATE, id="for followers"),
    pytest.param(suspended, ShareVisibility.PRIVATE, id="suspended"),
    pytest.param(narrowed, ShareVisibility.PRIVATE, id="made private"),
]


@pytest.mark.parametrize(("deed", "link"), DEEDS)
def test_what_is_counted_is_shown(
    people: People, ann: Actor, bob: Actor, cleo: Actor, deed: Deed, link: ShareVisibility
) -> None:
    services = people.services
    post = services.sharing.publish_post(ann, "The secret of Ann", "Words of Ann.")
    share = services.sharing.share(bob, post.id, note="Look!").share
    people.follow(cleo, "bob")
    dora = people.join("dora")
    services.sharing.share(dora, share.id)
    people.follow(cleo, "dora")
    bobs = StreamRef(StreamKind.FEED, share.feed_id)

    def says(title: str, lost: ShareVisibility | None) -> None:
        tree = services.reading.get_tree(cleo)
        # Of all feeds it is entries that are counted, here it is rows.
        assert (tree.unread, tree.following) == (2, 1)
        for ref in (ALL, FOLLOWING, bobs):
            (row,) = people.rows(cleo, ref)
            assert (row.title, row.lost, sorted(names(row))) == (title, lost, ["bob", "dora"])
            assert ("Words" in row.excerpt, row.author) == ((True, "ann") if not lost else (False, ""))
        page = services.public_pages.get_person_page(None, "bob")
        assert page.count.number == len(page.part.items) == 1
        assert (page.part.items[0].entry.title, page.part.items[0].entry.lost) == (title, lost)
        topic = services.discussion.get_commented_share(None, share.id)
        assert (topic.title, topic.lost) == (title, lost)
        article = services.reading.get_article(cleo, share.id)
        assert (article.entry.title, article.entry.lost) == (title, lost)
        assert article.feed_title == ("bob" if lost else "ann")
        for form in FeedFormat:
            body = services.public_pages.build_feed("bob", form).body or b""
            assert (b"Words of Ann" in body, b"secret of Ann" in body) == (not lost, not lost)
            assert (f"/@bob/{share.id}".encode() in body, b"Look!" in body) == (True, True)
        (own,) = people.rows(bob, SHARES)
        assert own.lost is lost

    says("The secret of Ann", None)
    back = deed(services, ann, post.id)
    says("", link)
    with pytest.raises(NotFoundError):
        services.sharing.share(cleo, share.id)
    assert not services.sharing.get_share_box(
        cleo, services.reading.get_article(cleo, share.id).entry
    ).can_reshare
    back()
    says("The secret of Ann", None)
    services.reading.mark(cleo, [share.id], True)
    assert services.reading.get_tree(cleo).unread == 0


def test_a_block_is_a_private_share_for_him_alone(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    services = people.services
    post = services.sharing.publish_post(ann, "The secret of Ann", "Words of Ann.")
    share = services.sharing.share(bob, post.id).share
    people.follow(cleo, "bob")
    services.following.block(ann, "cleo")
    (row,) = people.rows(cleo)
    assert (row.title, row.excerpt, row.lost) == ("", "", ShareVisibility.PRIVATE)
    assert services.public_pages.get_person_page(None, "bob").part.items[0].entry.title == "The secret of Ann"
    services.following.unblock(ann, "cleo")
    assert people.rows(cleo)[0].title == "The secret of Ann"
    assert services.reading.get_article(cleo, share.id).entry.lost is None


def stars(people: People, entry_id: int) -> int:
    doc = people.services.store.database["entries"].find_one({"_id": entry_id}) or {}
    return int(doc.get("stars", 0))


@pytest.mark.parametrize(("deed", "link"), DEEDS)
def test_a_star_on_what_is_gone_can_be_taken_away(
    people: People, ann: Actor, bob: Actor, cleo: Actor, deed: Deed, link: ShareVisibility
) -> None:
    services = people.services
    post = services.sharing.publish_post(ann, "A post", "Words of Ann.")
    share = services.sharing.share(bob, post.id).share
    people.follow(cleo, "bob")
    services.reading.set_starred(cleo, share.id, True)
    services.reading.set_starred(bob, post.id, True)
    assert stars(people, post.id) == 3  # and who shares it keeps it
    back = deed(services, ann, post.id)
    assert people.rows(cleo)[0].starred
    dora = people.join("dora")
    people.follow(dora, "bob")
    for entry_id in (post.id, share.id):
        with pytest.raises(NotFoundError):
            services.reading.set_starred(dora, entry_id, True)
    with pytest.raises(NotFoundError):
        services.reading.set_starred(dora, post.id, False)
    assert services.reading.set_starred(cleo, share.id, False)
    assert not people.rows(cleo)[0].starred
    back()
    assert stars(people, post.id) == 2
    assert services.reading.set_starred(bob, post.id, False)
    services.sharing.remove_share(bob, share.id)
    assert stars(people, post.id) == 0


def test_tags_and_likes_of_what_was_closed_can_be_taken_away(people: People, ann: Actor, bob: Actor) -> None:
    """What one put on somebody's post is one's own to take off, also when the post cannot be seen."""
    sharing, tags, talk = people.services.sharing, people.services.tags, people.services.discussion
    people.open(ann)
    post = sharing.publish_post(ann, "", "A post of ann")
    people.follow(bob, "ann")
    (tag,) = tags.change_tags(bob, post.id, add=["later"])
    talk.set_liked(bob, post.id)
    sharing.update_share(ann, post.id, note="A post of ann", audience=Audience.PRIVATE)
    with pytest.raises(NotFoundError):
        tags.change_tags(bob, post.id, add=["more"])
    with pytest.raises(NotFoundError):
        talk.set_liked(bob, post.id)
    assert tags.change_tags(bob, post.id, remove=[tag.id]) == ()
    assert [t.count for t in tags.list_tags(bob)] == [0]
    talk.set_liked(bob, post.id, False)
    assert people.services.store.database["likes"].count_documents({}) == 0


def test_what_is_brought_back_or_moved_keeps_its_stars(people: People, ann: Actor, bob: Actor) -> None:
    services = people.services
    post = services.sharing.publish_post(ann, "A post", "Words of Ann.")
    people.follow(bob, "ann")
    services.reading.set_starred(bob, post.id, True)
    services.sharing.share(bob, post.id)
    token = services.sharing.remove_share(ann, post.id)
    services.sharing.restore_share(ann, token)
    assert stars(people, post.id) == 2
    services.sharing.update_share(ann, post.id, note="Mine.", audience=Audience.PRIVATE)
    assert stars(people, post.id) == 2
    assert services.reading.set_starred(bob, post.id, False)
    assert stars(people, post.id) == 1
    services.sharing.update_share(ann, post.id, note="Yours.", audience=Audience.PUBLIC)
    assert stars(people, post.id) == 1


def test_to_mark_what_is_gone_as_read_is_done_already(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    services = people.services
    (foreign,) = people.blog([bob])
    share = services.sharing.share(bob, foreign).share
    kept = services.sharing.publish_post(bob, "", "Mine alone.", audience=Audience.PRIVATE)
    people.follow(cleo, "bob")
    assert len(people.rows(cleo)) == 1
    services.sharing.remove_share(bob, share.id)
    for entry_id in (share.id, kept.id, foreign, 2**52):
        assert services.reading.mark(cleo, [entry_id], True).deltas == {}
        with pytest.raises(NotFoundError):
            services.reading.mark(cleo, [entry_id], False)
    assert people.rows(bob, SHARES)[0].id == kept.id
