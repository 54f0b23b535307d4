"""Administration → Full texts: rules for sites, without scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from bs4 import BeautifulSoup

from app.bootstrap.services import Services
from app.models.accounts.actor import Role
from tests.reading.test_full_texts import PAGE, Site
from tests.reading.test_text_rules import ODD
from tests.support.reader import add_user
from tests.web.conftest import Visitor

TEXTS = "/admin/texts"


@pytest.fixture
def root(services: Services, visitor: Callable[[], Visitor]) -> Visitor:
    add_user(services, "root", Role.ADMIN)
    one = visitor()
    one.log_in("root")
    return one


def test_a_rule_is_added_tried_and_deleted(root: Visitor, services: Services) -> None:
    assert "no rules yet" in root.get(TEXTS).text
    answer = root.post(TEXTS, {"host": "site.example", "content": "a:has(b)"})
    assert answer.status_code == 400
    field = BeautifulSoup(answer.text, "lxml").select_one("#f-content")
    assert field is not None
    assert (field["value"], field["aria-invalid"]) == ("a:has(b)", "true")
    form = {"host": "https://www.site.example/one", "content": "#story", "remove": ".ad"}
    assert root.post(TEXTS, form).status_code == 303
    (rule,) = services.gateways.text_rules.rules.list_all()
    assert rule.host == "site.example"
    refused = root.post(f"{TEXTS}/{rule.id}/try", {"address": "http://127.0.0.1/"})
    assert refused.status_code == 400
    assert root.post(f"{TEXTS}/{rule.id}/try", {"address": PAGE}).location == f"{TEXTS}#rule-{rule.id}"
    assert "not tried yet" in root.get(TEXTS).text
    asyncio.run(services.text_rules.run(rule.id, Site(ODD)))
    page = root.get(TEXTS).text
    assert "Short story. The end. Next" in page
    assert "5 words" in page
    root.post(f"{TEXTS}/{rule.id}/delete", {})
    assert services.gateways.text_rules.rules.list_all() == []


def test_a_rule_is_changed_and_tried_again(root: Visitor, services: Services) -> None:
    root.post(TEXTS, {"host": "other.example", "content": "#story"})
    root.post(TEXTS, {"host": "site.example", "content": "#storry", "remove": ".ad"})
    other, rule = services.gateways.text_rules.rules.list_all()
    root.post(f"{TEXTS}/{rule.id}/try", {"address": PAGE})
    asyncio.run(services.text_rules.run(rule.id, Site(ODD)))
    page = BeautifulSoup(root.get(TEXTS).text, "lxml")
    result = page.select_one(f"#rule-{rule.id} .result")
    assert result
    assert result.text.startswith("Not found: ")
    edit = page.select_one(f"#rule-{rule.id} a[href='{TEXTS}?edit={rule.id}#new-rule']")
    assert edit
    page = BeautifulSoup(root.get(f"{TEXTS}?edit={rule.id}").text, "lxml")
    form = page.select_one(f"form.admin-form[action^='{TEXTS}/{rule.id}']")
    assert form
    typed = {str(one["name"]): str(one["value"]) for one in form.select("input.input")}
    assert typed == {"host": "site.example", "content": "#storry", "remove": ".ad"}
    refused = root.post(f"{TEXTS}/{rule.id}", typed | {"content": "a:has(b)"})
    assert refused.status_code == 400
    field = BeautifulSoup(refused.text, "lxml").select_one("form.admin-form #f-content")
    assert field
    assert (field["value"], field["aria-invalid"]) == ("a:has(b)", "true")
    assert root.post(f"{TEXTS}/{rule.id}", typed | {"host": "other.example"}).status_code == 409
    assert services.gateways.text_rules.get(rule.id).content == "#storry", "refused changes change nothing"
    assert (
        root.post(f"{TEXTS}/{rule.id}", typed | {"content": "#story"}).location == f"{TEXTS}#rule-{rule.id}"
    )
    changed = services.gateways.text_rules.get(rule.id)
    assert (changed.host, changed.content, changed.remove) == ("site.example", "#story", ".ad")
    assert changed.trial
    assert (changed.trial.address, changed.trial.is_over) == (PAGE, False)
    asyncio.run(services.text_rules.run(rule.id, Site(ODD)))
    result = BeautifulSoup(root.get(TEXTS).text, "lxml").select_one(f"#rule-{rule.id} .result")
    assert result
    assert result.text == "Found: 5 words"
    assert services.gateways.text_rules.get(other.id) == other
    assert root.post(f"{TEXTS}/99", typed).status_code == 404
