"""An account as people have it after some weeks: folders, feeds that fail, stars, notes of fetches.

All entries are real ones of the corpus, stored by the real pull.
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from app import clock
from app.bootstrap.services import Services
from app.feeds.urls import hash_url
from app.models.accounts.actor import Actor, Role
from app.models.accounts.token import Scope, Token, TokenKind
from app.models.feeds.feed import FetchRecord
from app.models.reading.rules import Rule
from app.models.reading.statistics import Counted
from app.models.reading.targets import Occasion, TargetKind
from tests.support import operations
from tests.support.fetches import record_fetches
from tests.support.reader import add_user, follow

#: So that ages and days in pictures are always the same; the corpus was captured shortly before.
NOW = dt.datetime(2026, 2, 18, 9, 30, tzinfo=dt.UTC)
_FOLDERS = {
    "Design": ("feeds/rss/spoon-tamago.com-d94f47.xml",),
    "World": (
        "feeds/rss/restofworld.org-e04770.xml",
        "feeds/rss/bbcurdu.com-ace121.xml",
        "feeds/rss/themoscowtimes.com-eef534.xml",
    ),
    "Programming": ("feeds/rss/zerokspot.com-71d236.xml", "feeds/rss/markgreville.ie-d8f87a.xml"),
}
_LOOSE = ("feeds/atom/daringfireball.net-df410e.xml", "feeds/atom/youtube.com-9cf7d9.xml")


@dataclasses.dataclass(frozen=True)
class Demo:
    """Whom and what there is.

    Attributes:
        feeds: by the last part of the name, without suffix: ``restofworld.org-e04770`` → id.
        folders: name → id.
        entry: one that is worth reading.
        bob: another user. dead: a task that failed for good.
    """

    services: Services
    ann: Actor
    feeds: dict[str, int]
    folders: dict[str, int]
    entry: int
    bob: int
    dead: str


def fill(services: Services, *, role: Role = Role.ADMIN) -> Demo:
    """Make the user ``ann`` with all that."""
    # What is older than its life by the true clock would be removed while it is looked at.
    services.store.database.client.admin.command({"setParameter": 1, "ttlMonitorEnabled": False})
    with clock.set_source(lambda: NOW):
        ann = add_user(services, "ann", role)
        folders, feeds = {}, {}
        for name, paths in _FOLDERS.items():
            folders[name] = services.folders.create(ann, name).id
            feeds |= _follow(services, ann, paths, folders[name])
        feeds |= _follow(services, ann, _LOOSE, None)
        entries = services.store.database["entries"]
        newest = entries.find({"feed_id": feeds["spoon-tamago.com-d94f47"]}).sort("at", -1)
        some = [doc["_id"] for doc in newest.limit(8)]
        for entry in some[2:5]:
            services.reading.set_starred(ann, entry, True)
        for number, entry in enumerate(some[:3:-1]):
            with clock.set_source(lambda hours=26 - 5 * number: NOW - dt.timedelta(hours=hours)):
                services.reading.mark(ann, [entry], True)
        services.tags.change_tags(ann, some[0], add=["Travel", "Japan"])
        services.tags.change_tags(ann, some[2], add=["Japan", "Recipes for spring"])
        services.tags.save_search(ann, "Art in Japan", "art japan is:unread")
        _lists(services, ann)
        _targets(services, ann)
        services.statistics.set_enabled(ann, True)
        for back in range(60):
            for what, count in zip(Counted, (back * 7 % 23, back % 4 // 3, back % 9 // 8), strict=True):
                services.gateways.statistics.count(ann.user_id, what, count, NOW - dt.timedelta(days=back))
        services.rules.save(ann, Rule(0, "", "title:japan lang:en", star=True, tag="Japan"))
        services.rules.save(ann, Rule(0, "Live tickers", "title:/live.?ticker/", hide=True))
        services.indexing.run(NOW + dt.timedelta(days=3650), 60)
        _troubles(services, feeds)
        bob = add_user(services, "bob").user_id
        services.admin_accounts.create_invite(Actor(ann.user_id, Role.ADMIN))
        _keys_of_programs(services, ann)
        dead = operations.fill(services, NOW)
    return Demo(services, ann, feeds, folders, some[0], bob, dead)


def _follow(services: Services, ann: Actor, paths: tuple[str, ...], folder: int | None) -> dict[str, int]:
    names = [path.rpartition("/")[2].removesuffix(".xml") for path in paths]
    return dict(zip(names, follow(services, ann, paths, folder_id=folder), strict=True))


def _keys_of_programs(services: Services, ann: Actor) -> None:
    """An app that was used this morning, another for Fever, a script whose token ends."""
    user = services.gateways.accounts.find_user(ann.user_id)
    assert user is not None
    made = NOW - dt.timedelta(days=20)
    for n, (name, agent, more) in enumerate(
        (
            ("Weekly report", "", {"kind": TokenKind.API, "scopes": (Scope.READ, Scope.MARK)}),
            ("Unread on the tablet", "Unread/4.5", {"fever": True}),
            ("NetNewsWire", "NetNewsWire (RSS Reader; https://netnewswire.com/)", {}),
        )
    ):
        ends = made + dt.timedelta(days=90) if more.get("kind") is TokenKind.API else None
        new = Token(0, ann.user_id, TokenKind.APP, name, made + dt.timedelta(days=n), expires=ends)
        token, _ = services.gateways.tokens.make(dataclasses.replace(new, **more), user)
        if agent:
            services.mappers.tokens.touch(token.id, NOW - dt.timedelta(hours=30 // n**3), agent)


def _targets(services: Services, ann: Actor) -> None:
    """Let Ann send entries to two services; one responded, and the other didn't."""
    add, mapper = services.sending.add, services.mappers.targets
    links = add(ann, TargetKind.LINKDING, "https://links.example/", name="Bookmarks", secret="demo-token")
    phone = add(ann, TargetKind.NTFY, "https://ntfy.example/reading", on=[Occasion.STAR])
    mapper.record_result(ann.user_id, links.id, "", NOW)
    mapper.record_result(ann.user_id, phone.id, "unreachable", NOW)


def _lists(services: Services, ann: Actor) -> None:
    """Let Ann follow a list that a feed has left, and one that isn't there."""
    lists = services.gateways.followed_lists
    urls = [card.url for card in services.gateways.feeds.find_cards(_followed(services, ann)).values()][:3]
    one = lists.add(ann.user_id, "https://desk.example/reading-list.opml", "Colleagues", NOW)
    seen = one.note_success(list(map(hash_url, urls)), NOW)
    lists.lists.save(seen.note_success([hash_url(urls[0])], NOW))
    other = lists.add(ann.user_id, "https://blogs.example/feeds.opml", "Town blogs", NOW)
    lists.lists.save(other.note_failure("http_404", NOW))


def _followed(services: Services, ann: Actor) -> list[int]:
    return sorted(services.gateways.subscriptions.find_feed_ids(ann.user_id))


def _troubles(services: Services, feeds: dict[str, int]) -> None:
    """Two days of fetches of one feed, and another that has been failing for nine."""
    database = services.store.database
    # Its own title ends in a dash.
    world, failing = feeds["restofworld.org-e04770"], feeds["bbcurdu.com-ace121"]
    database["feeds"].update_one({"_id": world}, {"$set": {"title": "Rest of World"}})
    database["feeds"].update_one({"_id": failing}, {"$set": {"error": "http_503", "errors": 36}})
    ago = (NOW - dt.timedelta(hours=6 * n + 1) for n in reversed(range(36)))
    record_fetches(services, [FetchRecord(failing, at, 503, 340, 0, 0, "http_503") for at in ago])
    for n in reversed(range(60)):
        failed, changed = n % 17 == 9, n % 5 == 0
        record_fetches(
            services,
            [
                FetchRecord(
                    feeds["restofworld.org-e04770"],
                    NOW - dt.timedelta(minutes=37 * n + 5),
                    503 if failed else 200 if changed else 304,
                    120 + 37 * n % 200,
                    84_000 if changed else 0,
                    n % 3 if changed else 0,
                    "http_503" if failed else None,
                )
            ],
        )
