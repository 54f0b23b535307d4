"""Finding feeds by words: what is found, in which order, and what never is."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import RateLimitedError
from app.feeds import schedule
from app.gateways.feeds import feed_search as gateway
from app.models.accounts.actor import Actor
from app.models.feeds.feed_search import (
    FeedWords,
    FoundByWords,
    KnownFeed,
    build_score,
    is_public_host,
    make_prefixes,
    rate_match,
    split_host,
)
from app.models.feeds.fetch_options import FetchOptions
from app.models.imports.opml import Outline
from app.models.sharing.sharing import Audience
from app.services.feeds import feed_search
from tests.sharing.conftest import People
from tests.support.reader import add_user, pull, rss

NOW = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)


@pytest.fixture
def readers(services: Services) -> list[Actor]:
    """Four people who read; the last one reads nothing yet."""
    return [add_user(services, name) for name in ("ann", "bob", "cleo", "dora")]


def _read(services: Services, url: str, title: str, who: list[Actor], *headlines: str, **options: Any) -> int:
    """Let people subscribe to a feed with a title and headlines, and pull it; return its id."""
    done = [services.subscriptions.subscribe(one, url, **options) for one in who]
    feed_id = done[0].subscription.feed_id
    items = [(headline, f"Text of {headline}") for headline in headlines or ("Nothing new",)]
    pull(services, [feed_id], {url: rss(title, items)})
    return feed_id


def _index(services: Services) -> None:
    assert services.feed_search.run(0, seconds=60.0) == {"next": None}


def _find(services: Services, actor: Actor, text: str) -> list[str]:
    """Return the addresses of what is found outside the starter packs."""
    return [one.url for one in services.feed_search.find(actor, text) if not one.packs]


def test_feeds_are_found_by_title_host_description_and_headline(
    services: Services, readers: list[Actor]
) -> None:
    two, dora = readers[:2], readers[3]
    title = "https://one.example.org/feed"
    headline = "https://two.example.org/feed"
    _read(services, title, "Zürcher Käferkunde", two)
    _read(services, headline, "Elsewhere", two, "Seven quokkas", "Eight wombats")
    _index(services)
    for text, url in (
        ("zurcher", title), ("kafer", title), ("KÄFERKUNDE zü", title), ("one.example", title),
        ("quokkas", headline), ("wombats seven", headline), ("elsewhere quok", headline),
    ):  # fmt: skip
        assert _find(services, dora, text) == [url], text
    assert _find(services, dora, "kafer quokkas") == []
    assert _find(services, dora, " ?! ") == []


def test_matches_show_their_newest_headlines_with_one_query(
    services: Services, readers: list[Actor], db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    *people, dora = readers
    lines = [f"Quokka {number}" for number in range(5)]
    first = _read(services, "https://one.example.org/feed", "Animals of the west", people, *lines)
    _read(services, "https://two.example.org/feed", "Animals of the east", people, "Wombats")
    _index(services)
    mapper, asked = services.gateways.feed_search._words, []
    find = mapper.find_headlines
    monkeypatch.setattr(mapper, "find_headlines", lambda *what: (asked.append(what), find(*what))[1])
    shown = {one.title: one.headlines for one in services.feed_search.find(dora, "animals")}
    newest = db.entries.find({"feed_id": first}).sort("seq", -1).limit(3)
    assert shown["Animals of the west"] == tuple(entry["title"] for entry in newest)
    assert shown["Animals of the east"] == ("Wombats",)
    assert len(asked) == 1


def test_a_feed_whose_facts_are_its_readers_own_shows_no_headlines(
    services: Services, readers: list[Actor]
) -> None:
    """A feed of a starter pack that too few people read to be found outside it."""
    pack = services.feed_search._list_pack_feeds()[0]
    _read(services, pack.url, "From a pack", readers[:1], "Read by one only")
    by = {one.url: one for one in services.feed_search.find(readers[3], " ".join(pack.words.title))}
    assert by[pack.url].headlines == ()
    mine = {one.url: one for one in services.feed_search.find(readers[0], " ".join(pack.words.title))}
    assert mine[pack.url].headlines == ("Read by one only",)


def test_a_whole_word_is_found_among_many_longer_ones(
    services: Services, readers: list[Actor], db: Any
) -> None:
    *people, dora = readers
    titles = {"go": "Go", "internationalism": "Internationalism"}
    for word, title in titles.items():
        feed_id = _read(services, f"https://{word}.example/feed", title, people)
        _index(services)
        known = db.feeds.find_one({"_id": feed_id})
        for n in range(1, gateway.CANDIDATES + 21):
            other = FeedWords(feed_id=feed_id + n, title=(f"{word}nal", f"n{n}"), score=3.0)
            services.mappers.feed_words.store_words([other])
            name = {"url": f"https://{word}nal.example/{n}", "url_key": f"{word} {n}", "subscribers": 60}
            db.feeds.insert_one(known | name | {"_id": feed_id + n})
        assert f"https://{word}.example/feed" in _find(services, dora, word)
        assert len(_find(services, dora, word)) == gateway.SHOWN
        assert len(_find(services, dora, word + "n")) == gateway.SHOWN


def test_a_long_beginning_is_found_among_many_that_only_begin_alike(
    services: Services, readers: list[Actor]
) -> None:
    *people, dora = readers
    url = "https://electronically.example/feed"
    feed_id = _read(services, url, "Electronically Yours", people)
    _index(services)
    words = services.mappers.feed_words
    # Those with such a word in their descriptions come first where words are looked up.
    others = range(1, gateway.CANDIDATES + 21)
    words.store_words([FeedWords(feed_id=feed_id - n, about=("electronicalaa",), score=0.1) for n in others])
    words.store_words([FeedWords(feed_id=feed_id + n, title=("electronics",), score=3.0) for n in others])
    for text in ("electronica", "electronical"):
        assert url in _find(services, dora, text), text


def test_chinese_titles_are_found_by_any_two_characters(services: Services, readers: list[Actor]) -> None:
    url = "https://zh.example.org/feed"
    _read(services, url, "科技爱好者周刊", readers[:2])
    _index(services)
    for text in ("科技", "爱好者", "周刊", "科"):
        assert _find(services, readers[3], text) == [url], text


def test_each_typed_letter_finds_the_feed(services: Services, readers: list[Actor]) -> None:
    url = "https://letters.example.org/feed"
    _read(services, url, "Ypsilantisaurus", readers[:2])
    _index(services)
    for end in range(1, len("ypsilantisaurus") + 1):
        assert url in _find(services, readers[3], "ypsilantisaurus"[:end])
    assert _find(services, readers[3], "ypsilantisauruses") == []


# -- what is never found


@pytest.mark.parametrize(
    "url",
    [
        "https://secret.example.org/feed?token=8c9d1f0a7b6e5d4c3b2a",
        "https://secret.example.org/rss/8c9d1f0a7b6e5d4c3b2a19f8e7d6c5b4/feed.xml",
        "https://ann:geheim@secret.example.org/feed",
        "https://192.168.7.3/feed",
        "http://intranet/feed",
        "https://wiki.corp/feed",
        "https://printer.local/feed",
    ],
)
def test_a_secret_or_local_address_is_never_found(services: Services, db: Any, url: str) -> None:
    readers = [add_user(services, name) for name in ("ann", "bob", "cleo", "dora")]
    feed = services.gateways.feeds.get_or_create("https://plain.example.org/feed", now=clock.now())
    for one in readers[:3]:
        services.subscriptions.subscribe(one, feed.url)
    db.feeds.update_one({"_id": feed.id}, {"$set": {"title": "Quokka papers"}})
    _index(services)
    assert _find(services, readers[3], "quokka") == [feed.url]
    # It becomes known by another address after it was indexed: the search notices before the index does.
    db.feeds.update_one({"_id": feed.id}, {"$set": {"url": url}})
    for text in ("quokka", "papers", "secret", "feed", "wiki", "192"):
        assert _find(services, readers[3], text) == [], text
    _index(services)
    assert db.feedwords.find_one({"_id": feed.id}) is None


def test_the_feed_of_one_person_is_not_found_even_by_themselves(
    services: Services, readers: list[Actor], db: Any
) -> None:
    feed_id = _read(services, "https://alone.example.org/feed", "Quokka diary", readers[:1])
    _index(services)
    assert db.feedwords.count_documents({}) == 0
    assert [_find(services, who, "quokka") for who in readers] == [[]] * 4
    services.subscriptions.subscribe(readers[1], "https://alone.example.org/feed")
    _index(services)
    assert _find(services, readers[3], "quokka") == ["https://alone.example.org/feed"]
    # When one of both leaves, it is hidden at once, and the words go with the next run.
    services.subscriptions.unsubscribe(readers[1], feed_id)
    assert _find(services, readers[3], "quokka") == []
    _index(services)
    assert db.feedwords.count_documents({}) == 0


def test_readers_who_keep_a_feed_private_do_not_count(services: Services, readers: list[Actor]) -> None:
    url = "https://paid.example.org/feed"
    _read(services, url, "Quokka letters", readers[:2], private=True)
    services.subscriptions.subscribe(readers[2], url)
    _index(services)
    assert _find(services, readers[3], "quokka") == []
    services.subscriptions.subscribe(readers[3], url)
    assert _find(services, readers[0], "quokka") == [url]


def test_own_copies_and_unlisted_feeds_are_never_found(
    services: Services, readers: list[Actor], db: Any
) -> None:
    url = "https://club.example.org/feed"
    for one in readers[:3]:
        services.subscriptions.subscribe(
            one, url, options=FetchOptions(login=f"me{one.user_id}", password="x")
        )
    db.feeds.update_many({"url": url}, {"$set": {"title": "Quokka club", "subscribers": 9}})
    hidden = _read(services, "https://pod.example.org/feed", "Quokka podcast", readers[:3])
    _index(services)
    assert _find(services, readers[3], "quokka") == ["https://pod.example.org/feed"]
    db.feeds.update_one({"_id": hidden}, {"$set": {"unlisted": True}})
    assert _find(services, readers[3], "quokka") == []
    _index(services)
    assert db.feedwords.count_documents({}) == 0


def test_shared_streams_and_merged_feeds_are_no_feeds_to_find(
    services: Services, readers: list[Actor], db: Any
) -> None:
    people = People(services)
    people.open(readers[0], Audience.PUBLIC)
    old = _read(services, "https://old.example.org/feed", "Quokka news", readers[:2])
    db.feeds.update_many({"owner": readers[0].user_id}, {"$set": {"subscribers": 5, "title": "Quokka ann"}})
    db.feeds.update_one({"_id": old}, {"$set": {"merged_into": 1}})
    _index(services)
    assert db.feedwords.count_documents({}) == 0
    assert _find(services, readers[3], "quokka") == []


def test_a_folder_name_counts_only_from_three_people_on(
    services: Services, readers: list[Actor], db: Any
) -> None:
    url = "https://bugs.example.org/feed"
    _read(services, url, "Plain", readers)
    for one in readers[:2]:
        _put_into(services, one, url, "Entomology")
    _put_into(services, readers[3], url, "my secret plan")
    _index(services)
    assert _find(services, readers[0], "entomology") == []
    _put_into(services, readers[2], url, "ENTOMOLOGY")
    db.feedwords.update_many({}, {"$set": {"folders_at": None}})
    _index(services)
    assert _find(services, readers[0], "entomol") == [url]
    assert _find(services, readers[0], "secret plan") == []


def test_folders_of_private_subscriptions_do_not_count(
    services: Services, readers: list[Actor], db: Any
) -> None:
    url = "https://bugs.example.org/feed"
    _read(services, url, "Plain", readers[:3])
    for one in readers[:3]:
        _put_into(services, one, url, "Entomology")
    db.subscriptions.update_one({"user_id": readers[0].user_id}, {"$set": {"private": True}})
    _index(services)
    assert _find(services, readers[3], "entomology") == []


def _put_into(services: Services, actor: Actor, url: str, name: str) -> None:
    feed = services.gateways.feeds.find_by_url(url)
    assert feed is not None
    folder = services.folders.get_or_create(actor, name)
    services.subscriptions.update(actor, feed.id, folder_ids=[folder.id])


def test_with_the_setting_0_only_packs_are_found(services: Services, readers: list[Actor], db: Any) -> None:
    url = "https://science.example.org/feed"
    _read(services, url, "Science quokka", readers[:3])
    _index(services)
    assert url in _find(services, readers[3], "science")
    closed = dataclasses.replace(services.settings, findable_readers=0)
    built = bootstrap.build(closed)
    try:
        found = [one.url for one in built.feed_search.find(readers[3], "science")]
        assert found
        assert url not in found
        _index(built)
        assert db.feedwords.count_documents({}) == 0
    finally:
        built.close()


# -- packs


def test_a_new_server_finds_the_feeds_of_packs_by_name_and_topic(services: Services) -> None:
    ann = add_user(services, "ann")
    quanta = services.feed_search.find(ann, "quant")[0]
    assert (quanta.title, quanta.feed_id, quanta.mine) == ("Quanta Magazine", None, False)
    assert quanta.packs == ("Science and space",)
    assert quanta.about.startswith("Mathematics, physics")
    found = services.feed_search.find(ann, "science")
    assert len(found) >= 10
    assert "science" in found[0].title.lower()
    titles = [one.title for one in services.feed_search.find(ann, "sourdo")]
    assert titles == ["The Perfect Loaf"], "by a word of its description"


def test_a_pack_feed_with_one_reader_does_not_tell_that_it_is_read(services: Services) -> None:
    ann, bob = add_user(services, "ann"), add_user(services, "bob")
    url = services.feed_search.find(ann, "quanta")[0].url
    before = services.feed_search.find(bob, "quanta")
    services.subscriptions.subscribe(ann, url)
    assert services.feed_search.find(bob, "quanta") == before
    (mine,) = services.feed_search.find(ann, "quanta")
    assert mine.mine
    assert mine.feed_id is not None


def test_the_rate_of_a_pack_feed_is_shown_to_its_readers_and_with_enough_of_them_to_all(
    services: Services, readers: list[Actor], db: Any
) -> None:
    pack = services.feed_search._list_pack_feeds()[0]
    words, feeds = " ".join(pack.words.title), [Outline(pack.url)]
    ann, bob = readers[:2]
    assert services.packs.find_known(ann, feeds) == {}
    feed_id = _read(services, pack.url, "From a pack", [ann])
    arrivals = [clock.now() - dt.timedelta(days=days) for days in (1, 2)]
    history = schedule.record_arrivals(schedule.EMPTY, arrivals, clock.now()).pack()
    db.feeds.update_one({"_id": feed_id}, {"$set": {"history": history}})
    for who, rate in ((ann, True), (bob, False)):
        (found,) = services.feed_search.find(who, words)
        assert (found.per_week is not None) is rate
        assert services.packs.find_known(who, feeds) == {pack.url: KnownFeed(None, rate, found.per_week)}
    services.subscriptions.subscribe(bob, pack.url)
    (found,) = services.feed_search.find(readers[3], words)
    assert found.per_week == 1.4
    assert services.packs.find_known(readers[3], feeds) == {pack.url: KnownFeed(None, False, 1.4)}
    # Its publisher wants it in no directory.
    db.feeds.update_one({"_id": feed_id}, {"$set": {"unlisted": True}})
    assert services.packs.find_known(readers[3], feeds) == {pack.url: KnownFeed(None, False, None)}
    assert services.packs.find_known(bob, feeds) == {pack.url: KnownFeed(None, True, 1.4)}


def test_the_reader_of_a_merged_feed_has_the_one_of_a_pack(
    services: Services, readers: list[Actor], db: Any
) -> None:
    pack, ann = services.feed_search._list_pack_feeds()[0], readers[0]
    new = _read(services, "https://new.example.org/feed", "Moved here", [ann])
    old = services.gateways.feeds.get_or_create(pack.url, now=clock.now()).id
    assert not services.packs.find_known(ann, [Outline(pack.url)])[pack.url].mine
    db.feeds.update_one({"_id": old}, {"$set": {"merged_into": new, "changed_at": clock.now()}})
    assert services.packs.find_known(ann, [Outline(pack.url)]) == {pack.url: KnownFeed(None, True, None)}


def test_a_hidden_pack_is_not_searched(services: Services) -> None:
    ann = add_user(services, "ann")
    assert services.feed_search.find(ann, "quanta")
    services.gateways.packs.remove("science")
    assert services.feed_search.find(ann, "quanta") == []


# -- order


def test_a_title_ranks_above_a_headline_and_readers_above_none(
    services: Services, readers: list[Actor], db: Any
) -> None:
    two = readers[:2]
    title = _read(services, "https://a.example.org/feed", "Quokka", two)
    inside = _read(services, "https://b.example.org/feed", "The other quokka", two)
    _read(services, "https://c.example.org/feed", "Birds", two, "A quokka", "Another quokka")
    _index(services)
    names = [url[8] for url in _find(services, readers[3], "quokka")]
    assert names == ["a", "b", "c"]
    db.feeds.update_one({"_id": inside}, {"$set": {"subscribers": 4000}})
    _index(services)
    assert [url[8] for url in _find(services, readers[3], "quokka")] == ["b", "a", "c"]
    db.feeds.update_one({"_id": title}, {"$set": {"error": "http_404"}})
    _index(services)
    assert _find(services, readers[3], "quokka")[0] == "https://b.example.org/feed"


def test_small_numbers_of_readers_are_not_shown(services: Services, readers: list[Actor]) -> None:
    url = "https://a.example.org/feed"
    _read(services, url, "Quokka", readers[:2])
    _index(services)
    (found,) = services.feed_search.find(readers[3], "quokka")
    assert found == FoundByWords(
        *(url, "Quokka", found.site_url, found.about),
        feed_id=found.feed_id,
        headlines=("Nothing new",),
        per_week=0.0,
    )
    (mine,) = services.feed_search.find(readers[0], "quokka")
    assert mine.mine


# -- the index


def test_an_unchanged_feed_is_not_written_again(services: Services, readers: list[Actor], db: Any) -> None:
    feed_id = _read(services, "https://a.example.org/feed", "Quokka", readers[:2])
    _index(services)
    db.feedwords.update_one({"_id": feed_id}, {"$set": {"mark": 1}})
    _index(services)
    assert db.feedwords.find_one({"_id": feed_id})["mark"] == 1
    db.feeds.update_one({"_id": feed_id}, {"$set": {"title": "Wombat"}})
    _index(services)
    assert "mark" not in db.feedwords.find_one({"_id": feed_id})
    assert _find(services, readers[3], "quokka") == []
    assert _find(services, readers[3], "wombat") == ["https://a.example.org/feed"]


def test_a_run_that_ends_early_continues_and_removes_nothing_else(
    services: Services, readers: list[Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [f"https://f{n}.example.org/feed" for n in range(5)]
    for url in urls:
        _read(services, url, "Quokka", readers[:2])
    _index(services)
    monkeypatch.setattr(gateway, "BATCH", 2)
    first = services.feed_search.run(0, seconds=60.0, is_stopping=lambda: True)
    assert first["next"]
    assert sorted(_find(services, readers[3], "quokka")) == urls
    assert services.feed_search.run(first["next"] or 0, seconds=60.0) == {"next": None}
    assert sorted(_find(services, readers[3], "quokka")) == urls


def test_a_job_is_queued_every_ten_minutes(services: Services) -> None:
    find, now = services.feed_search.find_due_jobs, clock.now()
    assert [job.args for job in find(now)] == [{"after": 0}]
    assert find(now + feed_search.EVERY / 2) == []
    assert len(find(now + feed_search.EVERY)) == 1


def test_searches_are_limited(services: Services) -> None:
    ann = add_user(services, "ann")
    built = bootstrap.build(dataclasses.replace(services.settings, feed_searches_per_minute=3))
    try:
        for _ in range(3):
            built.feed_search.find(ann, "a")
        with pytest.raises(RateLimitedError):
            built.feed_search.find(ann, "a")
    finally:
        built.close()


# -- pure rules


def test_hosts_that_mean_something_else_elsewhere_are_not_public() -> None:
    for url in ("https://example.org/", "https://a.b.co.uk:8443/x", "https://xn--bcher-kva.example/"):
        assert is_public_host(url), url
    for url in (
        "http://localhost/", "http://nas/", "http://10.1.2.3/", "http://[2001:db8::1]/", "http://1.1.1.1/f",
        "http://a.lan/", "http://a.home.arpa/", "http://a.onion./", "https://[bad/", "",
    ):  # fmt: skip
        assert not is_public_host(url), url


def test_a_match_needs_every_word_and_only_the_last_may_be_unfinished() -> None:
    words = FeedWords(feed_id=1, title=("deep", "sea", "news"), host=("deepsea", "example"))
    assert rate_match(words, ("deep", "se")) > rate_match(words, ("news", "de")) > 0
    assert rate_match(words, ("dee", "news")) == 0
    assert rate_match(words, ("deep", "cats")) == 0
    assert rate_match(words, ("deep",)) > rate_match(words, ("dee",)) > rate_match(words, ("exam",)) > 0


def test_sleeping_and_failing_feeds_count_less() -> None:
    def rate(days: int, *, is_failing: bool = False) -> float:
        return build_score(10, NOW - dt.timedelta(days=days), NOW, is_failing=is_failing)

    assert rate(1) > rate(100) > rate(400) > 0
    assert rate(1) > rate(1, is_failing=True) > 0
    assert build_score(0, None, NOW, is_failing=False) > 0


def test_hosts_and_beginnings_are_split_as_queries_are() -> None:
    assert split_host("https://www.blog.example.org/a", "https://example.org/") == ("blog", "example", "org")
    assert make_prefixes(["abc", "ab", "x" * 12]) == ["a", "ab", "abc", *("x" * n for n in range(1, 11))]


def test_a_search_reads_only_the_words_that_begin_like_it(services: Services, db: Any) -> None:
    """A pattern with a flag would make MongoDB compare all words of all feeds."""
    ann = add_user(services, "ann")
    many = [FeedWords(feed_id=n, title=(f"title{n}",), about=(f"about{n}", "zebra")) for n in range(1, 301)]
    services.mappers.feed_words.store_words(many)
    db.command("profile", 2)
    try:
        for text in ("abou", "about17", "zeb", "nowhere", "zebra about2"):
            services.feed_search.find(ann, text)
    finally:
        db.command("profile", 0)
    reads = list(db.system.profile.find({"ns": f"{db.name}.feedwords"}))
    assert len(reads) >= 10
    assert all(one["planSummary"].startswith("IXSCAN") for one in reads), reads
    # At most one key for each of the limited results, and a few beside.
    assert max(one["keysExamined"] for one in reads) <= 2 * gateway.CANDIDATES + 10


def test_a_topic_reads_only_the_subscriptions_to_its_feeds(services: Services, db: Any) -> None:
    ann = add_user(services, "ann")
    pack = services.feed_search._list_pack_feeds()[0]
    for url in (pack.url, *(f"https://other{n}.example/feed" for n in range(30))):
        services.subscriptions.subscribe(ann, url)
    db.command("profile", 2)
    try:
        assert services.packs.find_known(ann, [Outline(pack.url)])[pack.url].mine
    finally:
        db.command("profile", 0)
    reads = list(db.system.profile.find({"ns": f"{db.name}.subscriptions"}))
    assert sum(one["nreturned"] for one in reads) == 1, reads
