"""A device is told while no page is in sight: the service worker itself, and the page that asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.support.reader import add_user

Eventually = Callable[..., Any]
PAGE = "/settings/notifications"
_SHOWN = """async () => {
  const registration = await navigator.serviceWorker.getRegistration("/");
  const found = await registration.getNotifications();
  return found.map((n) => [n.title, n.body, n.tag, n.dir, n.data.url]);
}"""


def test_a_message_is_shown_where_no_page_is_in_sight(
    site: Site, visit: Callable[..., Page], eventually: Eventually
) -> None:
    add_user(site.services, "ann")
    page = visit(login="ann", whole=True, workers=True, expect="incognito mode")
    page.context.grant_permissions(["notifications"], origin=site.url)
    cdp = page.context.new_cdp_session(page)
    workers: dict[str, str] = {}
    cdp.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: workers.update({r["scopeURL"]: r["registrationId"] for r in event["registrations"]}),
    )
    events: list[str] = []
    cdp.on(
        "BackgroundService.backgroundServiceEventReceived",
        lambda event: events.append(event["backgroundServiceEvent"]["eventName"]),
    )
    cdp.send("ServiceWorker.enable")
    cdp.send("BackgroundService.startObserving", {"service": "pushMessaging"})
    cdp.send("BackgroundService.setRecording", {"service": "pushMessaging", "shouldRecord": True})
    page.goto(PAGE)
    place = page.locator("#push")
    expect(place).to_contain_text("Notifications are off for this device.")
    # There is no push service behind this browser: it says so, and its worker is there all the same.
    page.get_by_role("button", name="Turn on for this device").click()
    expect(page.locator(".toast")).to_contain_text("browser's push service isn't responding")
    expect(page.get_by_role("button", name="Turn on for this device")).to_be_enabled()
    page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    assert list(workers) == [f"{site.url}/"]

    def deliver(*messages: str) -> None:
        events.clear()
        for data in messages:
            wanted = {"origin": site.url, "registrationId": workers[f"{site.url}/"], "data": data}
            cdp.send("ServiceWorker.deliverPushMessage", wanted)

        # Who asks for notifications while one is coming up makes the browser forget it.
        def done() -> bool:
            return bool(page.evaluate("true")) and events.count("Push event completed") == len(messages)

        eventually(done, message="the worker has not answered to every message")

    def shown() -> list[list[str]]:
        found: list[list[str]] = page.evaluate(_SHOWN)
        return found

    message = {
        "title": "New comment",
        "body": "bob",
        "url": "/notifications",
        "tag": "comment.1",
        "dir": "rtl",
    }
    deliver(json.dumps(message), json.dumps({**message, "title": "Eventr", "tag": "test", "always": True}))
    assert shown() == [["Eventr", "bob", "test", "rtl", "/notifications"]]
    page.goto("about:blank")
    deliver(json.dumps(message), json.dumps({**message, "title": "Newer"}), "nonsense")
    page.goto(PAGE)
    assert sorted(n[0] for n in shown()) == ["Eventr", "Eventr", "Newer"]


def test_the_page_says_what_stands_in_the_way(site: Site, visit: Callable[..., Page]) -> None:
    add_user(site.services, "ann")
    page = visit(login="ann", whole=True, workers=True)
    page.add_init_script("Object.defineProperty(Notification, 'permission', { get: () => 'denied' });")
    page.goto(PAGE)
    expect(page.locator("#push")).to_contain_text("This browser blocks notifications from this site.")
    expect(page.locator("#push button")).to_have_count(0)
    page.add_init_script("delete window.PushManager;")
    page.goto(PAGE)
    expect(page.locator("#push")).to_contain_text("This browser doesn't support push notifications.")


def test_without_scripts_devices_are_listed(site: Site, visit: Callable[..., Page]) -> None:
    add_user(site.services, "ann")
    page = visit(login="ann", js=False)
    page.goto(PAGE)
    expect(page.locator("#push")).to_contain_text("Turn on JavaScript to add this device.")
    expect(page.locator("[name=push_comment]")).to_be_checked()
    expect(page.get_by_role("switch", name="Devices: likes one of my shares")).not_to_be_checked()
