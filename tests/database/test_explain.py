"""Every query has an index, carries its shard key, and none sorts or scans more than it must."""

from __future__ import annotations

import contextlib
import datetime as dt
import hmac
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import monitoring
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.gateways.feeds.websubs import parse_intent
from app.mappers.mongo import indexes
from app.mappers.mongo.placement import PLACEMENTS, Home
from app.models.accounts.actor import Actor
from app.models.accounts.preferences import Preferences
from app.models.feeds.feed import FetchRecord, UnchangedPoll
from app.models.feeds.fetched import Fetched
from app.models.feeds.websub import HubAnnouncement, PushPullOutcome
from app.models.imports.imports import ItemChange, ItemState
from app.models.operations.feed_list import FeedOrder, FeedQuery
from app.models.reading.entry import EntryChange
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from tests.support.commands import add_listener
from tests.support.database import NOW, World, guid

Doc = dict[str, Any]
READS = ("find", "aggregate", "distinct", "count", "findAndModify", "update", "delete")
#: Collections that must be asked for by their key: giants are spread by it, cells are found by it.
KEYS = {name: key for name, (home, key) in PLACEMENTS.items() if home in (Home.GIANT, Home.CELL)}
#: Asked for on behalf of no user: by the feed, or because somebody waits.
OF_FEEDS = {"subscriptions": "feed_id", "imports": "state"}
USED = {"subscriptions", "folders", "marks", "snapshots", "undos", "removals", "tags", "searches"}
USED |= {"streamviews", "imports", "import_parts", "recentreads"}


class Recorder(monitoring.CommandListener):
    """Keeps every command that goes to MongoDB."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, Doc]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name in READS:
            self.commands.append((event.command_name, dict(event.command)))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


@pytest.fixture
def recorded(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, Recorder]]:
    """The same services once more, with every command of theirs kept."""
    found = Recorder()
    add_listener(monkeypatch, found)
    with contextlib.closing(bootstrap.build(services.settings)) as built:
        yield World(built), found


def use_everything(world: World, alice: Actor, bob: Actor) -> None:
    """Call every way of reading and writing at least once."""
    services = world.services
    reading, subscriptions, folders = services.reading, services.subscriptions, services.folders
    outer = folders.create(alice, "Outer")
    inner = folders.create(alice, "Inner", parent=outer.id)
    feeds = [world.feed(f"f{n}") for n in range(25)]
    for n, feed_id in enumerate(feeds):
        subscriptions.subscribe(alice, f"https://f{n}.example.org/feed", folder_id=inner.id)
        world.publish(feed_id, world.minutes(*range(n, n + 30)))
    subscriptions.subscribe(bob, "https://f0.example.org/feed")
    world.store(feeds[0], [], changed=[EntryChange(guid_hash=guid(1), title="x")])
    world.feeds.find_due(NOW, 10)
    world.feeds.record_unchanged([UnchangedPoll(FetchRecord(feeds[0], NOW, 304, 9000, 100), NOW)], NOW)
    services.gateways.feed_lists.list_feeds(FeedQuery(order=FeedOrder.SLOWEST), NOW, 10)
    subscriptions.get_health(alice, feeds[0])
    subscriptions.update(alice, feeds[0], title="Mine", folder_ids=[inner.id])
    subscriptions.refresh(alice)
    reading.get_tree(alice)
    for stream in ("all", f"feed/{feeds[0]}", f"folder/{outer.id}", "starred", "recent"):
        for sort in Sort:
            query = StreamQuery(StreamRef.parse(stream), sort, limit=5)
            page = reading.load_page(alice, query)
            if page.cursor:
                reading.load_page(alice, StreamQuery(query.ref, sort, page.cursor, page.snapshot, 5))
    page = reading.load_page(alice, StreamQuery(StreamRef.parse("all")))
    services.gateways.entries._shown.clear()
    reading.mark(alice, [page.rows[0].id], True)
    reading.mark(alice, [page.rows[0].id], False)
    reading.set_starred(alice, page.rows[1].id, True)
    reading.load_page(alice, StreamQuery(StreamRef.parse("starred")))
    reading.get_article(alice, page.rows[1].id)
    reading.load_page(alice, StreamQuery(StreamRef.parse("recent")))
    reading.count_newer(alice, page.snapshot)
    reading.undo_mass_mark(alice, reading.mark_all(alice, StreamRef.parse("all")).undo)
    mass = reading.mark_all(alice, StreamRef.parse(f"folder/{inner.id}"), snapshot=None)
    reading.load_page(alice, StreamQuery(StreamRef.parse("all"), limit=5))
    reading.undo_mass_mark(alice, mass.undo)
    reading.set_starred(alice, page.rows[1].id, False)
    use_search_and_tags(world, alice, page.rows[2].id)
    services.stream_views.set(alice, StreamRef.parse("all"), Preferences(), {"density": "card"})
    world.services.gateways.retention.apply_retention(feeds[0])
    world.feeds.move(feeds[1], "https://moved.example.org/feed")
    world.feeds.move(feeds[2], "https://f3.example.org/feed")
    world.feeds.claim([feeds[4]], "dead", NOW, 1)
    world.feeds.claim([feeds[4]], "next", NOW + dt.timedelta(seconds=2), 60)
    world.feeds.release("next", [feeds[4]])
    use_hubs(world, feeds[5])
    use_imports(world, alice)
    everything, usual = StreamRef.parse("all"), Preferences()
    services.stream_views.set(alice, everything, usual, {"view": "list"})
    services.stream_views.get(alice, everything, usual, {})
    folders.rename(alice, outer.id, "Other")
    folders.restore(alice, folders.delete(alice, outer.id))
    subscriptions.restore(alice, subscriptions.unsubscribe(alice, feeds[0]))


def use_search_and_tags(world: World, alice: Actor, entry_id: int) -> None:
    """Index, search in all ways, tag, rename, merge, delete, take back, forget."""
    reading, tags, indexing = world.services.reading, world.services.tags, world.services.indexing
    indexing.find_due_jobs(NOW)
    indexing.run(NOW, 30)
    reading.set_starred(alice, entry_id, True)
    one, two = tags.change_tags(alice, entry_id, add=["one", "two"])
    tagged = StreamRef(StreamKind.TAG, one.id)
    for text in ("entry", "entry text -none", '"entry 5"', "-none", "is:starred tag:one", "entry -tag:one"):
        for sort in Sort:
            query = StreamQuery(StreamRef(StreamKind.SEARCH, query=text), sort, limit=2)
            page = reading.load_page(alice, query)
            if page.cursor:
                reading.load_page(alice, StreamQuery(query.ref, sort, page.cursor, page.snapshot, 2))
    reading.undo_mass_mark(alice, reading.mark_all(alice, query.ref, snapshot=page.snapshot).undo)
    for sort in Sort:
        reading.load_page(alice, StreamQuery(tagged, sort))
    tags.rename(alice, one.id, "first")
    tags.merge(alice, one.id, two.id)
    tags.restore(alice, one.id)
    tags.delete(alice, two.id)
    world.services.gateways.tags.purge(alice.user_id, NOW + dt.timedelta(days=300))
    tags.change_tags(alice, entry_id, remove=[one.id])
    reading.set_starred(alice, entry_id, False)
    tags.save_search(alice, "", "entry")
    tags.delete_search(alice, tags.list_searches(alice)[0].id)


def use_imports(world: World, alice: Actor) -> None:
    """Let imports be previewed, chosen from, run, fail, be tried again, cancelled and forgotten."""
    services, gateway = world.services, world.services.gateways.imports
    body = services.imports.export(alice).replace(b"example.org", b"example.net")
    for number in range(20):
        kept = services.imports.preview(alice, body, f"{number}.opml")
    services.imports.choose_items(alice, kept.id, 0, [0, 1])
    services.imports.choose_all(alice, kept.id, True)
    services.imports.start(alice, kept.id)
    services.imports.find_active(alice)
    services.import_runner.find_due_jobs()
    begun = gateway.begin_run(alice.user_id, kept.id, "run", NOW)
    assert begun is not None
    failed = {0: ItemChange(ItemState.FAILED, "timeout", 1)}
    gateway.save_progress(begun, "run", begun.counts, failed, NOW, has_progressed=True)
    gateway.find_poll_results([1])
    services.imports.cancel(alice, kept.id)
    gateway.save_late_progress(begun, "run", failed, NOW)
    services.imports.retry(alice, kept.id, 0)
    services.imports.list_recent(alice)
    services.imports.export_failures(alice, kept.id, lambda item: item.error or "")
    services.imports.cancel(alice, kept.id)
    services.imports.remove(alice, kept.id)
    services.packs.list_packs(alice)
    services.packs.find_known(alice, services.packs.get(alice, "science").feeds)


def use_hubs(world: World, feed_id: int) -> None:
    """Let a hub be found, asked, confirm, push, be missed, refuse, and be left."""
    websubs, rows = world.services.gateways.websubs, world.services.mappers.websubs
    for number in range(30):
        rows.add(
            number + 1,
            "https://hub.example/",
            "https://t.example/",
            token=f"token{number}",
            secret="s",
            now=NOW,
        )
    heard = HubAnnouncement(feed_id, "https://hub.example/", "https://t.example/", 1)
    websubs.process_announcements([heard], NOW)
    row = rows.find_current([feed_id])[feed_id]
    websubs.find_due(NOW, 10)
    ask = websubs.begin_request(row.id, NOW)
    assert ask is not None
    websubs.end_request(ask, Fetched(ask.request, 202, ask.request.url), NOW)
    intent = {
        "hub.mode": "subscribe",
        "hub.topic": row.topic,
        "hub.challenge": "c",
        "hub.lease_seconds": "60",
    }
    websubs.answer_hub(row.token, parse_intent(intent), NOW)
    signature = hmac.new(row.secret.encode(), b"", "sha1").hexdigest()
    for _ in range(2):
        websubs.accept_push(row.token, f"sha1={signature}", bytes, NOW)
        begun = websubs.begin_pull(feed_id, NOW)
        assert begun is not None
        websubs.process_announcements([heard], NOW)
        websubs.end_pull(begun, PushPullOutcome.DONE, NOW)
    rows.trust_pushes(feed_id, NOW)
    websubs.process_announcements([heard], NOW)
    websubs.accept_push(row.token, "sha1=", bytes, NOW)
    websubs.find_push_source(feed_id, NOW + dt.timedelta(days=1), NOW)
    websubs.answer_hub(row.token, parse_intent(intent | {"hub.mode": "denied"}), NOW)
    websubs.begin_request(row.id, NOW + dt.timedelta(days=8))
    websubs.leave_hub(feed_id, NOW)
    rows.mark_ended(row.id, NOW)
    rows.remove(row.id)


def statements(name: str, command: Doc) -> list[tuple[str, Doc, Doc]]:
    """Return (collection, filter, explainable command) of each query in a command."""
    collection = command[name]
    if name in ("update", "delete"):
        key = "updates" if name == "update" else "deletes"
        return [(collection, s["q"], {name: collection, key: [s]}) for s in command[key]]
    keep = (
        "filter",
        "query",
        "sort",
        "projection",
        "hint",
        "limit",
        "pipeline",
        "update",
        "remove",
        "fields",
        "key",
    )
    plain = {name: collection, **{k: v for k, v in command.items() if k in keep}}
    if name == "aggregate":
        first = command["pipeline"][0]
        return [(collection, first.get("$match", {}), {**plain, "cursor": {}}), *_joined(command["pipeline"])]
    return [(collection, command.get("filter") or command.get("query") or {}, plain)]


def _joined(pipeline: list[Doc]) -> Iterator[tuple[str, Doc, Doc]]:
    """Yield what else a pipeline reads: parts of a union as commands of their own, and joins."""
    for stage in pipeline:
        if union := stage.get("$unionWith"):
            name, inner = union["coll"], union["pipeline"]
            yield name, inner[0].get("$match", {}), {"aggregate": name, "pipeline": inner, "cursor": {}}
        for join in filter(None, (stage.get("$lookup"), stage.get("$graphLookup"))):
            yield (
                join["from"],
                dict.fromkeys(["_id", *(f"{name}_id" for name in join.get("let", ()))]),
                {"find": join["from"], "limit": 1, "hint": "_id_"},
            )


def stages(plan: Any) -> Iterator[str]:
    """Yield the names of all stages of an explained plan."""
    if isinstance(plan, dict):
        if isinstance(plan.get("stage"), str):
            yield plan["stage"]
        for key, value in plan.items():
            if key != "rejectedPlans":
                yield from stages(value)
    elif isinstance(plan, list):
        for value in plan:
            yield from stages(value)


def test_every_query_uses_an_index_and_carries_its_shard_key(
    recorded: tuple[World, Recorder], alice: Actor, bob: Actor
) -> None:
    world, recorder = recorded
    with clock.set_source(lambda: NOW):
        use_everything(world, alice, bob)
    database: Database[Doc] = world.services.store.database
    seen = {s[0] for name, command in list(recorder.commands) for s in statements(name, command)}
    assert seen >= {"feeds", "entries", "index_state", "websubs", *USED}
    problems = []
    for name, command in list(recorder.commands):
        for collection, query, explainable in statements(name, command):
            found = set(stages(database.command("explain", explainable, verbosity="queryPlanner")))
            problems += [(collection, query, why) for why in judge(collection, query, found)]
    assert problems == []


def judge(collection: str, query: Doc, found: set[str]) -> Iterator[str]:
    if "COLLSCAN" in found:
        yield "scans the collection"
    if "SORT" in found and collection in ("entries", "marks", "websubs"):
        yield "sorts in memory"
    branches = [set(branch) for branch in query.get("$or", ())]
    keys = set(query) | (set.intersection(*branches) if branches else set())
    # Once an hour, the sweep of the search index walks the ids of all entries, and so all shards.
    is_sweep = set(query) == {"_id"} and isinstance(query["_id"], dict) and "$gt" in query["_id"]
    is_sweep = is_sweep and collection == "entries"
    if collection in KEYS and not keys & {KEYS[collection], OF_FEEDS.get(collection)} and not is_sweep:
        yield f"{collection} without {KEYS[collection]}"


def test_an_index_may_take_longer_to_build_than_a_statement(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []

    class Listener(Recorder):
        def started(self, event: monitoring.CommandStartedEvent) -> None:
            if event.command_name == "createIndexes":
                limits.append(event.command.get("maxTimeMS", 1 << 40))

    add_listener(monkeypatch, Listener())
    with contextlib.closing(bootstrap.build(services.settings)) as built:
        indexes.ensure_indexes(built.store.database)
    assert limits
    assert min(limits) > 3_600_000


def test_streams_read_keys_from_the_index_alone(world: World, alice: Actor, db: Database[Doc]) -> None:
    world.services.subscriptions.subscribe(alice, "https://one.example.org/feed")
    feed_id = world.feed("one")
    world.publish(feed_id, world.minutes(*range(300)))
    key = {"_id": 1, "feed_id": 1, "seq": 1, "at": 1}
    for sort in ([("at", -1), ("_id", -1)], [("at", 1), ("_id", 1)], None):
        cursor = (
            db["entries"].find({"feed_id": {"$in": [feed_id, 7]}, "at": {"$lte": NOW}}, key).hint("stream")
        )
        plan = (cursor.sort(sort) if sort else cursor).explain()
        assert {"FETCH", "SORT"}.isdisjoint(set(stages(plan)))
        assert plan["executionStats"]["totalDocsExamined"] == 0


def test_no_index_is_missing_and_making_them_again_changes_nothing(services: Services) -> None:
    assert indexes.find_missing_indexes(services.store.database) == []
    services.migrate()
    services.store.database["entries"].drop_index("stream")
    assert indexes.find_missing_indexes(services.store.database) == ["entries.stream"]
