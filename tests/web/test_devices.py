"""The devices of the settings page: with scripts they are added, without they are listed and removed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest

from app import create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Role
from app.web.security import headers
from tests.notifications.conftest import Browser
from tests.support.reader import add_user
from tests.web.conftest import Visitor

Make = Callable[[], Visitor]
PAGE = "/settings/notifications"


def add(visitor: Visitor, name: str = "one", **changed: str) -> int:
    form = {**Browser(f"https://push.example.org/{name}").form, **changed}
    answer = visitor.post("/settings/devices", form, Accept="application/json")
    return answer.status_code


def test_a_device_is_added_listed_and_removed(ann: Visitor, services: Services) -> None:
    assert "Send test notification" not in ann.get(PAGE).text
    key = ann.post("/settings/devices/key").get_json()["key"]
    assert ann.post("/settings/devices/key").get_json() == {"key": key}
    assert ann.get("/api/push").get_json().items() >= {"mine": False, "key": key}.items()
    assert add(ann) == 200
    assert ann.get("/api/push").get_json()["mine"] is True
    page = ann.get(PAGE).text
    assert "This device" in page
    assert "push.example.org" not in page, "an address is a secret"
    assert re.search(r'data-mark="[0-9a-f]{64}"', page)
    answer = ann.post("/settings/devices/test")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{PAGE}#devices")
    assert "Test notification sent to 1 device" in ann.get(PAGE).text
    (device,) = re.findall(r'name="device" value="(\d+)"', page)
    assert ann.post("/settings/devices/remove", {"device": device}).status_code == 303
    assert "Device removed" in ann.get(PAGE).text
    assert ann.post("/settings/devices/remove", {"device": device}).status_code == 404
    ann.post("/settings/devices/test")
    assert "No devices to notify" in ann.get(PAGE).text


def test_logging_out_forgets_the_device(ann: Visitor, services: Services) -> None:
    add(ann)
    assert services.store.database["devices"].count_documents({}) == 1
    ann.post("/logout")
    assert services.store.database["devices"].count_documents({}) == 0


def test_another_person_in_the_same_browser_hears_nothing_of_the_first(
    ann: Visitor, services: Services
) -> None:
    add_user(services, "bob")
    add(ann)
    ann.log_in("bob")
    assert ann.get("/api/push").get_json()["mine"] is False
    assert services.store.database["devices"].count_documents({}) == 0


def test_W01_a_link_for_a_new_password_leaves_nobody_else_logged_in(ann: Visitor, services: Services) -> None:
    """Whoever was at this browser before would else go on being told of his own on it."""
    bob, root = add_user(services, "bob"), add_user(services, "root", Role.ADMIN)
    sessions = services.gateways.sessions
    found = sessions.find_session(sessions.open_session(root.user_id, agent="", address=""))
    assert found is not None
    link = services.admin_accounts.create_reset_link(root, found[0], bob.user_id)
    add(ann)
    form = {"token": link, "password": "another quiet place"}
    assert ann.post("/new-password", form).status_code == 303
    assert ann.get("/api/push").get_json()["mine"] is False
    assert services.store.database["devices"].count_documents({}) == 0


def test_looking_makes_no_key(ann: Visitor, services: Services) -> None:
    for path in (PAGE, "/api/push", "/push.js"):
        assert ann.get(path).status_code == 200
    assert services.store.database["systemkeys"].count_documents({}) == 0
    assert ann.get("/api/push").get_json()["key"] == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"endpoint": "http://127.0.0.1/x"},
        {"endpoint": "https://10.0.0.1/x"},
        {"endpoint": "javascript:alert(1)"},
        {"endpoint": "https://push.example.org/" + "x" * 5000},
        {"p256dh": "x"},
        {"auth": ""},
        {"more": "x"},
    ],
)
def test_what_is_no_device_is_refused(ann: Visitor, services: Services, changed: dict[str, str]) -> None:
    assert add(ann, **changed) == 400
    assert services.store.database["devices"].count_documents({}) == 0


def test_the_service_worker_is_at_the_root(ann: Visitor, visitor: Make) -> None:
    answer = visitor().get("/push.js")
    assert answer.mimetype == "text/javascript"
    assert answer.headers["Content-Security-Policy"] == headers.SILENT_CSP
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store", "a new one is there at once"
    assert set(re.findall(r'addEventListener\("(\w+)"', answer.text)) == {
        *("install", "activate", "fetch", "push", "notificationclick", "pushsubscriptionchange"),
    }


def test_the_switches_of_devices_are_kept(ann: Visitor, services: Services) -> None:
    def switches() -> dict[str, bool]:
        boxes = re.findall(r"<input[^>]*name=\"(\w+)\"[^>]*>", ann.get(PAGE).text)
        tags = {m[1]: m[0] for m in re.finditer(r"<input[^>]*name=\"(\w+)\"[^>]*>", ann.get(PAGE).text)}
        return {name: " checked" in tags[name] for name in boxes if name.startswith("push_")}

    assert {n for n, on in switches().items() if on} == {
        *("push_comment", "push_reply", "push_mention", "push_request", "push_entries", "push_search"),
        "push_found",
    }
    assert len(switches()) == 12
    ann.post(PAGE, {"notify_like": "1", "push_like": "1"})
    assert {n for n, on in switches().items() if on} == {"push_like"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"host": "0.0.0.0"}, "only over HTTPS"), ({"push": False}, "has turned off push notifications")],
)
def test_where_there_is_none_the_page_says_why(
    services: Services, ann: Visitor, changes: dict[str, object], words: str
) -> None:
    ann.post(PAGE, {"push_like": "1"})
    settings = dataclasses.replace(services.settings, **changes)
    other = bootstrap.build(settings)
    try:
        app = create_app(settings, other)
        one = Visitor(app.test_client())
        one.log_in()
        page = one.get(PAGE).text
        assert words in page
        assert "push_" not in page
        assert 'id="push"' not in page
        assert one.post("/settings/devices/key").status_code == 403
        assert one.post(PAGE, {"notify_like": "1"}).status_code == 303
    finally:
        other.close()
    assert 'name="push_like" value="1" checked' in ann.get(PAGE).text
