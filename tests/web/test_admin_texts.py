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
