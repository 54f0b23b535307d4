"""The main job, whole and on real parts: ``eventr up``, a captured site on loopback, a real browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as PlaywrightError

from tests.support import corpus
from tests.support.rawserver import RawServer, Reply, file_reply
from tests.support.up import Up

Eventually = Callable[..., Any]

PAGE, FEED_PATH = "html/pages/theverge.com-9482a2.html", "/rss/index.xml"
FEED = "feeds/rss/abcnews.com-5c8768.xml"
OTHER_FEED = "feeds/rss/zerokspot.com-71d236.xml"
FRESH = (
    b"<item><title>Fresh from the press</title><guid>fresh-1</guid><description>Just in.</description></item>"
)
READER = "/reader/api/0"
PASSWORD = "correct horse battery"
#: A poll every second or two, so that freshness can be seen within a test.
QUICK = {"EVENTR_POLL_MIN": "1", "EVENTR_POLL_MAX": "2", "EVENTR_UPDATER_INTERVAL": "0.5"}


def _read(path: str) -> bytes:
    return (corpus.root() / path).read_bytes()


@pytest.fixture
def site() -> Iterator[RawServer]:
    """A captured page that names its feed, and a captured feed at that address."""
    with RawServer({"/": Reply(body=_read(PAGE), headers=(("Content-Type", "text/html"),))}) as server:
        server.set(FEED_PATH, file_reply(_read(FEED)))
        yield server


@pytest.fixture
def other() -> Iterator[RawServer]:
    """Another site: a page that names a feed elsewhere on it."""
    page = b'<title>Other</title><link rel="alternate" type="application/rss+xml" href="/posts.xml">'
    with RawServer({"/": Reply(body=page, headers=(("Content-Type", "text/html"),))}) as server:
        server.set("/posts.xml", file_reply(_read(OTHER_FEED)))
        yield server


@pytest.fixture
def up(site: RawServer, other: RawServer) -> Iterator[Up]:
    """A running Eventr that may fetch from these sites."""
    home = Path(tempfile.mkdtemp(prefix="eventr-job-"))
    running = Up(home / "var", EVENTR_FETCH_ALLOW=f"{site.origin},{other.origin}", **QUICK)
    try:
        yield running.wait_ready()
    finally:
        running.kill()
        shutil.rmtree(home)


def _sign_up(page: Page, up: Up) -> None:
    page.goto(f"http://127.0.0.1:{up.port}/signup")
    page.get_by_label("User name").fill("ann")
    page.get_by_label("Email address").fill("ann@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    page.wait_for_url("**/welcome")


def _subscribe(page: Page, address: str) -> None:
    page.get_by_label("Address of a site").fill(address)
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_role("button", name="Subscribe", exact=True).click(timeout=60_000)
    page.wait_for_url("**/read/feed/*")


def _ask(up: Up, path: str, auth: str = "", **form: str) -> str:
    headers = {"Authorization": f"GoogleLogin auth={auth}"} if auth else {}
    data = urlencode(form).encode() if form else None
    asked = Request(f"http://127.0.0.1:{up.port}{path}", data, headers)
    with urlopen(asked, timeout=60) as answer:
        return str(answer.read().decode())


def _app_adds(page: Page, up: Up, address: str, eventually: Eventually) -> None:
    """An app on a phone is let in, and adds a site by the address that its user has typed."""
    page.goto(f"http://127.0.0.1:{up.port}/settings/apps")
    page.locator("form[action='/settings/apps/password']").get_by_role("textbox", name="Name").fill("Phone")
    page.get_by_role("button", name="Create app password").click()
    secret = page.locator("#v-secret").inner_text()
    lines = _ask(up, "/accounts/ClientLogin", Email="ann", Passwd=secret).splitlines()
    (auth,) = (line.removeprefix("Auth=") for line in lines if line.startswith("Auth="))

    def added() -> Any:
        answer = json.loads(_ask(up, f"{READER}/subscription/quickadd", auth, quickadd=address))
        return answer if answer.get("streamId") else None

    # Once is enough where a search is quick; who is told that it still runs tries again.
    stream = eventually(added, message="the app's search ends")["streamId"]

    def read() -> Any:
        return json.loads(_ask(up, f"{READER}/stream/contents/{stream}?n=5", auth))["items"]

    entries = eventually(read, message="the new feed's entries come")
    assert all(entry["origin"]["streamId"] == stream and entry["title"] for entry in entries)
    listed = json.loads(_ask(up, f"{READER}/subscription/list?output=json", auth))["subscriptions"]
    assert [feed["url"] for feed in listed if feed["id"] == stream] == [f"http://{address}/posts.xml"]


def _shows_fresh(page: Page, up: Up, path: str = "/read/all") -> bool:
    try:
        page.goto(f"http://127.0.0.1:{up.port}{path}")
    except PlaywrightError:  # the web tier has just been killed
        return False
    return page.get_by_role("link", name="Fresh from the press").count() > 0


@pytest.mark.timeout(400)
def test_a_person_signs_up_adds_a_site_reads_it_and_it_stays_fresh(
    up: Up, site: RawServer, other: RawServer, chromium: Browser, eventually: Eventually
) -> None:
    context = chromium.new_context()
    context.route(lambda url: "127.0.0.1" not in url, lambda route: route.abort())
    page = context.new_page()
    _sign_up(page, up)

    _subscribe(page, site.origin)
    expect(page.locator(".row")).to_have_count(25, timeout=60_000)

    # A captured feed is old: the ten newest entries of a new subscription are unread, the rest is history.
    expect(page.get_by_text("10 unread").first).to_be_visible()
    # Before the title stands a word for those who do not see the dot.
    title = page.locator(".row h2 a").first.inner_text().splitlines()[-1]

    page.locator(".row h2 a").first.click()
    expect(page.locator("#entry-title")).to_contain_text(title)
    expect(page.get_by_text("9 unread").first).to_be_visible()

    # Typed as people do, without http://.
    _app_adds(page, up, other.origin, eventually)

    feed = _read(FEED)
    site.set(FEED_PATH, file_reply(feed.replace(b"<item>", FRESH + b"<item>", 1)))

    eventually(lambda: _shows_fresh(page, up), message="the updater has the new entry fetched")
    # Marked in the title, so its words stand apart.
    eventually(lambda: _shows_fresh(page, up, "/search?q=title:press+fresh"), message="the search finds it")
    context.close()
    assert up.stop(signal.SIGTERM) == 0, up.report()


@pytest.mark.timeout(400)
def test_it_stays_fresh_after_a_kill_of_every_part_but_the_first(
    up: Up, site: RawServer, chromium: Browser, eventually: Eventually
) -> None:
    page = chromium.new_page()
    _sign_up(page, up)
    _subscribe(page, f"{site.origin}{FEED_PATH}")
    expect(page.locator(".row")).to_have_count(25, timeout=60_000)

    for part, pid in up.pids().items():
        if part != "mongodb":  # a kill of the store is the next issue's and the supervisor's own test
            os.kill(pid, signal.SIGKILL)
    site.set(FEED_PATH, file_reply(_read(FEED).replace(b"<item>", FRESH + b"<item>", 1)))

    eventually(lambda: _shows_fresh(page, up), message="every part works again")
    page.close()
