"""The Google Reader API: what apps ask for and what they need from the answers."""

from __future__ import annotations

import datetime as dt
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor, Role
from app.models.media.addresses import MediaKeys
from app.models.sync.sync import SyncStream, SyncStreamKind
from tests.support.reader import pull, rss
from tests.sync.conftest import API, READ, READING, STARRED, Reader

STATE = "user/-/state/com.google/"
Connect = Callable[..., Reader]


def test_log_in_answers_three_lines(reader: Reader) -> None:
    answer = reader.client.get(
        "/accounts/ClientLogin", query_string={"Email": "ann", "Passwd": reader.password}
    )
    assert answer.text == f"SID={reader.auth}\nLSID={reader.auth}\nAuth={reader.auth}\n"
    assert "=" not in reader.auth


@pytest.mark.parametrize("base", ["", "/api/greader.php", "/api/greader"])
def test_it_is_where_apps_look_for_it(ann: Actor, connect: Connect, base: str) -> None:
    assert connect(ann, base=base).json("user-info")["userName"] == "ann"


def test_subscriptions_have_all_that_some_app_needs(reader: Reader) -> None:
    found = reader.json("subscription/list")["subscriptions"]
    assert len(found) == 8
    for each in found:
        for name in ("id", "title", "url", "htmlUrl"):
            assert isinstance(each[name], str)
        assert each["iconUrl"] != "", "a program loads an empty address as a picture"
        assert each["title"]
        assert each["id"].startswith("feed/")
        assert each["categories"] == []


def test_items_are_read_starred_and_unread_again(reader: Reader) -> None:
    unread = reader.ids(READING, xt=READ)
    counts = reader.json("unread-count")["unreadcounts"]
    assert {c["id"]: c["count"] for c in counts}[READING] == len(unread) > 20
    first, second = unread[:2]
    reader.do("edit-tag", i=[f"tag:google.com,2005:reader/item/{first:016x}", str(second)], a=READ)
    assert reader.ids(READING, xt=READ) == unread[2:]
    reader.do("edit-tag", i=str(first), r=READ, a="user/-/state/com.google/kept-unread")
    assert sorted(reader.ids(READING, xt=READ)) == sorted([first, *unread[2:]])
    reader.do("edit-tag", i=str(second), a=STARRED)
    reader.do("edit-tag", i=str(second), a=STARRED)
    assert reader.ids(STARRED) == [second]
    assert {READING, READ, STARRED} <= set(reader.categories(second))
    reader.do("edit-tag", i=str(second), r=STARRED)
    assert reader.ids(STARRED) == []


def test_contents_have_all_that_some_app_needs(reader: Reader) -> None:
    stream = reader.json("stream/contents", n=50)
    assert (stream["id"], type(stream["updated"])) == (READING, int)
    assert len(stream["items"]) == 50
    for item in stream["items"]:
        assert item["categories"][0] == READING
        assert "content" in item["summary"]
        assert "content" not in item
        assert item["canonical"][0]["href"].startswith("http")
        assert item["origin"]["streamId"].startswith("feed/")
        for name in ("crawlTimeMsec", "timestampUsec", "title"):
            assert isinstance(item[name], str)
        assert isinstance(item["published"], int)
        assert isinstance(item["updated"], int)


def test_ids_in_texts_are_those_of_their_item(reader: Reader, services: Services, ann: Actor) -> None:
    url = "https://notes.example/feed"
    feed_id = services.subscriptions.subscribe(ann, url).subscription.feed_id
    pull(services, [feed_id], {url: rss("Notes", [("One", "<p>a<a href='#n'>1</a></p><p id=n>b</p>")])})
    (item,) = reader.json(f"stream/contents/feed/{feed_id}", n=1)["items"]
    key = int(item["id"].rpartition("/")[2], 16)
    assert item["summary"]["content"] == f'<p>a<a href="#at-{key}-n">1</a></p><p id="at-{key}-n">b</p>'


def test_apps_get_the_pictures_that_came_beside_a_text(
    reader: Reader, services: Services, ann: Actor
) -> None:
    url = "https://photos.example/feed"
    feed_id = services.subscriptions.subscribe(ann, url).subscription.feed_id
    picture = (
        "<media:content url='/1.jpg?a=1&amp;b=&quot;' medium='image'><media:description>Night &lt;3"
        "</media:description></media:content>"
    )
    body = rss("Photos", [("One", "<p>Text</p>")]).decode()
    body = body.replace("<rss ", "<rss xmlns:media='http://search.yahoo.com/mrss/' ")
    pull(services, [feed_id], {url: body.replace("</item>", f"{picture}</item>").encode()})
    (item,) = reader.json(f"stream/contents/feed/{feed_id}")["items"]
    content = item["summary"]["content"]
    shown = re.fullmatch(r'<p><img alt="Night &lt;3" src="[^"]+(/i/u/[^"]+)"></p><p>Text</p>', content)
    assert shown, content
    keys = MediaKeys.create("", services.settings.secret_key)
    found = keys.verify(*shown[1].split("/")[3:])
    assert found is not None
    assert found.url == 'https://photos.example/1.jpg?a=1&b="'


def test_pages_follow_each_other_to_the_end(reader: Reader) -> None:
    whole = reader.ids()
    found: list[int] = []
    more: dict[str, str] = {}
    while True:
        page = reader.json("stream/items/ids", s=READING, n=7, **more)
        found += [int(ref["id"]) for ref in page["itemRefs"]]
        assert all(list(ref) == ["id"] for ref in page["itemRefs"])
        if "continuation" not in page:
            break
        more = {"c": page["continuation"]}
    assert found == whole
    assert len(set(found)) == len(found) > 50
    assert reader.ids(r="o") == whole[::-1]


def test_nobody_comes_in_without_a_good_token(reader: Reader) -> None:
    good, reader.auth = reader.auth, "0" * 64
    answer = reader.get("subscription/list")
    assert (answer.status_code, answer.text) == (401, "Unauthorized")
    reader.auth = good
    assert reader.client.get(f"{API}/tag/list").status_code == 401
    wrong = reader.post("edit-tag", i="1", a=READ, T="wrong")
    assert (wrong.status_code, wrong.headers["X-Reader-Google-Bad-Token"]) == (401, "true")
    token = reader.get("token").text
    for sent in ("", "x", good, token, f"{token}\n"):
        reader.do("edit-tag", i="1", a=READ, T=sent)


def test_a_bad_id_is_400_and_a_bad_address_404(reader: Reader) -> None:
    assert reader.post("edit-tag", i="what", a=READ).status_code == 400
    assert reader.post("mark-all-as-read", s="feed/12").status_code == 400
    assert reader.get("stream/contents/user/-/label/none").status_code == 400
    assert reader.get("no/such/thing").status_code == 404
    assert reader.get("stream/contents", output="xml").status_code == 501


@pytest.mark.parametrize("base", ["", "/api/greader.php", "/api/greader"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "nope", 404),
        ("POST", "nope", 404),
        ("POST", "stream/nope/at/all", 404),
        ("GET", "edit-tag", 405),
        ("DELETE", "edit-tag", 405),
        ("PUT", "user-info", 405),
        ("PUT", "subscription/list", 405),
    ],
)
def test_what_there_is_not_is_told_in_plain_words(
    reader: Reader, base: str, method: str, path: str, status: int
) -> None:
    """Never 403: NetNewsWire would log in again."""
    for headers in (reader.headers, {}):
        answer = reader.client.open(f"{base}/reader/api/0/{path}", method=method, headers=headers)
        assert (answer.status_code, answer.mimetype) == (status, "text/plain")
        assert "<" not in answer.text
        assert "Set-Cookie" not in answer.headers
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert ("Allow" in answer.headers) is (status == 405)


def test_all_is_marked_up_to_what_the_app_has_seen(reader: Reader, services: Services, ann: Actor) -> None:
    feed_id = services.subscriptions.subscribe(ann, "https://feeds.example/new").subscription.feed_id
    pull(services, [feed_id], {"https://feeds.example/new": rss("New", [("one", "1"), ("two", "2")])})
    (newest, oldest) = reader.ids(f"feed/{feed_id}")
    later = max(newest, oldest)
    reader.do("mark-all-as-read", s=f"feed/{feed_id}", ts=str(later - 1))
    assert reader.ids(f"feed/{feed_id}", xt=READ) == [later]
    reader.do("mark-all-as-read", s=READING)
    assert reader.ids(READING, xt=READ) == []
    (only,) = reader.json("unread-count")["unreadcounts"]
    assert (only["id"], only["count"]) == (READING, 0)


def test_an_app_asks_what_has_changed(
    reader: Reader, services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before it last asked is told again when its state changed since, and nothing else is."""
    whole = reader.ids()
    assert reader.ids(ot=1) == whole
    later = clock.now() + dt.timedelta(hours=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    ot = int(later.timestamp()) - 10
    assert reader.ids(ot=ot) == []
    old, starred = whole[-1], whole[-2]
    reader.do("edit-tag", i=str(old), a=READ)
    her = services.gateways.accounts.find_user(ann.user_id)
    assert her is not None
    assert services.reading.set_starred(her.actor, starred, True)
    assert reader.ids(ot=ot) == [starred, old]
    assert reader.ids(READ, ot=ot) == [i for i in (starred, old) if READ in reader.categories(i)]
    services.subscriptions.subscribe(ann, "https://feeds.example/new")
    (new,) = [f for f in reader.json("subscription/list")["subscriptions"] if f["url"].endswith("/new")]
    feed_id = int(new["id"].removeprefix("feed/"))
    pull(services, [feed_id], {"https://feeds.example/new": rss("New", [("one", "1")])})
    (one,) = reader.ids(new["id"])
    assert one in reader.ids(ot=ot)
    assert one not in reader.ids(ot=ot, nt=ot)


def test_what_becomes_of_a_tag_is_told_of_its_entries(
    reader: Reader, services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three, *_ = reader.ids()
    for entry, name in ((one, "old"), (two, "old"), (two, "kept"), (three, "kept")):
        reader.do("edit-tag", i=str(entry), a=f"user/-/label/{name}")
    tags = {tag.name: tag.id for tag in services.tags.list_tags(ann)}
    later = clock.now()
    monkeypatch.setattr(clock, "now", lambda: later)
    her = services.gateways.accounts.find_user(ann.user_id)
    assert her is not None
    old, kept, who = tags["old"], tags["kept"], her.actor
    for change in (
        lambda: reader.do("rename-tag", s="user/-/label/old", dest="user/-/label/new"),
        lambda: services.tags.merge(who, old, kept),
        lambda: services.tags.restore(who, old),
        lambda: reader.do("disable-tag", s="user/-/label/new"),
        lambda: services.tags.restore(who, old),
    ):
        later += dt.timedelta(hours=1)
        assert reader.ids(ot=int(later.timestamp())) == []
        change()
        assert set(reader.ids(ot=int(later.timestamp()))) == {one, two}
    # Of more than one is told of, those that were tagged last.
    monkeypatch.setattr(services.gateways.changes, "_most", 1)
    later += dt.timedelta(hours=1)
    services.tags.rename(who, old, "newest")
    assert reader.ids(ot=int(later.timestamp())) == [two]


@pytest.mark.parametrize(
    "path", ["subscription/list", "tag/list", "stream/contents/feed/{}", "/reader/atom/feed/{}"]
)
def test_an_answer_is_not_sent_twice(reader: Reader, ann: Actor, services: Services, path: str) -> None:
    """Apps send the tag back as it came, newsboat among them; what changes for the user changes it."""
    feed = services.sync.list_feeds(ann)[0]
    url = path.format(feed.card.id) if path.startswith("/") else f"{API}/{path.format(feed.card.id)}"
    first = reader.client.get(url, headers=reader.headers)
    assert (first.status_code, bool(first.data)) == (200, True)
    known = {**reader.headers, "If-None-Match": first.headers["ETag"]}
    again = reader.client.get(url, headers=known)
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    services.tags.change_tags(ann, reader.ids(f"feed/{feed.card.id}")[0], add=["kept"])
    services.reading.mark(ann, reader.ids(f"feed/{feed.card.id}"), True)
    services.subscriptions.update(ann, feed.card.id, title="Another name")
    assert reader.client.get(url, headers=known).status_code == 200


def _shared(services: Services, ann: Actor, entry_id: int) -> int:
    return services.sharing.find_own_share(ann, services.reading.get_article(ann, entry_id).entry) or 0


def _changes(services: Services, ann: Actor, feed_id: int, entry_id: int) -> dict[str, Callable[[], object]]:
    """What changes a feed's items for a user, each by a service of the web; made beforehand what it needs."""
    folder = services.folders.create(ann, "Shelf").id
    services.subscriptions.update(ann, feed_id, folder_ids=[folder])
    services.tags.change_tags(ann, entry_id, add=["old"])
    tag = next(tag for tag in services.sync.list_tags(ann) if tag.name == "old")
    undo: list[str] = []
    boss = Actor(17, Role.ADMIN)
    return {
        "read": lambda: services.reading.mark(ann, [entry_id], True),
        "unread": lambda: services.reading.mark(ann, [entry_id], False),
        "starred": lambda: services.reading.set_starred(ann, entry_id, True),
        "shared": lambda: services.sharing.share(ann, entry_id, note=""),
        "not shared": lambda: undo.append(services.sharing.unshare(ann, entry_id) or ""),
        "shared after all": lambda: services.sharing.restore_share(ann, undo[0]),
        "share taken away": lambda: services.moderation.remove_share(boss, _shared(services, ann, entry_id)),
        "liked": lambda: services.discussion.set_liked(ann, entry_id, True),
        "tagged": lambda: services.tags.change_tags(ann, entry_id, add=["kept"]),
        "tag renamed": lambda: services.tags.rename(ann, tag.id, "new"),
        "tag deleted": lambda: services.tags.delete(ann, tag.id),
        "all read": lambda: services.sync_marks.mark_before(
            ann, SyncStream(SyncStreamKind.FEED, feed_id), None
        ),
        "folder renamed": lambda: services.folders.rename(ann, folder, "Case"),
        "feed renamed": lambda: services.subscriptions.update(ann, feed_id, title="Another name"),
        "folder deleted": lambda: services.folders.delete(ann, folder),
    }


def test_whatever_changes_a_feeds_items_changes_their_tag(
    reader: Reader, ann: Actor, services: Services
) -> None:
    her = services.gateways.accounts.find_user(ann.user_id)
    assert her is not None
    feed_id = services.sync.list_feeds(ann)[0].card.id
    url = f"{API}/stream/contents/feed/{feed_id}"
    for name, change in _changes(services, her.actor, feed_id, reader.ids(f"feed/{feed_id}")[0]).items():
        before = reader.client.get(url, headers=reader.headers)
        change()
        after = reader.client.get(url, headers={**reader.headers, "If-None-Match": before.headers["ETag"]})
        assert after.status_code == 200, name
        assert after.get_json()["items"] != before.get_json()["items"], name


def test_a_mark_is_told_of_once_it_is_stored(
    reader: Reader, ann: Actor, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a program that asks in between takes the entry as it was, and next asks from a later time on."""
    her = services.gateways.accounts.find_user(ann.user_id)
    assert her is not None
    (entry_id,) = reader.ids(f"feed/{services.sync.list_feeds(ann)[0].card.id}")[:1]
    reads, changes, began = services.gateways.read_marks, services.gateways.changes, clock.now()
    told, write = [], reads.mark

    def written(*args: Any, **options: Any) -> object:
        told.append(changes.find_since(ann.user_id, began))
        return write(*args, **options)

    monkeypatch.setattr(reads, "mark", written)
    services.reading.mark(her.actor, [entry_id], True)
    assert told == [({}, set())]
    assert changes.find_since(ann.user_id, began)[0]


@pytest.mark.parametrize(
    ("what", "gateway", "method"),
    [
        ("starred", "entries", "set_starred"),
        ("liked", "entries", "set_liked"),
        ("tagged", "tags", "change_tags"),
    ],
)
def test_who_asks_while_it_changes_gets_the_change_the_next_time(
    reader: Reader,
    ann: Actor,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    gateway: str,
    method: str,
) -> None:
    her = services.gateways.accounts.find_user(ann.user_id)
    assert her is not None
    feed_id = services.sync.list_feeds(ann)[0].card.id
    entry_id, other = reader.ids(f"feed/{feed_id}")[:2]
    services.tags.change_tags(ann, other, add=["kept"])
    change = _changes(services, her.actor, feed_id, entry_id)[what]
    url = f"{API}/stream/contents/feed/{feed_id}"
    owner, answers = getattr(services.gateways, gateway), []
    write = getattr(owner, method)

    def written(*args: object) -> object:
        answers.append(reader.client.get(url, headers=reader.headers))
        return write(*args)

    monkeypatch.setattr(owner, method, written)
    change()
    (before,) = answers
    after = reader.client.get(url, headers={**reader.headers, "If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    assert after.get_json()["items"] != before.get_json()["items"]


def test_who_subscribes_again_gets_his_items_anew(reader: Reader, services: Services, ann: Actor) -> None:
    """Of what came while he was subscribed more is unread than of what he finds when he begins."""
    url = "https://feeds.example/many"
    feed_id = services.subscriptions.subscribe(ann, url).subscription.feed_id
    for number in (1, 150):
        pull(services, [feed_id], {url: rss("Many", [(f"entry {i}", "Text") for i in range(number)])})
    path = f"{API}/stream/items/ids?s=feed/{feed_id}&xt={READ}&n=1000"
    before = reader.client.get(path, headers=reader.headers)
    services.subscriptions.unsubscribe(ann, feed_id)
    services.subscriptions.subscribe(ann, url)
    after = reader.client.get(path, headers={**reader.headers, "If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    assert [len(answer.get_json()["itemRefs"]) for answer in (before, after)] == [150, 100]


LIFEREA = "Liferea/1.14.4 (Android 12; Mobile; https://lzone.de/liferea/) AppleWebKit (KHTML, like Gecko)"


@pytest.mark.parametrize("path", ["subscription/list", "stream/items/ids?s=feed/{}&n=50&output=json"])
def test_liferea_always_gets_the_whole_list(
    reader: Reader, services: Services, ann: Actor, path: str
) -> None:
    """It sends back any tag, takes 304 for a failure, and leaves out the update of all feeds then."""
    url = f"{API}/{path.format(services.sync.list_feeds(ann)[0].card.id)}"
    known = {
        **reader.headers,
        "If-None-Match": reader.client.get(url, headers=reader.headers).headers["ETag"],
    }
    answer = reader.client.get(url, headers={**known, "User-Agent": LIFEREA})
    assert (answer.status_code, answer.headers.get("ETag")) == (200, None)
    assert reader.client.get(url, headers=known).status_code == 304


def test_liferea_is_told_in_its_own_words(reader: Reader) -> None:
    """What it looks for, no other app is sent: some fail at fields that they do not know."""
    read, starred, rest = reader.ids(xt=READ)[:3]
    reader.do("edit-tag", i=str(read), a=READ)
    reader.do("edit-tag", i=str(starred), a=STARRED)
    form = {"i": [str(read), str(starred), str(rest)], "T": reader.auth}
    path, agent = f"{API}/stream/items/contents", LIFEREA
    # It sends its token in the body alone.
    answer = reader.client.post(path, data=form, headers={"User-Agent": agent})
    told = {int(item["id"][-16:], 16): item for item in answer.get_json()["items"]}
    assert {i: item["marked"] for i, item in told.items()} == {read: False, starred: True, rest: False}
    first = {i: item["categories"][0] for i, item in told.items()}
    assert first == {read: r"user\/-\/state\/com.google\/read", starred: READING, rest: READING}
    assert all(READING in item["categories"] and "marked" not in item for item in reader.items(read, starred))


def test_what_has_changed_is_sifted_by_its_state(reader: Reader) -> None:
    """RSS Guard asks for what is unread of the last year, and takes the answer for all that is unread."""
    read, unread = reader.ids(READING, it=READ), reader.ids(READING, xt=READ)
    assert min(len(read), len(unread)) > 2
    assert reader.ids(READING, xt=READ, ot=1000) == reader.ids(f"{STATE}unread", ot=1000) == unread
    assert reader.ids(READING, it=READ, ot=1000) == reader.ids(READ, ot=1000) == read
    reader.do("edit-tag", i=str(unread[0]), a=READ)
    assert reader.ids(READING, xt=READ, ot=1000) == unread[1:]
    feed = reader.items(unread[1])[0]["origin"]["streamId"]
    assert reader.ids(feed, xt=READ, ot=1000) == [i for i in unread[1:] if i in reader.ids(feed)]


def test_a_label_named_like_a_state_is_none_for_newsboat(
    reader: Reader, ann: Actor, services: Services
) -> None:
    """It reads the short names of categories alone: "read" of a folder would be as good as of a state."""
    (feed, *_) = services.sync.list_feeds(ann)
    folder = services.folders.create(ann, "read").id
    services.subscriptions.update(ann, feed.card.id, folder_ids=[folder])
    (entry_id, *_) = unread = reader.ids(f"feed/{feed.card.id}", xt=READ)
    services.tags.change_tags(ann, entry_id, add=["kept-unread", "news/fresh"])
    services.reading.mark(ann, unread[1:], True)
    page = reader.client.get(f"/reader/atom/feed/{feed.card.id}?n=1000", headers=reader.headers)
    for entry in ET.fromstring(page.data).iter("{http://www.w3.org/2005/Atom}entry"):
        short = {c.get("label") for c in entry.iter("{http://www.w3.org/2005/Atom}category")}
        is_unread = entry.findtext("{http://www.w3.org/2005/Atom}id", "").endswith(f"{entry_id:016x}")
        assert short & {"read", "fresh", "kept-unread"} == ({"fresh"} if is_unread else {"read"})
