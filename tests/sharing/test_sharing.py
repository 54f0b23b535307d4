"""Sharing, following, and what readers find in their lists then."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import pytest

from app import clock
from app.errors import ForbiddenError, InvalidError, NotFoundError, StoreError, TooLargeError
from app.models.accounts.actor import Actor
from app.models.feeds.hosts import parse_host
from app.models.reading.search import encode_query
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.models.sharing.sharing import Audience, ShareVisibility
from app.models.sync.sync import SyncQuery, SyncStream, SyncStreamKind
from tests.sharing.conftest import ALL, FOLLOWING, SHARES, People, names

NOW = clock.now()


def test_what_somebody_shares_is_an_unread_entry_of_who_follows(
    people: People, ann: Actor, bob: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    shared = people.services.sharing.share(ann, entry, note="Read this")
    (row,) = people.rows(bob, FOLLOWING)
    assert (row.title, row.read, names(row)) == ("blog 1", False, ["ann"])
    assert row.sharers[0].note == "Read this"
    article = people.services.reading.get_article(bob, row.id)
    assert article.entry.content == "<p>The text of blog 1</p>"
    tree = people.services.reading.get_tree(bob)
    assert [(f.title, f.unread) for f in tree.feeds] == [("ann", 1)]
    people.services.reading.mark(bob, [row.id], True)
    assert people.services.reading.get_tree(bob).unread == 0
    assert people.services.sharing.share(ann, entry).existed
    assert shared.share.id == row.id
    assert [r.title for r in people.rows(ann, SHARES)] == ["blog 1"]


def test_own_shares_name_the_feed_that_they_came_from(people: People, ann: Actor, bob: Actor) -> None:
    sharing, subscriptions = people.services.sharing, people.services.subscriptions
    (entry,), (other,) = people.blog([ann]), people.blog([bob], name="other")
    for who in (ann, bob):
        people.open(who)
    people.follow(ann, "bob")
    (mine,) = people.services.reading.get_tree(ann).feeds[:1]
    post = sharing.publish_post(bob, "Mine", "Words of bob")
    sharing.share(bob, other)
    for shared in (
        entry,
        post.id,
        *(row.id for row in people.rows(ann, FOLLOWING) if row.title == "other 2"),
    ):
        sharing.share(ann, shared, note="Read this")
    sharing.publish_post(ann, "A day", "It rains.")
    feeds = {row.title: row.source for row in people.rows(ann, SHARES)}
    assert feeds["blog 1"] is not None
    assert (feeds["blog 1"].title, feeds["blog 1"].person) == ("blog", False)
    assert feeds["other 2"] is not None
    assert feeds["other 2"].title == "other"
    assert feeds["Mine"] is not None
    assert (feeds["Mine"].title, feeds["Mine"].person) == ("bob", True)
    assert str(feeds["Mine"].key).endswith("/@bob")
    assert feeds["A day"] is None
    assert all(row.source is None for row in people.rows(bob, FOLLOWING))
    subscriptions.update(ann, mine.feed_id, title="My blog")
    assert {r.source.title for r in people.rows(ann, SHARES) if r.source} == {"My blog", "other", "bob"}


@pytest.mark.parametrize("site", [None, "https://site.example/home"])
def test_the_address_of_a_feed_is_for_its_subscribers(
    people: People, ann: Actor, bob: Actor, db: Any, site: str | None
) -> None:
    services = people.services
    (entry,) = people.blog([bob])
    for who in (ann, bob):
        people.open(who)
    people.follow(ann, "bob")
    services.sharing.share(bob, entry)
    (row,) = people.rows(ann, FOLLOWING)
    services.sharing.share(ann, row.id)
    feed_id = services.reading.get_article(bob, entry).source_id
    url = "https://x.example/feed?token=SECRET"
    db.feeds.update_one({"_id": feed_id}, {"$set": {"title": "", "url": url, "site_url": site}})
    (mine,) = people.rows(ann, SHARES)
    page = services.reading.get_article(ann, row.id)
    host = "site.example" if site else parse_host(page.entry.url or "")
    assert host
    assert mine.source is not None
    assert (mine.source.title, page.feed_title) == (host, host)
    assert services.reading.get_article(ann, mine.id).feed_title == host
    assert services.sync.get_feed_title(ann, feed_id) == (host if site else "")
    assert services.reading.get_article(bob, entry).feed_title == url


def test_one_article_shared_by_several_is_one_row_and_read_at_once(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    one, two = people.blog([ann, bob, cleo], 2)
    for who in (ann, bob):
        people.open(who)
    people.follow(cleo, "ann", "bob")
    people.services.sharing.share(ann, one, note="first")
    people.services.sharing.share(bob, one, note="second")
    rows = people.rows(cleo)
    assert [(r.title, names(r)) for r in rows] == [("blog 2", ["ann", "bob"]), ("blog 1", [])]
    following = people.rows(cleo, FOLLOWING)
    assert [names(r) for r in following] == [["ann", "bob"]]
    assert people.services.reading.get_tree(cleo).unread == 4
    people.services.reading.mark(cleo, [one], True)
    assert people.services.reading.get_tree(cleo).unread == 1
    assert all(r.read for r in people.rows(cleo, FOLLOWING))
    people.services.reading.mark(cleo, [following[0].id], False)
    assert people.services.reading.get_tree(cleo).unread == 4
    assert two in {r.id for r in people.rows(cleo)}


def test_pages_neither_double_nor_lose_what_is_shared(people: People, ann: Actor, bob: Actor) -> None:
    entries = people.blog([ann, bob], 30)
    people.open(ann)
    people.follow(bob, "ann")
    for entry in entries[::2]:
        people.services.sharing.share(ann, entry)
    reading, seen, cursor, snapshot = people.services.reading, list[str](), None, None
    while True:
        page = reading.load_page(bob, StreamQuery(ALL, cursor=cursor, snapshot=snapshot, limit=7))
        seen += [r.title for r in page.rows]
        cursor, snapshot = page.cursor, page.snapshot
        if cursor is None:
            break
        assert len(page.rows) == 7
    assert sorted(seen) == sorted(f"blog {n}" for n in range(1, 31))


def test_a_share_that_is_taken_back_is_neither_counted_nor_listed(
    people: People, ann: Actor, bob: Actor
) -> None:
    entries = people.blog([ann], 3)
    people.open(ann)
    people.follow(bob, "ann")
    sharing, reading = people.services.sharing, people.services.reading
    shares = [sharing.share(ann, e).share for e in entries]
    undo = sharing.remove_share(ann, shares[1].id)
    assert reading.get_tree(bob).unread == 2
    assert [r.id for r in people.rows(bob, FOLLOWING)] == [shares[2].id, shares[0].id]
    with pytest.raises(NotFoundError):
        reading.get_article(bob, shares[1].id)
    marked = reading.mark_all(bob, FOLLOWING)
    assert (marked.count, reading.get_tree(bob).unread) == (2, 0)
    reading.undo_mass_mark(bob, marked.undo)
    assert reading.get_tree(bob).unread == 2
    sharing.restore_share(ann, undo)
    assert reading.get_tree(bob).unread == 3
    with pytest.raises(NotFoundError):
        sharing.restore_share(ann, undo)


def test_what_was_read_of_a_share_stays_read_when_it_comes_back(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    entries = people.blog([ann], 70)
    people.open(ann)
    people.follow(bob, "ann")
    people.follow(cleo, "ann")
    sharing, reading = people.services.sharing, people.services.reading
    shares = [sharing.share(ann, e).share for e in entries]
    # One in the midst, and those at the ends of a word of 64 bits.
    read = [shares[n] for n in (30, 62, 63, 64)]
    reading.mark(bob, [s.id for s in read], True)
    undos = [sharing.remove_share(ann, s.id) for s in read]
    assert (reading.get_tree(bob).unread, reading.get_tree(cleo).unread) == (66, 66)
    back = [sharing.restore_share(ann, undo) for undo in undos]
    assert (reading.get_tree(bob).unread, reading.get_tree(cleo).unread) == (66, 70)
    for share in back:
        sharing.update_share(ann, share.id, note="", audience=Audience.PRIVATE)
    assert (reading.get_tree(bob).unread, reading.get_tree(cleo).unread) == (66, 66)
    sharing.restore_share(ann, sharing.remove_share(ann, back[0].id))
    for share in back:
        sharing.update_share(ann, share.id, note="", audience=Audience.FOLLOWERS)
    assert (reading.get_tree(bob).unread, reading.get_tree(cleo).unread) == (66, 70)
    sharing.share(ann, people.blog([ann], name="other")[0])
    assert (reading.get_tree(bob).unread, reading.get_tree(cleo).unread) == (67, 71)


def test_a_mass_action_marks_nothing_above_it_that_was_taken_back(
    people: People, ann: Actor, bob: Actor
) -> None:
    one, two, three = people.blog([ann], 3)
    people.open(ann)
    people.follow(bob, "ann")
    sharing, reading = people.services.sharing, people.services.reading
    sharing.share(ann, one)
    page = reading.load_page(bob, StreamQuery(FOLLOWING))
    sharing.share(ann, two)
    undo = sharing.remove_share(ann, sharing.share(ann, three).share.id)
    assert reading.mark_all(bob, FOLLOWING, snapshot=page.snapshot).count == 1
    sharing.restore_share(ann, undo)
    assert reading.get_tree(bob).unread == 2


def test_totals_are_without_what_was_taken_back(people: People, ann: Actor, bob: Actor) -> None:
    entries = people.blog([ann], 70)
    people.open(ann)
    people.follow(bob, "ann")
    sharing, reading, sync = people.services.sharing, people.services.reading, people.services.sync
    empty = reading.load_page(bob, StreamQuery(FOLLOWING)).snapshot
    shares = [sharing.share(ann, e).share for e in entries]
    for share in (*shares[:3], *shares[60:65]):
        sharing.remove_share(ann, share.id)
    for share in shares[10:12]:
        sharing.update_share(ann, share.id, note="", audience=Audience.PRIVATE)
    assert reading.count_newer(bob, empty) == 60
    feed = StreamRef(StreamKind.FEED, shares[0].feed_id)
    for who, stream, total in ((bob, feed, 60), (bob, FOLLOWING, 60), (bob, ALL, 60), (ann, SHARES, 62)):
        page = reading.load_page(who, StreamQuery(stream, limit=20))
        more = reading.load_page(who, StreamQuery(stream, cursor=page.cursor, snapshot=page.snapshot))
        assert (page.total, more.total, len(page.rows) + len(more.rows)) == (total, total, total), stream
    assert sync.count_all_entries(bob) == 60
    for kind, count in ((SyncStreamKind.READING, 60), (SyncStreamKind.READ, 0), (SyncStreamKind.FRIENDS, 60)):
        assert sync.count_entries(bob, SyncQuery((SyncStream(kind),)))[0] == count
    reading.mark_all(bob, FOLLOWING)
    assert sync.count_entries(bob, SyncQuery((SyncStream(SyncStreamKind.READ),)))[0] == 60


def test_a_search_can_be_about_what_friends_share_alone(people: People, ann: Actor, bob: Actor) -> None:
    one, two = people.blog([ann, bob], 2)
    people.open(ann)
    people.follow(bob, "ann")
    post = people.services.sharing.publish_post(ann, "A peculiar blog", "whatever").id
    share = people.services.sharing.share(ann, one, note="Worth it").share.id
    people.services.indexing.run(clock.now() + dt.timedelta(days=1), 60)

    def found(query: str) -> list[int]:
        return sorted(row.id for row in people.rows(bob, StreamRef.parse(f"search/{encode_query(query)}")))

    assert found("blog") == sorted((two, post, share)), "an article and its share are one row"
    assert found("blog is:shared") == sorted((post, share))
    assert found("blog -is:shared") == sorted((one, two))
    assert found("worth is:shared") == [share]


def test_what_was_shared_is_kept_by_retention(people: People, ann: Actor) -> None:
    entries = people.blog([ann], 3)
    share = people.services.sharing.share(ann, entries[0]).share
    feed_id = share.of.feed_id
    keep = people.services.mappers.entries
    keep.delete_below(feed_id, 4)
    assert [r.title for r in people.rows(ann, SHARES)] == ["blog 3"]
    people.services.sharing.remove_share(ann, share.id)
    assert keep.delete_below(feed_id, 4) == 1


def test_a_star_on_a_share_keeps_the_article_when_it_is_taken_back(
    people: People, ann: Actor, bob: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    share = people.services.sharing.share(ann, entry).share
    reading = people.services.reading
    reading.set_starred(bob, share.id, True)
    assert people.rows(bob, FOLLOWING)[0].starred
    people.services.sharing.remove_share(ann, share.id)
    (kept,) = people.rows(bob, StreamRef(StreamKind.STARRED))
    assert (kept.id, kept.title) == (entry, "blog 1")
    assert reading.get_article(bob, entry).entry.content


def test_a_note_is_edited_and_says_so(people: People, ann: Actor, bob: Actor) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    share = people.services.sharing.share(ann, entry, note="A").share
    people.services.sharing.update_share(ann, share.id, note="B <b>")
    (sharer,) = people.rows(bob, FOLLOWING)[0].sharers
    assert (sharer.note, sharer.edited) == ("B <b>", True)
    with pytest.raises(NotFoundError):
        people.services.sharing.update_share(bob, share.id, note="C")
    with pytest.raises(InvalidError):
        people.services.sharing.update_share(ann, share.id, note="x" * 6000)


def test_an_edit_is_news_where_the_share_comes_or_goes_alone(
    people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    sharing, profile = people.services.sharing, people.services.following.preview_profile(ann)
    share, told = sharing.share(ann, entry).share, list[dict[int, int]]()
    monkeypatch.setattr(sharing._events, "notify_new_entries", lambda entries: told.append(dict(entries)))
    sharing.update_share(ann, share.id, note="better words")
    assert told == [{profile.feed_id: 0}]
    told.clear()
    sharing.update_share(ann, share.id, note="", audience=Audience.PRIVATE)
    assert told == [{profile.feed_id: 0}, {profile.private_feed_id: 1}]
    told.clear()
    sharing.update_share(ann, share.id, note="", audience=Audience.FOLLOWERS)
    assert told == [{profile.private_feed_id: 0}, {profile.feed_id: 1}]


def test_who_follows_hears_of_a_stream_when_it_closes_and_opens_and_not_in_between(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    services, feed_id = people.services, people.services.following.preview_profile(ann).feed_id
    sharing, told = services.sharing, list[dict[int, int]]()
    monkeypatch.setattr(services.events, "notify_new_entries", lambda entries: told.append(dict(entries)))
    people.open(ann)
    assert told == []
    people.open(ann, Audience.PRIVATE)
    assert told == [{feed_id: 0}]
    share = sharing.share(ann, entry, audience=Audience.PUBLIC).share
    sharing.update_share(ann, share.id, note="Words", audience=Audience.FOLLOWERS)
    sharing.restore_share(ann, sharing.remove_share(ann, share.id))
    assert told == [{feed_id: 0}]
    people.open(ann)
    assert told == [{feed_id: 0}, {feed_id: 0}]


def test_a_note_is_changed_everywhere_or_nowhere(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    services = people.services
    post = services.sharing.publish_post(ann, "A day", "one")

    def away(*_: object, **__: object) -> None:
        raise StoreError

    with monkeypatch.context() as broken:
        broken.setattr(services.gateways.sharing._entries, "update_note", away)
        with pytest.raises(StoreError):
            services.sharing.update_share(ann, post.id, note="two")
    assert services.sharing.get_share(bob, post.id).note == "one"
    assert services.reading.get_article(bob, post.id).entry.content == "<p>one</p>"


def test_a_post_needs_no_entry_and_is_text_alone(people: People, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    words = "Hello <script>alert(1)</script>\nsee https://example.org/a?b=1&c=2\n\nBye"
    post = people.services.sharing.publish_post(ann, "My day", words)
    (row,) = people.rows(bob, FOLLOWING)
    assert (row.title, row.id) == ("My day", post.id)
    html = people.services.reading.get_article(bob, post.id).entry.content
    assert "<script" not in html
    assert html.count("<p>") == 2
    assert '<a href="https://example.org/a?b=1&amp;c=2"' in html
    people.services.sharing.share(bob, post.id, note="mine too")
    assert people.rows(bob, SHARES)[0].title == "My day"
    people.services.sharing.remove_share(ann, post.id)
    assert [(r.title, r.lost) for r in people.rows(bob, SHARES)] == [("", ShareVisibility.REMOVED)]
    with pytest.raises(InvalidError):
        people.services.sharing.publish_post(ann, "", "  ")


def test_who_wants_to_be_asked_is_asked(people: People, ann: Actor, bob: Actor) -> None:
    (entry,) = people.blog([ann])
    people.open(ann, Audience.FOLLOWERS)
    people.services.sharing.share(ann, entry)
    following = people.services.following
    tie = following.follow(bob, "ann")
    assert (tie.follows, tie.requested) == (False, True)
    assert people.rows(bob, FOLLOWING) == ()
    assert following.list_requests(ann) == ["bob"]
    assert following.answer_request(ann, "bob", True)
    assert [names(r) for r in people.rows(bob, FOLLOWING)] == [["ann"]]
    assert following.list_requests(ann) == []
    assert not following.answer_request(ann, "bob", True)
    with pytest.raises(ForbiddenError):
        following.follow(ann, "ann")
    with pytest.raises(NotFoundError):
        following.follow(bob, "nobody")


def test_who_is_blocked_while_he_asks_does_not_ask(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.open(ann, Audience.FOLLOWERS)
    following, follows = people.services.following, people.services.gateways.follows
    may = follows._sight.can_follow_directly

    def between(*args: Any) -> bool:
        found = may(*args)
        following.block(ann, "bob")
        return found

    monkeypatch.setattr(follows._sight, "can_follow_directly", between)
    with pytest.raises(NotFoundError):
        following.follow(bob, "ann")
    assert following.list_requests(ann) == []
    following.unblock(ann, "bob")
    assert following.list_requests(ann) == []


def test_who_has_no_room_for_one_more_goes_on_asking(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.open(ann, Audience.FOLLOWERS)
    following = people.services.following
    following.follow(bob, "ann")
    with monkeypatch.context() as full:
        full.setattr(people.services.gateways.subscriptions, "_most", 0)
        with pytest.raises(TooLargeError) as caught:
            following.answer_request(ann, "bob", True)
    assert "You have" not in caught.value.message, "it is not ann who has too many"
    assert following.list_requests(ann) == ["bob"]
    assert following.answer_request(ann, "bob", True)
    assert following.get_person(bob, "ann").tie.follows


def test_who_is_muted_is_counted_beside_his_name_alone(people: People, ann: Actor, bob: Actor) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    people.services.sharing.share(ann, entry)
    people.services.following.set_muted(bob, "ann", True)
    reading = people.services.reading
    whole, page = reading.load_tree_and_page(bob, StreamQuery(ALL))
    for tree in (whole, reading.get_tree(bob)):
        assert (tree.unread, tree.following, [f.unread for f in tree.feeds]) == (0, 0, [1])
    assert (page.rows, page.unread) == ((), 0)


@pytest.mark.parametrize("how", ["first", "between", "undo", "undo of many"])
def test_a_mute_holds_until_it_is_lifted_whenever_one_follows(
    people: People, ann: Actor, bob: Actor, how: str
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.services.sharing.share(ann, entry)
    following, services = people.services.following, people.services
    if how == "first":
        following.set_muted(bob, "ann", True)
        people.follow(bob, "ann")
    else:
        people.follow(bob, "ann")
        token = following.unfollow(bob, "ann")
        assert token
        if how == "undo of many":
            services.subscriptions.restore(bob, token)
            token, _ = services.bulk_edit.unsubscribe(
                bob, [f.feed_id for f in services.reading.get_tree(bob).feeds]
            )
        following.set_muted(bob, "ann", True)
        match how:
            case "undo":
                mine = services.subscriptions.restore(bob, token)
                assert mine
                assert mine.muted
            case "undo of many":
                services.bulk_edit.restore(bob, token)
            case _:
                people.follow(bob, "ann")
    assert following.get_person(bob, "ann").tie.muted
    assert people.rows(bob, FOLLOWING) == ()
    assert services.reading.get_tree(bob).unread == 0
    gone = following.unfollow(bob, "ann")
    assert gone
    following.set_muted(bob, "ann", False)
    services.subscriptions.restore(bob, gone)
    assert len(people.rows(bob, FOLLOWING)) == services.reading.get_tree(bob).unread == 1


def test_a_block_ends_both_ways_and_a_mute_only_hides(people: People, ann: Actor, bob: Actor) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.open(bob)
    people.follow(bob, "ann")
    share = people.services.sharing.share(ann, entry).share
    following, reading = people.services.following, people.services.reading
    following.set_muted(bob, "ann", True)
    assert people.rows(bob, FOLLOWING) == people.rows(bob) == ()
    friend = StreamRef(StreamKind.FEED, share.feed_id)
    assert len(people.rows(bob, friend)) == 1
    following.set_muted(bob, "ann", False)
    assert len(people.rows(bob, FOLLOWING)) == 1
    following.block(ann, "bob")
    assert people.rows(bob, FOLLOWING) == ()
    assert reading.get_tree(bob).feeds == ()
    for blocked in (lambda: following.follow(bob, "ann"), lambda: following.get_person(bob, "ann")):
        with pytest.raises(NotFoundError):
            blocked()
    with pytest.raises(NotFoundError):
        people.services.sharing.get_share(bob, share.id)
    assert people.services.sharing.get_share(None, share.id)
    assert following.unblock(ann, "bob")
    people.follow(bob, "ann")


def test_a_stream_that_is_closed_is_gone_from_all_lists_at_once(
    people: People, ann: Actor, bob: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    share = people.services.sharing.share(ann, entry).share
    people.open(ann, Audience.PRIVATE)
    assert people.rows(bob, FOLLOWING) == people.rows(bob) == ()
    assert people.services.reading.get_tree(bob).unread == 0
    with pytest.raises(NotFoundError):
        people.services.reading.get_article(bob, share.id)
    assert len(people.rows(ann, SHARES)) == 1
    people.open(ann, Audience.PUBLIC)
    assert people.services.reading.get_tree(bob).unread == 1


def test_a_private_share_is_in_no_count_of_anybody(people: People, ann: Actor, bob: Actor) -> None:
    one, two = people.blog([ann], 2)
    people.open(ann)
    people.follow(bob, "ann")
    secret = people.services.sharing.share(ann, one, note="mine", audience=Audience.PRIVATE).share
    people.services.sharing.share(ann, two)
    assert people.services.reading.get_tree(bob).unread == 1
    assert len(people.rows(bob, FOLLOWING)) == 1
    for read in (people.services.reading.get_article, people.services.sharing.get_share):
        with pytest.raises(NotFoundError):
            read(bob, secret.id)
    assert {r.title for r in people.rows(ann, SHARES)} == {"blog 1", "blog 2"}
    people.services.sharing.update_share(ann, secret.id, note="now for all", audience=Audience.PUBLIC)
    assert people.services.reading.get_tree(bob).unread == 2
    people.services.sharing.update_share(ann, secret.id, note="", audience=Audience.PRIVATE)
    assert people.services.reading.get_tree(bob).unread == 1
    with pytest.raises(NotFoundError):
        people.services.reading.get_article(bob, secret.id)


def test_an_entry_of_a_feed_with_a_key_in_its_address_is_not_shared(people: People, ann: Actor) -> None:
    feeds = people.services.gateways.feeds
    (entry,) = people.blog([ann], name="paid")
    feed_id = people.rows(ann)[0].feed_id
    feeds.move(feed_id, "https://paid.example.org/feed?token=1234567890abcdef")
    with pytest.raises(InvalidError, match="feed is private"):
        people.services.sharing.share(ann, entry)


def test_an_entry_is_shared_once_however_often_at_the_same_time(people: People, ann: Actor) -> None:
    (entry,) = people.blog([ann])
    people.services.following.get_or_create_profile(ann)
    found: list[int] = []
    gate = threading.Barrier(6)

    def share() -> None:
        gate.wait()
        found.append(people.services.sharing.share(ann, entry).share.id)

    threads = [threading.Thread(target=share) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert len(people.rows(ann, SHARES)) == 1


def test_numbers_have_no_gaps_whoever_shares_at_once(people: People, ann: Actor, bob: Actor) -> None:
    entries = people.blog([ann], 12)
    people.open(ann)
    people.follow(bob, "ann")
    gate = threading.Barrier(4)

    def share(part: int) -> None:
        gate.wait()
        for entry in entries[part::4]:
            people.services.sharing.share(ann, entry)

    threads = [threading.Thread(target=share, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert people.services.reading.get_tree(bob).unread == 12
    assert len({r.id for r in people.rows(bob, FOLLOWING)}) == 12


def test_G02_of_who_leaves_nothing_is_left_but_his_place_in_chains(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    one, two = people.blog([ann], 2)
    for who in (ann, bob, cleo):
        people.open(who)
    people.follow(bob, "ann")
    people.follow(ann, "bob")
    sharing = people.services.sharing
    first = sharing.share(ann, one, note="words of ann").share
    sharing.share(ann, two, audience=Audience.PRIVATE)
    second = sharing.share(bob, first.id).share
    people.services.following.block(cleo, "ann")
    people.services.following.set_muted(bob, "ann", True)
    with clock.set_source(lambda: NOW):
        people.services.gateways.erasure.begin(ann.user_id, NOW)
    assert people.chain(None, second.id) == [(0, "private"), (1, "bob")]
    assert people.rows(bob, FOLLOWING) == ()
    later = NOW + dt.timedelta(hours=1)
    with clock.set_source(lambda: later):
        assert people.services.gateways.erasure.finish(ann.user_id, later)
    assert people.chain(None, second.id) == [(0, "removed"), (1, "bob")]
    assert people.services.reading.get_tree(bob).feeds == ()
    database = people.services.store.database
    for name in database.list_collection_names():
        for doc in database[name].find():
            assert "ann" not in str(doc).replace("channel", ""), (name, doc)
            assert str(ann.user_id) not in str(doc), (name, doc)
    assert [r.title for r in people.rows(bob, SHARES)] == ["blog 2"]
