"""The whole way of what somebody is told: settings, push service, browser, desktop, a click, and the page.

Of this way two things lie outside: the push service of the browser's vendor, in whose place a server on
loopback takes messages and the test carries them into the browser; and the desktop, on which it clicks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from playwright.sync_api import Browser, BrowserContext, Worker, expect

from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.notifications.push import Device
from tests.browser.conftest import Site, recognised, watched
from tests.conftest import CHROMIUM_ARGS
from tests.notifications import conftest as push
from tests.notifications.conftest import Post, PushService
from tests.notifications.conftest import service as service
from tests.sharing.conftest import People
from tests.support.desktop import Desktop
from tests.support.reader import add_user, elsewhere

Eventually = Callable[..., Any]
PAGE = "/settings/notifications"

# What the vendor's service would answer. It is kept as a browser keeps it: over pages and restarts.
_VENDOR = """(given) => {
  const held = () => JSON.parse(localStorage.getItem("vendor"));
  const of = (data) => data && {
    endpoint: data.endpoint,
    toJSON: () => ({ endpoint: data.endpoint, keys: { p256dh: data.p256dh, auth: data.auth } }),
    unsubscribe: async () => { localStorage.removeItem("vendor"); return true; },
  };
  PushManager.prototype.getSubscription = async () => of(held());
  PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
    if (!userVisibleOnly) throw new DOMException("silent", "NotAllowedError");
    localStorage.setItem("vendor", JSON.stringify({ ...given, key: applicationServerKey }));
    return of(held());
  };
}"""

# The vendor gives another address. Events that scripts make cannot wait: what is waited for is noted here.
_CHANGED = """async ([given, whole]) => {
  const made = { toJSON: () => given };
  self.asked = [];
  PushManager.prototype.subscribe = async (wish) => { self.asked.push(wish); return made; };
  const event = new ExtendableEvent("pushsubscriptionchange");
  if (whole) event.newSubscription = made;
  let work;
  event.waitUntil = (promise) => { work = promise; };
  self.dispatchEvent(event);
  await work;
  return self.asked;
}"""


@pytest.fixture
def settings(settings: Settings, service: PushService) -> Settings:
    """A server that may reach the push service."""
    return dataclasses.replace(settings, push_allow=(service.wire.host,))


@pytest.fixture
def desktop() -> Iterator[Desktop]:
    with Desktop() as made:
        yield made


@pytest.fixture
def own(
    chromium: Browser, chromium_path: str, site: Site, desktop: Desktop, tmp_path: Path
) -> Iterator[BrowserContext]:
    """A browser with a profile of its own: clicks on the desktop reach no other."""
    context = chromium.browser_type.launch_persistent_context(
        tmp_path / "profile",
        executable_path=chromium_path,
        args=CHROMIUM_ARGS,
        env={**os.environ, **desktop.env},
        base_url=site.url,
    )
    context.grant_permissions(["notifications"], origin=site.url)
    with contextlib.closing(context):
        yield context


class Told:
    """Somebody's browser, and what lies around it."""

    def __init__(self, site: Site, context: BrowserContext, service: PushService, post: Post) -> None:
        self.site, self.context, self._service, self._post = site, context, service, post
        self.browser = service.browser("one")
        self.page = context.pages[0]
        self._cdp = context.new_cdp_session(self.page)
        self._ids: dict[str, str] = {}
        self._cdp.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda event: self._ids.update(
                {r["scopeURL"]: r["registrationId"] for r in event["registrations"]}
            ),
        )
        self._cdp.send("ServiceWorker.enable")
        context.add_init_script(f"({_VENDOR})({json.dumps(self.browser.form)})")

    @property
    def worker(self) -> Worker:
        (found,) = self.context.service_workers
        return found

    def switch_on(self) -> None:
        self.page.goto(PAGE)
        expect(self.page.locator("#push")).to_contain_text("Notifications are off for this device.")
        self.page.get_by_role("button", name="Turn on for this device").click()
        expect(self.page.locator("#push")).to_contain_text("Notifications are on for this device.")

    def carried(self, browser: push.Browser | None = None) -> dict[str, Any]:
        """Let our workers send what waits, and bring it to the browser as its vendor would."""
        self._service.messages.clear()
        assert elsewhere(self._post.work) == ["sent"]
        (request,) = self._service.messages
        message = (browser or self.browser).read(request)
        where = {"origin": self.site.url, "registrationId": self._ids[f"{self.site.url}/"]}
        self._cdp.send("ServiceWorker.deliverPushMessage", {**where, "data": json.dumps(message)})
        return message

    def devices(self, who: Actor) -> list[Device]:
        return self.site.services.push.list_devices(who)

    def changed(self, browser: push.Browser, *, whole: bool) -> list[dict[str, Any]]:
        """Let the vendor give another address; return what the worker has asked it for."""
        form = browser.form
        given = {"endpoint": form.pop("endpoint"), "keys": form}
        found: list[dict[str, Any]] = self.worker.evaluate(_CHANGED, [given, whole])
        return found


@pytest.fixture
def told(site: Site, own: BrowserContext, service: PushService, redis_client: redis.Redis) -> Iterator[Told]:
    check = watched(own.pages[0])
    with contextlib.closing(Post(site.services, redis_client)) as post:
        yield Told(site, own, service, post)
    check()


def test_from_the_settings_to_a_click(
    told: Told, site: Site, desktop: Desktop, service: PushService, eventually: Eventually
) -> None:
    people = People(site.services)
    ann, bob = (add_user(site.services, name) for name in ("ann", "bob"))
    (entry,) = people.blog([ann])
    people.open(ann)
    share = site.services.sharing.share(ann, entry).share
    page = told.page
    recognised(page, site, "ann")
    told.switch_on()
    expect(page.locator("#devices li")).to_have_count(1)
    expect(page.locator("#devices li")).to_contain_text("This device")
    asked = json.loads(page.evaluate("localStorage.getItem('vendor')"))
    assert asked["key"] == site.services.push.get_public_key(ann)

    # A trial: shown although the page is in sight.
    page.get_by_role("button", name="Send test notification").click()
    expect(page.locator("#toasts")).to_contain_text("Test notification sent to 1 device")
    message = told.carried()
    assert service.messages[0].headers["Authorization"].endswith(f"k={asked['key']}")
    trial = eventually(lambda: desktop.shown and desktop.shown[-1])
    assert (trial.title, message["title"]) == ("Eventr", "Eventr")
    assert "Notifications work on this device." in trial.body
    # The page that it leads to is open: it comes to the front, and no other is opened.
    other = told.context.new_page()
    other.goto("/read/all")
    told.worker.evaluate(
        """() => {
          const focus = WindowClient.prototype.focus;
          self.fronts = [];
          WindowClient.prototype.focus = async function () {
            const done = await focus.call(this);
            self.fronts.push(done.url);
            return done;
          };
        }"""
    )
    desktop.click(trial)
    eventually(lambda: told.worker.evaluate("self.fronts.length"))
    assert told.worker.evaluate("self.fronts") == [f"{site.url}{PAGE}#devices"]
    assert len(told.context.pages) == 2

    # A comment, while no page of ours is in sight; the click opens the place where it stands.
    other.close()
    page.goto("about:blank")
    comment = site.services.discussion.comment(bob, share.id, "Hello")
    told.carried()
    note = eventually(lambda: len(desktop.shown) > 1 and desktop.shown[-1])
    assert note.title == "New comment"
    assert "blog 1" in note.body
    with told.context.expect_page() as opened:
        desktop.click(note)
    expect(opened.value).to_have_url(f"{site.url}/shares/{share.id}/comments?at={comment.id}#c{comment.id}")
    expect(opened.value.locator(f"#c{comment.id}")).to_contain_text("Hello")
    eventually(lambda: note.id in desktop.closed, message="it is gone from the screen")

    # Switched off: the browser and we forget it.
    opened.value.close()
    page.goto(PAGE)
    page.get_by_role("button", name="Turn off for this device").click()
    expect(page.locator("#push")).to_contain_text("Notifications are off for this device.")
    assert page.evaluate("localStorage.getItem('vendor')") is None
    assert told.devices(ann) == []


def test_another_address_is_told_to_the_server(told: Told, site: Site, service: PushService) -> None:
    ann = add_user(site.services, "ann")
    page = told.page
    recognised(page, site, "ann")
    told.switch_on()
    (before,) = told.devices(ann)
    # Browsers that make the new one themselves, and those that leave it to the worker.
    for name, whole in (("two", True), ("three", False)):
        browser = service.browser(name)
        asked = told.changed(browser, whole=whole)
        key = site.services.push.get_public_key(ann)
        assert asked == ([] if whole else [{"userVisibleOnly": True, "applicationServerKey": key}])
        (device,) = told.devices(ann)
        assert (device.endpoint, device.session) == (browser.endpoint, before.session)
        site.services.push.send_test(ann)
        assert told.carried(browser)["title"] == "Eventr"
        assert service.messages[0].path == f"/send/{name}"


def test_who_logged_out_gets_no_other_address(told: Told, site: Site, service: PushService) -> None:
    ann, bob = (add_user(site.services, name) for name in ("ann", "bob"))
    recognised(told.page, site, "ann")
    told.switch_on()
    told.context.clear_cookies()
    assert told.changed(service.browser("two"), whole=False) == []
    assert [d.endpoint for d in told.devices(ann)] == [told.browser.endpoint]
    # Somebody else at the same computer, who never asked for it.
    recognised(told.page, site, "bob")
    assert told.changed(service.browser("two"), whole=False) == []
    assert told.devices(bob) == []
