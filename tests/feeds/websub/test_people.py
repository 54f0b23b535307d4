"""What people see of hubs: a line on the feed's page, and what ``eventr doctor`` says."""

from __future__ import annotations

import pytest
from flask import Flask

from app.bootstrap.services import Services
from app.config import Settings
from app.models.operations.check_result import Severity
from app.monitoring.health import check_websub
from tests.feeds.websub.conftest import URL, Now, Reader
from tests.support.reader import add_user
from tests.web.conftest import Visitor


def test_the_feed_page_says_who_pushes_while_that_is_trusted(
    alice: Reader, services: Services, app: Flask, now: Now
) -> None:
    services.subscriptions.subscribe(add_user(services, "ann"), URL)
    ann = Visitor(app.test_client())
    assert ann.log_in().status_code == 303
    page = f"/feeds/{alice.feed_id}"
    alice.subscribed()
    assert "From hub.example since" not in ann.get(page).text
    alice.prove()
    assert "From hub.example since" in " ".join(ann.get(page).text.split())
    alice.poll("unannounced")
    assert "From hub.example since" not in ann.get(page).text


@pytest.mark.parametrize(
    ("base_url", "websub", "word", "text"),
    [
        (
            "https://reader.example.org",
            "auto",
            Severity.OK,
            "Hubs send updates to https://reader.example.org/websub/",
        ),
        ("https://reader.example.org", "off", Severity.OK, "EVENTR_WEBSUB=off"),
        ("http://192.168.1.5:8080", "auto", Severity.OK, "so Eventr polls all feeds"),
        ("", "auto", Severity.OK, "so Eventr polls all feeds"),
        ("http://nas.local", "on", Severity.WARN, "isn't an internet address"),
    ],
)
def test_the_doctor_says_whether_hubs_are_asked(
    base_url: str, websub: str, word: Severity, text: str
) -> None:
    finding = check_websub(Settings(base_url=base_url, websub=websub))
    assert (finding.check, finding.word) == ("websub", word)
    assert text in finding.text
