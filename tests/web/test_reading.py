"""Reading without scripts, by links and forms; and that feeds' words stay words: H04."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import lxml.html
import pytest

from app import clock
from app.bootstrap.services import Services
from app.mappers.feeds import entry_bodies
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from tests.support.reader import add_user, follow, pull, rss
from tests.web.conftest import Visitor

CANARY = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def reader(services: Services, ann: Visitor, db: Any) -> Actor:
    """The actor behind ``ann``."""
    return Actor(db.users.find_one({"name": "ann"})["_id"])


def _feed(services: Services, actor: Actor, count: int = 60, title: str = "A feed") -> int:
    url = "https://site.example/feed"
    done = services.subscriptions.subscribe(actor, url)
    feed_id = done.subscription.feed_id
    items = [(f"Entry {n}", f"<p>Text of {n}</p>") for n in range(count)]
    pull(services, [feed_id], {url: rss(title, items)})
    return feed_id


def _rows(html: str) -> list[tuple[str, bool]]:
    """Return (title, read) of each row of a list."""
    tree = lxml.html.fromstring(html)
    rows = tree.xpath("//article[contains(@class, 'row')]")
    return [(r.xpath("string(.//h2/a/text()[last()])").strip(), "is-read" in r.get("class")) for r in rows]


def _forms(html: str, action: str) -> list[dict[str, str]]:
    tree = lxml.html.fromstring(html)
    return [dict(form.form_values()) for form in tree.forms if form.action == action]


def test_what_is_of_no_feed_of_ones_own_has_no_unread_state(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    feed = _feed(services, reader, 2)
    kept, shared = (
        row.id for row in services.reading.load_page(reader, StreamQuery(StreamRef.parse("all"))).rows
    )
    services.following.update_profile(
        reader, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    services.sharing.share(reader, shared)
    services.reading.set_starred(reader, kept, True)
    own = services.reading.load_page(reader, StreamQuery(StreamRef.parse("shares"))).rows[0].id
    assert _forms(ann.get(f"/read/starred?entry={kept}").text, "/entries/mark")
    services.subscriptions.unsubscribe(reader, feed)
    for url in f"/read/shares?entry={own}", f"/read/starred?entry={kept}":
        for view in "panes", "expanded":
            page = ann.get(f"{url}&view={view}").text
            assert _forms(page, "/entries/star")
            assert not _forms(page, "/entries/mark")


def test_an_entry_opened_by_a_link_has_a_row_wherever_it_is_in_the_list(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    _feed(services, reader, 120)
    (last,) = (
        row.id
        for row in services.reading.load_page(reader, StreamQuery(StreamRef.parse("all"), limit=120)).rows
        if row.title == "Entry 100"
    )
    for view in "panes", "list", "expanded":
        page = ann.get(f"/read/all?view={view}&entry={last}").text
        assert _chosen(page) == ["Entry 100"]
        assert [title for title, _ in _rows(page)] == ["Entry 100", *(f"Entry {n}" for n in range(50))][
            : len(_rows(page))
        ]
        headings = lxml.html.fromstring(page).xpath("//ol//h2[@class='pin']/text()")
        assert headings == ["Opened entry", "Start of the list"]
    assert _link(page, "Previous entry") == ""
    page = ann.get(_link(page, "Next entry")).text
    assert _chosen(page) == ["Entry 0"]
    page = ann.get(f"/read/all?entry={last}").text
    (more,) = lxml.html.fromstring(page).xpath("//*[@id='more']/a/@href")
    titles = [title for title, _ in _rows(page)]
    while more:
        part = ann.get(more, headers={"HX-Request": "true", "HX-Target": "li#more"}).text
        titles += [title for title, _ in _rows(part)]
        (more,) = lxml.html.fromstring(part).xpath("//*[@id='more']/a/@href") or [""]
    assert sorted(titles) == sorted(f"Entry {n}" for n in range(120)), "each of them once"
    empty = ann.get(f"/read/starred?entry={last}").text
    assert (_rows(empty), "No starred entries yet" in empty) == ([], True)
    # One of the rows of the list has no other.
    first = services.reading.load_page(reader, StreamQuery(StreamRef.parse("all"))).rows[3].id
    page = ann.get(f"/read/all?entry={first}").text
    assert (len(_rows(page)), _chosen(page)) == (50, ["Entry 3"])
    assert "pinned" not in page


def test_nothing_is_pinned_from_what_somebody_may_not_see(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    _feed(services, reader, 3)
    assert ann.get("/read/all?entry=99999999").status_code == 404
    assert ann.get("/read/all?pinned=99999999").status_code == 200


def test_a_list_is_paged_by_links(services: Services, ann: Visitor, reader: Actor) -> None:
    _feed(services, reader, 120)
    seen: list[str] = []
    url = "/read/all"
    while url:
        page = ann.get(url).text
        seen += [title for title, _ in _rows(page)]
        more = re.search(r'<li class="more" id="more"><a class="btn" href="([^"]+)"', page)
        url = more[1].replace("&amp;", "&") if more else ""
    assert seen == [f"Entry {n}" for n in range(120)]


def _link(html: str, words: str) -> str:
    """Return where the link leads that is called so, "": there is none."""
    found = lxml.html.fromstring(html).xpath(
        f"//a[@aria-label='{words}' or normalize-space()='{words}']/@href"
    )
    return str(found[0]) if found else ""


def _first(html: str) -> str:
    """Return where the first row of a list leads."""
    return str(lxml.html.fromstring(html).xpath("(//article//h2/a)[1]/@href")[0])


def _button(html: str, words: str) -> Any:
    """Return the button that is called so, of the open entry where there is one; None: there is none."""
    named = f"//button[@aria-label='{words}' or normalize-space()='{words}']"
    found = lxml.html.fromstring(html).xpath(f"//section[@id='article']{named} | {named}")
    return found[-1] if found else None


def _press(ann: Visitor, html: str, words: str) -> str:
    """Send the form of a button; return where it leads."""
    form = next(one for one in _button(html, words).iterancestors("form"))
    return str(ann.post(form.get("action"), dict(form.form_values())).location)


def _chosen(html: str) -> list[str]:
    rows = lxml.html.fromstring(html).xpath("//article[@aria-current='true']")
    return [row.xpath("string(.//h2/a/text()[last()])").strip() for row in rows]


def test_an_entry_leaves_its_page_of_the_list_as_it_is(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    _feed(services, reader, 120)
    second = ann.get(_link(ann.get("/read/all").text, "Load more")).text
    rows = _rows(second)
    assert rows[0] == ("Entry 50", False)
    (url,) = lxml.html.fromstring(second).xpath("(//article//h2/a)[4]/@href")
    page = ann.get(url).text
    assert (_rows(page), _chosen(page)) == (rows, ["Entry 53"])
    assert _rows(ann.get(_link(page, "Back to the list")).text) == rows
    for words in ("Star", "Mark as read"):
        page = ann.get(_press(ann, page, words)).text
        assert [title for title, _ in _rows(page)] == [title for title, _ in rows]
        assert _chosen(page) == ["Entry 53"]
    assert _rows(page)[3] == ("Entry 53", True)
    assert _chosen(ann.get(_link(page, "Previous entry")).text) == ["Entry 52"]
    assert _chosen(ann.get(_link(page, "Next entry")).text) == ["Entry 54"]
    assert _rows(ann.get(_press(ann, second, "Star")).text)[0][0] == "Entry 50"


def test_a_list_is_read_to_its_end_without_a_script(services: Services, ann: Visitor, reader: Actor) -> None:
    """Each is marked as read with a word, on the way to the next one; the list stays as it was."""
    _feed(services, reader, 60)
    page = ann.get(_first(ann.get("/read/all").text)).text
    seen = _chosen(page)
    while _button(page, "Mark as read and open next entry") is not None:
        page = ann.get(_press(ann, page, "Mark as read and open next entry")).text
        seen += _chosen(page)
    assert seen == [f"Entry {n}" for n in range(50)]
    page = ann.get(_press(ann, page, "Mark as read")).text
    page = ann.get(_first(ann.get(_link(page, "Load more")).text)).text
    assert _chosen(page) == ["Entry 50"]
    assert services.reading.get_tree(reader).unread == 10
    assert _button(page, "Mark as unread") is None
    assert _button(ann.get(_press(ann, page, "Mark as read")).text, "Mark as unread") is not None


def test_an_entry_is_shown_where_its_list_is_gone(services: Services, ann: Visitor, reader: Actor) -> None:
    _feed(services, reader, 60)
    page = ann.get(_link(ann.get("/read/all").text, "Load more")).text
    gone = re.sub("snapshot=[^&]+", "snapshot=gone", _first(page))
    answer = ann.get(gone)
    assert answer.status_code == 200
    assert 'data-entry="' in answer.text
    # The list begins anew, below the entry.
    assert [title for title, _ in _rows(answer.text)[:2]] == ["Entry 50", "Entry 0"]
    assert "gone" not in _link(answer.text, "Back to the list")


def test_lists_of_marks_say_how_many_entries_they_have(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    _feed(services, reader)
    rows = services.reading.load_page(reader, StreamQuery(StreamRef.parse("all"))).rows
    tag = services.tags.change_tags(reader, rows[0].id, add=["Later"])[0]
    for path, count in (("starred", 2), (f"tag/{tag.id}", 1), ("recent", 3)):
        for row in rows[:count]:
            if path == "starred":
                services.reading.set_starred(reader, row.id, True)
            if path == "recent":
                services.reading.mark(reader, [row.id], True)
        (line,) = lxml.html.fromstring(ann.get(f"/read/{path}").text).xpath("//*[@class='sub']")
        assert line.text_content() == ("1 entry" if count == 1 else f"{count} entries")
    more = services.reading.load_page(reader, StreamQuery(StreamRef.parse("all"), limit=60)).rows
    for row in more:
        services.reading.set_starred(reader, row.id, True)
    (line,) = lxml.html.fromstring(ann.get("/read/starred").text).xpath("//*[@class='sub']")
    assert line.text_content() == "More than 50 entries"


def test_one_action_at_the_end_of_an_entry_is_the_first_to_take(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    _feed(services, reader)
    entry = services.reading.load_page(reader, StreamQuery(StreamRef.parse("all"))).rows[0].id
    footer = lxml.html.fromstring(ann.get(f"/read/all?entry={entry}").text).xpath("//article/footer")[0]
    (first,) = footer.xpath(".//*[contains(@class, 'primary')]")
    assert first.text_content().strip() == "Next entry"


def test_marking_works_by_forms(services: Services, ann: Visitor, reader: Actor) -> None:
    _feed(services, reader, 12)
    page = ann.get("/read/all").text
    assert "10 unread" in page or "12 unread" in page
    href = re.search(r'<h2[^>]*><a href="([^"]+)">', page)
    assert href
    article = ann.get(href[1]).text
    form, *_others = _forms(article, "/entries/mark")
    assert form["read"] == "1"
    done = ann.post("/entries/mark", form)
    assert done.status_code == 303
    after = ann.get(done.headers["Location"]).text
    form, *_others = _forms(after, "/entries/mark")
    assert form["read"] == "0"
    star = next(f for f in _forms(after, "/entries/star") if f["entry"] == form["entry"])
    ann.post("/entries/star", star)
    assert [t for t, _ in _rows(ann.get("/read/starred").text)] == ["Entry 0"]


def test_mark_all_can_be_taken_back_without_a_script(services: Services, ann: Visitor, reader: Actor) -> None:
    _feed(services, reader, 10)
    (form,) = _forms(ann.get("/read/all").text, "/read/mark-all")
    done = ann.post("/read/mark-all", form)
    page = ann.get(done.headers["Location"]).text
    assert "10 entries marked as read" in page
    assert "All caught up" in page
    assert all(read for _, read in _rows(page))
    # Nothing is left: the list alone says so as the whole page does.
    for target in "div#page", "div#stream":
        asked = {"HX-Request": "true", "HX-Target": target}
        empty = ann.get("/read/all?show=unread", headers=asked).text
        assert "Nothing left to read here" in empty
        assert "Next unread feed" not in empty
    (undo,) = _forms(page, "/undo")
    page = ann.get(ann.post("/undo", undo).headers["Location"]).text
    assert not any(read for _, read in _rows(page))
    assert "Undone" in page
    assert "Undone" not in ann.get("/read/all").text


def test_unread_is_on_top_and_read_below_a_heading(services: Services, ann: Visitor, reader: Actor) -> None:
    feed_id = _feed(services, reader, 10)
    ids = re.findall(r'data-id="(\d+)"', ann.get(f"/read/feed/{feed_id}").text)
    first = list(dict.fromkeys(ids))[:2]
    ann.post("/entries/mark", {"entry": first, "read": "1"})
    page = ann.get(f"/read/feed/{feed_id}").text
    assert [read for _, read in _rows(page)] == [False] * 8 + [True] * 2
    assert page.index("Already read") > page.index("Entry 9")
    newest = _rows(ann.get(f"/read/feed/{feed_id}?sort=newest").text)
    assert [t for t, _ in newest] == [f"Entry {n}" for n in range(10)]


def test_a_list_may_ask_what_of_it_is_read_by_now(services: Services, ann: Visitor, reader: Actor) -> None:
    _feed(services, reader, 10)
    ids = list(dict.fromkeys(re.findall(r'data-id="(\d+)"', ann.get("/read/all").text)))
    ann.post("/entries/mark", {"entry": ids[:2], "read": "1"})
    asked = {"entry": [*ids[:4], "1"]}
    assert ann.post("/entries/states", asked).get_json() == {
        "read": {id: n < 2 for n, id in enumerate(ids[:4])}
    }
    refused = ann.post("/entries/states", {"entry": "x"}, headers={"Accept": "application/json"})
    assert refused.status_code == 400


def test_counts_have_an_etag_and_tell_what_is_newer(services: Services, ann: Visitor, reader: Actor) -> None:
    feed_id = _feed(services, reader, 10)
    page = ann.get("/read/all").text
    snapshot = re.search(r'data-snapshot="([^"]+)"', page)
    assert snapshot
    url = f"/api/counts?snapshot={snapshot[1]}"
    first = ann.get(url)
    shape = re.search(r'data-shape="([^"]+)"', page)
    assert shape
    expected = {"total": 10, "feeds": {str(feed_id): 10}, "folders": {}, "newer": 0, "shape": shape[1]}
    expected["notes"] = 0
    assert first.get_json() == expected
    assert ann.get(url, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    url_of_feed = "https://site.example/feed"
    later = clock.now() + dt.timedelta(hours=1)
    with clock.set_source(lambda: later):
        pull(
            services,
            [feed_id],
            {url_of_feed: rss("A feed", [("New", ""), *((f"Entry {n}", "") for n in range(10))])},
        )
        assert ann.get(url).get_json()["newer"] == 1
    assert ann.get("/api/counts?snapshot=unknown").get_json()["newer"] == 0


def test_a_script_gets_parts_and_json(services: Services, ann: Visitor, reader: Actor) -> None:
    feed_id = _feed(services, reader, 60)
    page = ann.get("/read/all").text
    entry = re.search(r'data-id="(\d+)"', page)
    assert entry
    part = {"HX-Request": "true", "HX-Target": "section#article"}
    article = ann.get(f"/read/all?entry={entry[1]}", headers=part).text
    assert "<html" not in article
    assert "Text of 0" in article
    stream = ann.get(f"/read/feed/{feed_id}", headers=part | {"HX-Target": "div#stream"}).text
    assert "<html" not in stream
    assert 'id="rows"' in stream
    json = {"Accept": "application/json"}
    assert ann.post("/entries/mark", {"entry": entry[1], "read": "1"}, **json).get_json() == {"moved": -1}
    assert ann.post("/entries/mark", {"entry": "1", "read": "1"}, **json).get_json() == {"moved": 0}
    wrong = ann.post("/entries/mark", {"entry": "1", "read": "0"}, **json)
    assert (wrong.status_code, wrong.get_json()["error"]) == (404, "not_found")
    gone = ann.get("/read/all?entry=1", headers=part)
    assert gone.status_code == 404
    assert "<html" not in gone.text


def test_H04_words_of_feeds_and_people_stay_words(
    services: Services, visitor: Callable[[], Visitor], db: Any
) -> None:
    actor = add_user(services, "eve")
    eve = visitor()
    eve.log_in("eve")
    folder = services.folders.create(actor, CANARY)
    url = "https://site.example/feed?" + CANARY.replace(" ", "%20")
    done = services.subscriptions.subscribe(actor, url, title=CANARY, folder_id=folder.id)
    feed_id = done.subscription.feed_id
    pull(
        services,
        [feed_id],
        {services.subscriptions.get_health(actor, feed_id).feed.url: rss(CANARY, [(CANARY, CANARY)])},
    )
    changes = {"author": CANARY, "url": "javascript:alert(1)", "title": CANARY, "excerpt": CANARY}
    db.entries.update_many(
        {},
        {
            "$set": {
                **changes,
                "image": "javascript:alert(3)",
                "replies": {"url": "javascript:alert(4)", "total": 3},
                "enclosures": [
                    {"url": "javascript:alert(2)", "type": CANARY},
                    {"url": f"https://site.example/{CANARY}", "type": "image/png", "text": CANARY},
                ],
            }
        },
    )
    db.feeds.update_many(
        {}, {"$set": {"description": CANARY, "site_url": f"javascript:{CANARY}", "error": CANARY}}
    )
    db.users.update_many({}, {"$set": {"name": CANARY, "email": CANARY}})
    db.sessions.update_many({}, {"$set": {"agent": CANARY, "notices": [{"text": CANARY, "undo": CANARY}]}})
    entry = db.entries.find_one()["_id"]
    pages = [
        "/read/all",
        f"/read/all?entry={entry}",
        "/read/all?view=expanded",
        f"/feeds/{feed_id}",
        "/subscriptions",
        "/settings",
        f"/add?address={CANARY}",
    ]
    for path in pages:
        html = eve.get(path).text
        assert "onerror" in html, path
        tree = lxml.html.fromstring(html)
        assert not tree.xpath(
            "//img[not(ancestor::div[@class='prose'])] | //script[not(@src)] | //*[@onerror]"
        ), path
        assert not [a for a in tree.xpath("//@href | //@src | //@action") if "javascript" in a.lower()], path
    failed = eve.post("/signup", {"name": CANARY, "email": CANARY, "password": CANARY}).text
    assert not lxml.html.fromstring(failed).xpath("//img")


def test_an_entry_without_a_title_is_called_by_who_wrote_it(
    services: Services, ann: Visitor, reader: Actor, db: Any
) -> None:
    _feed(services, reader, 1)
    entry = db.entries.find_one()["_id"]
    found: list[tuple[str | None, str, int]] = []
    for changes in ({"title": ""}, {"title": "", "excerpt": ""}, {"title": "Named", "excerpt": "Words"}):
        db.entries.update_one({"_id": entry}, {"$set": changes})
        (head,) = lxml.html.fromstring(ann.get(f"/read/all?entry={entry}").text).xpath(
            "//*[@id='entry-title']"
        )
        found.append((head.get("class"), head.text_content(), len(head.xpath("a"))))
    called = "Post by A feed"
    assert found == [("title untitled", called, 0), ("title", "(no title)", 1), ("title", "Named", 1)]


_PICTURE = "https://site.example/{}.jpg"


def _pictures(html: str) -> list[tuple[str, str]]:
    """Return (address, what it shows) of each picture that came beside a text."""
    found = lxml.html.fromstring(html).xpath("//div[@class='prose' and not(@hx-ignore)]//img")
    return [(img.get("src"), img.get("alt")) for img in found]


def test_pictures_that_came_beside_a_text_are_seen_with_it(
    services: Services, ann: Visitor, reader: Actor, db: Any
) -> None:
    services.accounts.set_preferences(reader, {"images": "site"})
    _feed(services, reader, 1)
    entry = db.entries.find_one()["_id"]
    shown, whole = f"/read/all?entry={entry}", "/read/all?view=expanded"
    files = [
        {"url": _PICTURE.format(1), "type": "image/jpeg", "length": 1, "text": "A lizard"},
        {"url": _PICTURE.format(2), "type": None, "length": None},
        {"url": "https://site.example/talk.mp3", "type": "audio/mpeg", "length": 4_000_000, "duration": 245},
    ]
    db.entries.update_one({"_id": entry}, {"$set": {"enclosures": files, "image": _PICTURE.format(1)}})
    both = [(_PICTURE.format(1), "A lizard"), (_PICTURE.format(2), "")]
    for page in shown, whole:
        assert _pictures(ann.get(page).text) == both, page
    # A recording has a player instead of a line in the list of files.
    document = lxml.html.fromstring(ann.get(shown).text)
    assert not document.xpath("//ul[@class='files']/li")
    (player,) = document.xpath("//audio/..")
    said = " ".join(player.text_content().split())
    assert "4:05 · 4 MB" in said
    beside = [
        {"url": "https://site.example/t.vtt", "type": "text/vtt", "length": None, "role": "transcript"},
        {"url": "https://site.example/c.json", "type": None, "length": None, "role": "chapters"},
        {
            "url": "https://site.example/t.opus",
            "type": None,
            "length": None,
            "text": "Small",
            "role": "alternate",
        },
    ]
    db.entries.update_one({"_id": entry}, {"$set": {"enclosures": beside}})
    names = lxml.html.fromstring(ann.get(shown).text).xpath("//ul[@class='files']/li")
    assert [" ".join(n.text_content().split()) for n in names] == ["Transcript text/vtt", "Chapters", "Small"]
    # Without files it is the one that stands for the entry.
    db.entries.update_one({"_id": entry}, {"$unset": {"enclosures": ""}})
    for page in shown, whole:
        assert _pictures(ann.get(page).text) == [(_PICTURE.format(1), "")], page
    # A text with pictures has them already.
    body = entry_bodies.pack(f'<p><img src="{_PICTURE.format(9)}"></p>', "", b"")
    db.entries.update_one({"_id": entry}, {"$set": {"body": body, "enclosures": files}})
    html = ann.get(shown).text
    assert _pictures(html) == []
    assert len(lxml.html.fromstring(html).xpath("//ul[@class='files']/li")) == 2, "all but the recording"


@pytest.mark.parametrize(
    ("replies", "label"),
    [
        # The link to the page names the host already.
        ({"url": "https://site.example/item?id=1", "total": 1234}, "Comments (1,234)"),
        ({"url": "https://site.example/item?id=1"}, "Comments"),
        ({"url": "https://talk.example/item?id=1", "total": 1234}, "Comments at talk.example (1,234)"),
        ({"url": "https://talk.example/item?id=1", "total": 0}, "Comments at talk.example"),
    ],
)
def test_comments_at_the_site_are_a_link(
    services: Services, ann: Visitor, reader: Actor, db: Any, replies: dict[str, Any], label: str
) -> None:
    _feed(services, reader, 1)
    entry = db.entries.find_one()["_id"]
    db.entries.update_one({"_id": entry}, {"$set": {"replies": replies}})
    links = lxml.html.fromstring(ann.get(f"/read/all?entry={entry}").text).xpath("//article/footer/a")
    (link,) = (link for link in links if link.get("href") == replies["url"])
    assert link.text_content() == label
    assert link.get("rel") == "noopener noreferrer"
    db.entries.update_one({"_id": entry}, {"$set": {"replies": {"feed": "https://site.example/item/1/feed"}}})
    assert (
        "Comments"
        not in ann.get(f"/read/all?entry={entry}").text.partition("<footer>")[2].partition("</footer>")[0]
    )


def test_pictures_are_those_for_the_colours_of_the_page(
    services: Services, ann: Visitor, reader: Actor, db: Any
) -> None:
    services.accounts.set_preferences(reader, {"images": "site"})
    _feed(services, reader, 1)
    entry = db.entries.find_one()["_id"]
    html = (
        '<p>media="(prefers-color-scheme: dark)"</p><picture>'
        '<source srcset="https://e.org/(prefers-color-scheme:dark)" media="(prefers-color-scheme: dark)">'
        '<source media="(prefers-color-scheme:light) and (min-width: 9em)" srcset="https://site.example/b">'
        '<source media="(max-width: 9em)" srcset="https://site.example/c"><img src="https://site.example/d">'
        "</picture>"
    )
    db.entries.update_one({"_id": entry}, {"$set": {"body": entry_bodies.pack(html, "", b"")}})
    always, never = "(min-width:0)", "(max-width:0)"
    for theme, dark, light in (
        ("auto", "(prefers-color-scheme: dark)", "(prefers-color-scheme:light)"),
        ("dark", always, never),
        ("light", never, always),
    ):
        ann.post("/settings/theme", {"theme": theme})
        shown = ann.get(f"/read/all?entry={entry}").text
        expected = html.replace(' media="(prefers-color-scheme: dark)">', f' media="{dark}">').replace(
            "(prefers-color-scheme:light)", light
        )
        assert expected in re.sub(' data-script="[^"]*"', "", shown), theme


def test_footnotes_and_files_of_other_apps_are_those_of_their_entry(
    services: Services, ann: Visitor, reader: Actor, db: Any
) -> None:
    _feed(services, reader, 2)
    note = '<p>a<a href="#at-n">1</a></p><p id="at-n">at-n</p>'
    files = [{"url": "magnet:?xt=urn:btih:ab"}, {"url": "javascript:alert(1)"}]
    body = entry_bodies.pack(note, "", b"")
    db.entries.update_many({}, {"$set": {"body": body, "enclosures": files}})
    ids = [row["_id"] for row in db.entries.find()]
    pages = ("/read/all?view=expanded", *(f"/read/all?entry={i}" for i in ids))
    whole, *single = (ann.get(path).text for path in pages)
    for i, shown in zip(ids, single, strict=True):
        scoped = note.replace('"at-n"', f'"at-{i}-n"').replace("#at-n", f"#at-{i}-n")
        assert scoped in whole
        assert scoped in shown
        links = lxml.html.fromstring(shown).xpath("//ul[@class='files']/li/a/@href")
        assert links == ["magnet:?xt=urn:btih:ab"]


def test_errors_are_told_in_words(ann: Visitor) -> None:
    for path, status in (
        ("/nope", 404),
        ("/read/feed/17", 404),
        ("/read/all?cursor=x", 400),
        ("/feeds/17", 404),
    ):
        answer = ann.get(path)
        assert answer.status_code == status
        assert "<h1>" in answer.text
        assert "Traceback" not in answer.text


def test_a_feed_page_tells_how_it_is(services: Services, ann: Visitor, reader: Actor, db: Any) -> None:
    (feed_id,) = follow(services, reader, ["feeds/rss/zerokspot.com-71d236.xml"])
    assert "No problems found." in ann.get(f"/feeds/{feed_id}").text
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": "dns_failed", "error_since": clock.now()}})
    page = ann.get(f"/feeds/{feed_id}").text
    assert "Eventr couldn&#39;t find this site&#39;s domain name." in page
    assert "Next check in" in page
    assert "Eventr couldn&#39;t find this site&#39;s domain name." in ann.get(f"/read/feed/{feed_id}").text


def test_folders_by_forms(services: Services, ann: Visitor, reader: Actor) -> None:
    feed_id = _feed(services, reader, 3)
    ann.post("/folders", {"name": "News"})
    folder = services.folders.list_folders(reader)[0]
    ann.post("/folders/move", {"feed": str(feed_id), "folder": str(folder.id)})
    assert services.reading.get_tree(reader).folders[0].feeds[0].feed_id == feed_id
    ann.post(f"/folders/{folder.id}/rename", {"name": "World"})
    assert "World" in ann.get(f"/read/folder/{folder.id}").text
    double = ann.post("/folders", {"name": "World"})
    assert double.status_code == 409
    ann.post(f"/folders/{folder.id}/delete")
    assert [f.feed_id for f in services.reading.get_tree(reader).feeds] == [feed_id]
    assert _take_back(ann, "/subscriptions") == "/subscriptions"
    assert services.reading.get_tree(reader).folders[0].feeds[0].feed_id == feed_id
    before = services.reading.get_tree(reader)
    ann.post(f"/feeds/{feed_id}/unsubscribe")
    assert _take_back(ann, "/read/all") == "/read/all"
    assert services.reading.get_tree(reader) == before
    ann.post(f"/feeds/{feed_id}/unsubscribe")
    assert "Nothing to read yet" in ann.get("/read/all").text


def test_a_list_without_entries_says_what_can_be_done(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    """Where feeds are, their first entries are still to come; an empty folder wants feeds."""
    feed_id = services.subscriptions.subscribe(reader, "https://site.example/feed").subscription.feed_id
    full, empty = (services.folders.create(reader, name).id for name in ("News", "Empty"))
    services.folders.move_feed(reader, feed_id, source=None, target=full)
    words = re.compile("appear here automatically|Move feeds into it")
    for stream in "all", f"feed/{feed_id}", f"folder/{full}":
        assert words.findall(ann.get(f"/read/{stream}").text) == ["appear here automatically"], stream
    assert words.findall(ann.get(f"/read/folder/{empty}").text) == ["Move feeds into it"]


def _take_back(visitor: Visitor, page: str) -> str:
    """Press the undo that a page shows; return where that leads."""
    (form,) = lxml.html.fromstring(visitor.get(page).text).xpath("//form[@action='/undo']")
    done = visitor.post("/undo", {name: value for name, value in form.form_values() if name != "csrf"})
    assert done.status_code == 303
    return str(done.headers["Location"])


def test_colours_are_kept_per_device(ann: Visitor) -> None:
    assert 'data-theme="auto"' in ann.get("/settings").text
    ann.post("/settings/theme", {"theme": "dark"})
    assert 'data-theme="dark"' in ann.get("/settings").text
    assert ann.post("/settings/theme", {"theme": "x"}).status_code == 400
