"""The pages that save any page: the form, the bookmarklet, the share target, and removing."""

from __future__ import annotations

import re
from urllib.parse import unquote

from bs4 import BeautifulSoup, Tag

from app.bootstrap.services import Services
from tests.web.conftest import Visitor

PAGE = "https://magazine.example/roofs"


def _read(form: Tag) -> dict[str, str]:
    """Return the fields of a form, without its token."""
    fields = {str(one["name"]): str(one.get("value", "")) for one in form.select("input")}
    fields |= {str(one["name"]): one.text for one in form.select("textarea")}
    return {name: value for name, value in fields.items() if name != "csrf_token"}


def _save(ann: Visitor, **form: str) -> int:
    done = ann.post("/save", {"url": PAGE, "title": "Old roofs", **form})
    assert done.status_code == 303, done.text
    found = re.fullmatch(r"/save\?done=(\d+)(&again=1)?", done.headers["Location"])
    assert found is not None
    return int(found[1])


def test_bookmarklet_opens_the_filled_form(ann: Visitor) -> None:
    page = BeautifulSoup(ann.get("/save").text, "lxml")
    (link,) = page.select('a[href^="javascript:"]')
    script = unquote(str(link["href"]))
    assert "http://" in script
    assert "/save?url='+encodeURIComponent(location.href)" in script
    query = {"url": PAGE, "title": "Old <roofs>", "text": "They curve."}
    filled = BeautifulSoup(ann.get("/save", query_string=query).text, "lxml")
    form = filled.select_one('form[action="/save"]')
    assert form is not None
    assert _read(form) == query
    assert filled.select_one('textarea[name="text"]')
    assert not filled.select('a[href^="javascript:"]')


def test_saving_shows_the_page_and_leads_to_it(ann: Visitor) -> None:
    entry_id = _save(ann)
    page = ann.get(f"/save?done={entry_id}").text
    assert "Old roofs" in page
    assert f'href="/entries/{entry_id}"' in page
    assert ann.get("/saved").headers["Location"].startswith("/read/feed/")
    assert "already saved this page" in ann.get(f"/save?done={_save(ann)}&again=1").text


def test_wrong_address_keeps_what_was_typed(ann: Visitor) -> None:
    answer = ann.post("/save", {"url": "ftp://site.example/file", "title": "Mine"})
    assert answer.status_code == 400
    page = BeautifulSoup(answer.text, "lxml")
    assert page.select_one('input[name="url"][value="ftp://site.example/file"]')
    assert page.select_one('input[name="title"][value="Mine"]')
    assert "Enter the address of a page" in answer.text


def test_share_target_saves_without_scripts(ann: Visitor) -> None:
    query = {"title": "Old roofs", "text": f"Look at this {PAGE}"}
    page = BeautifulSoup(ann.get("/share-target", query_string=query).text, "lxml")
    form = page.select_one('form[action="/save"]')
    assert form is not None
    sent = _read(form)
    assert sent == {"url": PAGE, "title": "Old roofs", "text": "Look at this"}
    assert ann.post("/save", sent).status_code == 303


def test_removing_from_the_menu_of_the_article_can_be_undone(ann: Visitor, services: Services) -> None:
    entry_id = _save(ann)
    address = ann.get(f"/entries/{entry_id}").headers["Location"]
    page = BeautifulSoup(ann.get(address).text, "lxml")
    form = page.select_one('form[action="/saved/remove"]')
    assert form is not None
    done = ann.post("/saved/remove", {"entry": str(entry_id), "next": "/read/all"})
    assert (done.status_code, done.headers["Location"]) == (303, "/read/all")
    after = BeautifulSoup(ann.get("/read/all").text, "lxml")
    assert not after.select(f'[data-entry="{entry_id}"], [data-id="{entry_id}"]')
    token = after.select_one('input[name="token"]')
    assert token is not None
    assert ann.post("/undo", {"token": str(token["value"]), "next": "/read/all"}).status_code == 303
    assert f"entry={entry_id}" in ann.get("/read/all").text


def test_page_of_the_feed_shows_only_what_saved_pages_have(ann: Visitor) -> None:
    _save(ann)
    feed = ann.get("/saved").headers["Location"].rpartition("/")[2]
    page = ann.get(f"/feeds/{feed}").text
    assert 'href="/save"' in page
    for missing in ("/fetch", "/address", "/icon", "/pause", "Health"):
        assert f"/feeds/{feed}{missing}" not in page
        assert missing != "Health" or ">Health<" not in page
