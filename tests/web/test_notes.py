"""Notes and highlights on pages, without scripts: writing, highlighting, removing, quoting, downloading."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.support.reader import pull, rss
from tests.web.conftest import Visitor

URL = "https://blog.example/feed"


@pytest.fixture
def me(services: Services, ann: Visitor) -> Actor:
    found = services.gateways.accounts.find_by_name("ann")
    assert found is not None
    user = services.gateways.accounts.find_user(found)
    assert user is not None
    return user.actor


@pytest.fixture
def entry_id(services: Services, me: Actor) -> int:
    feed_id = services.subscriptions.subscribe(me, URL).subscription.feed_id
    pull(services, [feed_id], {URL: rss("Blog", [("Roofs", "<p>They curve <b>toward</b> the rain.</p>")])})
    doc = services.store.database["entries"].find_one({"feed_id": feed_id})
    assert doc is not None
    return int(doc["_id"])


def _read(ann: Visitor, entry_id: int) -> BeautifulSoup:
    return BeautifulSoup(ann.get(f"/read/all?entry={entry_id}").text, "lxml")


def test_note_is_written_and_removed_without_scripts(ann: Visitor, entry_id: int) -> None:
    form = _read(ann, entry_id).select_one(f'#notes form[action="/entries/{entry_id}/note"]')
    assert form is not None
    done = ann.post(
        str(form["action"]), {"text": "For <the> trip", "next": f"/read/all?entry={entry_id}#notes"}
    )
    assert (done.status_code, done.headers["Location"]) == (303, f"/read/all?entry={entry_id}#notes")
    page = _read(ann, entry_id)
    field = page.select_one("#notes details[open] textarea[name=text]")
    assert field is not None
    assert field.text == "For <the> trip"
    assert "Note saved" in page.text
    ann.post(str(form["action"]), {"text": " "})
    page = _read(ann, entry_id)
    assert not page.select("#notes details[open]")
    assert "Note removed" in page.text
    token = page.select_one('form[action="/undo"] input[name="token"]')
    assert token is not None
    ann.post("/undo", {"token": str(token["value"])})
    (field,) = _read(ann, entry_id).select("#notes details[open] textarea[name=text]")
    assert field.text == "For <the> trip"


def test_highlight_appears_in_the_text_and_below_it(ann: Visitor, entry_id: int) -> None:
    path = f"/entries/{entry_id}/highlights"
    ann.post(path, {"exact": "curve toward the", "color": "green"})
    page = _read(ann, entry_id)
    marks = page.select(".article > .prose mark.hl.green")
    assert [mark.text for mark in marks] == ["curve ", "toward", " the"]
    link = page.select_one("#notes blockquote a")
    assert link is not None
    assert (link.text, str(link["href"])) == ("curve toward the", f"#{marks[0]['id']}")
    quote = str(link["href"]).removeprefix("#hl-")
    ann.post(path, {"quote": quote, "note": "Why?", "color": "pink"})
    page = _read(ann, entry_id)
    assert [own.text for own in page.select("#notes .own")] == ["Why?"]
    assert page.select("mark.hl.pink")
    ann.post(f"{path}/remove", {"quote": quote, "next": f"/read/all?entry={entry_id}"})
    page = _read(ann, entry_id)
    assert not page.select("mark.hl")
    token = page.select_one('form[action="/undo"] input[name="token"]')
    assert token is not None
    ann.post("/undo", {"token": str(token["value"])})
    assert _read(ann, entry_id).select("mark.hl.pink")


def test_script_gets_the_highlight_as_json(ann: Visitor, entry_id: int) -> None:
    path = f"/entries/{entry_id}/highlights"
    done = ann.post(path, {"exact": "the rain", "suffix": "."}, Accept="application/json")
    assert done.status_code == 200
    assert set(done.get_json()) == {"text", "quote"}
    wrong = ann.post(path, {"exact": "  "}, Accept="application/json")
    assert (wrong.status_code, wrong.get_json()["message"]) == (400, "Select the passage to highlight.")


def test_quotation_goes_into_a_share(ann: Visitor, entry_id: int) -> None:
    ann.post(f"/entries/{entry_id}/highlights", {"exact": "the rain", "note": "Why?"})
    link = _read(ann, entry_id).select_one('#notes a[href^="/compose?"]')
    assert link is not None
    form = BeautifulSoup(ann.get(str(link["href"])).text, "lxml").select_one("textarea[name=note]")
    assert form is not None
    assert form.text == "“the rain”\n\nWhy?"
    ann.post("/entries/share", {"entry": str(entry_id), "note": "First"})
    form = BeautifulSoup(ann.get(str(link["href"])).text, "lxml").select_one("textarea[name=note]")
    assert form is not None
    assert form.text == "First\n\n“the rain”\n\nWhy?"


def _list_texts(ann: Visitor, row: str) -> list[str]:
    page = BeautifulSoup(ann.get("/read/notes").text, "lxml")
    return [said.text for said in page.select(f"{row} > *")]


def test_notes_are_listed_and_downloaded(ann: Visitor, entry_id: int) -> None:
    assert "No notes yet" in ann.get("/read/notes").text
    ann.post(f"/entries/{entry_id}/note", {"text": "For the trip"})
    page = BeautifulSoup(ann.get("/read/notes").text, "lxml")
    assert page.select_one('a[href="/notes.md"]')
    row = f'.row[data-id="{entry_id}"] .gist'
    assert [said.text for said in page.select(f"{row} > *")] == ["For the trip"]
    assert page.select_one(f'{row} .written .icon[aria-label="Your note"]')
    ann.post(f"/entries/{entry_id}/highlights", {"exact": "the rain", "color": "blue"})
    assert _list_texts(ann, row) == ["“the rain”", "For the trip"]
    ann.post(f"/entries/{entry_id}/highlights", {"exact": "Roofs", "note": "Why?"})
    assert _list_texts(ann, row) == ["“the rain”", "For the trip", "1 more highlight 1 more note"]
    assert BeautifulSoup(ann.get("/read/notes").text, "lxml").select_one(f"{row} .quoted.hl-blue")
    file = ann.get("/notes.md")
    assert file.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert "attachment" in file.headers["Content-Disposition"]
    assert file.text.startswith("# Notes\n\n## [Roofs]")
    assert "For the trip" in file.text
