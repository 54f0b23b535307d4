"""Settings → Send to, and sending an entry from its menu."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest
from bs4 import BeautifulSoup

from app import clock
from app.bootstrap.services import Services
from app.errors import ForbiddenError, NotFoundError
from app.models.accounts.actor import Actor, Permission
from app.models.reading.targets import Occasion, TargetKind, Wanted
from tests.reading.test_rules import bring, subscribe
from tests.support.reader import add_user
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


def test_a_secret_is_replaced_and_all_else_stays(
    ann: Visitor, actor: Actor, services: Services, db: Any
) -> None:
    sending = services.sending
    target = sending.add(actor, TargetKind.GOTIFY, "gotify.example", secret="Geheim-7", on=[Occasion.STAR])
    page = BeautifulSoup(ann.get(PAGE).text, "lxml")
    link = page.select_one(f"a[href='{PAGE}?secret={target.id}#f-{target.id}-secret']")
    assert link
    assert not page.select(".change-access")
    page = BeautifulSoup(ann.get(f"{PAGE}?secret={target.id}").text, "lxml")
    field = page.select_one(f"#f-{target.id}-secret")
    assert field
    assert (field["type"], field["value"], field.has_attr("required")) == ("password", "", True)
    wanted = [Wanted(target.id, 17, "star")]
    services.gateways.targets.store_requests(actor.user_id, wanted, clock.now())
    rest = clock.now() + dt.timedelta(hours=3)
    db.deliveries.update_one({"target_id": target.id}, {"$set": {"due": rest, "tries": 3}})
    db.targets.update_one({"_id": target.id}, {"$set": {"rests_until": rest, "error": "http_401"}})
    before = db.targets.find_one({"_id": target.id})
    for secret in ("", "two words"):
        refused = ann.post(f"{PAGE}/{target.id}/secret", {"secret": secret})
        assert refused.status_code == 400
        wrong = BeautifulSoup(refused.text, "lxml").select("[aria-invalid]")
        assert [one["id"] for one in wrong] == [f"f-{target.id}-secret"]
        assert "two words" not in refused.text
        assert db.targets.find_one({"_id": target.id}) == before
    assert ann.post(f"{PAGE}/{target.id}/secret", {"secret": "Neu-8"}).location == PAGE
    assert "Neu-8" not in ann.get(PAGE).text
    after = db.targets.find_one({"_id": target.id})
    assert b"Neu-8" not in after["secret"]
    assert after["secret"] != before["secret"]
    unchanged = {"secret", "rests_until"}
    assert {k: v for k, v in after.items() if k not in unchanged} == {
        k: v for k, v in before.items() if k not in unchanged
    }
    assert "rests_until" not in after
    waiting = db.deliveries.find_one({"target_id": target.id})
    assert (waiting["due"] <= clock.now(), waiting["tries"]) == (True, 3), "what waited is due"
    stored = services.gateways.targets.get(actor.user_id, target.id)
    (delivery,) = sending.list_deliveries(actor)
    built = services.gateways.targets.build_request(stored, dataclasses.replace(delivery, cause="test:1"))
    assert built
    assert "Neu-8" in str(built)
    with pytest.raises(NotFoundError):
        sending.change_secret(add_user(services, "bob"), target.id, "x")
    with pytest.raises(ForbiddenError):
        sending.change_secret(dataclasses.replace(actor, limits=frozenset()), target.id, "x")


def test_an_address_is_replaced_and_all_else_stays(
    ann: Visitor, actor: Actor, services: Services, db: Any
) -> None:
    sending = services.sending
    target = sending.add(actor, TargetKind.GOTIFY, "gotify.example", secret="Geheim-7", on=[Occasion.STAR])
    page = BeautifulSoup(ann.get(PAGE).text, "lxml")
    assert page.select_one(f".menu-box a[href='{PAGE}?address={target.id}#f-{target.id}-address']")
    page = BeautifulSoup(ann.get(f"{PAGE}?address={target.id}").text, "lxml")
    fields = {name: page.select_one(f"#f-{target.id}-{name}") for name in ("address", "secret")}
    assert fields["address"]
    assert fields["secret"]
    assert (fields["address"]["value"], fields["secret"]["value"]) == ("https://gotify.example/", "")
    assert not fields["secret"].has_attr("required"), "it may stay for the same server"
    wanted = [Wanted(target.id, 17, "star")]
    services.gateways.targets.store_requests(actor.user_id, wanted, clock.now())
    rest = clock.now() + dt.timedelta(hours=3)
    db.deliveries.update_one({"target_id": target.id}, {"$set": {"due": rest, "tries": 3}})
    db.targets.update_one({"_id": target.id}, {"$set": {"rests_until": rest, "error": "unreachable"}})
    before = db.targets.find_one({"_id": target.id})
    for address, secret, wrong in (
        ("http://127.0.0.1/x", "Neu-8", "address"),
        ("https://push.example/x", "", "secret"),
        ("https://push.example/x", "two words", "secret"),
    ):
        refused = ann.post(f"{PAGE}/{target.id}/address", {"address": address, "secret": secret})
        assert refused.status_code == 400
        page = BeautifulSoup(refused.text, "lxml")
        (field,) = page.select("[aria-invalid]")
        assert field["id"] == f"f-{target.id}-{wrong}"
        said = [page.select_one(f"#{one}") for one in str(field["aria-describedby"]).split()]
        assert [one and one["class"] for one in said] == [["hint", "bad"], ["hint"]]
        typed = page.select_one(f"#f-{target.id}-address")
        assert typed
        assert typed["value"] == address
        assert not page.select(".note.error")
        assert "Neu-8" not in refused.text
        assert db.targets.find_one({"_id": target.id}) == before
    form = {"address": "push.example/x", "secret": "Neu-8"}
    assert ann.post(f"{PAGE}/{target.id}/address", form).location == PAGE
    after = db.targets.find_one({"_id": target.id})
    assert (after["address"], after["name"]) == ("https://push.example/x", "push.example")
    unchanged = {"secret", "rests_until", "address", "name"}
    assert {k: v for k, v in after.items() if k not in unchanged} == {
        k: v for k, v in before.items() if k not in unchanged
    }
    assert "rests_until" not in after
    waiting = db.deliveries.find_one({"target_id": target.id})
    assert (waiting["due"] <= clock.now(), waiting["tries"]) == (True, 3), "what waited is due"
    with pytest.raises(NotFoundError):
        sending.change_address(add_user(services, "bob"), target.id, "https://bob.example/", "x")
    for limits in (frozenset(), {Permission.SHARE_EDIT}, {Permission.ENTRY_READ}):
        limited = dataclasses.replace(actor, limits=frozenset(limits))
        with pytest.raises(ForbiddenError):
            sending.change_address(limited, target.id, "https://evil.example/", "x")


@pytest.mark.parametrize(
    ("error", "mend"),
    [
        *((word, "Change address") for word in ("unreachable", "tls_failed", "http_404")),
        *((word, "Change address") for word in ("http_301", "http_308")),
        *((word, "Change access token") for word in ("http_401", "http_403", "secret")),
        *((word, "") for word in ("http_500", "no_page", "entry_gone")),
    ],
)
def test_a_failed_service_offers_what_may_mend_it(
    ann: Visitor, actor: Actor, services: Services, error: str, mend: str
) -> None:
    target = services.sending.add(actor, TargetKind.GOTIFY, "gotify.example", secret="Geheim-7")
    services.mappers.targets.record_result(actor.user_id, target.id, error, clock.now())
    page = BeautifulSoup(ann.get(PAGE).text, "lxml")
    assert [one.text for one in page.select(".mend a")] == [mend] * bool(mend)
    assert [one.text for one in page.select("#services .menu-box > a")] == [
        "Change address",
        "Change access token",
    ]


def test_a_refused_field_keeps_its_hint(ann: Visitor) -> None:
    answer = ann.post(PAGE, {"kind": "gotify", "address": "gotify.example"})
    page = BeautifulSoup(answer.text, "lxml")
    (field,) = page.select("[aria-invalid]")
    assert field["aria-describedby"] == "e-secret h-secret"
    error, hint = page.select("#e-secret, #h-secret")
    assert error.text == "Enter the access token of the service."
    assert "under “Apps”" in hint.text


def test_an_optional_secret_can_be_removed(ann: Visitor, actor: Actor, services: Services, db: Any) -> None:
    target = services.sending.add(actor, TargetKind.WEBHOOK, "https://hook.example/in", secret="Geheim-7")
    field = BeautifulSoup(ann.get(f"{PAGE}?secret={target.id}").text, "lxml").select_one(
        f"#f-{target.id}-secret"
    )
    assert field
    assert not field.has_attr("required")
    ann.post(f"{PAGE}/{target.id}/secret", {"secret": ""})
    assert "secret" not in db.targets.find_one({"_id": target.id})


def test_deleting_a_service_asks_first(ann: Visitor, actor: Actor, services: Services) -> None:
    target = services.sending.add(actor, TargetKind.GOTIFY, "gotify.example", secret="Geheim-7")
    page = BeautifulSoup(ann.get(PAGE).text, "lxml")
    form = page.select_one(f"form[action='{PAGE}/{target.id}/delete']")
    assert form
    question = form.find_parent("details")
    assert question
    assert "can't be undone" in question.text


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


def test_S13_the_hint_for_admins_tells_nothing_of_an_address(
    ann: Visitor, actor: Actor, services: Services, db: Any
) -> None:
    services.sending.add(actor, TargetKind.GOTIFY, "gotify.example", secret="Geheim-7")
    db.targets.update_many({}, {"$set": {"error": "unreachable", "tried_at": clock.now()}})
    seen = {}
    for role in ("user", "admin"):
        db.users.update_one({"name": "ann"}, {"$set": {"role": role}})
        seen[role] = ann.get(PAGE).text
    assert all("The service doesn't respond." in each.replace("&#39;", "'") for each in seen.values())
    assert ["EVENTR_SEND_ALLOW" in each for each in seen.values()] == [False, True]
