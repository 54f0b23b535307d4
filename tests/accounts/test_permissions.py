"""Who may do what: every service method asks for a permission, and others' things are not found (W04)."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from app.bootstrap.services import Services
from app.errors import ForbiddenError, InvalidError, NotFoundError
from app.models.accounts import actor as actors
from app.models.accounts.actor import Actor, Role
from app.models.reading.stream import MarkResult, Sort, StreamKind, StreamQuery, StreamRef
from app.services.imports import imports, packs
from app.services.reading import reading
from app.services.subscriptions import folders, subscriptions
from tests.support.database import World

SERVICES = (
    reading.ReadingService,
    subscriptions.SubscriptionService,
    folders.FolderService,
    imports.ImportService,
    packs.PackService,
)


def public_methods(service: type) -> list[str]:
    return [n for n, f in vars(service).items() if inspect.isfunction(f) and not n.startswith("_")]


METHODS = [(service, name) for service in SERVICES for name in public_methods(service)]


@pytest.mark.parametrize(("service", "name"), METHODS, ids=lambda v: getattr(v, "__name__", v))
def test_every_service_method_first_asks_for_a_permission(service: type, name: str) -> None:
    source = ast.parse(textwrap.dedent(inspect.getsource(getattr(service, name))))
    function = next(n for n in ast.walk(source) if isinstance(n, ast.FunctionDef))
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    assert ast.unparse(body[0]).startswith("require_permission(actor, Permission.")


def test_no_service_method_does_anything_for_who_may_nothing(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(actors.GRANTS, Role.USER, frozenset())
    for part in (
        services.reading,
        services.subscriptions,
        services.folders,
        services.imports,
        services.packs,
    ):
        for name in public_methods(type(part)):
            method: Any = getattr(part, name)
            parameters = inspect.signature(method).parameters.values()
            required = [p.name for p in parameters if p.default is p.empty and p.name != "actor"]
            with pytest.raises(ForbiddenError):
                method(Actor(1), **dict.fromkeys(required))


class Theirs:
    """Ids that belong to Alice."""

    def __init__(self, world: World, alice: Actor) -> None:
        services = world.services
        self.feed = world.feed("alices")
        services.subscriptions.subscribe(alice, "https://alices.example.org/feed")
        self.folder = services.folders.create(alice, "Alice's").id
        world.publish(self.feed, world.minutes(1, 2, 3))
        page = services.reading.load_page(alice, StreamQuery(StreamRef.parse("all"), limit=2))
        self.entry, self.snapshot, self.cursor = page.rows[0].id, page.snapshot, page.cursor
        self.starred = page.rows[1].id
        services.reading.set_starred(alice, self.starred, True)
        gone = world.feed("gone")
        services.subscriptions.subscribe(alice, "https://gone.example.org/feed")
        self.unsubscribed = services.subscriptions.unsubscribe(alice, gone)
        self.deleted = services.folders.delete(alice, services.folders.create(alice, "Gone").id)
        self.imported = services.imports.preview(alice, services.imports.export(alice), "x").id
        self.undo = services.reading.mark_all(alice, StreamRef.parse("all")).undo

    @classmethod
    def again(cls, world: World, alice: Actor) -> Theirs:
        """Remove what the last call left of the feed and the folders, and make them anew."""
        services = world.services
        for feed in services.reading.get_tree(alice).feeds:
            services.subscriptions.unsubscribe(alice, feed.feed_id)
        for folder in services.folders.list_folders(alice):
            services.folders.delete(alice, folder.id)
        return cls(world, alice)


Call = Callable[[Services, Actor, Theirs], object]
CALLS: dict[str, Call] = {
    "read": lambda s, a, t: s.reading.get_article(a, t.entry),
    "read starred": lambda s, a, t: s.reading.get_article(a, t.starred),
    "mark": lambda s, a, t: s.reading.mark(a, [t.entry], True),
    "unread": lambda s, a, t: s.reading.mark(a, [t.entry], False),
    "star": lambda s, a, t: s.reading.set_starred(a, t.entry, True),
    "unstar": lambda s, a, t: s.reading.set_starred(a, t.starred, False),
    "feed page": lambda s, a, t: s.reading.load_page(a, StreamQuery(StreamRef.parse(f"feed/{t.feed}"))),
    "folder page": lambda s, a, t: s.reading.load_page(a, StreamQuery(StreamRef.parse(f"folder/{t.folder}"))),
    "snapshot": lambda s, a, t: s.reading.load_page(
        a, StreamQuery(StreamRef.parse("all"), Sort.UNREAD_ON_TOP, t.cursor, t.snapshot)
    ),
    "newer": lambda s, a, t: s.reading.count_newer(a, t.snapshot),
    "mark feed": lambda s, a, t: s.reading.mark_all(a, StreamRef.parse(f"feed/{t.feed}")),
    "mark folder": lambda s, a, t: s.reading.mark_all(a, StreamRef.parse(f"folder/{t.folder}")),
    "mark by snapshot": lambda s, a, t: s.reading.mark_all(a, StreamRef.parse("all"), snapshot=t.snapshot),
    "undo": lambda s, a, t: s.reading.undo_mass_mark(a, t.undo),
    "subscription": lambda s, a, t: s.subscriptions.get(a, t.feed),
    "unsubscribe": lambda s, a, t: s.subscriptions.unsubscribe(a, t.feed),
    "subscribe again": lambda s, a, t: s.subscriptions.restore(a, t.unsubscribed),
    "restore folder": lambda s, a, t: s.folders.restore(a, t.deleted),
    "edit": lambda s, a, t: s.subscriptions.update(a, t.feed, title="Bob's"),
    "refresh": lambda s, a, t: s.subscriptions.refresh(a, t.feed),
    "health": lambda s, a, t: s.subscriptions.get_health(a, t.feed),
    "into folder": lambda s, a, t: s.subscriptions.subscribe(a, "https://b.example.org/", folder_id=t.folder),
    "rename": lambda s, a, t: s.folders.rename(a, t.folder, "Bob's"),
    "delete": lambda s, a, t: s.folders.delete(a, t.folder),
    "import": lambda s, a, t: s.imports.get(a, t.imported),
    "choose": lambda s, a, t: s.imports.choose_items(a, t.imported, 0, []),
    "choose all": lambda s, a, t: s.imports.choose_all(a, t.imported, True),
    "remove import": lambda s, a, t: s.imports.remove(a, t.imported),
    "inside": lambda s, a, t: s.folders.create(a, "Bob's", parent=t.folder),
}


@pytest.mark.parametrize("neighbour", [False, True], ids=["stranger", "with feeds of his own"])
def test_W04_what_is_anothers_is_not_found(world: World, alice: Actor, bob: Actor, neighbour: bool) -> None:
    theirs = Theirs(world, alice)
    if neighbour:
        world.services.subscriptions.subscribe(bob, "https://bobs.example.org/feed")
        world.publish(world.feed("bobs"), world.minutes(1))
    before = _state(world.services, alice)
    for what, call in CALLS.items():
        try:
            answer = call(world.services, bob, theirs)
        except NotFoundError:
            continue
        # What is gone is read: the same answer as for what is another's, and nothing happens.
        if answer != MarkResult({}):
            pytest.fail(f"{what}: {answer}")
    assert _state(world.services, alice) == before


def test_W04_the_owner_may_do_all_of_it(world: World, alice: Actor) -> None:
    for what, call in CALLS.items():
        if what not in ("unsubscribe", "delete"):
            fresh = Theirs.again(world, alice)
            call(world.services, alice, fresh)


def _state(services: Services, who: Actor) -> object:
    """What another's call must not change."""
    page = services.reading.load_page(who, StreamQuery(StreamRef.parse("all")))
    return services.reading.get_tree(who), page.rows, services.folders.list_folders(who)


IDS: list[Any] = [{"$ne": None}, {"$gt": 0}, "1", "abc", None, 0, -1, 1 << 53, 1.5, True, [1], b"1"]


def test_W15_ids_that_are_no_ids_never_reach_the_store(services: Services, alice: Actor) -> None:
    calls: list[Callable[[Any], object]] = [
        lambda value: services.reading.get_article(alice, value),
        lambda value: services.reading.mark(alice, [value], True),
        lambda value: services.reading.set_starred(alice, value, True),
        lambda value: services.subscriptions.get(alice, value),
        lambda value: services.subscriptions.unsubscribe(alice, value),
        lambda value: services.subscriptions.update(alice, value, title="x"),
        lambda value: services.subscriptions.update(alice, 1, folder_ids=[value]),
        lambda value: services.subscriptions.get_health(alice, value),
        lambda value: services.imports.get(alice, value),
        lambda value: services.imports.start(alice, value),
        lambda value: services.imports.retry(alice, value),
        lambda value: services.folders.rename(alice, value, "x"),
        lambda value: services.folders.delete(alice, value),
        lambda value: services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, value))),
    ]
    for call in calls:
        for value in IDS:
            with pytest.raises(InvalidError):
                call(value)


TEXTS: list[Any] = [{"$ne": None}, {"$where": "1"}, ["x"], 5, "x" * 5000]


def test_W15_texts_that_are_no_texts_never_reach_the_store(services: Services, alice: Actor) -> None:
    everything, reading = StreamRef(StreamKind.ALL), services.reading
    calls: list[Callable[[Any], object]] = [
        lambda value: reading.count_newer(alice, value),
        lambda value: reading.undo_mass_mark(alice, value),
        lambda value: services.subscriptions.restore(alice, value),
        lambda value: services.folders.restore(alice, value),
        lambda value: reading.mark_all(alice, everything, snapshot=value),
        lambda value: reading.load_page(alice, StreamQuery(everything, cursor=value, snapshot="x")),
        lambda value: reading.load_page(alice, StreamQuery(everything, cursor="a.1.1.1", snapshot=value)),
        lambda value: services.subscriptions.subscribe(alice, value),
        lambda value: services.subscriptions.subscribe(alice, "https://x.example.org/", title=value),
        lambda value: services.folders.create(alice, value),
        lambda value: services.packs.get(alice, value),
        lambda value: services.imports.start(alice, 1, keep_folders=False, into=value),
        StreamRef.parse,
    ]
    for call in calls:
        for value in TEXTS:
            with pytest.raises(InvalidError):
                call(value)


def test_a_page_has_a_sane_number_of_rows(services: Services, alice: Actor) -> None:
    limits: list[Any] = [0, -1, 1001, "5", 2.5]
    for limit in limits:
        with pytest.raises(InvalidError):
            services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.ALL), limit=limit))
