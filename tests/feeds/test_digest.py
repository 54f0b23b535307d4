"""What a fetch means for a feed, as data: no store, no socket."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random

import pytest

from app.config import Settings
from app.errors import FetchError
from app.feeds.urls import hash_url
from app.gateways.feeds.digest import MOVES, Digest, Digester
from app.models.feeds.feed import UNSET, Feed, FeedFields
from app.models.feeds.fetched import Fetched, FetchRequest, Validators
from tests.support import corpus

NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
TICK = dt.timedelta(milliseconds=1)
URL = "https://blog.example/feed"


def item(number: int, when: dt.datetime | None = None, body: str = "text") -> str:
    date = f"<pubDate>{when:%a, %d %b %Y %H:%M:%S} GMT</pubDate>" if when else ""
    return (
        f"<item><title>Post {number}</title><link>/p{number}</link><guid>g{number}</guid>{date}"
        f"<description>&lt;p onclick=x&gt;{body} {number}&lt;/p&gt;</description></item>"
    )


def rss(*items: str, head: str = "") -> bytes:
    return f"<rss version='2.0'><channel><title>Blog</title>{head}{''.join(items)}</channel></rss>".encode()


def feed(**fields: object) -> Feed:
    base = Feed(id=7, url=URL, url_key="k", created=NOW - 9 * HOUR, claim_token="t")
    return dataclasses.replace(base, **fields)


def answer(body: bytes | None = None, **fields: object) -> Fetched:
    base = Fetched(FetchRequest(URL, key=7), 200, URL, body=body, validators=Validators(etag='"1"'))
    return dataclasses.replace(base, **fields)


def digest(known: Feed, fetched: Fetched, now: dt.datetime = NOW) -> Digest:
    return Digester(Settings(), random.Random(1)).digest_fetch(known, fetched, now)


def after(known: Feed, result: Digest) -> Feed:
    """Return the feed as the store would hold it after this digest."""
    fields = {
        f.name: value
        for f in dataclasses.fields(FeedFields)
        if (value := getattr(result.update.fields, f.name)) is not UNSET
    }
    return dataclasses.replace(known, **fields)


def test_first_fetch_sorts_by_published_never_in_the_future() -> None:
    body = rss(item(1, NOW + HOUR), item(2, NOW - HOUR), item(3))

    new = digest(feed(), answer(body)).update.new

    assert [entry.at for entry in new] == [NOW, NOW - HOUR, NOW - HOUR - TICK]
    assert [entry.arrived for entry in new] == [NOW] * 3


def test_who_tells_only_of_changes_has_entries_as_old_as_those() -> None:
    """One in twenty feeds, those of code hosts among them: all their past came as news of today."""
    genuine = (corpus.root() / "feeds/atom/weblog.rubyonrails.org-7c27e6.xml").read_bytes()
    first = digest(feed(), answer(genuine))
    new = first.update.new
    assert new[0].at == new[0].published == dt.datetime(2015, 1, 16, 22, 30, 42, tzinfo=dt.UTC)
    assert {entry.at.year for entry in new} == {2014, 2015}
    assert [entry.at for entry in new] == [entry.updated for entry in new]
    changed = genuine.replace(b"2015-01-16T22:30:42", b"2015-01-17T10:00:00").replace(
        b"Live from", b"Late from"
    )
    (change,) = digest(after(feed(), first), answer(changed)).update.changed
    assert change.updated == dt.datetime(2015, 1, 17, 10, tzinfo=dt.UTC)


def test_later_fetch_puts_what_is_new_above_what_was_seen() -> None:
    body = rss(item(1, NOW - 20 * HOUR), item(2, NOW - HOUR / 4), item(3))

    new = digest(feed(checked_at=NOW - HOUR), answer(body)).update.new

    assert [entry.at for entry in new] == [NOW - HOUR, NOW - HOUR / 4, NOW - 2 * TICK]


def test_entries_are_sanitised_absolute_and_have_an_excerpt() -> None:
    (entry,) = digest(feed(), answer(rss(item(4)))).update.new

    assert entry.url == "https://blog.example/p4"
    assert "onclick" not in entry.content + entry.summary
    assert entry.excerpt == "text 4"


def test_second_fetch_finds_only_what_is_new_and_what_changed() -> None:
    first = digest(feed(), answer(rss(item(1), item(2))))
    known = after(feed(), first)

    second = digest(known, answer(rss(item(3), item(1), item(2, body="better"))), NOW + HOUR)

    assert [entry.title for entry in second.update.new] == ["Post 3"]
    assert [change.title for change in second.update.changed] == ["Post 2"]
    assert second.update.fields.changed_at == NOW + HOUR
    third = digest(
        after(known, second), answer(rss(item(3), item(1), item(2, body="better"))), NOW + 2 * HOUR
    )
    assert not third.update.new
    assert not third.update.changed
    assert third.update.fields.changed_at is UNSET


def test_unchanged_keeps_validators_that_the_answer_leaves_out() -> None:
    known = feed(validators=Validators('"1"', "yesterday", b"h" * 16), checked_at=NOW - HOUR)

    result = digest(known, answer(unchanged=True, status=304, validators=Validators()))

    assert result.update.fields.validators is UNSET
    assert result.update.fields.checked_at == NOW
    assert result.plan.next_check_at > NOW
    assert result.record.error is None


def test_unchanged_still_heeds_what_the_feed_asked_for() -> None:
    known = feed(skip_hours=tuple(set(range(24)) - {20}), checked_at=NOW - HOUR)

    plan = digest(known, answer(unchanged=True, status=304)).plan

    assert plan.reason == "skip_hours"


@pytest.mark.parametrize(
    ("error", "ends"),
    [("http_500", False), ("dns_failed", False), ("timeout", False), ("gone", True)],
)
def test_error_is_kept_with_its_word_and_backs_off(error: str, ends: bool) -> None:
    known = feed(errors=2, error_since=NOW - HOUR)

    result = digest(known, answer(error=FetchError(error, "why")))

    fields = result.update.fields
    assert (fields.errors, fields.error, fields.error_detail) == (3, error, "why")
    assert fields.error_since == NOW - HOUR
    assert (fields.next_check_at is None) is ends
    assert result.record.error == error
    assert fields.seen is UNSET
    assert fields.validators is UNSET, "a failed fetch must not make the next one look unchanged"


def test_retry_after_is_kept_with_an_error() -> None:
    result = digest(feed(), answer(status=429, retry_after=7200, error=FetchError("http_429")))

    assert result.plan.next_check_at - NOW >= 2 * HOUR


@pytest.mark.parametrize(
    ("checked", "fetched", "kept"),
    [
        (-10, {"error": FetchError("timeout")}, True),
        (-40, {"error": FetchError("timeout")}, False),
        (None, {"error": FetchError("timeout")}, False),
        # These say how it will be, not how it was.
        (-10, {"error": FetchError("gone"), "status": 410}, False),
        (-10, {"error": FetchError("http_429"), "retry_after": 7200}, False),
    ],
)
def test_a_failure_is_no_news_when_the_feed_answered_another_meanwhile(
    checked: int | None, fetched: dict[str, object], kept: bool
) -> None:
    """As of a worker that was frozen while it asked, and wakes up after the next one has answered."""
    known = feed(checked_at=None if checked is None else NOW + dt.timedelta(seconds=checked))

    result = digest(known, answer(ms=30_000, **fetched))

    assert (result.update.fields == FeedFields()) is kept
    assert result.record.error is not None


def test_success_clears_the_error() -> None:
    known = feed(errors=3, error="timeout", error_detail="x", error_since=NOW - HOUR)

    fields = digest(known, answer(rss(item(1)))).update.fields

    assert (fields.errors, fields.error, fields.error_detail, fields.error_since) == (0, None, "", None)


@pytest.mark.parametrize("body", [b"", b"<html><title>x</title></html>", b"\0\1\2", b"plain words"])
def test_what_is_no_feed_is_an_error_and_nothing_else_changes(body: bytes) -> None:
    result = digest(feed(title="Blog"), answer(body))

    assert result.record.error
    assert not result.update.new
    assert result.update.fields.title is UNSET


def test_permanent_move_is_believed_after_three_equal_answers() -> None:
    known, body = feed(), rss(item(1))
    for times in range(1, MOVES + 1):
        fetched = answer(body, permanent_url="https://new.example/feed", unchanged=times == 2)
        result = digest(known, fetched, NOW + times * HOUR)
        known = after(known, result)
        assert result.moved_to == ("https://new.example/feed" if times == MOVES else None)


def test_permanent_move_is_forgotten_when_the_next_answer_differs() -> None:
    known = feed(moved_to="https://new.example/feed", moved_times=MOVES - 1)

    elsewhere = digest(known, answer(rss(item(1)), permanent_url="https://other.example/feed"))
    back = digest(known, answer(rss(item(1))))

    assert (elsewhere.moved_to, elsewhere.update.fields.moved_times) == (None, 1)
    assert (back.moved_to, back.update.fields.moved_to) == (None, None)


def announce(address: str, number: int = 1) -> bytes:
    space = "http://www.itunes.com/dtds/podcast-1.0.dtd"
    return rss(item(number), head=f"<x:new-feed-url xmlns:x='{space}'>{address}</x:new-feed-url>")


def test_a_stated_address_is_tried_at_each_third_answer_in_a_row() -> None:
    known = feed()
    for times in range(1, 2 * MOVES + 1):
        fetched = answer(announce("https://new.example/feed?utm_source=x#top"), unchanged=times in (2, 5))
        result = digest(known, fetched, NOW + times * HOUR)
        known = after(known, result)
        assert result.moved_to is None, "only a feed that parsed is moved to"
        assert result.announced_url == (None if times % MOVES else "https://new.example/feed")
    result = digest(known, answer(rss(item(1))), NOW + 9 * HOUR)
    assert (result.update.fields.moved_to, result.update.fields.new_url) == (None, None)


@pytest.mark.parametrize(
    "address", [URL, f"{URL}/#x", "http://new.example/feed", "/new", "(none)", "file:///etc/passwd"]
)
def test_an_address_that_is_no_better_is_not_tried(address: str) -> None:
    known = feed(url_key=hash_url(URL), moved_to=None, moved_times=MOVES - 1)
    result = digest(known, answer(announce(address)))
    assert (result.announced_url, result.update.fields.moved_to) == (None, UNSET)


def test_a_redirect_counts_more_than_a_stated_address() -> None:
    known = feed(moved_to="https://new.example/feed", moved_times=MOVES - 1)
    fetched = answer(announce("https://new.example/feed"), permanent_url="https://other.example/feed")
    assert digest(known, fetched).update.fields.moved_to == "https://other.example/feed"


def test_a_feed_in_no_directory_is_marked() -> None:
    space = "http://www.itunes.com/dtds/podcast-1.0.dtd"
    body = rss(item(1), head=f"<x:block xmlns:x='{space}'>Yes</x:block>")
    known = after(feed(), digest(feed(), answer(body)))
    assert known.unlisted
    assert not after(known, digest(known, answer(rss(item(1))))).unlisted


def test_only_what_a_feed_says_differently_is_written() -> None:
    known = feed(title="Blog", site_url=None, language=None)

    fields = digest(known, answer(rss(item(1), head="<language>de</language>"))).update.fields

    assert fields.title is UNSET
    assert fields.language == "de"


def test_genuine_feeds_bring_each_entry_exactly_once() -> None:
    for row in corpus.genuine_feeds()[::4]:
        fetched = answer(row.read(), content_type="application/xml")
        first = digest(feed(), fetched)
        ends = row.read().rstrip().endswith((b">", b"}"))
        assert first.record.error == (None if ends else "cut_off"), row.path
        again = digest(after(feed(), first), fetched, NOW + HOUR)
        assert not again.update.new, row.path
        assert not again.update.changed, row.path
        hashes = [entry.guid_hash for entry in first.update.new]
        assert len(hashes) == len(set(hashes)), row.path


def test_links_that_are_others_at_each_fetch_bring_nothing_back() -> None:
    """As those of a search at Bing News, which has no guids."""

    def answered(request: int, *numbers: int) -> Fetched:
        items = [item(n, NOW - n * HOUR) for n in numbers]
        linked = [one.replace("</link>", f"?tid={request}</link>") for one in items]
        return answer(
            rss(*(one.replace(f"<guid>g{n}</guid>", "") for n, one in zip(numbers, linked, strict=True)))
        )

    first = digest(feed(), answered(0, *range(1, 11)))
    known = after(feed(), first)
    for request in range(1, 5):
        again = digest(known, answered(request, *range(1, 11)), NOW + request * HOUR)
        assert not again.update.new
        assert not again.update.changed, "only a part of their links is another one"
        known = after(known, again)
    news = digest(known, answered(9, 0, *range(1, 10)), NOW + 9 * HOUR).update.new
    assert [entry.title for entry in news] == ["Post 0"]


def test_what_is_younger_than_the_last_answer_is_new_though_all_of_it_was_said_before() -> None:
    def reports(day: int) -> Fetched:
        times = [NOW + day * 24 * HOUR - n * HOUR / 60 for n in range(6)]
        items = [item(n, when).replace(f"g{n}", f"{day}-{n}") for n, when in enumerate(times)]
        return answer(rss(*(one.replace("/p", f"/{day}/") for one in items)))

    known = after(feed(), digest(feed(), reports(0)))
    for day in range(1, 4):
        again = digest(known, reports(day), NOW + (day * 24 + 1) * HOUR)
        assert len(again.update.new) == 6
        known = after(known, again)


def test_X04_a_document_without_its_end_is_an_error_and_what_is_whole_is_stored() -> None:
    whole = rss(item(3), item(1), item(2), head="<description>About</description>")
    known = after(feed(), digest(feed(), answer(rss(item(1), item(2), head="<ttl>60</ttl>"))))
    cut = digest(known, answer(whole[: whole.index(b"<title>Post 1")], validators=Validators(etag='"2"')))
    assert [entry.title for entry in cut.update.new] == ["Post 3"]
    now = after(known, cut)
    assert (now.error, now.errors, now.error_since, cut.record.error) == ("cut_off", 1, NOW, "cut_off")
    assert (now.validators, now.checked_at, now.ttl_minutes) == (known.validators, known.checked_at, 60)
    assert cut.plan.reason in ("hour_table", "asked")
    # The rest comes with the next answer: what was known behind the cut is not new.
    rest = digest(now, answer(whole, validators=Validators(etag='"2"')), NOW + HOUR)
    assert (rest.update.new, rest.update.changed, rest.record.error) == ((), (), None)
    well = after(now, rest)
    assert (well.error, well.errors, well.error_since, well.validators.etag) == (None, 0, None, '"2"')
    assert well.seen == digest(known, answer(whole)).update.fields.seen


def test_X04_a_first_document_without_its_end_leaves_the_feed_unread() -> None:
    whole = rss(item(1, NOW - 5 * HOUR), item(2, NOW - 9 * HOUR))
    for end in (b"<title>Post 1", b"<title>Post 2"):
        cut = digest(feed(), answer(whole[: whole.index(end)]))
        now = after(feed(), cut)
        assert (now.error, now.checked_at, now.validators) == ("cut_off", None, Validators())
        # So the rest has its own dates, and does not come as news of today.
        rest = digest(now, answer(whole), NOW + HOUR)
        assert [e.at for e in (*cut.update.new, *rest.update.new)] == [NOW - 5 * HOUR, NOW - 9 * HOUR]


def test_X04_what_is_new_in_a_feed_that_never_ends_is_on_top_all_the_same() -> None:
    known = feed()
    for newest in (2, 3, 4):
        days = {n: NOW - dt.timedelta(days=20 - n) for n in range(newest, 0, -1)}
        whole = rss(*(item(n, at) for n, at in days.items()))
        at = NOW + newest * HOUR
        cut = digest(known, answer(whole[: whole.index(b"<title>Post 1")], validators=Validators('"1"')), at)
        assert (cut.record.error, known.validators) == ("cut_off", Validators())
        expected = known.checked_at or days[newest]
        assert [(e.title, e.at) for e in cut.update.new][:1] == [(f"Post {newest}", expected)]
        known = after(known, cut)
    assert known.checked_at == NOW + 4 * HOUR


@pytest.mark.parametrize("lacks", [b"</rss>", b"</channel></rss>"])
def test_a_feed_whose_documents_lack_the_last_end_tags_is_as_any_other(lacks: bytes) -> None:
    body = rss(item(1), item(2))
    assert body.endswith(lacks)
    first = digest(feed(), answer(body.removesuffix(lacks), validators=Validators(etag='"1"')))
    known = after(feed(), first)
    assert (len(first.update.new), first.record.error, known.error) == (2, None, None)
    assert (known.validators.etag, known.checked_at) == ('"1"', NOW)
    later = rss(item(3, NOW - dt.timedelta(days=6)), item(1), item(2)).removesuffix(lacks)
    assert [e.at for e in digest(known, answer(later), NOW + HOUR).update.new] == [NOW]


def test_more_entries_or_longer_ones_than_are_read_are_no_error() -> None:
    broken = rss(item(1, body="x" * 5000), item(2), head="<description>a & b</description>")
    for settings in (Settings(feed_max_items=1), Settings(entry_max_html=1024)):
        for body in (broken, broken.replace(b" & ", b" "), broken + b"<!-- from a cache -->" * 60):
            result = Digester(settings, random.Random(1)).digest_fetch(feed(), answer(body), NOW)
            assert result.record.error is None
            assert result.update.new
