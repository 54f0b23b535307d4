"""What nine clients send and six servers answer, row by row: ids, streams, tokens, sifting, pages, marks."""

from __future__ import annotations

import datetime as dt
from urllib.parse import quote

import pytest

from app import clock
from app.bootstrap.services import Services
from app.gateways.sync.filters import from_micros, to_micros
from app.models.accounts.actor import Actor
from app.models.sync.sync import ReadLimit
from app.web.api.greader import marks
from tests.sharing.conftest import People
from tests.support.reader import pull, rss
from tests.sync.conftest import API, READ, READING, STARRED, Reader

LONG = "tag:google.com,2005:reader/item/"
STATE = "user/-/state/com.google"
KEPT, UNREAD, FRESH = f"{STATE}/kept-unread", f"{STATE}/unread", f"{STATE}/fresh"
URL = "https://feeds.example/new?a=1&b=2"


@pytest.fixture
def ann(services: Services) -> Actor:
    """One who reads a feed of sixty entries, ten of them unread."""
    people = People(services)
    actor = people.join("ann")
    people.blog([actor], 60)
    return actor


@pytest.fixture
def small(services: Services, ann: Actor) -> int:
    """A feed of three entries with an address that must be escaped."""
    feed_id = services.subscriptions.subscribe(ann, URL).subscription.feed_id
    pull(services, [feed_id], {URL: rss("New", [("one", "1"), ("two", "2"), ("three", "3")])})
    return feed_id


# -- 4.1 ids
NOTATIONS = {
    "long": lambda i: f"{LONG}{i:016x}",
    "short hexadecimal": lambda i: f"{LONG}{i:x}",
    "upper case": lambda i: f"{LONG}{i:016X}",
    "bare hexadecimal": lambda i: f"{i:016x}",
    "decimal": str,
    "with a space": lambda i: f" {i}\n",
}


def test_an_item_is_known_in_each_notation(reader: Reader) -> None:
    for entry_id, (name, said_as) in zip(reader.ids(), NOTATIONS.items(), strict=False):
        (item,) = reader.post("stream/items/contents", i=said_as(entry_id)).get_json()["items"]
        assert item["id"] == f"{LONG}{entry_id:016x}", name
        reader.do("edit-tag", i=said_as(entry_id), a=STARRED)
        assert entry_id in reader.ids(STARRED), name


def test_ids_are_sixteen_decimal_digits(reader: Reader) -> None:
    refs = reader.json("stream/items/ids", s=READING)["itemRefs"]
    for ref in refs:
        assert list(ref) == ["id"]
        assert len(ref["id"]) == 16
        assert ref["id"][0] != "0"
        assert int(ref["id"]) < 1 << 53
        assert len(f"{int(ref['id']):x}".rjust(16, "0")) == 16


FOREIGN = ("-6032713466789036461", f"{LONG}ac3b1c8f0a6d3e45", "ac3b1c8f0a6d3e45", "1", "9223372036854775807")


def test_ids_of_another_server_are_unknown_and_no_error(reader: Reader) -> None:
    """An app that was moved here from another server still has some; a refusal would stop its queue."""
    for first, foreign in zip(reader.ids(), FOREIGN, strict=False):
        answer = reader.post("stream/items/contents", i=[foreign, str(first)])
        assert answer.status_code == 200, answer.text
        assert [i["id"][-16:] for i in answer.get_json()["items"]] == [f"{first:016x}"]
        reader.do("edit-tag", i=[foreign, str(first)], a=READ)
        assert READ in reader.categories(first)
        reader.do("edit-tag", i=foreign, a=[READ, STARRED, "user/-/label/x"])
        reader.do("edit-tag", i=foreign, r=[READ, STARRED, "user/-/label/x"])


def test_what_is_no_id_is_400(reader: Reader) -> None:
    for bad in ("what", LONG, f"{LONG}xyz", "1.5", f"{LONG}{'0' * 17}", "9" * 21, "²"):
        for answer in (
            reader.post("edit-tag", i=bad, a=READ),
            reader.post("stream/items/contents", i=bad),
            reader.post("comment/edit", action="addcomment", i=bad, comment="?"),
        ):
            assert (answer.status_code, answer.mimetype) == (400, "text/plain"), bad


# -- 4.1 streams
def test_a_feed_is_known_in_each_notation(reader: Reader, small: int) -> None:
    whole = reader.ids(f"feed/{small}")
    assert len(whole) == 3
    for said in ("feed/{id}", "feed/feed/{id}", "feed/{url}", "feed/feed/{url}", "feed/{one}"):
        stream = said.format(id=small, url=URL, one=URL.replace("://", ":/"))
        assert reader.ids(stream) == whole
        escaped = quote(stream, safe="")
        for path in (f"{API}/stream/contents/{escaped}", f"/reader/atom/{escaped}"):
            assert reader.client.get(path, headers=reader.headers).status_code == 200
        assert reader.get("subscribed", s=stream).text == "true"
        reader.do("edit-tag", i=[str(i) for i in whole], r=READ)
        reader.do("mark-all-as-read", s=stream)
        assert reader.ids(f"feed/{small}", xt=READ) == []


NO_STREAMS = (
    *("feed/", "feed/77", f"feed/{'9' * 30}", "feed/²", "feed/-1", "feed/x", "feed/http://", "feed/%00"),
    *("what", f"{STATE}/nothing", "user/-/state/x/y", "user/-/label/none", "splice/feed/77"),
)


def test_what_is_no_stream_of_his_is_400(reader: Reader) -> None:
    for bad in NO_STREAMS:
        for answer in (
            reader.get("stream/items/ids", s=bad),
            reader.get("stream/items/count", s=bad),
            reader.get("stream/contents", s=bad),
            reader.post("mark-all-as-read", s=bad),
            reader.post("subscription/edit", ac="edit", s=bad, t="x"),
        ):
            assert (answer.status_code, answer.mimetype) == (400, "text/plain"), (bad, answer.text)
        assert reader.post("subscription/edit", ac="unsubscribe", s=bad).status_code in (200, 400)
        assert reader.get("subscribed", s=bad).status_code in (200, 400)


def test_the_user_is_known_by_number_and_name(reader: Reader, ann: Actor) -> None:
    for name in ("-", str(ann.user_id), "ann", "Ann"):
        whole = reader.ids()
        assert reader.ids(f"user/{name}/state/com.google/reading-list") == whole
        reader.do("edit-tag", i=str(whole[0]), a=f"user/{name}/state/com.google/starred")
        assert reader.ids(it=f"user/{name}/state/com.google/starred") == [whole[0]]
        reader.do("edit-tag", i=str(whole[0]), r=f"user/{name}/state/com.google/starred")
        reader.do("edit-tag", i=str(whole[0]), a=f"user/{name}/label/x{name}")
        assert reader.ids(f"user/-/label/x{name}") == reader.ids(f"user/{name}/label/x{name}") == [whole[0]]


def test_streams_are_joined(reader: Reader, small: int) -> None:
    other = next(f for f in reader.json("subscription/list")["subscriptions"] if f["id"] != f"feed/{small}")
    both = sorted(reader.ids(f"feed/{small}") + reader.ids(other["id"]))
    assert sorted(reader.ids(f"splice/feed/{small}|{other['id']}")) == both
    assert sorted(reader.ids([f"feed/{small}", other["id"]])) == both
    path = quote(f"splice/feed/{small}|{other['id']}", safe="")
    assert len(reader.json(f"stream/contents/{path}", n=1000)["items"]) == len(both)
    first, second = reader.ids(f"feed/{small}")[:2]
    reader.do("edit-tag", i=str(first), a=STARRED)
    reader.do("edit-tag", i=str(second), a="user/-/label/x")
    assert reader.ids([STARRED, "user/-/label/x"]) == [first, second]
    assert len(reader.ids([STARRED] * 60)) == 1
    assert reader.get("stream/items/ids", s=[f"feed/{n}" for n in range(1, 60)]).status_code == 400


# -- 4.1 T
def test_each_token_that_some_app_sends_will_do(reader: Reader) -> None:
    first, token = str(reader.ids()[0]), reader.get("token").text
    assert token.strip() == token == reader.post("token").text
    reader.do("edit-tag", i=first, a=STARRED)
    for sent in ("", "x", " x\n", reader.auth, token, f"{token}\n", f" {token}"):
        reader.do("edit-tag", i=first, a=STARRED, T=sent)


def test_a_wrong_token_is_said_to_be_one_and_changes_nothing(reader: Reader) -> None:
    for path in ("edit-tag", "mark-all-as-read", "subscription/edit", "rename-tag", "disable-tag", "token"):
        answer = reader.post(path, T="0" * 57, i="1", a=READ, s=READING)
        assert (answer.status_code, answer.text) == (401, "Unauthorized")
        assert answer.headers["X-Reader-Google-Bad-Token"] == "true"
    assert reader.get("tag/list", T="0" * 57).status_code == 200
    reader.auth = "0" * 64
    assert "X-Reader-Google-Bad-Token" not in reader.post("edit-tag").headers


def test_the_header_is_read_in_any_case(reader: Reader) -> None:
    for header in ("GoogleLogin auth={}", "googlelogin AUTH={}", "  GoogleLogin   auth = {}  "):
        said = {"Authorization": header.format(reader.auth)}
        assert reader.client.get(f"{API}/user-info", headers=said).status_code == 200


# -- 4.3 sifting
def test_it_and_xt_are_joined_and_repeated(reader: Reader, small: int) -> None:
    one, two, three = reader.ids(f"feed/{small}")
    reader.do("edit-tag", i=[str(one), str(two)], a=STARRED)
    reader.do("edit-tag", i=[str(two), str(three)], a=READ)
    reader.do("edit-tag", i=str(three), a="user/-/label/x")
    feed = f"feed/{small}"
    assert reader.ids(feed, it=STARRED) == [one, two]
    assert reader.ids(feed, it=[STARRED, READ]) == [two]
    assert reader.ids(feed, it=STARRED, xt=READ) == [one]
    assert reader.ids(feed, xt=[STARRED, READ]) == []
    assert reader.ids(feed, xt=[STARRED, "user/-/label/x"]) == []
    assert reader.ids(feed, xt="user/-/label/x") == [one, two]
    assert reader.ids(feed, it="user/-/label/x") == [three]
    for name in (UNREAD, KEPT, FRESH):
        assert reader.ids(feed, xt=name) == [two, three]
        assert reader.ids(feed, it=name) == [one]
    assert set(reader.ids(READ)) >= {two, three}
    assert one in reader.ids(UNREAD)
    assert reader.ids(READING, it=READ) == reader.ids(READ)
    assert reader.ids(READING, it=feed) == [one, two, three]
    assert not {one, two, three} & set(reader.ids(READING, xt=feed))
    assert reader.ids(f"{STATE}/created") == []
    assert reader.ids(feed, xt="user/-/label/unknown") == [one, two, three]
    assert reader.ids(STARRED, r="o") == [two, one]


def test_a_label_is_a_folder_and_a_tag_in_whatever_is_asked(reader: Reader, small: int) -> None:
    """Apps that ask for all that bears it are told the same, however they ask."""
    feed, label = f"feed/{small}", "user/-/label/Both"
    other = next(i for i in reader.ids() if i not in reader.ids(feed))
    reader.do("subscription/edit", ac="edit", s=feed, a=label)
    reader.do("edit-tag", i=str(other), a=label)
    assert set(reader.ids(label)) == {other, *reader.ids(feed)}
    assert reader.ids(READING, it=label) == reader.ids(label)
    assert reader.ids(feed, it=label) == reader.ids(feed)
    reader.do("edit-tag", i=str(other), a=STARRED)
    assert reader.ids(READING, it=[label, STARRED]) == [other]


@pytest.mark.parametrize("n", [7, 200_000, 1])
def test_pages_go_to_the_end_whatever_is_asked(reader: Reader, n: int) -> None:
    some = reader.ids()[:40]
    reader.do("edit-tag", i=[str(i) for i in some[::2]], a=READ)
    reader.do("edit-tag", i=[str(i) for i in some[::3]], a=STARRED)
    for query in ({}, {"xt": READ}, {"it": READ}, {"r": "o"}, {"ot": "1"}, {"xt": STARRED}):
        whole, found = reader.ids(**query), list[int]()
        more: dict[str, str] = {}
        for _ in range(12 if n == 1 else len(whole)):
            page = reader.json("stream/items/ids", s=READING, n=n, **query, **more)
            assert len(page["itemRefs"]) <= n
            found += [int(ref["id"]) for ref in page["itemRefs"]]
            if "continuation" not in page:
                break
            assert isinstance(page["continuation"], str)
            more = {"c": page["continuation"]}
        assert found == whole[: 12 if n == 1 else None]


def test_a_page_that_a_body_asks_for_is_never_taken_for_another(reader: Reader, small: int) -> None:
    """What a body says is not in the address that a tag of an answer is made of."""
    url = f"{API}/stream/items/ids"
    asked = {"s": f"feed/{small}", "n": "1"}
    known = reader.client.post(url, data=asked, headers=reader.headers).headers.get("ETag", "*")
    for n in (1, 2):
        said = {**reader.headers, "If-None-Match": known}
        answer = reader.client.post(url, data={**asked, "n": n}, headers=said)
        assert answer.status_code == 200
        assert len(answer.get_json()["itemRefs"]) == n
        assert "ETag" not in answer.headers


def test_a_page_goes_on_where_it_ended_though_states_change(reader: Reader) -> None:
    whole = reader.ids(xt=READ)
    page = reader.json("stream/items/ids", s=READING, n=5, xt=READ)
    reader.do("edit-tag", i=[str(i) for i in whole[:5]], a=READ)
    rest = reader.json("stream/items/ids", s=READING, n=10_000, xt=READ, c=page["continuation"])
    assert [int(ref["id"]) for ref in rest["itemRefs"]] == whole[5:]


NO_NUMBERS = ({"n": "x"}, {"n": "-1"}, {"ot": "x"}, {"ot": "9" * 20}, {"nt": "9" * 15})


def test_what_is_no_number_is_400(reader: Reader) -> None:
    for bad in NO_NUMBERS:
        answer = reader.get("stream/items/ids", s=READING, **bad)
        assert (answer.status_code, answer.mimetype) == (400, "text/plain"), bad


def test_contents_are_1000_and_ids_10000_at_most(reader: Reader) -> None:
    total = len(reader.ids())
    assert len(reader.json("stream/contents")["items"]) == 20
    assert len(reader.json("stream/contents", n="0")["items"]) == 20
    assert len(reader.json("stream/contents", n=200_000)["items"]) == total
    assert "continuation" not in reader.json("stream/contents", n=200_000)
    assert "continuation" not in reader.post("stream/items/contents", i=str(reader.ids()[0])).get_json()


def test_direct_streams_are_told_when_asked_for(reader: Reader, small: int) -> None:
    refs = reader.json("stream/items/ids", s=f"feed/{small}", includeAllDirectStreamIds="true")["itemRefs"]
    for ref in refs:
        assert ref["directStreamIds"] == [f"feed/{small}"]
        assert ref["timestampUsec"].isdigit()
    refs = reader.json("stream/items/ids", s=f"feed/{small}", includeAllDirectStreamIds="false")["itemRefs"]
    assert [list(ref) for ref in refs] == [["id"]] * 3


def test_items_are_counted(reader: Reader, small: int) -> None:
    assert reader.get("stream/items/count", s=f"feed/{small}").text == "3"
    today = clock.now()
    said = reader.get("stream/items/count", s=f"feed/{small}", a="true").text
    assert said.split("#")[0] == "3"
    assert str(today.year)[:2] in said
    assert reader.get("stream/items/count", s=READING).text == str(len(reader.ids()))


# -- 4.1 ts
def test_all_is_read_up_to_a_time_in_any_unit(reader: Reader, small: int) -> None:
    whole = reader.ids(f"feed/{small}")
    second = max(whole) // 1_000_000
    for unit in (1, 1_000, 1_000_000, 1_000_000_000):
        reader.do("edit-tag", i=[str(i) for i in whole], r=READ)
        reader.do("mark-all-as-read", s=f"feed/{small}", ts=str((second - 5) * unit))
        assert reader.ids(f"feed/{small}", xt=READ) == whole
        reader.do("mark-all-as-read", s=f"feed/{small}", ts=str((second + 5) * unit))
        assert reader.ids(f"feed/{small}", xt=READ) == []


def test_the_newest_item_itself_is_marked_by_its_id(reader: Reader, small: int) -> None:
    """FreshRSS's apps send it as ``ts``: no microsecond may be lost on the way."""
    newest = max(reader.ids(f"feed/{small}"))
    reader.do("mark-all-as-read", s=f"feed/{small}", ts=str(newest - 1))
    assert reader.ids(f"feed/{small}", xt=READ) == [newest]
    reader.do("mark-all-as-read", s=f"feed/{small}", ts=str(newest))
    assert reader.ids(f"feed/{small}", xt=READ) == []
    for number in range(1_795_362_336_360_706, 1_795_362_336_360_706 + 2_000_000, 9_973):
        assert marks._time(str(number)) == ReadLimit(number, number)
        assert to_micros(from_micros(number)) == number


def test_a_time_that_is_none_marks_nothing(reader: Reader) -> None:
    before = reader.ids(xt=READ)
    for bad in ("x", "-5", "1.5", "9" * 21, "²"):
        assert reader.post("mark-all-as-read", s=READING, ts=bad).status_code == 400
    assert reader.ids(xt=READ) == before


def test_each_list_is_marked_as_read(reader: Reader, small: int) -> None:
    feed = f"feed/{small}"
    reader.do("subscription/edit", ac="edit", s=feed, a="user/-/label/News")
    ids = [str(i) for i in reader.ids(feed)]
    reader.do("edit-tag", i=ids, a=[STARRED, "user/-/label/later"])
    for stream in (feed, "user/-/label/News", READING, STARRED, "user/-/label/later"):
        reader.do("edit-tag", i=ids, r=READ)
        for _ in range(2):
            reader.do("mark-all-as-read", s=stream)
        assert reader.ids(feed, xt=READ) == [], stream


# -- ot, nt
def test_ot_and_nt_are_seconds(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reader.ids()
    now = int(clock.now().timestamp())
    assert reader.ids(ot=now - 3600) == whole, "they came just now, however old they are"
    assert reader.ids(nt=now - 3600) == []
    assert reader.ids(nt=now + 3600) == whole
    later = clock.now() + dt.timedelta(hours=2)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert reader.ids(ot=now + 3600) == []
    reader.do("edit-tag", i=str(whole[5]), a="user/-/label/x")
    reader.do("edit-tag", i=str(whole[3]), r=READ, a=KEPT)
    assert reader.ids(ot=now + 3600) == [whole[3], whole[5]]
    assert reader.ids(ot=now + 3600, r="o") == [whole[5], whole[3]]
    assert reader.get("stream/items/count", s=READING, ot=now + 3600).text == "2"


# -- output
def test_output_is_json_atom_or_nothing(reader: Reader, small: int) -> None:
    feed = f"feed/{small}"
    paths = (
        "stream/contents",
        "subscription/list",
        "tag/list",
        "unread-count",
        "stream/items/ids",
        "user-info",
    )
    for path in paths:
        for said in ({}, {"output": "json"}):
            answer = reader.client.get(
                f"{API}/{path}", query_string={"s": feed, **said}, headers=reader.headers
            )
            assert (answer.status_code, answer.mimetype) == (200, "application/json")
        answer = reader.get(path, s=feed, output="xml")
        assert (answer.status_code, answer.mimetype) == (501, "text/plain")
    for answer in (
        reader.get(f"stream/contents/{feed}", output="atom"),
        reader.get("stream/contents", s=feed, output="atom"),
        reader.client.get(f"/reader/atom/{feed}", headers=reader.headers),
    ):
        assert (answer.status_code, answer.mimetype) == (200, "application/atom+xml")
        assert answer.text.count("<entry ") == 3, answer.text[:300]


def test_what_came_since_is_sifted_by_state(reader: Reader) -> None:
    some = reader.ids(xt=READ)[:3]
    reader.do("edit-tag", i=[str(i) for i in some], a=READ)
    since = int(clock.now().timestamp()) - 3600
    for query in ({"xt": READ}, {"it": READ}):
        assert reader.ids(ot=since, **query) == reader.ids(**query)
    assert reader.ids(READ, ot=since) == reader.ids(READ)
