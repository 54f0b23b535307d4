"""The feed page: settings first, then health, then charts; and one way out of every failure."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import lxml.html
import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.accounts.preferences import Preferences
from app.models.feeds.discovery import Discovered, FoundFeed
from app.models.feeds.feed import FetchRecord
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from tests.support.fetches import record_fetches
from tests.support.reader import pull, rss
from tests.web.conftest import Visitor


@pytest.fixture
def reader(services: Services, ann: Visitor) -> Actor:
    found = services.mappers.users.find_credentials("ann")
    assert found is not None
    return found.user.actor


@pytest.fixture
def feed_id(services: Services, reader: Actor) -> int:
    return services.subscriptions.subscribe(reader, "https://blog.example/feed").subscription.feed_id


def break_feed(db: Any, feed_id: int, error: str = "http_404", detail: str = "") -> None:
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": error, "error_detail": detail, "errors": 3}})


def test_settings_come_first_then_health_then_charts(ann: Visitor, feed_id: int) -> None:
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    headings = [h.text_content() for h in page.xpath("//main//h2")]
    assert headings == ["Settings", "Health", "Last 20 hours and next 4 hours", "Recent fetches"]


def test_one_field_holds_all_folders_and_creates_new_ones(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    news = services.folders.create(reader, "News")
    local = services.folders.create(reader, "Local", parent=news.id)
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    assert page.xpath("//details[@class='pick']/summary/span/text()") == ["No folder"]
    ann.post(f"/feeds/{feed_id}/edit", {"folder": str(local.id), "new_folder": " Blogs "})
    names = {folder.id: folder.name for folder in services.folders.list_folders(reader)}
    mine = services.subscriptions.get(reader, feed_id)
    assert [names[f] for f in mine.folder_ids] == ["Local", "Blogs"]
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    (shown,) = page.xpath("//details[@class='pick']/summary/span")
    assert shown.text_content() == "Blogs, News › Local"
    # The path of a folder is as good as its name.
    ann.post(f"/feeds/{feed_id}/edit", {"new_folder": "News › Local"})
    assert services.subscriptions.get(reader, feed_id).folder_ids == (local.id,)
    assert ann.post(f"/feeds/{feed_id + 1}/edit", {"new_folder": "Lost"}).status_code == 404
    assert "Lost" not in {folder.name for folder in services.folders.list_folders(reader)}


def test_a_refused_change_leaves_no_new_folder(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    form = {"new_folder": "Lost", "read_after": "99999"}
    assert ann.post(f"/feeds/{feed_id}/edit", form).status_code == 400
    assert not services.folders.list_folders(reader)


def test_the_view_of_a_feed_is_one_of_its_settings(ann: Visitor, feed_id: int) -> None:
    assert ann.post(f"/feeds/{feed_id}/edit", {"view": "list"}).status_code == 303
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    assert page.xpath("//input[@name='view'][@checked]/@value") == ["list"]
    assert 'data-view="list"' in ann.get(f"/read/feed/{feed_id}").text
    assert ann.post(f"/feeds/{feed_id}/edit", {"view": "x"}).status_code == 400


def test_every_failure_offers_to_look_for_the_feed(
    services: Services, ann: Visitor, db: Any, feed_id: int
) -> None:
    places = (f"/feeds/{feed_id}", "/subscriptions", f"/read/feed/{feed_id}")
    for place in places:
        assert "Find its new address" not in ann.get(place).text, place
    break_feed(db, feed_id)
    for place in places:
        page = ann.get(place).text
        assert "Find its new address" in page, place
        assert f'action="/feeds/{feed_id}/find"' in page, place


def find(services: Services, address: str, *feeds: FoundFeed, error: str | None = None) -> None:
    """Store the result of a search."""
    gateway = services.gateways.discoveries
    row = gateway.get_or_create(address, clock.now())
    gateway.store_result(row.key, Discovered(row.address, feeds, error=error), clock.now())


def test_a_feed_that_was_found_takes_the_place_of_the_broken_one(
    services: Services, ann: Visitor, reader: Actor, db: Any, feed_id: int
) -> None:
    folder = services.folders.create(reader, "News").id
    services.subscriptions.update(reader, feed_id, title="Mine", folder_ids=[folder])
    break_feed(db, feed_id)
    new = "https://blog.example/atom.xml"
    find(services, "https://blog.example/", FoundFeed(new, "The blog", None, "atom10", 7, None, None))
    answer = ann.post(f"/feeds/{feed_id}/find")
    assert answer.status_code == 200
    page = lxml.html.fromstring(answer.text)
    (form,) = page.xpath(f"//form[@action='/feeds/{feed_id}/address'][.//input[@type='radio']]")
    assert form.xpath(".//input[@name='url']/@value") == [new]
    done = ann.post(f"/feeds/{feed_id}/address", {"url": new})
    (mine,) = services.gateways.subscriptions.find_by_user(reader.user_id)
    assert mine.feed_id != feed_id
    assert (mine.title, mine.folder_ids) == ("Mine", (folder,))
    assert "Address changed." in ann.get(done.headers["Location"]).text


def test_a_search_without_a_feed_names_its_reason(
    services: Services, ann: Visitor, db: Any, feed_id: int
) -> None:
    break_feed(db, feed_id)
    find(services, "https://blog.example/", error="http_404")
    page = ann.post(f"/feeds/{feed_id}/find").text
    assert "Eventr found no feed at https://blog.example/." in page
    assert "The site has nothing at this address (HTTP 404)." in page
    assert 'href="/add?address=https%3A//blog.example/"' in page


def test_the_search_begins_at_the_site_that_the_feed_named(
    services: Services, ann: Visitor, db: Any, feed_id: int
) -> None:
    break_feed(db, feed_id)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"site_url": "https://blog.example/home/"}})
    find(services, "https://blog.example/home/", error="no_feed_found")
    assert "no feed at https://blog.example/home/" in ann.post(f"/feeds/{feed_id}/find").text


def test_a_failed_check_without_a_record_is_not_called_missing(ann: Visitor, db: Any, feed_id: int) -> None:
    break_feed(db, feed_id)
    page = ann.get(f"/feeds/{feed_id}").text
    (last,) = re.findall(r"<dt>Last check</dt><dd>(.*?)</dd>", page)
    assert last == "failed"


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        ("refused: 127.0.0.2 isn't public", "127.0.0.2 isn't a public address."),
        ("refused: port 25 isn't allowed", "Port 25 isn't allowed."),
        ("refused: nas.local is a local name", "nas.local is a name of a local network."),
    ],
)
def test_a_refused_redirect_names_its_reason(
    ann: Visitor, db: Any, feed_id: int, detail: str, reason: str
) -> None:
    break_feed(db, feed_id, "bad_redirect", detail)
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    assert reason in page.text_content()


def test_a_refused_redirect_names_its_reason_where_a_feed_is_added(services: Services, ann: Visitor) -> None:
    gateway, address = services.gateways.discoveries, "https://moved.example/"
    row = gateway.get_or_create(address, clock.now())
    refused = Discovered(row.address, error="bad_redirect", detail="refused: port 25 isn't allowed")
    gateway.store_result(row.key, refused, clock.now())
    page = lxml.html.fromstring(ann.post("/add", {"address": address}).text)
    assert "Port 25 isn't allowed." in page.text_content()


def test_a_notification_of_a_failing_feed_leads_to_another_one(ann: Visitor, db: Any, feed_id: int) -> None:
    break_feed(db, feed_id)
    since = clock.now() - dt.timedelta(days=30)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error_since": since}})
    page = lxml.html.fromstring(ann.get("/notifications").text)
    (form,) = page.xpath(f"//li//form[@action='/feeds/{feed_id}/find']")
    assert "Find its new address" in form.text_content()
    assert ann.post(f"/feeds/{feed_id}/find", {}).status_code == 200


def test_S13_what_a_name_resolves_to_stays_a_secret(
    services: Services, ann: Visitor, db: Any, feed_id: int
) -> None:
    break_feed(db, feed_id, "refused", "10.1.2.3 isn't public")
    now = clock.now()
    record_fetches(services, [FetchRecord(feed_id, now, 0, 1, 0, error="refused")])
    db.users.update_one({"name": "ann"}, {"$set": {"role": "user"}})
    assert "10.1.2.3" not in ann.get(f"/feeds/{feed_id}").text
    db.users.update_one({"name": "ann"}, {"$set": {"role": "admin"}})
    assert "10.1.2.3" in ann.get(f"/feeds/{feed_id}").text


def blog(services: Services, reader: Actor, feed_id: int) -> None:
    """Give the feed one entry with a link."""
    item = b"<item><title>One</title><link>https://blog.example/1</link><guid>1</guid></item>"
    body = b"<rss version='2.0'><channel><title>Blog</title>" + item + b"</channel></rss>"
    pull(services, [feed_id], {"https://blog.example/feed": body})


def titles(services: Services, reader: Actor, stream: str) -> list[str]:
    page = services.reading.load_page(reader, StreamQuery(StreamRef.parse(stream)))
    return [row.title for row in page.rows]


def test_a_hidden_feed_is_in_its_folder_but_not_in_all(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    blog(services, reader, feed_id)
    folder = services.folders.create(reader, "News").id
    for hidden, shown in (("1", []), ("", ["One"])):
        ann.post(f"/feeds/{feed_id}/edit", {"folder": str(folder), "hidden": hidden})
        assert titles(services, reader, "all") == shown
        assert titles(services, reader, f"folder/{folder}") == ["One"]
        assert titles(services, reader, f"feed/{feed_id}") == ["One"]
        assert services.reading.get_tree(reader).unread == len(shown)
        assert len(services.sync.list_unread_ids(reader)) == len(shown)
        page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
        assert bool(page.xpath("//input[@name='hidden' and @checked]")) is bool(hidden)
    # An unsubscribed feed comes back as it was.
    ann.post(
        f"/feeds/{feed_id}/edit",
        {
            **{"hidden": "1", "original": "1", "notify": "1", "full_text": "1", "reopen": "1"},
            **{"read_after": "7", "keep_newest": "25"},
        },
    )
    ann.post(f"/feeds/{feed_id}/private", {"private": "1"})
    token = services.subscriptions.unsubscribe(reader, feed_id)
    back = services.subscriptions.restore(reader, token)
    assert back is not None
    assert (back.private, back.original, back.notify, back.full_text) == (True, True, True, True)
    assert (back.read_after, back.keep_newest, back.reopen) == (7, 25, True)
    assert titles(services, reader, "all") == []


def test_keeping_a_feed_private_is_explained_where_it_is_chosen(ann: Visitor, feed_id: int) -> None:
    for wanted, words in (("1", "You can't share the entries"), ("0", "If you allow sharing again")):
        box = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text).get_element_by_id("privacy")
        assert words in box.text_content()
        (value,) = box.xpath(".//input[@name='private']/@value")
        assert value == wanted
        assert (box.get("open") is not None) is (wanted == "0")
        ann.post(f"/feeds/{feed_id}/private", {"private": wanted})


def test_titles_open_the_original_page_if_wanted(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    blog(services, reader, feed_id)
    ann.post(f"/feeds/{feed_id}/edit", {"original": "1"})
    for path in ("/read/all", f"/read/feed/{feed_id}"):
        (link,) = lxml.html.fromstring(ann.get(path).text).xpath(
            "//*[@class='row untitled' or @class='row']//h2/a"
        )
        assert (link.get("href"), link.get("target")) == ("https://blog.example/1", "_blank")
        assert link.get("rel") == "noopener noreferrer"
        # Without scripts, too, a link leads to the article.
        (inside,) = lxml.html.fromstring(ann.get(path).text).xpath("//*[@class='end']/a[@class='in']")
        assert "entry=" in inside.get("href")
    ann.post(f"/feeds/{feed_id}/edit", {})
    assert 'href="https://blog.example/1"' not in ann.get("/read/all").text


LOGIN = {"login": "ann", "password": "s3cret-canary", "cookie": "sid=c00kie-canary"}


def test_V14_secrets_are_set_kept_and_removed_and_never_shown(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    done = ann.post(f"/feeds/{feed_id}/fetch", LOGIN)
    assert done.status_code == 303
    own = int(done.headers["Location"].rsplit("/", 1)[1])
    assert own != feed_id
    page = ann.get(f"/feeds/{own}").text
    assert "Saved. You read your own copy of this feed now." in page
    assert "canary" not in page
    assert "A password is stored." in page
    assert "A cookie is stored." in page
    assert ">Keep private</button>" not in page
    # Empty secrets stay; another user name needs its own password.
    ann.post(f"/feeds/{own}/fetch", {"login": "ann", "user_agent": "Mine/1", "max_minutes": "30"})
    kept = services.subscriptions.get_fetch_options(reader, own)
    assert (kept.password, kept.cookie, kept.user_agent) == ("s3cret-canary", "sid=c00kie-canary", "Mine/1")
    assert kept.max_minutes == 30
    ann.post(f"/feeds/{own}/fetch", {"login": "bob"})
    assert services.subscriptions.get_fetch_options(reader, own).password == ""
    back = ann.post(f"/feeds/{own}/fetch", {"no_cookie": "1"})
    assert back.headers["Location"] == f"/feeds/{feed_id}"
    assert "You read the shared feed again." in ann.get(back.headers["Location"]).text


def test_a_wrong_option_is_named_beside_its_field(ann: Visitor, feed_id: int) -> None:
    answer = ann.post(f"/feeds/{feed_id}/fetch", {"min_minutes": "60", "max_minutes": "30"})
    assert answer.status_code == 400
    page = lxml.html.fromstring(answer.text)
    (details,) = page.xpath("//details[@id='fetching']")
    assert details.get("open") is not None
    assert "The longest interval can't be shorter" in details.text_content()
    assert page.xpath("//input[@name='min_minutes']/@value") == ["60"]


@pytest.mark.parametrize("error", ["http_401", "http_403", "http_407"])
def test_a_feed_that_needs_a_login_has_its_field_open(
    ann: Visitor, db: Any, feed_id: int, error: str
) -> None:
    break_feed(db, feed_id, error)
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    assert page.xpath("//details[@id='fetching']/@open")
    assert page.xpath("//a[@href='#f-login']")


def test_a_site_that_needs_a_login_can_be_added_with_it(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    find(services, "https://paid.example/feed", error="http_401")
    found = lxml.html.fromstring(ann.post("/add", {"address": "https://paid.example/feed"}).text)
    (form,) = found.xpath("//form[@action='/subscribe']")
    assert form.xpath(".//input[@name='url']/@value") == ["https://paid.example/feed"]
    ann.post("/subscribe", {"url": "https://paid.example/feed", "login": "ann", "password": "pw"})
    (mine,) = services.gateways.subscriptions.find_by_user(reader.user_id)
    assert services.subscriptions.get_fetch_options(reader, mine.feed_id).login == "ann"
    assert services.gateways.feeds.find_by_url("https://paid.example/feed") is None


def test_after_a_subscription_another_one_can_be_added(ann: Visitor) -> None:
    done = ann.post("/subscribe", {"url": "https://new.example/feed", "then": "add"})
    page = lxml.html.fromstring(ann.get(done.headers["Location"]).text)
    assert "You're subscribed to “https://new.example/feed”." in page.text_content()
    assert page.xpath("//input[@id='f-address']/@autofocus") == ["autofocus"] or page.xpath(
        "//input[@id='f-address' and @autofocus]"
    )
    assert ann.get("/add?added=17").status_code == 200


def test_of_an_own_copy_only_title_and_link_can_be_posted(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    own = int(ann.post(f"/feeds/{feed_id}/fetch", LOGIN).headers["Location"].rsplit("/", 1)[1])
    blog(services, reader, own)
    (row,) = services.reading.load_page(reader, StreamQuery(StreamRef.parse(f"feed/{own}"))).rows
    page = lxml.html.fromstring(ann.get(f"/read/feed/{own}?entry={row.id}").text)
    assert not page.xpath("//form[@action='/entries/share']")
    (link,) = page.xpath("//a[starts-with(@href, '/share-target')]/@href")
    assert link == "/share-target?title=One&url=https%3A//blog.example/1"


def test_a_refused_login_says_only_what_is_really_stored(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    refused = ann.post(f"/feeds/{feed_id}/fetch", {"login": "a:b", "password": "typed", "cookie": "a=b"})
    assert refused.status_code == 400
    assert 'value="a:b"' in refused.text
    assert "is stored" not in refused.text
    done = ann.post(f"/feeds/{feed_id}/fetch", LOGIN)
    own = int(done.headers["Location"].rsplit("/", 1)[1])
    again = ann.post(f"/feeds/{own}/fetch", {"login": "ann", "min_minutes": "0"})
    assert again.status_code == 400
    assert "A password is stored." in again.text
    assert "A cookie is stored." in again.text
    assert 'name="no_cookie"' in again.text


def test_an_address_without_encryption_is_said_beside_the_login(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    words = "(http), so others on the way"
    plain = services.subscriptions.subscribe(reader, "http://plain.example/feed").subscription.feed_id
    assert words in ann.get(f"/feeds/{plain}").text
    assert words not in ann.get(f"/feeds/{feed_id}").text


def test_whole_texts_of_a_private_feed_offer_no_sharing(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    blog(services, reader, feed_id)
    path = f"/read/feed/{feed_id}?view=expanded"
    assert 'action="/entries/share"' in ann.get(path).text
    ann.post(f"/feeds/{feed_id}/private", {"private": "1"})
    page = ann.get(path).text
    assert 'action="/entries/like"' in page
    assert 'action="/entries/share"' not in page
    assert "/compose?entry=" not in page


def test_entries_are_marked_as_read_after_the_chosen_days(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    pull(services, [feed_id], {"https://blog.example/feed": rss("Blog", [("One", "<p>x</p>")])})
    ann.post(f"/feeds/{feed_id}/edit", {"read_after": "5"})
    page = ann.get(f"/feeds/{feed_id}").text
    assert '<option value="5" selected>After 5 days</option>' in page, "set through REST"
    later = clock.now() + dt.timedelta(days=5, hours=1)
    with clock.set_source(lambda: later):
        assert services.auto_read.run(0, seconds=60.0)["entries"] == 1
        assert services.marking.list_history(reader).actions
        shown = ann.get("/history").text
    assert "1 entry marked as read · automatically" in shown
    assert ann.post(f"/feeds/{feed_id}/edit", {"read_after": "1000"}).status_code == 400


def test_V14_stored_headers_are_masked_and_kept(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    sent = {"headers": "X-Api-Key: k3y-canary\r\nX-Team: blue", "token": "t0ken-canary", "time_limit": "45"}
    done = ann.post(f"/feeds/{feed_id}/fetch", sent)
    own = int(done.headers["Location"].split("/")[2].split("?")[0])
    page = ann.get(f"/feeds/{own}").text
    assert "canary" not in page
    assert "X-Api-Key: ••••••••\nX-Team: ••••••••</textarea>" in page
    ann.post(f"/feeds/{own}/fetch", {"headers": "x-api-key: ••••••••\r\nX-Team: red", "time_limit": "45"})
    options = services.subscriptions.get_fetch_options(reader, own)
    assert options.parse_headers() == (("x-api-key", "k3y-canary"), ("X-Team", "red"))
    assert (options.token, options.time_limit) == ("t0ken-canary", 45)
    refused = ann.post(f"/feeds/{own}/fetch", {"headers": "Host: evil"})
    assert refused.status_code == 400
    assert ">Host: evil</textarea>" in refused.text, "what was typed is still there"
    ann.post(f"/feeds/{own}/fetch", {"no_token": "1"})
    assert services.subscriptions.get(reader, feed_id), "without options, it is the shared feed again"


def test_only_the_changed_settings_of_a_feed_are_written(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    news = services.folders.create(reader, "News")
    services.subscriptions.update(reader, feed_id, folder_ids=(news.id,), notify=True, title="Mine")
    assert _save(ann, feed_id, 2, title="Other", keep_newest="25", changed="keep_newest hidden") == 200
    mine = services.subscriptions.get(reader, feed_id)
    assert (mine.title, mine.folder_ids, mine.notify, mine.keep_newest) == ("Mine", (news.id,), True, 25)
    # One that was sent before it and comes after it.
    late = {"title": "Late", "new_folder": "Late", "view": "list", "changed": "title new_folder view"}
    assert _save(ann, feed_id, 1, **late) == 204
    assert services.subscriptions.get(reader, feed_id).title == "Mine"
    assert [folder.name for folder in services.folders.list_folders(reader)] == ["News"]
    assert _get_view(services, reader, feed_id) != "list"


def _save(ann: Visitor, feed_id: int, turn: int, page: str = "p", **fields: object) -> int:
    sent = {"page": page, "turn": str(turn), **fields}
    said = ann.post(f"/feeds/{feed_id}/edit", sent, HX_Request="true", HX_Target="p#saved")
    assert ("Saved" in said.text) == (said.status_code == 200)
    return said.status_code


def _get_view(services: Services, reader: Actor, feed_id: int) -> str:
    return services.stream_views.get(reader, StreamRef(StreamKind.FEED, feed_id), Preferences()).view


def test_two_pages_of_a_feed_do_not_undo_each_others_folders(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    red, blue, gone = (services.folders.create(reader, name).id for name in ("Red", "Blue", "Gone"))
    changed = "folder_add folder_remove"
    assert _save(ann, feed_id, 1, "one", folder_add=[str(red), str(gone)], changed=changed) == 200
    services.folders.delete(reader, gone)
    both = {"folder_add": str(blue), "folder_remove": str(gone), "title": "Mine"}
    assert _save(ann, feed_id, 1, "two", **both, changed=f"title {changed}") == 200
    mine = services.subscriptions.get(reader, feed_id)
    assert (mine.title, set(mine.folder_ids)) == ("Mine", {red, blue})
    assert _save(ann, feed_id, 2, "two", folder_remove=str(red), changed=changed) == 200
    assert services.subscriptions.get(reader, feed_id).folder_ids == (blue,)
    # Without scripts, the form has all of them.
    assert ann.post(f"/feeds/{feed_id}/edit", {"folder": str(red)}).status_code == 303
    assert services.subscriptions.get(reader, feed_id).folder_ids == (red,)


def test_a_save_of_a_feed_that_broke_off_is_written_when_it_comes_again(
    services: Services, ann: Visitor, reader: Actor, feed_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise RuntimeError

    fields = {"title": "Mine", "view": "list", "new_folder": "New", "changed": "title view new_folder"}
    for kind, name in (
        (type(services.subscriptions), "update"),
        (type(services.stream_views), "set"),
        (type(services.folders), "create"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, fail)
            assert _save(ann, feed_id, 1, **fields) == 500
    assert _save(ann, feed_id, 1, **fields) == 200
    mine = services.subscriptions.get(reader, feed_id)
    (new,) = services.folders.list_folders(reader)
    assert (mine.title, mine.folder_ids, _get_view(services, reader, feed_id)) == ("Mine", (new.id,), "list")


@pytest.mark.parametrize("step", ["update", "set", "create"])
def test_of_two_saves_of_a_feed_at_once_the_later_turn_is_stored(
    services: Services,
    ann: Visitor,
    reader: Actor,
    feed_id: int,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    kinds = {"update": services.subscriptions, "set": services.stream_views, "create": services.folders}
    write, statuses = getattr(type(kinds[step]), step), list[int]()
    changed = "title view new_folder"

    def write_after_another(*args: Any, **options: Any) -> Any:
        if not statuses:
            statuses.append(0)
            later = {"title": "Second", "view": "list", "new_folder": "New", "changed": changed}
            statuses.append(_save(ann, feed_id, 2, **later))
        return write(*args, **options)

    monkeypatch.setattr(type(kinds[step]), step, write_after_another)
    first = {"title": "First", "view": "expanded", "new_folder": "New", "changed": changed}
    assert _save(ann, feed_id, 1, **first) == 204
    mine = services.subscriptions.get(reader, feed_id)
    (new,) = services.folders.list_folders(reader)
    stored = (mine.title, mine.folder_ids, _get_view(services, reader, feed_id))
    assert (statuses, stored) == ([0, 200], ("Second", (new.id,), "list"))
