"""Kept trees: whatever changes, a page shows the tree that a server without a cache would render."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from collections.abc import Callable, Iterator

import pytest
from flask import Flask

from app import create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Role
from app.models.reading.stream import StreamQuery, StreamRef
from app.runtime.weighted_cache import WeightedCache
from app.services.accounts.sign_in import Client
from app.web.security.sessions import get_cookie_name
from app.web.view import i18n
from tests.support.reader import PASSWORD, add_user, pull, rss

STEPS = 60
NAMES = ("ann", "bob")
_TOKEN = re.compile(r'(name="csrf_token" value=|content=)"[^"]+"')


@pytest.fixture
def uncached(services: Services) -> Iterator[Flask]:
    """The application of another process, which keeps no trees."""
    settings = dataclasses.replace(services.settings, tree_cache=0)
    with contextlib.closing(bootstrap.build(settings)) as others:
        yield create_app(settings, others)


class Person:
    """A user, with one session in each application."""

    def __init__(self, services: Services, name: str, apps: tuple[Flask, Flask]) -> None:
        self.name, self.actor = name, add_user(services, name)
        self.language = "en"
        token = services.sign_in.log_in(name, PASSWORD, Client("127.0.0.1", "A browser"))
        self.clients = [app.test_client() for app in apps]
        for client in self.clients:
            client.set_cookie(get_cookie_name(secure=False), token)

    def get_trees(self, path: str) -> list[str]:
        """Return the tree of a page as each application renders it."""
        found = []
        for client in self.clients:
            client.set_cookie(i18n.COOKIE, self.language)
            page = client.get(path)
            assert page.status_code == 200
            tree = re.search(r"<nav.*?</nav>\s*<div class=\"tree-foot\">.*?</div>", page.text, re.DOTALL)
            assert tree
            found.append(_TOKEN.sub("", tree[0]))
        return found


class Changes:
    """Random changes of a user's feeds, folders, tags, people, marks and preferences."""

    def __init__(self, services: Services, dice: random.Random) -> None:
        self._services, self._dice, self._count = services, dice, 0

    def make(self, person: Person, other: Person) -> str:
        """Make one change that can change the tree; return its name."""
        changes: list[Callable[[Person, Person], None]] = [
            self.subscribe,
            self.unsubscribe,
            self.rename_feed,
            self.place_feed,
            self.create_folder,
            self.rename_folder,
            self.delete_folder,
            self.tag_entry,
            self.save_search,
            self.mark_entry,
            self.mark_all,
            self.follow_person,
            self.mute_person,
            self.share_entry,
            self.fail_feed,
            self.choose_language,
            self.set_preference,
            self.set_role,
        ]
        chosen = self._dice.choice(changes)
        chosen(person, other)
        return chosen.__name__

    def _text(self) -> str:
        self._count += 1
        return self._dice.choice(("Notes", "<b>Letters</b>", "Журнал", 'a"b', "&amp;")) + f" {self._count}"

    def _feed_ids(self, person: Person) -> list[int]:
        found = self._services.gateways.subscriptions.find_by_user(person.actor.user_id)
        return [s.feed_id for s in found if not s.person]

    def _folder_ids(self, person: Person) -> list[int]:
        return [f.id for f in self._services.folders.list_folders(person.actor)]

    def _entry_ids(self, person: Person) -> list[int]:
        page = self._services.reading.load_page(person.actor, StreamQuery(StreamRef.parse("all"), limit=20))
        return [row.id for row in page.rows if row.markable]

    def subscribe(self, person: Person, other: Person) -> None:
        self._count += 1
        url = f"https://site{self._count % 7}.example/feed"
        if any(url == f.url for f in map(self._services.gateways.feeds.get, self._feed_ids(person))):
            return
        done = self._services.subscriptions.subscribe(person.actor, url)
        items = [(f"{self._text()} of {url}", "<p>x</p>") for _ in range(3)]
        pull(self._services, [done.subscription.feed_id], {url: rss(self._text(), items)})

    def unsubscribe(self, person: Person, other: Person) -> None:
        for feed_id in self._feed_ids(person)[:1]:
            self._services.subscriptions.unsubscribe(person.actor, feed_id)

    def rename_feed(self, person: Person, other: Person) -> None:
        for feed_id in self._feed_ids(person)[-1:]:
            self._services.subscriptions.update(person.actor, feed_id, title=self._text())

    def place_feed(self, person: Person, other: Person) -> None:
        folder_ids = self._folder_ids(person)
        for feed_id in self._feed_ids(person)[:2]:
            chosen = self._dice.sample(folder_ids, self._dice.randint(0, min(2, len(folder_ids))))
            self._services.subscriptions.update(person.actor, feed_id, folder_ids=chosen)

    def create_folder(self, person: Person, other: Person) -> None:
        self._services.folders.create(person.actor, self._text())

    def rename_folder(self, person: Person, other: Person) -> None:
        for folder_id in self._folder_ids(person)[:1]:
            self._services.folders.rename(person.actor, folder_id, self._text())

    def delete_folder(self, person: Person, other: Person) -> None:
        for folder_id in self._folder_ids(person)[1:2]:
            self._services.folders.delete(person.actor, folder_id)

    def tag_entry(self, person: Person, other: Person) -> None:
        for entry_id in self._entry_ids(person)[:1]:
            self._services.tags.change_tags(person.actor, entry_id, add=[f"tag {self._count % 3}"])

    def save_search(self, person: Person, other: Person) -> None:
        if not self._services.tags.list_searches(person.actor):
            self._services.tags.save_search(person.actor, self._text(), "letters")

    def mark_entry(self, person: Person, other: Person) -> None:
        for entry_id in self._entry_ids(person)[:1]:
            self._services.reading.mark(person.actor, [entry_id], self._dice.random() < 0.7)

    def mark_all(self, person: Person, other: Person) -> None:
        self._services.reading.mark_all(person.actor, StreamRef.parse("all"))

    def follow_person(self, person: Person, other: Person) -> None:
        self._services.following.get_or_create_profile(other.actor)
        self._services.following.follow(person.actor, other.name)

    def mute_person(self, person: Person, other: Person) -> None:
        self.follow_person(person, other)
        self._services.following.set_muted(person.actor, other.name, self._dice.random() < 0.5)

    def share_entry(self, person: Person, other: Person) -> None:
        for entry_id in self._entry_ids(other)[:1]:
            self._services.sharing.share(other.actor, entry_id)

    def fail_feed(self, person: Person, other: Person) -> None:
        error = self._dice.choice((None, "gone"))
        for feed_id in self._feed_ids(person)[:1]:
            self._services.store.database["feeds"].update_one({"_id": feed_id}, {"$set": {"error": error}})

    def choose_language(self, person: Person, other: Person) -> None:
        person.language = self._dice.choice(("en", "de", "ar"))

    def set_preference(self, person: Person, other: Person) -> None:
        keys = self._dice.choice(({}, {"add": "x"}, {"search": ""}))
        hidden = self._dice.random() < 0.5
        self._services.accounts.set_preferences(person.actor, {"keys": keys, "hide_read_feeds": hidden})

    def set_role(self, person: Person, other: Person) -> None:
        role = self._dice.choice((Role.USER, Role.ADMIN))
        self._services.store.database["users"].update_one(
            {"_id": person.actor.user_id}, {"$set": {"role": role.value}}
        )


@pytest.mark.parametrize("seed", range(3))
def test_a_kept_tree_equals_a_new_one_after_any_change(
    services: Services, app: Flask, uncached: Flask, seed: int
) -> None:
    dice = random.Random(seed)
    people = [Person(services, name, (app, uncached)) for name in NAMES]
    changes, trees = Changes(services, dice), set[str]()
    for _ in range(STEPS):
        some = dice.sample(people, 2)
        done = changes.make(*some)
        for person in people:
            kept, new = person.get_trees("/read/tree")
            assert kept == new, f"{person.name} after {done}"
            trees.add(new)
    assert len(trees) > STEPS // 3  # many changes could be seen


def test_the_current_stream_is_marked_in_a_kept_tree(services: Services, app: Flask, uncached: Flask) -> None:
    ann = Person(services, "ann", (app, uncached))
    changes = Changes(services, random.Random(1))
    folder_id = services.folders.create(ann.actor, "Folder").id
    for _ in range(3):
        changes.subscribe(ann, ann)
    feed_ids = [s.feed_id for s in services.gateways.subscriptions.find_by_user(ann.actor.user_id)]
    services.subscriptions.update(ann.actor, feed_ids[0], folder_ids=[folder_id])
    for path in (*(f"feed/{f}" for f in feed_ids), f"folder/{folder_id}", "all"):
        kept, new = ann.get_trees(f"/read/{path}")
        assert kept == new
        current = re.findall(r'<a href="/read/([^"]+)"[^>]* aria-current="page"', kept)
        assert current == [path]


def test_an_unchanged_tree_is_built_once(services: Services, app: Flask) -> None:
    ann = add_user(services, "ann")
    feed_id = services.subscriptions.subscribe(ann, "https://site.example/feed").subscription.feed_id
    before = services.reading.get_tree(ann)
    assert services.reading.get_tree(ann) is before
    services.subscriptions.update(ann, feed_id, title="Mine")
    assert services.reading.get_tree(ann).feeds[0].title == "Mine"


def test_another_users_tree_is_never_shown(services: Services, app: Flask, uncached: Flask) -> None:
    people = [Person(services, name, (app, uncached)) for name in NAMES]
    for person in people:
        folder_id = services.folders.create(person.actor, f"Secret folder of {person.name}").id
        services.subscriptions.subscribe(person.actor, "https://site.example/feed", folder_id=folder_id)
    for _ in range(2):
        for person in people:
            (kept, _), (other,) = person.get_trees("/read/tree"), {*NAMES} - {person.name}
            assert f"Secret folder of {person.name}" in kept
            assert f"Secret folder of {other}" not in kept


def test_a_list_doesnt_bring_the_tree_again(services: Services, app: Flask, uncached: Flask) -> None:
    ann = Person(services, "ann", (app, uncached))
    folder_id = services.folders.create(ann.actor, "A folder").id
    services.subscriptions.subscribe(ann.actor, "https://site.example/feed", folder_id=folder_id)
    part = {"HX-Request": "true", "HX-Target": "div#stream"}
    assert "A folder" in ann.clients[0].get("/read/all").text
    page = ann.clients[0].get("/read/all", headers=part).text
    assert "pane-list" in page
    assert "A folder" not in page


@pytest.mark.parametrize("limit", [0, 1, 10])
def test_a_cache_stays_within_its_limit(limit: int) -> None:
    cache, dice = WeightedCache[int, str](limit), random.Random(limit)
    for _ in range(300):
        key, weight = dice.randrange(8), dice.randrange(limit + 2)
        cache.add(key, f"value of {key}", weight)
        assert cache.weight <= limit
        for other in range(8):
            assert cache.get(other) in (None, f"value of {other}")


def test_a_cache_drops_the_value_that_wasnt_used_for_longest() -> None:
    cache = WeightedCache[str, int](3)
    for key in "abc":
        cache.add(key, 1, 1)
    assert cache.get("a") == 1
    cache.add("d", 1, 1)
    assert [key for key in "abcd" if cache.get(key)] == ["a", "c", "d"]
    cache.add("a", 1, 3)
    assert [key for key in "abcd" if cache.get(key)] == ["a"]
