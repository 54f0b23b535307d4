"""Importing, exporting and packs through forms alone, as without JavaScript."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from bs4 import BeautifulSoup
from bson.binary import Binary
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse, encode_multipart

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import FetchError, NotFoundError
from app.feeds.opml import opml
from app.models.accounts.actor import Actor, Role
from app.models.feeds.fetch_options import FetchOptions
from app.models.imports.imports import Import, ImportState
from app.models.imports.opml import Outline
from app.models.media.icon import build_icon_path
from app.models.sharing.sharing import Audience
from tests.imports import archives
from tests.imports.archives import HOST, google_item, zipped
from tests.imports.test_archive_files import uploaded
from tests.imports.test_archives import feed
from tests.imports.test_imports import Pulling, feeds, listed, run
from tests.support.reader import add_user, elsewhere
from tests.web.conftest import ORIGIN, Visitor

Make = Callable[[], Visitor]


def send(who: Visitor, path: str, body: bytes, **fields: Any) -> TestResponse:
    """Send a file as a form does."""
    fields = {"csrf_token": who.token(), **fields, "file": FileStorage(io.BytesIO(body), "mine.opml")}
    # As bytes: the client itself would put a long body into a file and leave that open.
    boundary, data = encode_multipart(fields)
    kind = f"multipart/form-data; boundary={boundary}"
    return who.client.post(path, data=data, headers=ORIGIN, content_type=kind)


def the_import(answer: TestResponse) -> int:
    assert answer.status_code == 303, answer.text
    return int(answer.headers["Location"].rsplit("/", 1)[1])


def stored(services: Services, number: int) -> Import:
    """Return an import, whoever has it."""
    doc = services.store.database["imports"].find_one({"_id": number})
    assert doc is not None
    return services.gateways.imports.get(doc["user_id"], number)


def test_archive_is_previewed_and_reported_with_its_marks(services: Services, ann: Visitor) -> None:
    body = archives.freshrss(
        {"a": ()},
        [google_item("a", n, starred=True, labels=["x"]) for n in (1, 99)] + [google_item("b", 1, feed="")],
        {"a": [google_item("a", 2, read=True)]},
    )
    number = the_import(send(ann, "/imports", body))
    page = ann.get(f"/imports/{number}").text
    assert "<b>4</b> <span>entries and saved pages" in page
    assert ann.post(f"/imports/{number}/choose", {"pick": ["0"], "do": "start"}).status_code == 303
    one = stored(services, number)
    elsewhere(lambda: run(services, one, Pulling(services, {f"{HOST}/a": feed("a")})))
    done = ann.get(f"/imports/{number}").text
    for words in (
        "2</b> <span>starred",
        "2</b> <span>tagged",
        "1</b> <span>marked as read",
        "2</b> <span>saved as pages",
    ):
        assert f"<b>{words}" in done
    assert "entries and saved pages" not in done


@pytest.mark.parametrize("wanted", [True, False])
def test_rules_in_an_archive_are_shown_and_can_be_declined(
    services: Services, ann: Visitor, wanted: bool
) -> None:
    rules = [{"name": "R", "condition": "sun", "actions": ["hide"]}, {"name": 7}]
    body = zipped(
        {
            "subscriptions.opml": listed(("a", ())),
            "starred.json": "[]",
            "rules.json": json.dumps(rules),
            "searches.json": json.dumps([{"name": "S", "query": "x"}]),
        }
    )
    number = the_import(send(ann, "/imports", body))
    ticked = 'name="choices" value="1" checked'
    page = ann.get(f"/imports/{number}").text
    for words in ("<b>1</b> <span>rule<", "<b>1</b> <span>saved search<", "<b>1</b> <span>skipped: too many"):
        assert words in page
    assert ticked in page
    choose, tick = f"/imports/{number}/choose", {"choices": "1"} if wanted else {}
    answer = ann.post(choose, {"do": "none", **tick})
    assert (ticked in ann.get(answer.headers["Location"]).text) is wanted
    refused = ann.post(choose, {"do": "start", **tick})
    assert refused.status_code == (303 if wanted else 400)
    if not wanted:
        assert ticked not in refused.text
        assert ann.post(choose, {"pick": ["0"], "do": "start"}).status_code == 303
    one = stored(services, number)
    elsewhere(lambda: run(services, one, Pulling(services, {f"{HOST}/a": feed("a")})))
    assert ("Also taken over" in ann.get(f"/imports/{number}").text) is wanted
    assert len(services.rules.list_rules(Actor(one.user_id)).rules) == wanted


def test_uploaded_archive_is_read_while_the_page_waits(services: Services, ann: Visitor) -> None:
    answer = send(ann, "/settings/files", listed(("a", ())))
    assert answer.status_code == 303
    (who,) = (Actor(doc["_id"]) for doc in services.store.database["users"].find())
    (upload,) = services.gateways.uploads.find_sealing()
    file_id = services.sealing.seal_upload(upload.id)["file_id"]
    assert f'name="file" value="{file_id}"' in ann.get("/settings/files").text
    number = the_import(ann.post("/imports/file", {"file": str(file_id)}))
    waiting = ann.get(f"/imports/{number}").text
    assert "Reading the file" in waiting
    assert 'http-equiv="refresh"' in waiting
    assert 'data-state="reading"' in waiting
    assert "Reading the file" in ann.get("/imports").text
    services.archives.read_file(who.user_id, number)
    assert 'name="pick"' in ann.get(f"/imports/{number}").text


@pytest.mark.parametrize("language", ["en", "de", "ru", "ar"])
def test_unreadable_archive_says_why(services: Services, ann: Visitor, language: str) -> None:
    (who,) = (Actor(doc["_id"]) for doc in services.store.database["users"].find())
    services.accounts.set_preferences(who, {"language": language})
    archive = zipped({f"{name}.opml": listed((name, ())) for name in "abc"})
    gateway: Any = services.gateways.archives
    gateway._limits = dataclasses.replace(gateway._limits, members=2)
    one = services.archives.request_reading(who, uploaded(services, who, archive))
    services.archives.read_file(who.user_id, one.id)
    page = ann.get(f"/imports/{one.id}").text
    assert "%(" not in page
    assert "2" in page[page.index('role="alert"') :]
    assert "data-state" not in page
    assert ann.post(f"/imports/{one.id}/remove").status_code == 303
    assert ann.get(f"/imports/{one.id}").status_code == 404


def test_a_file_is_previewed_chosen_from_imported_and_reported(services: Services, ann: Visitor) -> None:
    number = the_import(send(ann, "/imports", listed(("a", ("News",)), ("b", ()), ("c", ()), ("a", ()))))
    page = ann.get(f"/imports/{number}").text
    assert page.count('name="pick"') == 4
    assert page.count("disabled") == 1
    assert "listed twice" in page
    assert ann.post(f"/imports/{number}/choose", {"pick": ["0", "1"], "do": "save"}).status_code == 303
    assert ann.get(f"/imports/{number}").text.count(" checked>") == 3  # and the one of the target
    assert ann.post(f"/imports/{number}/choose", {"pick": ["1", "2"], "do": "start"}).status_code == 303

    waiting = ann.get(f"/imports/{number}").text
    assert "0 of 2" in waiting
    assert "<progress" in waiting
    assert 'http-equiv="refresh"' in waiting
    assert f'href="/imports/{number}"' in ann.get("/read/all").text, "each page tells of it"
    assert ann.get(f"/api/imports/{number}").json["state"] == "queued"  # type: ignore[index]

    one = stored(services, number)
    elsewhere(lambda: run(services, one, Pulling(services, feeds("a"))))
    done = ann.get(f"/imports/{number}").text
    assert "1 feed failed" in done
    assert "nothing at this address" in done
    assert "import-chip" not in ann.get("/read/all").text
    failed = ann.get(f"/imports/{number}/report")
    assert "attachment" in failed.headers["Content-Disposition"]
    assert len(opml.read(failed.data).feeds) == 1
    rows = ann.get(f"/imports/{number}/report?format=json").json
    assert [row["result"] for row in rows or ()].count("added") == 1
    assert ann.get(f"/imports/{number}/report?format=csv").text.count("\n") == 5
    assert ann.post(f"/imports/{number}/retry").status_code == 303
    assert ann.post(f"/imports/{number}/cancel").status_code == 303
    assert ann.post(f"/imports/{number}/cancel").status_code == 409
    assert ann.post(f"/imports/{number}/continue").status_code == 303
    assert ann.post(f"/imports/{number}/remove").status_code == 409
    assert ann.post(f"/imports/{number}/cancel").status_code == 303
    assert ann.post(f"/imports/{number}/remove").status_code == 303
    assert ann.get(f"/imports/{number}").status_code == 404


def test_every_refusal_names_its_reason(services: Services, ann: Visitor) -> None:
    """In the preview, the report, both downloads of it, and for programs; admins alone learn of networks."""
    urls = {
        "https://a.example/large": "larger than this server accepts. The limit is 5 MB.",
        "https://a.example/moved": "in a private network. 10.0.0.1 isn't a public address.",
        "gopher://a.example/": "It doesn't begin with http:// or https://.",
        f"https://a.example/{'x' * 2100}": "It's longer than 2,048 characters.",
        "https://a..example/": "It has no valid host name.",
        "http://127.0.0.1/": "Eventr couldn't reach this address.",
        f"{services.settings.own_origin}/login": "This is the server's own address.",
    }
    number = the_import(send(ann, "/imports", opml.write("x", [Outline(url) for url in urls])))
    preview = html.unescape(ann.get(f"/imports/{number}").text)
    for reason in [*urls.values()][2:]:
        assert reason in preview
    one = stored(services, number)
    ann.post(f"/imports/{number}/choose", {"pick": ["0", "1"], "do": "start"})
    errors = {
        "https://a.example/large": FetchError("too_large", "more than 5000000 bytes sent"),
        "https://a.example/moved": FetchError("bad_redirect", "refused: 10.0.0.1 isn't public"),
    }
    elsewhere(lambda: run(services, stored(services, number), Pulling(services, errors)))
    report = html.unescape(ann.get(f"/imports/{number}").text)
    rows = ann.get(f"/imports/{number}/report?format=json").json
    reasons = {row["url"]: row["reason"] for row in rows or ()}
    failed = ann.get(f"/imports/{number}/report").text
    items = services.imports.list_page(Actor(one.user_id), number)
    for url, reason in urls.items():
        assert reason in report
        assert reason in reasons[url[:2048]]
        assert reason in html.unescape(failed)
    assert "127.0.0.1 isn't" not in report + failed + str(items), "S13"
    services.accounts.set_preferences(Actor(one.user_id), {"language": "de"})
    assert "Die Grenze ist 5 MB" in ann.get(f"/imports/{number}").text


def test_icons_of_known_feeds_are_shown(services: Services, ann: Visitor) -> None:
    """In the preview, those of feeds that one reads already; in the report, those of feeds that failed."""
    number = the_import(send(ann, "/imports", listed(("a", ()), ("b", ()))))
    ann.post(f"/imports/{number}/choose", {"pick": ["0", "1"], "do": "start"})
    one = stored(services, number)
    elsewhere(lambda: run(services, one, Pulling(services, feeds("a"))))
    rows = services.store.database["feeds"]
    for name in "ab":
        change = {"$set": {"icon_blob": Binary(name.encode() * 32)}}
        assert rows.update_one({"url": f"{HOST}/{name}"}, change).matched_count == 1
    icons = {name: f'src="{build_icon_path(name.encode() * 32)}"' for name in "ab"}

    report = ann.get(f"/imports/{number}").text
    assert icons["b"] in report[report.index('id="failed-title"') :]
    again = the_import(send(ann, "/imports", listed(("a", ()), ("c", ()))))
    page = ann.get(f"/imports/{again}").text
    page = page[page.index('id="ticks"') :]
    assert page.count("<img") == 1
    assert icons["a"] in page


def test_text_can_be_pasted_and_wrong_text_is_refused_and_kept(ann: Visitor) -> None:
    number = the_import(ann.post("/imports", {"pasted": listed(("a", ())).decode()}))
    assert "a" in ann.get(f"/imports/{number}").text
    wrong = ann.post("/imports", {"pasted": '{"not": "opml"}'})
    assert wrong.status_code == 400
    assert "Line 1: this is a JSON file without a list of feeds." in wrong.text
    assert "&#34;opml&#34;" in wrong.text, "what was pasted is still there"
    assert "Choose a file or paste its text." in ann.post("/imports").text
    empty = send(ann, "/imports", b"")
    assert (empty.status_code, "The file is empty." in empty.text) == (400, True)


def test_W16_only_routes_that_take_a_file_take_one_and_none_a_longer_one(
    services: Services, ann: Visitor, visitor: Make
) -> None:
    body = listed(*((f"{n}/{'x' * 50}", ()) for n in range(2000)))
    assert len(body) > services.settings.max_request_bytes
    assert send(ann, "/imports", body).status_code == 303
    assert send(ann, "/folders", b"x", name="x").status_code == 400
    assert ann.post("/folders", {"name": "x" * (70 << 10)}).status_code == 413
    long = send(ann, "/imports", b"<opml>" + b" " * (services.settings.opml_max_bytes + (1 << 17)))
    assert long.status_code == 413
    assert "larger than 5 MB" in long.text
    just = send(ann, "/imports", b"<opml>" + b" " * services.settings.opml_max_bytes)
    assert just.status_code == 413
    assert "larger than 5 MB" in just.text
    parts = {f"f{n}": "x" for n in range(300)}
    assert send(ann, "/imports", b"x", **parts).status_code == 413
    stranger = visitor()
    assert send(stranger, "/imports", body).status_code in (303, 401)
    assert services.imports.list_recent(add_user(services, "eve")) == []


def test_W03_a_file_without_the_token_of_its_form_is_refused(ann: Visitor) -> None:
    data = {"file": (io.BytesIO(listed(("a", ()))), "mine.opml")}
    answer = ann.client.post("/imports", data=data, headers=ORIGIN, content_type="multipart/form-data")
    assert answer.status_code == 403


def test_names_and_addresses_of_a_file_are_text_and_nothing_else(ann: Visitor) -> None:
    nasty = b"""<opml><body><outline text="&lt;script&gt;alert(1)&lt;/script&gt;">
      <outline text="=cmd()|&lt;img src=x onerror=alert(1)&gt;" xmlUrl="http://a.example/&quot;&gt;&lt;b&gt;"/>
      <outline text="=cmd()" xmlUrl="javascript:alert(1)"/></outline></body></opml>"""
    number = the_import(send(ann, "/imports", nasty))
    page = ann.get(f"/imports/{number}").text
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert 'href="javascript:' not in page
    assert "'=cmd()" in ann.get(f"/imports/{number}/report?format=csv").text


def test_a_long_file_is_shown_page_by_page(ann: Visitor) -> None:
    number = the_import(send(ann, "/imports", listed(*((f"n{n}", ()) for n in range(1100)))))
    page = ann.get(f"/imports/{number}").text
    assert page.count('name="pick"') == 500
    assert "Page 1 of 3" in page
    answer = ann.post(
        f"/imports/{number}/choose", {"page": "0", "pick": [str(n) for n in range(499)], "do": "next"}
    )
    assert answer.headers["Location"].endswith("?page=1")
    assert "<b>1,099</b> selected" in ann.get(answer.headers["Location"]).text
    ann.post(f"/imports/{number}/choose", {"page": "1", "do": "none"})
    assert "<b>0</b> selected" in ann.get(f"/imports/{number}").text
    ann.post(f"/imports/{number}/choose", {"page": "1", "do": "all"})
    assert "<b>1,100</b> selected" in ann.get(f"/imports/{number}").text


def test_a_refused_outline_says_why_with_its_values_in_each_language(
    services: Services, ann: Visitor
) -> None:
    for name in ("bob", "carl"):
        services.following.update_profile(
            add_user(services, name),
            display="",
            bio="",
            links=(),
            audience=Audience.PUBLIC,
            listed=False,
            open_lists=False,
        )
    own = services.settings.own_origin
    body = opml.write("Mine", [Outline(f"{own}/@{name}/atom.xml") for name in ("bob", "carl", "nobody")])
    actor = _actor(services)
    one = services.imports.preview(actor, body, "mine.opml")
    settings = dataclasses.replace(services.settings, follows_per_hour=1)
    with contextlib.closing(bootstrap.build(settings)) as strict:
        run(strict, services.imports.start(actor, one.id), Pulling(strict, {}))
    page = html.unescape(ann.get(f"/imports/{one.id}").text)
    assert re.search(r"Too many attempts\. Try again in \d+ (minutes|seconds)\.", page)
    assert NotFoundError.default in page
    assert "%(" not in page
    german = html.unescape(ann.get(f"/imports/{one.id}", headers={"Accept-Language": "de"}).text)
    assert re.search(r"Zu viele Versuche\. .* \d+ (Minuten|Sekunden)", german)
    assert "%(" not in german


def test_a_file_without_feeds_says_so(ann: Visitor) -> None:
    number = the_import(send(ann, "/imports", b"<opml><body><outline text='x'/></body></opml>"))
    assert "No feeds in this file" in ann.get(f"/imports/{number}").text


def test_packs_are_shown_chosen_from_and_imported(services: Services, ann: Visitor) -> None:
    page = ann.get("/packs").text
    assert page.count('class="pack"') >= 12
    assert "New topic" not in page
    assert ann.get("/packs/science").text.count('name="pick"') >= 10
    number = the_import(ann.post("/packs/science/subscribe", {"pick": ["0", "2"]}))
    one = stored(services, number)
    assert (one.state, one.goal, one.name) == (ImportState.QUEUED, 2, "Science and space")
    assert [folder.name for folder in one.folders] == ["Science and space"]
    assert ann.post("/packs/science/subscribe", {}).status_code == 400
    assert ann.post("/packs/nothing/subscribe", {"all": "1"}).status_code == 404


def test_several_topics_are_imported_at_once_each_into_its_folder(services: Services, ann: Visitor) -> None:
    assert 'name="topic" value="science"' in ann.get("/welcome").text
    number = the_import(ann.post("/packs/subscribe", {"topic": ["science", "comics", "science"]}))
    one = stored(services, number)
    assert [folder.name for folder in one.folders] == ["Science and space", "Comics"]
    packs = {view.pack.slug: len(view.feeds) for view in services.packs.list_packs(_actor(services))}
    assert one.goal == packs["science"] + packs["comics"]
    nothing = ann.post("/packs/subscribe", {})
    assert nothing.status_code == 400
    assert "Select at least one topic first" in nothing.text
    assert ann.post("/packs/subscribe", {"topic": ["science", "nothing"]}).status_code == 404


def test_topics_in_the_readers_language_come_first(ann: Visitor) -> None:
    english = re.findall(r'name="topic" value="([^"]+)"', ann.get("/welcome").text)
    assert english[0] == "books"
    german = ann.get("/welcome", headers={"Accept-Language": "de"}).text
    german = re.findall(r'name="topic" value="([^"]+)"', german)
    assert german[:2] == ["auf-deutsch", "books"]


def _actor(services: Services) -> Actor:
    found = services.gateways.accounts.find_credentials("ann")
    assert found is not None
    return found.user.actor


def test_topics_are_found_by_their_words_and_feeds(ann: Visitor) -> None:
    def search(query: str) -> list[tuple[str, list[str]]]:
        page = BeautifulSoup(ann.get("/packs", query_string={"q": query}).text, "lxml")
        return [
            (one.h2.text, [line.text for line in one.select(".samples span")]) for one in page.select(".pack")
        ]

    assert len(search("")) == len(search(" ")) >= 20
    assert [title for title, _ in search("CLIMATE environment")] == ["Climate and environment"]
    (space,) = search("space quanta")
    assert space[0] == "Science and space"
    # What was found comes first, however far down it stands.
    assert [samples[0] for _, samples in search("nautil")] == ["Nautilus"]
    assert "Actualités en français" in [title for title, _ in search("actualites")]
    assert all(len(samples) <= 4 for _, samples in search("a"))
    empty = ann.get("/packs?q=nothing+like+it").text
    assert "No topics found" in empty
    assert 'value="nothing like it"' in empty
    part = ann.get("/packs?q=quanta", headers={"HX-Request": "true", "HX-Target": "div#packs"}).text
    assert "Quanta Magazine" in part
    assert "<html" not in part


def test_a_pack_shows_icons_only_of_feeds_that_are_known_here(ann: Visitor, services: Services) -> None:
    (view,) = services.packs.list_packs(_actor(services), query="quanta")
    url = view.samples[0].url
    feed_id = services.gateways.feeds.get_or_create(url, now=clock.now(), title="Quanta").id
    feeds = services.store.database["feeds"]
    for path in ("/packs", "/packs/science"):
        page = BeautifulSoup(ann.get(path).text, "lxml")
        assert not page.select("main img")
        assert len(page.select("main i.av")) >= 10
    feeds.update_one({"_id": feed_id}, {"$set": {"icon_blob": Binary(b"1" * 16)}})
    for path in ("/packs", "/packs/science"):
        (shown,) = BeautifulSoup(ann.get(path).text, "lxml").select("main img")
        assert shown["src"] == build_icon_path(b"1" * 16)


def test_a_pack_offers_only_the_feeds_that_somebody_does_not_have(ann: Visitor, services: Services) -> None:
    def rows() -> tuple[BeautifulSoup, dict[str, str]]:
        page = BeautifulSoup(ann.get("/packs/science").text, "lxml")
        lines = {one.strong.text: " ".join(one.get_text(" ").split()) for one in page.select(".ticks li")}
        return page, lines

    page, lines = rows()
    total = len(lines)
    assert lines["NASA"].endswith(
        "NASA Missions, launches and discoveries from the American space agency nasa.gov"
    )
    link = page.select_one(".ticks li label strong a")
    assert (link["href"], link["target"]) == ("https://www.quantamagazine.org/", "_blank")
    assert link["rel"] == ["noopener", "noreferrer"]
    box = page.select_one('[name="pick"]')
    assert page.find(id=box["aria-labelledby"]).text == "Quanta Magazine"
    assert page.find(id=box["aria-describedby"]).text.startswith("Mathematics")
    assert f"Subscribe to {total} feeds" in page.select_one(".start").text
    actor = _actor(services)
    nasa, nature = "https://www.nasa.gov/feed/", "https://www.nature.com/nature.rss"
    feed_id = services.subscriptions.subscribe(actor, nasa).subscription.feed_id
    # An own copy counts, too.
    services.subscriptions.subscribe(actor, nature, options=FetchOptions(login="ann", password="x"))
    services.store.database["feeds"].update_one({"_id": feed_id}, {"$set": {"changed_at": clock.now()}})
    page, lines = rows()
    assert lines["NASA"].endswith("nasa.gov · rarely Subscribed")
    assert lines["Nature"].endswith("Subscribed")
    assert len(page.select('[name="pick"][checked]')) == len(page.select('[name="pick"]')) == total - 2
    assert [one.strong.text for one in page.select(".ticks li:not(:has(input))")] == ["NASA", "Nature"]
    assert page.select_one("legend").text == f"{total} feeds"
    assert f"Subscribe to {total - 2} feeds" in page.select_one(".start").text
    # The numbers of the others stay theirs.
    number = the_import(ann.post("/packs/science/subscribe", {"pick": ["2", "3"]}))
    assert stored(services, number).goal == 1
    for one in services.packs.get(actor, "science").feeds:
        services.subscriptions.subscribe(actor, one.url)
    page, lines = rows()
    assert not page.select('[name="pick"], [data-whole], .start')
    assert "You're subscribed to all feeds of this topic." in page.text


def test_a_pack_links_only_to_web_sites(ann: Visitor, services: Services, visitor: Make) -> None:
    add_user(services, "root", Role.ADMIN)
    root = visitor()
    root.log_in("root")
    outline = (
        b'<outline text="Trap" xmlUrl="https://a.example/" htmlUrl="javascript:alert(1)" '
        b'description="&lt;b&gt;Bold&lt;/b&gt; &amp;amp; loud"/>'
    )
    body = b"<opml version='2.0'><body>" + outline + b"</body></opml>"
    assert send(root, "/packs", body, title="Traps").status_code == 303
    page = BeautifulSoup(ann.get("/packs/traps").text, "lxml")
    assert "javascript:" not in str(page.main)
    assert not page.select(".ticks strong a")
    assert page.select_one(".about").text == "Bold & loud"


def test_admins_make_rename_replace_and_delete_packs(services: Services, ann: Visitor, visitor: Make) -> None:
    add_user(services, "root", Role.ADMIN)
    root = visitor()
    root.log_in("root")
    assert send(root, "/packs", listed(("a", ())), title="Ours").status_code == 303
    assert send(root, "/packs", listed(("a", ())), title="ours").status_code == 409
    assert send(root, "/packs", b"<html></html>", title="Page").status_code == 400
    assert send(root, "/packs", b"<opml><body/></opml>", title="Empty").status_code == 400
    assert "Ours" in ann.get("/packs").text
    assert root.post("/packs/ours", {"title": "Our own", "about": "Good ones"}).status_code == 303
    assert "Good ones" in ann.get("/packs/ours").text
    assert send(root, "/packs/science", listed(("z1", ()), ("z2", ())), title="Science").status_code == 303
    assert ann.get("/packs/science").text.count('name="pick"') == 2
    assert root.post("/packs/science/remove").status_code == 303
    assert ann.get("/packs/science").status_code == 404
    assert ann.post("/packs/ours/remove").status_code == 403


@pytest.mark.parametrize("who", ["stranger to feeds", "half way"])
def test_who_has_no_feeds_is_shown_ways_to_begin_and_can_come_back(ann: Visitor, who: str) -> None:
    if who == "half way":
        number = the_import(send(ann, "/imports", listed(("a", ()))))
        assert f'href="/imports/{number}"' in ann.get("/welcome").text
    page = ann.get("/welcome").text
    for way in ('action="/add"', 'href="/imports"', 'href="/packs"', 'href="/read/all"'):
        assert way in page
    empty = ann.get("/read/all").text
    assert re.search(r'class="empty".*href="/add".*href="/imports".*href="/packs"', empty, re.DOTALL)


def test_what_is_exported_has_a_name_and_is_a_file(ann: Visitor) -> None:
    ann.post("/subscribe", {"url": "https://site.example/f", "folder_name": "News"})
    answer = ann.get("/export/opml")
    assert re.search(
        r'attachment; filename="eventr-\d{4}-\d\d-\d\d\.opml"', answer.headers["Content-Disposition"]
    )
    assert opml.read(answer.data).feeds[0].folders == ("News",)


def test_W16_only_a_form_with_a_file_may_be_as_long_as_one(services: Services, ann: Visitor) -> None:
    body = listed(("a", ()))
    long = body.replace(b"</body>", b" " * services.settings.max_request_bytes + b"</body>")
    assert ann.post("/imports", {"pasted": long.decode()}).status_code == 413
    the_import(send(ann, "/imports", long))


def test_what_an_import_added_is_left_again_and_that_is_taken_back(services: Services, ann: Visitor) -> None:
    actor = services.gateways.accounts.find_credentials("ann").user.actor  # type: ignore[union-attr]
    services.subscriptions.subscribe(actor, "https://feeds.example/known")
    body = listed(("known", ()), ("a", ("News",)), ("b", ()), ("missing", ()), ("later", ()))
    number = the_import(send(ann, "/imports", body))
    ann.post(f"/imports/{number}/choose", {"pick": ["0", "1", "2", "3", "4"], "do": "start"})
    services.subscriptions.subscribe(actor, "https://feeds.example/later")
    assert ann.post(f"/imports/{number}/unsubscribe").status_code == 409, "it has not ended"
    run(services, stored(services, number), Pulling(services, feeds("known", "a", "b", "later")))
    mine = services.gateways.subscriptions.find_feed_ids
    assert len(mine(actor.user_id)) == 5
    done = ann.get(f"/imports/{number}").text
    for words in (
        "You're subscribed to 3 feeds from this import.",
        "Unsubscribe from the 3 added feeds",
        "If a feed was added before it failed, you're still subscribed to it",
        "Retry failed feeds",
        'btn primary" href="/read/all">Start reading',
    ):
        assert words in done, words
    assert "You've unsubscribed" not in done

    assert ann.post(f"/imports/{number}/unsubscribe").status_code == 303
    assert len(mine(actor.user_id)) == 2, "those stay that the import has not brought"
    page = ann.get(f"/imports/{number}").text
    assert "Unsubscribed from 3 feeds" in page
    assert "You've unsubscribed from 3 feeds that this import added." in page
    for words in (
        "You're subscribed to",
        "You're still subscribed to",
        "/unsubscribe",
        f"/imports/{number}/retry",
        'btn primary" href="/read/all">Start reading',
    ):
        assert words not in page, words
    assert ann.post(f"/imports/{number}/unsubscribe").status_code == 409, "nothing is left of it"
    token = re.search(r'name="token" value="(feeds[.][^"]+)"', page)
    assert token
    ann.post("/undo", {"token": token[1], "next": "/read/all"})
    assert len(mine(actor.user_id)) == 5
    assert ann.get(f"/imports/{number}").text.count(f"/imports/{number}/retry") == 2
    [folder] = services.reading.get_tree(actor).folders
    assert len(folder.feeds) == 1


def test_pasted_text_is_all_there_again_after_an_error(ann: Visitor) -> None:
    text = "\n\nNot a list of feeds:\n" + "".join(f"{n} & more\n" for n in range(3000))
    refused = send(ann, "/imports", b"", pasted=text)
    assert refused.status_code == 400
    shown = re.search(r'<textarea[^>]*name="pasted"[^>]*>(.*?)</textarea>', refused.text, re.S)
    assert shown
    # A browser leaves out the first line break.
    assert html.unescape(shown[1]).removeprefix("\n") == text


def test_feeds_of_failures_are_looked_for_where_they_may_be(services: Services, ann: Visitor) -> None:
    words = b"xmlUrl='https://feeds.example/%s'/><outline "
    body = b"<opml><body><outline " + words % b"site/" + words % b"old.xml"
    body += b"xmlUrl='http://me:pw@walled.example/f'/><outline xmlUrl='gopher://x.example/'/></body></opml>"
    number = the_import(send(ann, "/imports", body))
    ann.post(f"/imports/{number}/choose", {"pick": ["0", "1"], "do": "start"})
    pages = {"https://feeds.example/site/": b"<!doctype html><title>Site</title>"}
    run(services, stored(services, number), Pulling(services, pages))
    page = ann.get(f"/imports/{number}").text
    # Feeds that are subscribed have the search on their own page.
    known = services.store.database["feeds"].find({}, {"_id": 1}).sort("_id")
    assert re.findall(r'action="(/feeds/[0-9]+/find|/add)"', page) == [
        *(f"/feeds/{doc['_id']}/find" for doc in known),
        "/add",
    ]
    assert 'name="address" value="http://walled.example/"' in page
    assert page.count("Find its new address") == 2
