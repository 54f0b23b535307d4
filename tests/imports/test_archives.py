"""Archives of other readers: what they bring, what they can't do, and limits (security.md V23)."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from app import clock
from app.bootstrap.services import Services
from app.errors import EventrError, InvalidError, TooLargeError
from app.feeds.archives import json_rows
from app.feeds.archives.archive import is_archive, open_archive
from app.feeds.archives.unpack import Limits
from app.mappers.imports.imports import PART
from app.models.accounts.actor import Actor
from app.models.imports.archives import ArchiveKind, SavedEntry
from app.models.imports.imports import Import, ImportState
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue
from app.models.reading.notes import QUOTES_MAX, Color, Quote
from app.models.reading.rules import Rule
from app.models.reading.saved import NewPage
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from tests.imports import archives as samples
from tests.imports.archives import HOST, google_item, zipped
from tests.imports.test_imports import Pulling, listed, run
from tests.support.reader import add_user, document_count

ROOMY = Limits()


def feed(name: str, count: int = 4, *, guids: bool = True, scheme: str = "https") -> bytes:
    """Return a feed whose entries have the guids and links that the archives name."""
    items = "".join(
        f"<item><title>{name} {n}</title><link>{HOST.replace('https', scheme)}/{name}/{n}</link>"
        + (f"<guid isPermaLink='false'>guid-{name}-{n}</guid>" if guids else "")
        + f"<pubDate>Mon, {10 + n} May 2027 10:00:00 GMT</pubDate></item>"
        for n in range(count)
    )
    return f"<rss version='2.0'><channel><title>Feed {name}</title>{items}</channel></rss>".encode()


def imported(
    services: Services, who: Actor, body: bytes, bodies: dict[str, bytes], name: str = "x"
) -> Import:
    """Upload an archive, import everything in it, and return the import."""
    kept = services.imports.preview(who, body, name)
    run(services, services.imports.start(who, kept.id), Pulling(services, bodies))
    return services.imports.get(who, kept.id)


def entries(file: bytes, limits: Limits = ROOMY) -> list[SavedEntry]:
    return list(open_archive(io.BytesIO(file), limits).iter_entries())


class Reader:
    """What a user has, by the titles of entries."""

    def __init__(self, services: Services, who: Actor) -> None:
        self._database, self._who, self._services = services.store.database, who, services

    def _marks(self, field: str) -> dict[str, Any]:
        marks = self._database["marks"].find({"user_id": self._who.user_id, field: {"$exists": True}})
        return {self._title(mark["entry_id"]): mark[field] for mark in marks}

    def _title(self, entry_id: int) -> str:
        doc = self._database["entries"].find_one({"_id": entry_id})
        assert doc is not None
        return str(doc["title"])

    @property
    def starred(self) -> dict[str, Any]:
        return self._marks("starred_at")

    @property
    def tags(self) -> dict[str, set[str]]:
        names = {tag.id: tag.name for tag in self._services.tags.list_tags(self._who)}
        return {title: {names[tag] for tag in tags} for title, tags in self._marks("tags").items()}

    @property
    def unread(self) -> set[str]:
        docs = list(self._database["entries"].find({}, {"title": 1}))
        states = self._services.reading.find_read_states(self._who, [doc["_id"] for doc in docs])
        return {str(doc["title"]) for doc in docs if states.get(doc["_id"]) is False}


@pytest.fixture
def mine(services: Services, alice: Actor) -> Reader:
    return Reader(services, alice)


# -- what each brings


def test_ttrss_brings_published_articles_as_a_tag_and_notes(
    services: Services, alice: Actor, mine: Reader
) -> None:
    """Booleans are 1 and 0 in one plugin, and true and false, or t and f, in others."""
    articles = [
        samples.ttrss_article("a", 0) | {"note": " Why it matters \n", "published": "t"},
        samples.ttrss_article("a", 1, marked="0", labels='[[-11,"Later","",""]]') | {"published": "1"},
        samples.ttrss_article("a", 2) | {"published": "f", "note": "0"},
    ]
    done = imported(services, alice, samples.ttrss(articles), {f"{HOST}/a": feed("a", 3)})
    assert mine.tags == {"a 0": {"Shared"}, "a 1": {"Later", "Shared"}}
    notes = {one.title: one.note.text for one in services.notes.list_notes(alice)}
    assert notes == {"a 0": "Why it matters", "a 2": "0"}
    assert dict(done.marks) == {"starred": 2, "tagged": 2, "noted": 2}


@pytest.mark.parametrize("packed", [False, True])
def test_ttrss_export_without_its_end_is_complete_after_its_last_article(packed: bool) -> None:
    """The plugin leaves it out if the number of articles is a multiple of its page."""
    whole = samples.ttrss([samples.ttrss_article("a", number) for number in range(250)])
    body = whole.removesuffix(b"</articles>") + b"\n"
    file = io.BytesIO(samples.gzipped(body) if packed else body)
    assert len(list(open_archive(file, Limits()).iter_entries())) == 250
    cut = io.BytesIO(body[:-20])
    with pytest.raises(InvalidError, match="damaged"):
        list(open_archive(cut, Limits()).iter_entries())


@pytest.mark.parametrize("count", [0, 10, 249, 251])
def test_ttrss_export_cut_off_between_two_articles_is_damaged(count: int) -> None:
    whole = samples.ttrss([samples.ttrss_article("a", number) for number in range(count)])
    cut = io.BytesIO(whole.removesuffix(b"</articles>"))
    with pytest.raises(InvalidError, match="damaged"):
        list(open_archive(cut, Limits()).iter_entries())


def test_a_title_that_recurs_in_another_part_of_an_archive_finds_no_entry(
    services: Services, alice: Actor, mine: Reader
) -> None:
    read = {"marked": "0", "unread": "0"}
    rows = [samples.ttrss_article("a", number) | {"marked": "0", "unread": "1"} for number in range(PART)]
    for number, title in ((PART, "Daily"), (PART + 1, "Once")):
        rows.append(samples.ttrss_article("a", number) | read | {"link": HOST, "title": title})
    rows.insert(0, samples.ttrss_article("a", PART + 2) | read | {"link": HOST, "title": "Daily"})
    items = "".join(
        f"<item><title>{title}</title><guid>x{title}</guid></item>" for title in ("Daily", "Once")
    )
    body = f"<rss version='2.0'><channel><title>A</title>{items}</channel></rss>".encode()
    done = imported(services, alice, samples.ttrss(rows), {f"{HOST}/a": body})
    assert done.marks == {"read": 1, "missing": PART + 2}
    assert mine.unread == {"Daily"}


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
def test_freshrss_brings_folders_stars_labels_and_read_states(
    services: Services, alice: Actor, mine: Reader, old: bool
) -> None:
    def item(*args: Any, **more: Any) -> dict[str, Any]:
        return google_item(*args, old=old, **more)

    body = samples.freshrss(
        {"a": ("News", "Daily"), "b": ()},
        [
            item("a", 1, starred=True, labels=["To Do", "Später"]),
            item("a", 99, starred=True),
            item("gone", 1, starred=True, feed=""),
        ],
        {
            "a": [item("a", 0, read=True), item("a", 1, starred=True), item("a", 2), item("a", 3, read=True)],
            "b": [item("b", 0, labels=["To Do"])],
        },
    )
    kept = services.imports.preview(alice, body, "freshrss.zip")
    assert kept.counts == {"waiting": 2}
    assert kept.marks == {"waiting": 7}
    run(
        services,
        services.imports.start(alice, kept.id),
        Pulling(services, {f"{HOST}/a": feed("a"), f"{HOST}/b": feed("b", guids=False)}),
    )
    done = services.imports.get(alice, kept.id)
    assert done.state is ImportState.DONE
    assert done.marks == {"starred": 3, "tagged": 2, "read": 2, "pages": 2}
    assert set(mine.starred) == {"a 1", "a 99", "gone 1"}
    assert mine.tags == {"a 1": {"To Do", "Später"}, "b 0": {"To Do"}}
    assert {title for title in mine.unread if title.startswith("a")} == {"a 1", "a 2", "a 99"}
    assert {folder.name for folder in services.folders.list_folders(alice)} == {"News", "Daily"}
    assert services.store.database["import_marks"].count_documents({}) == 0


@pytest.mark.parametrize("packed", [False, True])
def test_ttrss_brings_feeds_stars_and_labels(
    services: Services, alice: Actor, mine: Reader, packed: bool
) -> None:
    article = samples.ttrss_article
    body = samples.ttrss(
        [
            article("a", 1, labels='[[-1025,"Work","#fff","#000"],[-1026,"Later","",""]]'),
            article("a", 2, labels='{"no-labels":1}'),
            article("a", 3, marked="0", labels='[[-1025,"Work","",""]]'),
            article("x", 4, feed=False),
        ]
    )
    body = samples.gzipped(body) if packed else body
    # The site has moved to https since.
    done = imported(services, alice, body, {f"{HOST}/a": feed("a", scheme="http")})
    assert done.counts == {"added": 1}
    assert done.marks == {"starred": 3, "tagged": 2, "pages": 1}
    assert set(mine.starred) == {"a 1", "a 2", "x 4"}
    assert mine.tags == {"a 1": {"Work", "Later"}, "a 3": {"Work"}}
    for subscription in services.gateways.subscriptions.find_by_user(alice.user_id):
        assert subscription.title == ""  # equal to the feed's own


def test_addresses_and_labels_of_old_freshrss_are_unescaped() -> None:
    item = google_item("a", 1, old=True, labels=["Q&amp;A"], feed="https://a.example/?x=1&amp;copy=2")
    (found,) = entries(samples.google_json("starred", [item]).encode())
    assert (found.feed_url, found.tags) == ("https://a.example/?x=1&copy=2", ("Q&A",))


def test_ttrss_data_migration_brings_read_states_as_well(
    services: Services, alice: Actor, mine: Reader
) -> None:
    articles = [
        {**samples.ttrss_article("a", n, labels='[[-1025,"Work","",""]]' if n == 1 else ""), "unread": n % 2}
        for n in range(4)
    ]
    for number, article in enumerate(articles):
        article |= {"marked": int(number == 3), "feed_title": "Feed a", "note": None, "label_cache": None} | (
            {"label_cache": article["label_cache"]} if number == 1 else {}
        )
    done = imported(services, alice, samples.ttrss_zip(articles, 3), {f"{HOST}/a": feed("a")})
    assert done.marks == {"starred": 1, "tagged": 1, "read": 2}
    assert set(mine.starred) == {"a 3"}
    assert mine.tags == {"a 1": {"Work"}}
    assert mine.unread == {"a 1", "a 3"}


def test_zip_of_a_ttrss_export_is_read(services: Services, alice: Actor, mine: Reader) -> None:
    body = zipped({"folder/TinyTinyRSS_exported.xml": samples.ttrss([samples.ttrss_article("a", 1)])})
    assert imported(services, alice, body, {f"{HOST}/a": feed("a")}).marks == {"starred": 1}
    assert set(mine.starred) == {"a 1"}


def _check_choices(services: Services, alice: Actor, bob: Actor) -> None:
    """Compare rules, searches and settings of feeds of two people."""
    assert services.rules.export(bob) == services.rules.export(alice)
    assert len(services.rules.export(bob)["rules"]) == 2
    searches = [
        [(one.name, one.query, one.notify) for one in services.tags.list_searches(who)]
        for who in (alice, bob)
    ]
    assert searches[0] == searches[1]
    for one in services.gateways.subscriptions.find_by_user(alice.user_id):
        if services.gateways.feeds.find_cards([one.feed_id])[one.feed_id].saved:
            continue
        theirs = services.subscriptions.get(bob, one.feed_id)
        for name in ("muted", "notify", "read_after", "keep_newest", "private", "full_text", "paused"):
            assert getattr(theirs, name) == getattr(one, name), name


def _share_to(services: Services, reader: Actor) -> int:
    """Return the id of a public share of a person whom a reader follows."""
    cleo = add_user(services, "cleo")
    imported(services, cleo, listed(("c", ())), {f"{HOST}/c": feed("c")})
    found = services.store.database["entries"].find_one({"title": "c 1"})
    assert found is not None
    services.following.update_profile(
        cleo, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    services.following.follow(reader, "cleo")
    return services.sharing.share(cleo, found["_id"], audience=Audience.PUBLIC).share.id


def _find_hidden(services: Services, who: Actor) -> set[str]:
    """Return the titles of the entries that are hidden from somebody's lists."""
    return {
        entry.title
        for one in services.gateways.subscriptions.find_by_user(who.user_id)
        for entry in services.mappers.entries.find_range(one.feed_id, 0, 1 << 40, 1000)
        if one.hidden.has_seq(entry.seq)
    }


def test_hidden_entries_of_an_own_export_are_hidden_and_read_again(services: Services, bob: Actor) -> None:
    """A feed that has lost an entry since then needs nothing hidden, so it isn't counted as missing."""
    rows = [
        {"link": f"{HOST}/a/{n}", "title": f"a {n}", "hidden": True, "feed": {"address": f"{HOST}/a"}}
        for n in (1, 77)
    ]
    rows.append({"link": f"{HOST}/a/2", "hidden": "yes", "read": False, "feed": {"address": f"{HOST}/a"}})
    file = zipped({"subscriptions.opml": listed(("a", ())), "hidden.json": json.dumps(rows)})
    done = imported(services, bob, file, {f"{HOST}/a": feed("a")}, "eventr.zip")
    assert done.marks == {"hidden": 1}
    assert _find_hidden(services, bob) == {"a 1"}
    assert Reader(services, bob).unread == {"a 0", "a 2", "a 3"}


def test_what_was_only_hidden_and_has_no_feed_is_left_out(services: Services, bob: Actor) -> None:
    """Entries of people's streams and hidden pages: the person didn't want to see them again."""
    link = "https://pages.example"
    cleo = {"title": "Cleo", "address": None}
    hidden = [
        {"link": f"{link}/9", "title": "hidden share", "hidden": True, "feed": cleo},
        {"link": f"{link}/1", "title": "a page", "hidden": True, "feed": cleo},
        {"link": f"{link}/2", "title": "starred", "hidden": True, "feed": cleo},
    ]
    saved = [{"link": f"{link}/1", "title": "a page"}]
    starred = [{"link": f"{link}/2", "title": "starred", "starred": "2026-01-02T03:04:05Z", "feed": cleo}]
    lists = {"hidden.json": hidden, "saved.json": saved, "starred.json": starred}
    file = zipped({name: json.dumps(rows) for name, rows in lists.items()})
    assert services.imports.preview(bob, file, "eventr.zip").marks == {"waiting": 2}
    done = imported(services, bob, file, {}, "eventr.zip")
    assert done.marks == {"pages": 2, "starred": 1}
    assert Reader(services, bob).unread == {"a page", "starred"}


def test_own_export_brings_everything_back(services: Services, bob: Actor) -> None:
    alice = add_user(services, "ann")
    bodies = {f"{HOST}/{name}": feed(name) for name in ("a", "b")}
    imported(services, alice, listed(("a", ("News",)), ("b", ())), bodies)
    ids = {str(doc["title"]): doc["_id"] for doc in services.store.database["entries"].find()}
    then = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    with clock.set_source(lambda: then):
        services.reading.set_starred(alice, ids["a 1"], True)
    services.tags.change_tags(alice, ids["b 2"], add=["One", "Two"])
    services.reading.mark(alice, [ids["a 0"], ids["b 3"]], True)
    services.hiding.hide_entry(alice, ids["a 3"])
    services.notes.set_text(alice, ids["a 2"], "Why this matters")
    services.notes.add_quote(
        alice, ids["b 1"], exact="b 1", prefix="before it", suffix="after it", color="pink", note="so"
    )
    feed_id = services.gateways.saved_pages.prepare_feed(alice.user_id, "Saved", clock.now())
    pages = [NewPage("https://pages.example/1", "A page", at=then)]
    (page,) = services.gateways.saved_pages.save(feed_id, pages, clock.now())
    services.notes.set_text(alice, page.entry_id, "On the page")
    services.hiding.hide_entry(alice, _share_to(services, alice))
    mine = services.gateways.subscriptions.find_feed_ids(alice.user_id)
    feeds = {card.url: card.id for card in services.gateways.feeds.find_cards(list(mine)).values()}
    services.subscriptions.update(
        alice, feeds[f"{HOST}/a"], hidden=True, notify=True, read_after=9, keep_newest=40
    )
    services.sharing.set_feed_private(alice, feeds[f"{HOST}/b"], True)
    search = services.tags.save_search(alice, "Art", "art in:title")
    services.tags.set_search_notify(alice, search.id, True)
    rule = Rule(0, "Read it", "weather", read=True, feeds=(feeds[f"{HOST}/a"],))
    services.rules.save(alice, rule)
    services.rules.save(alice, Rule(0, "Star it", "sun", star=True))
    assert services.gateways.personal_exports.request_export(alice.user_id, clock.now())
    assert services.personal_exports.run(alice.user_id) == {"state": "ready"}
    made = services.personal_exports.find_latest(alice)
    assert made is not None
    file = b"".join(services.gateways.personal_exports.iter_parts(made))
    done = imported(services, bob, file, bodies, "eventr.zip")
    assert done.marks == {"starred": 1, "tagged": 1, "read": 3, "noted": 3, "pages": 1, "hidden": 1}
    theirs = Reader(services, bob)
    assert _find_hidden(services, bob) == {"a 3"}
    # The list has Cleo as well, so her share comes with her stream.
    assert services.following.get_person(bob, "cleo").tie.follows
    assert theirs.unread == {"a 1", "a 2", "b 0", "b 1", "b 2", "A page", "c 1"}
    notes = {one.title: one.note for one in services.notes.list_notes(bob)}
    assert {title: note.text for title, note in notes.items()} == {
        "a 2": "Why this matters",
        "b 1": "",
        "A page": "On the page",
    }
    (quote,), was = notes["b 1"].quotes, services.notes.get_note(alice, ids["b 1"])
    assert was is not None
    # The file has whole seconds.
    assert quote._replace(id="") == was.quotes[0]._replace(id="", at=was.quotes[0].at.replace(microsecond=0))
    _check_choices(services, alice, bob)
    services.tags.save_search(bob, "Art", "my own")
    services.subscriptions.update(bob, feeds[f"{HOST}/a"], read_after=3)
    again = imported(services, bob, file, bodies, "eventr.zip")
    (kept,) = services.tags.list_searches(bob)
    assert kept.query == "my own"
    assert services.subscriptions.get(bob, feeds[f"{HOST}/a"]).read_after == 3
    services.subscriptions.update(bob, feeds[f"{HOST}/a"], read_after=9)
    services.tags.save_search(bob, "Art", "art in:title")
    _check_choices(services, alice, bob)
    assert {one.title: one.note for one in services.notes.list_notes(bob)} == notes
    assert again.marks == done.marks
    assert theirs.starred == {"a 1": then}
    assert theirs.tags == {"b 2": {"One", "Two"}}
    assert [folder.name for folder in services.folders.list_folders(bob)] == ["News"]


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (
            samples.pocket_csv(["https://a.example/1", "javascript:alert(1)"]).encode(),
            ArchiveKind.POCKET,
            [SavedEntry(link="https://a.example/1", read=True, tags=("a", "b"))],
        ),
        (
            zipped({"pocket/part_000000.csv": samples.pocket_csv(["https://a.example/1"])}),
            ArchiveKind.POCKET,
            [SavedEntry(link="https://a.example/1", read=True, tags=("a", "b"))],
        ),
        (
            samples.POCKET_HTML.encode(),
            ArchiveKind.POCKET,
            [
                SavedEntry(link="https://a.example/1", read=False),
                SavedEntry(link="https://a.example/2", read=True, tags=("tag1", "tag2")),
            ],
        ),
        (
            samples.INSTAPAPER[0].encode(),
            ArchiveKind.INSTAPAPER,
            [
                SavedEntry(link="https://a.example/1", read=True),
                SavedEntry(link="https://a.example/2", read=False),
            ],
        ),
        (
            b"\xef\xbb\xbf" + samples.INSTAPAPER[1].replace("\n", "\r\n").encode(),
            ArchiveKind.INSTAPAPER,
            [
                SavedEntry(link="https://a.example/1", read=True, starred=True, tags=("coding",)),
                SavedEntry(link="https://a.example/2", read=False),
            ],
        ),
    ],
    ids=["pocket-csv", "pocket-zip", "pocket-html", "instapaper-old", "instapaper"],
)
def test_pages_without_a_feed_are_read(
    services: Services, alice: Actor, body: bytes, kind: ArchiveKind, expected: Sequence[SavedEntry]
) -> None:
    assert open_archive(io.BytesIO(body), Limits()).kind is kind
    assert entries(body) == list(expected)
    assert services.imports.preview(alice, body, "x").marks == {"waiting": len(expected)}


def test_archive_beside_a_list_counts_its_pages(services: Services, alice: Actor) -> None:
    body = zipped({"list.opml": listed(("a", ())), "part_0.csv": samples.pocket_csv(["https://a.example/"])})
    assert services.imports.preview(alice, body, "x").marks == {"waiting": 1}


def test_texts_of_archives_are_in_no_entry_of_a_feed(services: Services, alice: Actor) -> None:
    """An entry belongs to all readers of its feed: nobody may write into it (V23).

    What becomes of them: ``test_archive_texts.py``.
    """
    body = samples.freshrss({"a": ()}, [google_item("a", 1, starred=True)], {"a": [google_item("a", 2)]})
    imported(services, alice, body, {f"{HOST}/a": feed("a")})
    imported(services, alice, samples.ttrss([samples.ttrss_article("a", 3)]), {f"{HOST}/a": feed("a")})
    for name in services.store.database.list_collection_names():
        for doc in services.store.database[name].find():
            assert "alert(" not in repr(doc), name


# -- applying marks


def test_marks_are_applied_to_feeds_that_one_already_has(
    services: Services, alice: Actor, mine: Reader
) -> None:
    bodies = {f"{HOST}/a": feed("a")}
    imported(services, alice, listed(("a", ())), bodies)
    body = samples.freshrss({"a": ()}, [google_item("a", 1, starred=True)], {})
    kept = services.imports.preview(alice, body, "x")
    assert kept.counts == {"already": 1}
    page = services.imports.start(alice, kept.id)
    assert page.goal == 0
    run(services, page, Pulling(services, {}))
    assert services.imports.get(alice, kept.id).marks == {"starred": 1}
    assert set(mine.starred) == {"a 1"}


def test_marks_of_feeds_that_were_not_chosen_are_missing(
    services: Services, alice: Actor, mine: Reader
) -> None:
    body = samples.freshrss(
        {"a": (), "b": ()}, [google_item("a", 1, starred=True), google_item("b", 1, starred=True)], {}
    )
    kept = services.imports.preview(alice, body, "x")
    services.imports.choose_items(alice, kept.id, 0, [0])
    run(services, services.imports.start(alice, kept.id), Pulling(services, {f"{HOST}/a": feed("a")}))
    assert services.imports.get(alice, kept.id).marks == {"starred": 1, "missing": 1}
    assert set(mine.starred) == {"a 1"}


@pytest.mark.parametrize("after", [0, 1, 2])
def test_run_that_dies_while_it_marks_is_finished_by_the_next(
    services: Services, alice: Actor, mine: Reader, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    count = 600  # three parts
    body = samples.freshrss(
        {"a": ()}, [google_item("a", n, starred=True) for n in range(count)], {"a": [google_item("a", 0)]}
    )
    started = services.imports.start(alice, services.imports.preview(alice, body, "x").id)
    calls = []
    whole = services.gateways.changes.record_changes

    def die(*args: Any, **more: Any) -> None:
        whole(*args, **more)
        calls.append(args)
        if len(calls) == after + 1:
            raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(services.gateways.changes, "record_changes", die)
        with pytest.raises(OSError):
            run(services, started, Pulling(services, {f"{HOST}/a": feed("a", 3)}))
    run(services, started, Pulling(services, {}), "next")
    done = services.imports.get(alice, started.id)
    assert done.state is ImportState.DONE
    assert done.marks == {"starred": count, "pages": count - 3}
    assert len(mine.starred) == count


def test_canceled_import_keeps_its_marks_until_it_is_resumed(
    services: Services, alice: Actor, mine: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = samples.freshrss({"a": ()}, [google_item("a", 1, starred=True)], {})
    started = services.imports.start(alice, services.imports.preview(alice, body, "x").id)
    find = services.gateways.archives.find_feeds

    def cancel(one: Import) -> dict[str, int]:
        found = find(one)
        services.imports.cancel(alice, one.id)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(services.gateways.archives, "find_feeds", cancel)
        run(services, started, Pulling(services, {f"{HOST}/a": feed("a")}))
    left = services.imports.get(alice, started.id)
    assert (left.state, left.marks) == (ImportState.CANCELLED, {"waiting": 1})
    run(services, services.imports.resume(alice, started.id), Pulling(services, {}), "next")
    assert services.imports.get(alice, started.id).marks == {"starred": 1}


def test_tags_beyond_the_limits_are_left_out(services: Services, alice: Actor, mine: Reader) -> None:
    labels = [f"Label {n}" for n in range(services.settings.tags_per_entry + 5)]
    body = samples.freshrss({"a": ()}, [google_item("a", 1, labels=[*labels, "x" * 200, " , "])], {})
    imported(services, alice, body, {f"{HOST}/a": feed("a")})
    assert mine.tags == {"a 1": set(labels[: services.settings.tags_per_entry])}


def test_halves_of_characters_in_archives_are_replaced(
    services: Services, alice: Actor, mine: Reader
) -> None:
    item = google_item("a", 1, starred=True, labels=["Half\ud83d", "Whole😀", "\\ud83d"]) | {
        "author": "\udc00"
    }
    imported(services, alice, samples.freshrss({"a": ()}, [item], {}), {f"{HOST}/a": feed("a")})
    assert mine.tags == {"a 1": {"Half\ufffd", "Whole😀", "\\ud83d"}}


def test_marks_of_one_entry_in_many_rows_fit_into_one_document(services: Services) -> None:
    at = clock.now()
    rows = [
        SavedEntry(
            HOST, "one", tags=(f"tag {n}",), quotes=(Quote("", f"{n}" * 4, "", "", Color.YELLOW, "", at),)
        )
        for n in range(3000)
    ]
    (row,) = services.gateways.archives.build_contents([], rows).marks
    assert len(row.entry.quotes) == QUOTES_MAX
    assert len(row.entry.tags) == services.settings.tags_per_entry


def test_deleted_import_and_deleted_account_leave_no_marks(
    services: Services, alice: Actor, bob: Actor
) -> None:
    body = samples.freshrss({"a": ()}, [google_item("a", 1, starred=True)], {})
    services.imports.remove(alice, services.imports.preview(alice, body, "x").id)
    assert document_count(services.store.database)["import_marks"] == 0
    services.imports.preview(bob, body, "x")
    services.mappers.erasure.erase(bob.user_id, clock.now())
    assert document_count(services.store.database)["import_marks"] == 0


# -- limits and damage (V23)

_LIMITS = Limits(members=10, bytes=1 << 20, ratio=100, entries=5)


def _refuse(body: bytes, limits: Limits = _LIMITS) -> EventrError:
    with pytest.raises(EventrError) as refused:
        entries(body, limits)
    assert isinstance(refused.value, InvalidError | TooLargeError), refused.value
    return refused.value


def test_V23_bomb_is_refused_before_it_is_unpacked() -> None:
    body = zipped({"starred_1.json": b"[" + b" " * (20 << 20)})
    assert "unpacks to more data" in _refuse(body).message


def test_V23_bomb_that_lies_about_its_size_is_refused_while_it_is_unpacked() -> None:
    text = '{"id": "user/", "items": [' + " " * (8 << 20)
    body = zipped({"starred_1.json": text})
    # The sizes in both headers say: 100 bytes.
    real = struct.pack("<L", len(text))
    assert body.count(real) == 2
    changed = body.replace(real, struct.pack("<L", 100))
    error = _refuse(changed)
    assert "damaged" in error.message or "unpacks to more data" in error.message


def test_V23_many_small_bombs_count_together() -> None:
    many = {f"starred_{n}.json": '{"id": "user/", "items": [' + " " * (600 << 10) + "]}" for n in range(4)}
    assert "unpacks to more data" in _refuse(zipped(many)).message
    assert "unpacks to more data" in _refuse(zipped(many, zipfile.ZIP_STORED)).message


def test_V23_packed_file_that_grows_is_refused() -> None:
    body = samples.gzipped(b'<articles schema-version="1">' + b" " * (30 << 20))
    assert "unpacks to more data" in _refuse(body).message


def test_V23_members_are_counted() -> None:
    assert "more than 10 files" in _refuse(zipped({f"{n}.txt": "" for n in range(11)})).message
    huge = zipped({f"{'x' * 60_000}{n}.txt": "" for n in range(3)})
    assert "more than 10 files" in _refuse(huge).message


def test_V23_entries_are_counted(services: Services, alice: Actor) -> None:
    few = dataclasses.replace(services.settings, archive_entries_max=3)
    services.gateways.archives._limits = Limits.from_settings(few)
    body = samples.freshrss({"a": ()}, [google_item("a", n, starred=True) for n in range(5)], {})
    assert services.imports.preview(alice, body, "x").marks == {"waiting": 3, "cut": 2}


def test_V23_archive_inside_an_archive_is_not_opened() -> None:
    inner = zipped({"starred_1.json": samples.google_json("starred", [google_item("a", 1)])})
    assert "another ZIP file" in _refuse(zipped({"inner.zip": inner})).message
    assert "another ZIP file" in _refuse(zipped({"inner.zip": inner, "x.json": inner})).message


def test_V23_names_of_members_are_no_paths() -> None:
    body = zipped({"../../etc/starred.json": "[]", "/abs/part_0.csv": "url,time_added\n", "..\\x.opml": ""})
    assert entries(body) == []


def test_V23_encrypted_archive_is_refused_with_a_sentence() -> None:
    body = bytearray(zipped({"starred_1.json": "{}"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        body[body.index(signature) + offset] |= 1
    assert "encrypted" in _refuse(bytes(body)).message


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_V23_other_packing_is_refused_with_a_sentence(method: int) -> None:
    assert "plain ZIP file" in _refuse(zipped({"starred_1.json": "{}"}, method)).message


def test_V23_zip64_is_read() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, archive.open("part_0.csv", "w", force_zip64=True) as member:
        member.write(samples.pocket_csv(["https://a.example/1"]).encode())
    assert len(entries(out.getvalue())) == 1


def test_V23_every_cut_of_an_archive_is_refused_with_a_sentence() -> None:
    whole = samples.freshrss({"a": ()}, [google_item("a", n, starred=True) for n in range(3)], {})
    for length in [*range(4, 60), *range(60, len(whole), 37)]:
        assert _refuse(whole[:length]).message
    packed = samples.gzipped(samples.ttrss([samples.ttrss_article("a", n) for n in range(3)]))
    for length in range(2, len(packed) - 8, 11):
        assert _refuse(packed[:length]).message


def test_V23_damage_anywhere_raises_nothing_else() -> None:
    whole = samples.freshrss({"a": ()}, [google_item("a", n, starred=True) for n in range(3)], {})
    for place in range(0, len(whole), 7):
        body = bytearray(whole)
        body[place] ^= 0x5A
        # Each of the two has a sentence. Where the damage is in a text, there is nothing to refuse.
        with contextlib.suppress(InvalidError, TooLargeError):
            entries(bytes(body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"id": "user/", "items": [{"a": 1}, {"b": ',
        b'{"id": "user/", "items": [{"a": 1}',
        b'{"id": "user/", "items": [{"a": 1}, nonsense]}',
        b'{"id": "user/", "items": [' + b'{"a":' * 100_000,
        b'{"id": "user/", "items": [' + b"[" * 100_000,
        b'<articles schema-version="1"><article><title>x',
        b'<articles schema-version="1"><article></wrong></articles>',
        b"url,time_added\n" + b'"' + b"x" * (2 << 20),
    ],
)
def test_damaged_lists_are_refused(body: bytes) -> None:
    assert "damaged" in _refuse(body, Limits()).message or "isn't a list" in _refuse(body, Limits()).message


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE articles [<!ENTITY a "aaaa">]><articles schema-version="1"><article/></articles>',
        '<!DOCTYPE articles SYSTEM "http://127.0.0.1/x"><articles schema-version="1"></articles>',
    ],
)
def test_document_types_are_refused(text: str) -> None:
    assert "nothing to import" in _refuse(text.encode()).message


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_rows_of_any_form_are_read_whole(size: int) -> None:
    rows = [
        {"n": n, "text": 'a "quoted" \\ ] } text ☃ \u2028' * (n * 40), "deep": {"list": [[], {}]}}
        for n in range(20)
    ]

    class Slow:
        def __init__(self, body: bytes) -> None:
            self._left = io.BytesIO(body)

        def read(self, count: int = 0, /) -> bytes:
            return self._left.read(size)

    for body in (
        json.dumps(rows),
        json.dumps(rows, ensure_ascii=False, indent=1),
        samples.google_json("starred", rows),
        "\ufeff " + json.dumps({"items": rows, "more": 1}),
    ):
        assert list(json_rows.iter_rows(Slow(body.encode()))) == rows


def test_long_row_is_refused_without_reading_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "ROW_MAX", 1 << 20)
    count = 0

    class Endless:
        def read(self, size: int = 0, /) -> bytes:
            nonlocal count
            count += 1
            return b'[{"a": "' if count == 1 else b"x" * 65536

    with pytest.raises(InvalidError):
        list(json_rows.iter_rows(Endless()))
    assert count < 100


def test_crc_is_checked() -> None:
    text = samples.pocket_csv(["https://a.example/1"]).encode()
    body = zipped({"part_0.csv": text}, zipfile.ZIP_STORED)
    changed = body.replace(struct.pack("<L", zlib.crc32(text)), struct.pack("<L", 1))
    assert "damaged" in _refuse(changed).message


def test_V23_external_entities_are_never_read(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("https://canary.example/")
    text = (
        '<!-- <articles schema-version="1"> -->'
        + " " * 8192
        + f'<!DOCTYPE articles [<!ENTITY x SYSTEM "file://{canary}"><!ENTITY y "https://y.example/">]>'
        + '<articles schema-version="1"><article><link>&x;</link><feed_url>&y;</feed_url>'
        + "<marked>1</marked></article></articles>"
    )
    try:
        found = entries(text.encode())
    except InvalidError:
        return
    assert "canary" not in repr(found)
    assert "y.example" not in repr(found)


# -- pages

BOOKMARKS = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE><H1>Bookmarks</H1>
<DL><p>
  <DT><H3 PERSONAL_TOOLBAR_FOLDER="true">Bookmarks bar</H3>
  <DL><p><DT><A HREF="https://a.example/1" ADD_DATE="1709284800">One &amp; only</A></DL><p>
  <DT><H3>Travel</H3>
  <DL><p>
    <DT><A HREF="https://a.example/2" ADD_DATE="1709284800000000" TAGS="kyoto, roofs">Two</A><DD>A text
    <DT><H3>Inner</H3><DL><p><DT><A HREF="https://a.example/3" TOREAD="1">Three</A></DL><p>
    <DT><A HREF="javascript:alert(1)">Script</A>
    <DT><A HREF="https://a.example/4">Four</A>
  </DL><p>
</DL>
"""
MINIFLUX = {
    "total": 3,
    "entries": [
        {
            "id": number,
            "user_id": 1,
            "feed_id": 1,
            "status": status,
            "hash": f"{number:064x}",
            "title": f"a {number}",
            "url": f"{HOST}/a/{number}",
            "published_at": "2024-03-01T09:20:00Z",
            "content": "<p onclick='alert(1)'>text</p>",
            "starred": starred,
            "feed": {"id": 1, "feed_url": f"{HOST}/a", "title": "Feed a"},
        }
        for number, status, starred in ((1, "unread", True), (2, "read", False), (99, "read", True))
    ],
}
FEEDBIN = [
    {"id": 1, "title": "One", "url": "https://a.example/1", "published": "2024-03-01T09:20:00.000000Z"},
    {"id": 2, "title": "Two", "url": "https://a.example/2", "published": None},
]


def _pages(services: Services, who: Actor) -> dict[str, dict[str, Any]]:
    feed_id = services.saved_pages.find_feed(who)
    rows = services.reading.load_page(who, StreamQuery(StreamRef.parse(f"feed/{feed_id}"))).rows
    return {
        row.url or "": {
            "title": row.title,
            "at": row.at,
            "read": row.read,
            "starred": row.starred,
            "tags": {tag.name for tag in row.tags},
        }
        for row in rows
    }


def test_pages_become_saved_pages(services: Services, alice: Actor) -> None:
    body = (
        b"title,url,time_added,tags,status\n"
        b"Old roofs,https://a.example/1,1709284800,kyoto|to do,unread\n"
        b'"A, B",https://a.example/2,1709284801,,archive\n'
        b",https://a.example/3?utm_source=pocket,,,unread\n"
        b"Same,https://a.example/1/,1709284802,,unread\n"
    )
    done = imported(services, alice, body, {})
    assert done.state is ImportState.DONE
    assert dict(done.marks) == {"pages": 3, "tagged": 1, "read": 1}
    pages = _pages(services, alice)
    when = dt.datetime(2024, 3, 1, 9, 20, tzinfo=dt.UTC)
    assert pages["https://a.example/1"] == {
        "title": "Old roofs",
        "at": when,
        "read": False,
        "starred": False,
        "tags": {"kyoto", "to do"},
    }
    assert pages["https://a.example/2"]["title"] == "A, B"
    assert pages["https://a.example/2"]["read"]
    assert pages["https://a.example/3"]["title"] == "a.example/3"
    assert len(pages) == 3
    imported(services, alice, body, {})
    assert _pages(services, alice) == pages


def test_folders_of_bookmarks_become_tags(services: Services, alice: Actor) -> None:
    assert open_archive(io.BytesIO(BOOKMARKS.encode()), Limits()).kind is ArchiveKind.BOOKMARKS
    imported(services, alice, BOOKMARKS.encode(), {})
    pages = _pages(services, alice)
    assert {url: page["tags"] for url, page in pages.items()} == {
        "https://a.example/1": set(),
        "https://a.example/2": {"kyoto", "roofs", "Travel"},
        "https://a.example/3": {"Inner"},
        "https://a.example/4": {"Travel"},
    }
    assert pages["https://a.example/1"]["title"] == "One & only"
    assert pages["https://a.example/2"]["at"] == dt.datetime(2024, 3, 1, 9, 20, tzinfo=dt.UTC)
    assert {url for url, page in pages.items() if not page["read"]} == {"https://a.example/3"}


def _bookmarks(inner: str) -> bytes:
    return f"<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n{inner}\n</DL><p>\n".encode()


@pytest.mark.parametrize("note", ["", "<DD>A note\n"])
def test_long_folders_of_bookmarks_are_read_whole(note: str) -> None:
    links = "".join(
        f'<DT><A HREF="https://a.example/{n}" ICON="data:{"x" * 400}">Page {n}</A>\n{note}'
        for n in range(5000)
    )
    found = entries(_bookmarks(f"<DT><H3>Many</H3><DL><p>{links}</DL><p>"))
    assert [(one.link, one.title, one.tags) for one in found] == [
        (f"https://a.example/{n}", f"Page {n}", ("Many",)) for n in range(5000)
    ]


def test_deep_folders_of_bookmarks_are_read_whole() -> None:
    inner = '<DT><A HREF="https://a.example/deep">x</A>'
    for n in range(3000):
        inner = f'<DT><H3>f{n}</H3><DL><p>{inner}</DL><p><DT><A HREF="https://a.example/{n}">x</A>'
    found = entries(_bookmarks(inner))
    assert len(found) == 3001
    assert (found[0].tags, found[-1].tags) == (("f0",), ())
    with pytest.raises(InvalidError):
        entries(_bookmarks("<DL>" * 10_001 + "</DL>" * 10_001))


def test_titles_of_bookmarks_may_have_markup() -> None:
    body = _bookmarks(
        '<DT><H3>A <i>b</i> &amp; c</H3><DL><DT><A HREF="https://a.example/1"><b>Bold</b> t</A>'
        '<DD>A <b>note</b><DT><A HREF="https://a.example/2">No end<DT><A HREF="https://a.example/3">Last</a></DL>'
    )
    assert [(one.link, one.title, one.tags) for one in entries(body)] == [
        ("https://a.example/1", "Bold t", ("A b & c",)),
        ("https://a.example/2", "No end", ("A b & c",)),
        ("https://a.example/3", "Last", ("A b & c",)),
    ]


def test_bookmarks_that_are_cut_off_are_refused() -> None:
    whole = BOOKMARKS.encode().rstrip()
    for size in range(whole.index(b"<DL>") + 4, whole.rindex(b"</DL")):
        with pytest.raises(InvalidError):
            entries(whole[:size])
    for rest in ("<!--", "<script>", '<DT><A HREF="https://a.example/1'):
        with pytest.raises(InvalidError):
            entries(_bookmarks(rest))
    (one,) = entries(_bookmarks('<DT><A HREF="https://a.example/1">a\0b</A>'))
    assert one.title == "a\N{REPLACEMENT CHARACTER}b"


NO_TIMES = ["inf", "-inf", "nan", "1e999", "1e300", "0", "-5", "31536000", "253402300799", "x"]


@pytest.mark.parametrize("at", NO_TIMES)
def test_numbers_that_are_no_times_are_left_out(at: str) -> None:
    bookmark = _bookmarks(f'<DT><A HREF="https://a.example/1" ADD_DATE="{at}">x</A>')
    reader = b'{"id": "user/-/state/com.google/starred", "items": [{"published": %s}]}'
    number = b"0" if at == "x" else at.replace("inf", "Infinity").replace("nan", "NaN").encode()
    for body in (
        f"title,url,time_added,tags,status\nx,https://a.example/1,{at},,unread\n".encode(),
        bookmark,
        reader % number,
    ):
        assert [one.at for one in entries(body)] == [None]


@pytest.mark.parametrize(
    "at",
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "1989-12-31T00:00:00Z",
    ],
)
def test_times_that_no_feed_has_are_left_out(services: Services, alice: Actor, at: str) -> None:
    rows = {"total": 1, "entries": [{**MINIFLUX["entries"][0], "published_at": at}]}  # type: ignore[index]
    assert [one.at for one in entries(json.dumps(rows).encode())] == [None]
    done = imported(services, alice, json.dumps(rows).encode(), {})
    assert (done.state, done.marks["pages"]) == (ImportState.DONE, 1)
    own = [{"link": "https://a.example/1", "starred": at, "saved": at, "feed": {}}]
    assert [(one.starred, one.at) for one in entries(zipped({"starred.json": json.dumps(own).encode()}))] == [
        (True, None)
    ]


@pytest.mark.parametrize("unit", [1, 1000, 1_000_000, 1_000_000_000])
def test_seconds_and_smaller_units_are_read(unit: int) -> None:
    body = f"title,url,time_added,tags,status\nx,https://a.example/1,{1709284800 * unit},,unread\n"
    assert [one.at for one in entries(body.encode())] == [dt.datetime(2024, 3, 1, 9, 20, tzinfo=dt.UTC)]


def test_star_whose_feed_no_longer_has_it_becomes_a_page(
    services: Services, alice: Actor, mine: Reader
) -> None:
    body = json.dumps(MINIFLUX).encode()
    assert open_archive(io.BytesIO(body), Limits()).kind is ArchiveKind.MINIFLUX
    done = imported(services, alice, body, {f"{HOST}/a": feed("a")})
    assert dict(done.marks) == {"starred": 2, "read": 2, "pages": 1}
    assert set(mine.starred) == {"a 1", "a 99"}
    assert {"a 2", "a 99"}.isdisjoint(mine.unread)
    page = _pages(services, alice)[f"{HOST}/a/99"]
    assert (page["title"], page["read"], page["starred"]) == ("a 99", True, True)


def test_stars_of_a_feed_that_is_gone_become_pages(services: Services, alice: Actor) -> None:
    done = imported(services, alice, json.dumps(MINIFLUX).encode(), {})
    assert done.counts == {"failed": 1}
    assert dict(done.marks) == {"starred": 2, "read": 1, "pages": 2, "missing": 1}
    assert set(_pages(services, alice)) == {f"{HOST}/a/1", f"{HOST}/a/99"}


@pytest.mark.parametrize("packed", [True, False])
def test_stars_of_feedbin_become_pages(services: Services, alice: Actor, packed: bool) -> None:
    body = json.dumps(FEEDBIN).encode()
    imported(services, alice, zipped({"starred.json": body}) if packed else body, {})
    pages = _pages(services, alice)
    assert {url: (page["title"], page["starred"]) for url, page in pages.items()} == {
        "https://a.example/1": ("One", True),
        "https://a.example/2": ("Two", True),
    }


def test_lists_without_a_name_are_told_by_their_fields() -> None:
    long = {"id": 1, "title": "x", "content": '{"feed_url": ' * 900, "url": "https://a.example/1"}
    own = {"title": "One", "link": "https://a.example/1", "feed": {"address": f"{HOST}/a"}, "starred": True}
    of_feed = {**long, "feed": {"feed_url": f"{HOST}/a"}}
    for row in (long, own, of_feed, FEEDBIN[0]):
        body = json.dumps([row]).encode()
        assert is_archive(body)
        assert [one.link for one in entries(body)] == ["https://a.example/1"]
    for feeds in (
        [{"feed_url": f"{HOST}/a", "title": "A", "published": "2024-03-01"}],
        [{"url": f"{HOST}/a", "title": "A"}],
        [f"{HOST}/a"],
        [],
    ):
        assert not is_archive(json.dumps(feeds).encode())


def test_saved_pages_of_another_server_come_along(services: Services, alice: Actor) -> None:
    saved = services.saved_pages.save(alice, "https://a.example/1", title="One")
    services.saved_pages.save(alice, "https://a.example/2", title="Two")
    services.reading.mark(alice, [saved.entry_id], read=True)
    services.reading.set_starred(alice, saved.entry_id, True)
    services.tags.change_tags(alice, saved.entry_id, add=["kyoto"])
    before = _pages(services, alice)
    belongings: Any = services.gateways.personal_exports
    rows = list(belongings._belongings.iter_saved(alice.user_id))
    saved_rows = json.dumps(rows, default=dt.datetime.isoformat).encode()
    bob = add_user(services, "bob")
    imported(services, bob, zipped({"saved.json": saved_rows}), {})
    assert _pages(services, bob) == before
    assert [s.feed_id for s in services.gateways.subscriptions.find_by_user(bob.user_id)] == [
        services.saved_pages.find_feed(bob)
    ]


def test_texts_of_imported_pages_are_requested(services: Services, alice: Actor) -> None:
    earlier = clock.now() - dt.timedelta(days=1)
    with clock.set_source(lambda: earlier):
        services.saved_pages.save(alice, "https://a.example/earlier")
        services.saved_pages.save(alice, "https://a.example/1")
    done = imported(services, alice, BOOKMARKS.encode(), {})
    pages = services.gateways.archives.find_textless(alice.user_id, done.created, 10)
    assert len(pages) == 3
    assert {feed_id for feed_id, _ in pages} == {services.saved_pages.find_feed(alice)}
    client: Any = services.jobs._client  # type: ignore[attr-defined]
    ids = client.lrange(redis_keys.make_queue_key(Queue.ARTICLES_SYSTEM), 0, -1)
    jobs = RqJob.fetch_many([one.decode() for one in ids], connection=client, serializer=JSONSerializer)
    assert {job.kwargs["entry_id"] for job in jobs if job} == {entry_id for _, entry_id in pages}


def test_page_in_several_folders_is_counted_once_and_has_all_tags(services: Services, alice: Actor) -> None:
    link = '<DT><A HREF="https://a.example/1" TOREAD="1">x</A>'
    body = _bookmarks("".join(f"<DT><H3>{name}</H3><DL><p>{link}</DL><p>" for name in ("One", "Two")))
    done = imported(services, alice, body, {})
    assert dict(done.marks) == {"pages": 1, "tagged": 1}
    (page,) = _pages(services, alice).values()
    assert page["tags"] == {"One", "Two"}


def test_pages_beyond_the_limit_are_missing(services: Services, alice: Actor) -> None:
    services.gateways.saved_pages._limit = 2
    done = imported(services, alice, BOOKMARKS.encode(), {})
    assert (done.marks["pages"], done.marks["missing"]) == (2, 2)
