"""Settings → Send to, and sending an entry from its menu."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.targets import Occasion
from tests.reading.test_rules import bring, subscribe
from tests.web.conftest import Visitor

PAGE = "/settings/sending"


@pytest.fixture
def actor(ann: Visitor, services: Services) -> Actor:
    """Ann, who is logged in."""
    user_id = services.gateways.accounts.find_by_name("ann")
    assert user_id is not None
    return Actor(user_id)


def test_a_service_is_added_switched_off_and_deleted(ann: Visitor, actor: Actor, services: Services) -> None:
    form = {"kind": "gotify", "address": "gotify.example", "secret": "Geheim-7", "star": "1"}
    assert ann.post(PAGE, form).status_code == 303
    (target,) = services.sending.list_targets(actor)
    assert (target.name, target.address, target.on) == (
        "gotify.example",
        "https://gotify.example/",
        (Occasion.STAR,),
    )
    page = ann.get(PAGE).text
    assert "https://gotify.example/" in page
    assert "Geheim-7" not in page
    ann.post(f"{PAGE}/{target.id}/switch", {"on": "0"})
    assert not services.sending.list_targets(actor)[0].enabled
    answer = ann.post(f"{PAGE}/{target.id}/test", {})
    assert (answer.status_code, "This service is off." in answer.text) == (400, True)
    ann.post(f"{PAGE}/{target.id}/delete", {})
    assert services.sending.list_targets(actor) == []


def test_a_refused_address_says_so_and_keeps_what_was_typed(ann: Visitor) -> None:
    answer = ann.post(PAGE, {"kind": "webhook", "address": "http://127.0.0.1/x", "secret": "Geheim-7"})
    assert answer.status_code == 400
    page = BeautifulSoup(answer.text, "lxml")
    field = page.select_one("#f-address")
    assert field is not None
    assert field["value"] == "http://127.0.0.1/x"
    assert "EVENTR_SEND_ALLOW" in answer.text
    assert "Geheim-7" not in answer.text


def test_a_kind_must_be_chosen(ann: Visitor, actor: Actor, services: Services) -> None:
    answer = ann.post(PAGE, {"kind": "", "address": "https://hook.example/in"})
    assert answer.status_code == 400
    problem = BeautifulSoup(answer.text, "lxml").select_one("[role=alert]")
    assert problem is not None
    assert problem.text.strip() == "Choose a service."
    assert services.sending.list_targets(actor) == []


def test_an_entry_is_sent_from_its_menu(ann: Visitor, actor: Actor, services: Services) -> None:
    feed_id = subscribe(services, actor)
    bring(services, feed_id, "Climate")
    (entry,) = services.mappers.entries.find_range(feed_id, 0, 1 << 40, 10)
    assert "Add a service" in ann.get(f"/entries/{entry.id}/send").text
    assert f'href="/entries/{entry.id}/send"' in ann.get(f"/read/feed/{feed_id}?entry={entry.id}").text
    assert "any services yet" in ann.get(f"/entries/{entry.id}/send").text
    ann.post(PAGE, {"kind": "webhook", "address": "https://hook.example/in", "name": "Mine"})
    (target,) = services.sending.list_targets(actor)
    page = ann.get(f"/entries/{entry.id}/send").text
    assert "Mine" in page
    assert 'Webhook · <bdi dir="ltr">hook.example</bdi></p>' in page
    assert f'href="/entries/{entry.id}"' in page.partition("<h1>")[0]
    answer = ann.post(f"/entries/{entry.id}/send", {"target": str(target.id)})
    assert answer.location == f"/entries/{entry.id}"
    # A second press within a minute is the same request.
    ann.post(f"/entries/{entry.id}/send", {"target": str(target.id)})
    assert len(services.sending.list_deliveries(actor)) <= 2
    assert "hook.example</bdi> · waiting " in ann.get(f"/entries/{entry.id}/send").text
    assert f'href="/entries/{entry.id}"' in ann.get(PAGE).text


def test_a_rule_chooses_a_service(ann: Visitor, actor: Actor, services: Services) -> None:
    ann.post(PAGE, {"kind": "webhook", "address": "https://hook.example/in", "name": "Mine"})
    (target,) = services.sending.list_targets(actor)
    form = {"query": "climate", "send": str(target.id)}
    assert "New matches are sent to “Mine”." in ann.post("/settings/rules", {**form, "do": "preview"}).text
    assert ann.post("/settings/rules", form).status_code == 303
    assert "Send to “Mine”" in ann.get("/settings/rules").text
    services.sending.remove(actor, target.id)
    assert "Deleted service" in ann.get("/settings/rules").text
    (rule,) = services.rules.list_rules(actor).rules
    assert "Deleted service" in ann.get(f"/settings/rules/{rule.id}").text
