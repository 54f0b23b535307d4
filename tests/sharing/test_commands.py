"""How often a page asks MongoDB: as often for five hundred people and a hundred rows as for two."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from pymongo import monitoring

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery
from app.runtime import identity_map
from tests.sharing.conftest import ALL, FOLLOWING, People
from tests.support.commands import add_listener


class Counter(monitoring.CommandListener):
    """Keeps the names of all commands that go to MongoDB."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.names.append(f"{event.command_name} {event.command.get(event.command_name)}")

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


@pytest.fixture
def asked(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """Return what a call of these services, given as a function of them, asks of MongoDB."""
    counter = Counter()
    add_listener(monkeypatch, counter)
    with contextlib.closing(bootstrap.build(services.settings)) as built:

        def count(call: Callable[[Services], object]) -> list[str]:
            counter.names.clear()
            with identity_map.open_scope():  # as a request is
                call(built)
            return list(counter.names)

        count(lambda s: s.store.ping())
        yield count


Asked = Callable[[Callable[[Services], object]], list[str]]


def crowd(people: People, ann: Actor, first: int, last: int, entries: list[int]) -> list[Actor]:
    """Let ann follow some more people, each of whom shares some of these entries and says something."""
    made = []
    for n in range(first, last):
        who = people.join(f"w{n}")
        people.services.subscriptions.subscribe(who, "https://blog.example.org/feed")
        for entry in entries[n % 3 : n % 3 + 3]:
            people.services.sharing.share(who, entry, note=f"{n}")
        people.services.sharing.publish_post(who, "", f"I am {n}")
        people.follow(ann, f"w{n}")
        made.append(who)
    return made


def test_a_page_of_streams_asks_no_more_of_more_people(people: People, ann: Actor, asked: Asked) -> None:
    entries = people.blog([ann], 12)
    crowd(people, ann, 0, 2, entries)

    def page(services: Services) -> object:
        return services.reading.load_page(ann, StreamQuery(FOLLOWING, limit=50))

    def screen(services: Services) -> object:
        return services.reading.load_tree_and_page(ann, StreamQuery(FOLLOWING))

    def everything(services: Services) -> object:
        return services.reading.load_tree_and_page(ann, StreamQuery(ALL))

    few = [asked(call) for call in (page, screen, everything)]
    crowd(people, ann, 2, 9, entries)
    assert [asked(call) for call in (page, screen, everything)] == few
    # Subscriptions, feeds, a snapshot, keys, rows and what they share; shares, people, ties; marks. For the
    # tree beside it folders, and what is unread of those whom one follows.
    # With the tree come the folders. The user says whether copies of an article share a row, and each page
    # has read the user before; the copies are one command.
    assert [len(names) for names in few] == [12, 14, 13], few
    assert not any(name.startswith("getMore") for names in few for name in names)


def test_the_page_of_somebody_asks_once_for_what_came_of_all_rows(
    people: People, ann: Actor, bob: Actor, asked: Asked
) -> None:
    entries = people.blog([ann, bob], 8)

    def page(services: Services) -> object:
        return services.public_pages.get_person_page(bob, "ann")

    first = people.services.sharing.share(ann, entries[0]).share
    people.follow(bob, "ann")
    people.services.sharing.share(bob, first.id)
    few = asked(page)
    for entry in entries[1:]:
        share = people.services.sharing.share(ann, entry).share
        people.services.sharing.share(bob, share.id)
    assert asked(page) == few
    assert len(few) <= 13, few


def test_a_chain_asks_no_more_of_more_shares(people: People, ann: Actor, bob: Actor, asked: Asked) -> None:
    (entry,) = people.blog([ann])
    share = people.services.sharing.share(ann, entry).share
    people.follow(bob, "ann")

    def chain(services: Services) -> object:
        return services.public_pages.get_chain(bob, "ann", share.id)

    def pass_on(first: int, last: int) -> None:
        for n in range(first, last):
            people.services.sharing.share(people.join(f"w{n}"), share.id)

    people.services.sharing.share(bob, share.id)
    pass_on(0, 2)
    few = asked(chain)
    pass_on(2, 8)
    assert asked(chain) == few
    assert len(few) <= 22, few


def test_comments_and_an_article_ask_no_more_of_more_people(
    people: People, ann: Actor, bob: Actor, asked: Asked
) -> None:
    (entry,) = people.blog([ann, bob])
    share = people.services.sharing.share(bob, entry).share
    people.follow(ann, "bob")
    people.services.discussion.comment(ann, share.id, "One.")
    people.services.discussion.set_liked(ann, share.id)

    def comments(services: Services) -> object:
        topic = services.discussion.get_commented_share(ann, share.id)
        return services.discussion.get_thread(ann, topic.share), services.discussion.get_reactions(
            ann, topic.share
        )

    def talks(services: Services) -> object:
        return services.discussion.count_reactions(ann, services.reading.get_article(ann, entry).shares)

    def join(first: int, last: int) -> None:
        for n in range(first, last):
            who = people.join(f"w{n}")
            people.services.sharing.share(who, share.id)
            people.follow(ann, f"w{n}")
            people.services.discussion.comment(who, share.id, "Two.")
            people.services.discussion.set_liked(who, share.id)

    join(0, 2)
    few = [asked(call) for call in (comments, talks)]
    join(2, 6)
    assert [asked(call) for call in (comments, talks)] == few
    assert len(few[0]) <= 20, few[0]


def test_what_is_said_to_several_shares_is_counted_for_each(people: People, ann: Actor, bob: Actor) -> None:
    one, two = people.blog([ann, bob], 2)
    sharing, talk = people.services.sharing, people.services.discussion
    first, second = sharing.share(ann, one).share, sharing.share(ann, two).share
    talk.comment(bob, first.id, "A.")
    talk.comment(bob, first.id, "B.")
    talk.set_liked(bob, second.id)
    found = talk.count_reactions(bob, [first, second])
    assert [(t.likes.number, t.comments.number, t.liked) for t in (found[first.id], found[second.id])] == [
        (0, 2, False),
        (1, 0, True),
    ]
    passed = sharing.share(bob, first.id).share
    sharing.share(people.join("cleo"), passed.id)
    items = people.services.public_pages.get_person_page(None, "ann").part.items
    assert {i.id: i.passed.number for i in items} == {first.id: 2, second.id: 0}


def test_an_undo_of_many_asks_no_more_of_more_people(people: People, ann: Actor, asked: Asked) -> None:
    manager, reading = people.services.bulk_edit, people.services.reading
    made = 0

    def undo(count: int) -> list[str]:
        nonlocal made
        for n in range(made, count):
            people.open(people.join(f"w{n}"))
            people.follow(ann, f"w{n}")
        made = count
        token, gone = manager.unsubscribe(ann, [f.feed_id for f in reading.get_tree(ann).feeds])
        assert gone == count
        looks = [
            name for name in asked(lambda s: s.bulk_edit.restore(ann, token)) if name.startswith("find ")
        ]
        assert len(reading.get_tree(ann).feeds) == count
        return looks

    few = undo(2)
    assert len(undo(12)) == len(few), few
