"""Importing from another server as a page, and in REST."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import lxml.html
import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.imports.imports import Import
from app.models.imports.pulls import PullKind
from tests.support.importing import pulled, reading, unreadable
from tests.support.reader import add_user
from tests.web.conftest import Visitor

PAGE = "/imports/server"
FORM = {"kind": "miniflux", "address": "rss.example.org", "name": "", "secret": "key-17"}


@pytest.fixture
def reader(db: Any, ann: Visitor) -> Actor:
    return Actor(db.users.find_one({"name": "ann"})["_id"])


def test_a_server_is_named_and_its_import_shows_how_far_it_is(
    ann: Visitor, services: Services, reader: Actor, db: Any
) -> None:
    assert PAGE in ann.get("/imports").text
    assert "Read my account" in ann.get(PAGE).text
    answer = ann.post(PAGE, FORM)
    (found,) = services.imports.list_recent(reader)
    assert answer.location == f"/imports/{found.id}"
    assert found.name == "rss.example.org"
    db.imports.update_one({"_id": found.id}, {"$set": {"pull.entries": 1240}})
    page = ann.get(f"/imports/{found.id}").text
    assert "Reading the other server…" in page
    assert "1,240" in page
    assert "isn't answering" not in page
    assert "unencrypted" not in page
    due = clock.now() + dt.timedelta(minutes=4, seconds=30)
    db.imports.update_one({"_id": found.id}, {"$set": {"pull.problem": "timeout", "pull.due": due}})
    waiting = ann.get(f"/imports/{found.id}").text
    assert "Waiting for rss.example.org" in waiting
    assert "isn't answering at the moment. Next try in 4 min" in waiting
    assert "Reading the other server…" not in waiting
    db.imports.update_one({"_id": found.id}, {"$set": {"pull.due": clock.now()}})
    assert "Eventr is trying again now." in ann.get(f"/imports/{found.id}").text
    assert "key-17" not in page
    assert ann.get(f"/api/imports/{found.id}").json["entries"] == 1240


def test_a_failed_import_is_started_anew_with_all_but_the_secret(
    ann: Visitor, services: Services, reader: Actor
) -> None:
    failed = unreadable(services, reader)
    page = ann.get(f"/imports/{failed.id}").text
    again = f"{PAGE}?again={failed.id}"
    assert f'href="{again}"' in page
    form = lxml.html.fromstring(ann.get(again).text).xpath("//form[@action='/imports/server']")[0]
    assert form.fields["address"] == "https://rss.example.org"
    assert form.fields["kind"] == "greader"
    assert not form.fields["secret"]
    assert not form.fields["name"], "it was deleted with the login"
    for empty in (f"{PAGE}?again=17", f"{PAGE}?again={services.imports.list_recent(reader)[0].id + 1}"):
        form = lxml.html.fromstring(ann.get(empty).text).xpath("//form[@action='/imports/server']")[0]
        assert not form.fields["address"]
    waiting = ann.post(PAGE, FORM).location
    assert "again=" not in ann.get(waiting).text
    bob = add_user(services, "bob")
    theirs = unreadable(services, bob)
    form = lxml.html.fromstring(ann.get(f"{PAGE}?again={theirs.id}").text).xpath(
        "//form[@action='/imports/server']"
    )[0]
    assert not form.fields["address"], "of somebody else"


def test_a_silent_server_is_tried_at_once_or_gets_another_address(
    ann: Visitor, services: Services, reader: Actor, db: Any
) -> None:
    waiting = reading(services, reader)
    path = f"/imports/{waiting.id}"
    page = ann.get(path).text
    assert f'action="{path}/try"' in page
    assert ">Try now</button>" in page
    until = clock.now() + dt.timedelta(hours=5)
    for word, said in (("http_429", "limiting requests"), ("http_503", "isn't answering")):
        asked = {"pull.problem": word, "pull.asked_until": until}
        db.imports.update_one({"_id": waiting.id}, {"$set": asked})
        page = ann.get(path).text
        assert said in page
        said = lxml.html.fromstring(page).get_element_by_id("job").text_content()
        assert re.search(rf"The server asked Eventr to wait until \W*{until.day} \w+ {until.year}, ", said)
        assert f'action="{path}/try"' not in page
        refused = ann.post(f"{path}/try")
        assert refused.status_code == 409
        assert re.search(r"rss\.example\.org\W+(</bdi> )?asked Eventr to wait", refused.text)
    db.imports.update_one({"_id": waiting.id}, {"$set": {"pull.asked_until": clock.now()}})
    for _ in range(2):
        assert ann.post(f"{path}/try").location == path
    page = ann.get(path).text
    assert "Eventr is trying again now." in page
    assert f'action="{path}/try"' not in page
    again = f"{PAGE}?again={waiting.id}"
    assert f'href="{again}"' in page
    form = lxml.html.fromstring(ann.get(again).text).xpath("//form[@action='/imports/server']")[0]
    assert (form.fields["address"], form.fields["kind"]) == ("https://rss.example.org", "greader")
    assert not form.fields["secret"]
    assert not form.fields["name"]
    typed = FORM | {"address": "reader.example.org", "instead": form.fields["instead"]}
    refused = ann.post(PAGE, typed | {"secret": ""})
    assert f'name="instead" value="{waiting.id}"' in refused.text
    assert len(services.imports.list_recent(reader)) == 1, "the old one stays until the new one starts"
    ann.post(PAGE, typed)
    (new,) = services.imports.list_recent(reader)
    assert new.name == "reader.example.org"
    assert db.import_marks.count_documents({}) == 0


def test_a_new_address_deletes_neither_a_preview_nor_what_others_import(
    ann: Visitor, services: Services, reader: Actor
) -> None:
    bob = add_user(services, "bob")
    read, theirs = pulled(services, reader), reading(services, bob)
    for instead, said in ((read.id, "answered meanwhile"), (theirs.id, "was deleted or replaced meanwhile")):
        refused = ann.post(PAGE, FORM | {"instead": str(instead)})
        assert refused.status_code == 409
        assert said in refused.text
        assert "key-17" not in refused.text
    assert [one.id for one in services.imports.list_recent(reader)] == [read.id], "nothing is stored"
    assert services.imports.get(reader, read.id).state is read.state
    assert services.imports.get(bob, theirs.id).state is theirs.state
    answer = ann.post(f"/imports/{read.id}/try")
    assert answer.status_code == 409
    assert "waiting for another server" in answer.text
    assert ann.post(f"/imports/{theirs.id}/try").status_code == 404


@pytest.mark.parametrize("instead", [-1, 1 << 60])
def test_a_wrong_id_of_what_is_replaced_stores_nothing(
    ann: Visitor, services: Services, reader: Actor, instead: int
) -> None:
    assert ann.post(PAGE, FORM | {"instead": str(instead)}).status_code == 400
    assert services.imports.list_recent(reader) == []


def test_an_import_that_goes_on_is_not_replaced(
    ann: Visitor, services: Services, reader: Actor, db: Any
) -> None:
    waiting = reading(services, reader)
    db.imports.update_one({"_id": waiting.id}, {"$set": {"pull.problem": "", "pull.run": "again"}})
    refused = ann.post(PAGE, FORM | {"instead": str(waiting.id)})
    assert refused.status_code == 409
    assert "Reading the other server…" in refused.text, "the page of the import that goes on"
    assert "answered meanwhile" in refused.text
    assert [one.id for one in services.imports.list_recent(reader)] == [waiting.id]


def test_an_import_that_was_given_up_meanwhile_is_started_again_from_its_page(
    ann: Visitor, services: Services, reader: Actor
) -> None:
    failed = unreadable(services, reader)
    refused = ann.post(PAGE, FORM | {"instead": str(failed.id)})
    assert refused.status_code == 409
    assert "ended meanwhile" in refused.text
    assert f"{PAGE}?again={failed.id}" in refused.text


def test_deleting_asks_first_if_a_server_is_still_being_read(
    ann: Visitor, services: Services, reader: Actor
) -> None:
    lost, ended = reading(services, reader), unreadable(services, reader)
    for one, is_asked in ((lost, True), (ended, False)):
        page = lxml.html.fromstring(ann.get(f"/imports/{one.id}").text)
        (form,) = page.xpath(f"//form[@action='/imports/{one.id}/remove']")
        questions = form.xpath("ancestor::details")
        assert bool(questions) is is_asked
        if questions:
            assert "can't be undone" in questions[0].text_content()
        assert ann.post(f"/imports/{one.id}/remove").status_code == 303


def test_a_double_click_replaces_an_import_once(
    ann: Visitor, services: Services, reader: Actor, db: Any
) -> None:
    waiting = reading(services, reader)
    for expected in (303, 409):
        assert ann.post(PAGE, FORM | {"instead": str(waiting.id)}).status_code == expected
    (new,) = services.imports.list_recent(reader)
    assert new.id != waiting.id


def test_a_login_that_is_sent_unencrypted_is_warned_of(ann: Visitor) -> None:
    assert "sent unencrypted" in ann.get(PAGE).text
    answer = ann.post(PAGE, FORM | {"address": "http://rss.example.org"})
    assert "sent unencrypted" in ann.get(answer.location).text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"address": "nowhere at all"}, "Enter the web address of your reader"),
        ({"secret": ""}, "Enter the password or the token"),
        ({"secret": "schlüssel☃"}, "This token has characters"),
        ({"kind": "greader"}, "Enter your user name"),
    ],
)
def test_wrong_fields_are_explained_and_the_secret_isnt_sent_back(
    ann: Visitor, services: Services, reader: Actor, change: dict[str, str], said: str
) -> None:
    answer = ann.post(PAGE, FORM | change)
    assert answer.status_code == 400
    assert said in answer.text
    assert "key-17" not in answer.text
    secret = lxml.html.fromstring(answer.text).get_element_by_id("h-secret").text_content()
    assert secret == "Enter it again." or said in secret
    assert services.imports.list_recent(reader) == []


NEWSBLUR = {"kind": "newsblur", "name": "ann", "secret": "key-17"}


@pytest.mark.parametrize("typed", ["https://rss.example.org", "ftp://nope nope"])
def test_a_login_for_newsblur_goes_to_no_address_typed_for_another_reader(
    ann: Visitor, services: Services, reader: Actor, typed: str
) -> None:
    """The form hides the field then, but its text is still sent."""
    answer = ann.post(PAGE, NEWSBLUR | {"address": typed})
    (found,) = services.imports.list_recent(reader)
    assert answer.location == f"/imports/{found.id}"
    assert found.name == "www.newsblur.com"
    pull = services.imports.get(reader, found.id).pull
    assert pull
    assert pull.address == "https://www.newsblur.com"


def test_a_name_typed_for_another_reader_is_none_for_miniflux(
    ann: Visitor, services: Services, reader: Actor
) -> None:
    ann.post(PAGE, FORM | {"name": "ann\x07" * 40})
    (found,) = services.imports.list_recent(reader)
    one = services.imports.get(reader, found.id)
    assert one.pull
    assert one.pull.kind is PullKind.MINIFLUX


def _ask_for_newsblur(services: Services, reader: Actor, address: str) -> Import:
    return services.pulled_imports.request_pull(
        reader, PullKind.NEWSBLUR, address, name="ann", secret="key-17"
    )


@pytest.mark.parametrize("address", ["", "https://www.newsblur.com/", " www.newsblur.com"])
def test_newsblur_has_one_address(services: Services, reader: Actor, address: str) -> None:
    pull = _ask_for_newsblur(services, reader, address).pull
    assert pull
    assert pull.address == "https://www.newsblur.com"


@pytest.mark.parametrize(
    "address",
    ["https://rss.example.org", "http://www.newsblur.com", "https://www.newsblur.com.example.org", "ftp://x"],
)
def test_a_login_for_newsblur_with_another_address_is_sent_nowhere(
    services: Services, reader: Actor, address: str
) -> None:
    with pytest.raises(InvalidError) as found:
        _ask_for_newsblur(services, reader, address)
    assert found.value.ids["field"] == "address"
    assert services.imports.list_recent(reader) == []
