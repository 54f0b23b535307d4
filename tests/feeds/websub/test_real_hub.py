"""The whole of it: ``eventr up``, a feed on loopback, and a hub that others wrote.

Polls are an hour apart here, so what comes within seconds came by a push. The cases are those of the
recommendation's test suite for subscribers (websub.rocks): discovery 100–104, topics that redirect or
call themselves otherwise 200–202, hubs that redirect 203–204, wrong topics 205, signatures 300–302.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.feeds.feed import Feed
from app.models.feeds.websub import HubState, HubSubscription
from tests.support import reader
from tests.support.hub import METHODS, Hub
from tests.support.rawserver import RawServer, Reply, Request
from tests.support.up import Up, free_port

ALICE = Actor(1_700_000_000_000_001)
Eventually = Callable[..., Any]
pytestmark = pytest.mark.timeout(400)

_ATOM = (
    "<feed xmlns='http://www.w3.org/2005/Atom'><title>Blog</title><id>urn:blog</id>{links}"
    "<updated>2026-03-01T00:00:00Z</updated>{entries}</feed>"
)
_ENTRY = "<entry><id>urn:{0}</id><title>{0}</title><updated>2026-03-01T00:00:00Z</updated></entry>"


def body(form: str, titles: list[str], hub: str, topic: str) -> bytes:
    """Return a feed; one whose form is ``header`` names no hub itself."""
    link = '<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="{}" href="{}"/>'
    links = link.format("hub", hub) + link.format("self", topic)
    if form == "atom":
        entries = "".join(_ENTRY.format(title) for title in titles)
        return _ATOM.format(links=links.replace("atom:link", "link"), entries=entries).encode()
    if form == "json":
        items = ",".join(f'{{"id":"{t}","content_text":"{t}"}}' for t in titles)
        head = '"version":"https://jsonfeed.org/version/1.1","title":"Blog"'
        head += f',"feed_url":"{topic}","hubs":[{{"type":"WebSub","url":"{hub}"}}]'
        return f'{{{head},"items":[{items}]}}'.encode()
    plain = reader.rss("Blog", [(title, title) for title in titles]).decode()
    return (plain if form == "header" else plain.replace("<channel>", "<channel>" + links)).encode()


class Running:
    """A running Eventr, a site, a hub, and a reader who follows feeds of that site."""

    def __init__(self, up: Up, site: RawServer, hub: Hub, services: Services) -> None:
        self.up, self.site, self.hub, self.services = up, site, hub, services

    def write(self, path: str, form: str, titles: list[str], hub: str, topic: str | None = None) -> str:
        """Let the feed hold these entries; return its address."""
        url = self.site.url(path)
        data = body(form, titles, hub, topic or url)
        links = (("Link", f'<{hub}>; rel="hub", <{topic or url}>; rel="self"'),)

        def answer(request: Request) -> Reply:
            # The hub wants the links in the head; a reader shall find them where the form has them.
            shown = form == "header" or "python-requests" in request.headers.get("user-agent", "")
            return Reply(body=data, headers=links if shown else ())

        self.site.set(path, answer)
        return url

    def follow(self, url: str) -> int:
        return self.services.subscriptions.subscribe(ALICE, url).subscription.feed_id

    def feed(self, feed_id: int) -> Feed:
        return self.services.gateways.feeds.get(feed_id)

    def row(self, feed_id: int) -> HubSubscription | None:
        return self.services.mappers.websubs.find_current([feed_id]).get(feed_id)

    def is_known(self, feed_id: int, name: str, topic: str) -> bool:
        """Return whether both sides have the subscription; the hub writes it down after us."""
        row = self.row(feed_id)
        active = row is not None and row.state is HubState.ACTIVE
        return active and len(self.hub.callbacks(name, topic)) == 1


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    home = Path(tempfile.mkdtemp(prefix="eventr-hub-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, home)
        hub, site = stack.enter_context(Hub()), stack.enter_context(RawServer())
        port = free_port()
        up = Up(
            home / "var",
            port,
            EVENTR_BASE_URL=f"http://127.0.0.1:{port}",
            EVENTR_WEBSUB="on",
            EVENTR_WEBSUB_INTERVAL="1",
            EVENTR_FETCH_ALLOW="127.0.0.0/8",
            EVENTR_FETCH_PORTS=f"{site.port},{hub.port}",
            EVENTR_FETCH_HOST_RATE="1000",
            EVENTR_POLL_MIN="3600",
            EVENTR_UPDATER_INTERVAL="0.5",
        )
        stack.callback(up.kill)
        up.wait_ready()
        services = stack.enter_context(contextlib.closing(bootstrap.build(up.settings)))
        yield Running(up, site, hub, services)


@pytest.mark.parametrize(
    ("form", "method"),
    [("rss", "sha1"), ("rss", "sha256"), ("atom", "sha384"), ("json", "sha512"), ("header", "sha256")],
)
def test_what_is_published_is_there_within_seconds(
    running: Running, eventually: Eventually, form: str, method: str
) -> None:
    """100, 102, 103 (and 300): header, Atom, RSS, JSON; each way to sign."""
    assert method in METHODS
    path, hub = f"/{form}-{method}", running.hub.url(method)
    url = running.write(path, form, ["first"], hub)
    feed_id = running.follow(url)
    eventually(lambda: running.is_known(feed_id, method, url), message="the hub has confirmed")
    (callback,) = running.hub.callbacks(method, url)
    row = running.row(feed_id)
    assert row is not None
    assert callback == f"http://127.0.0.1:{running.up.port}/websub/{row.token}"
    assert running.feed(feed_id).last_seq == 1

    for count, titles in enumerate((["second", "first"], ["third", "second", "first"]), 2):
        running.write(path, form, titles, hub)
        running.hub.publish(method, url)
        eventually(lambda count=count: running.feed(feed_id).last_seq == count, message="the entry is there")
    eventually(lambda: (row := running.row(feed_id)) and (row.pushes, row.forged, row.proofs) == (2, 0, 2))
    page = running.services.reading.get_tree(ALICE)
    assert next(f.unread for f in page.feeds if f.feed_id == feed_id) == 3


def test_three_pushes_make_polls_rest_and_the_feed_page_says_by_whom(
    running: Running, eventually: Eventually
) -> None:
    hub = running.hub.url("sha256")
    url = running.write("/proven", "rss", ["0"], hub)
    feed_id = running.follow(url)
    eventually(lambda: running.is_known(feed_id, "sha256", url))
    titles = ["0"]
    for number in range(1, 5):
        titles.insert(0, str(number))
        running.write("/proven", "rss", titles, hub)
        running.hub.publish("sha256", url)
        eventually(lambda number=number: running.feed(feed_id).last_seq == number + 1)

    def rest() -> float:
        feed = running.feed(feed_id)
        assert feed.next_check_at is not None
        assert feed.checked_at is not None
        return (feed.next_check_at - feed.checked_at).total_seconds()

    eventually(lambda: rest() > 5 * 3600, message="no poll for hours")
    assert running.feed(feed_id).push_until is not None
    noted = running.services.subscriptions.get_health(ALICE, feed_id).pushed_by
    assert noted is not None
    assert noted.host == "127.0.0.1"


def test_the_headers_count_before_the_feed(running: Running, eventually: Eventually) -> None:
    """104."""
    url = running.site.url("/priority")
    hub = running.hub.url("sha512")
    wrong = body("rss", ["one"], running.site.url("/no-hub"), running.site.url("/no-topic"))
    links = (("Link", f'<{hub}>; rel="hub", <{url}>; rel="self"'),)
    running.site.set("/priority", Reply(body=wrong, headers=links))
    feed_id = running.follow(url)
    eventually(lambda: running.is_known(feed_id, "sha512", url))
    assert running.site.seen("/no-hub") == []


def test_a_feed_is_subscribed_under_the_name_that_it_gives_itself(
    running: Running, eventually: Eventually
) -> None:
    """200."""
    hub, topic = running.hub.url("sha256"), running.site.url("/canonical")
    running.write("/alias", "rss", ["one"], hub, topic)
    running.write("/canonical", "rss", ["two", "one"], hub)
    feed_id = running.follow(running.site.url("/alias"))
    eventually(lambda: running.is_known(feed_id, "sha256", topic))
    running.write("/alias", "rss", ["two", "one"], hub, topic)
    running.hub.publish("sha256", topic)
    eventually(lambda: running.feed(feed_id).last_seq == 2)


@pytest.mark.parametrize("status", [302, 301])
def test_a_topic_may_redirect(running: Running, eventually: Eventually, status: int) -> None:
    """201 and 202."""
    hub, there = running.hub.url("sha256"), f"/there-{status}"
    topic = running.write(there, "rss", ["one"], hub)
    running.site.set(f"/here-{status}", Reply(status, headers=(("Location", there),)))
    feed_id = running.follow(running.site.url(f"/here-{status}"))
    eventually(lambda: running.is_known(feed_id, "sha256", topic))
    running.write(there, "rss", ["two", "one"], hub)
    running.hub.publish("sha256", topic)
    eventually(lambda: running.feed(feed_id).last_seq == 2)


@pytest.mark.parametrize("status", [307, 308])
def test_a_hub_may_redirect(running: Running, eventually: Eventually, status: int) -> None:
    """203 and 204."""
    path = f"/hub-moved-{status}"
    url = running.write(path, "rss", ["one"], running.hub.url("sha256", status))
    feed_id = running.follow(url)
    eventually(lambda: running.is_known(feed_id, "sha256", url))


def test_a_hub_that_refuses_leaves_the_feed_to_polls(running: Running, eventually: Eventually) -> None:
    url = running.write("/refused", "rss", ["one"], running.hub.url("refusing"))
    feed_id = running.follow(url)
    eventually(lambda: (row := running.row(feed_id)) and row.state is HubState.DENIED)
    row = running.row(feed_id)
    assert row is not None
    assert row.reason == "this hub wants nobody"
    assert running.feed(feed_id).push_until is None


def test_when_nobody_reads_a_feed_any_more_its_hub_forgets_it(
    running: Running, eventually: Eventually
) -> None:
    url = running.write("/left", "rss", ["one"], running.hub.url("sha256"))
    feed_id = running.follow(url)
    eventually(lambda: running.is_known(feed_id, "sha256", url))
    running.services.subscriptions.unsubscribe(ALICE, feed_id)
    eventually(lambda: not running.hub.callbacks("sha256", url), message="the hub has forgotten us")


def test_what_nobody_asked_for_or_signed_changes_nothing(running: Running, eventually: Eventually) -> None:
    """205, 301 and 302, by the true web tier."""
    url = running.write("/forged", "rss", ["one"], running.hub.url("sha256"))
    feed_id = running.follow(url)
    eventually(lambda: running.is_known(feed_id, "sha256", url))
    row = running.row(feed_id)
    assert row is not None

    def send(method: str, query: str = "", **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", running.up.port, timeout=30)
        with contextlib.closing(connection):
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            data = b"<rss/>" if method == "POST" else None
            connection.request(method, f"/websub/{row.token}{query}", data, sent)
            return connection.getresponse().status

    asked = "?hub.mode=subscribe&hub.challenge=x&hub.lease_seconds=60&hub.topic="
    assert send("GET", asked + "http%3A%2F%2Fother.example%2F") == 404
    assert send("GET", "?hub.mode=unsubscribe&hub.challenge=x&hub.topic=" + url) == 404
    assert send("POST") == 202
    assert send("POST", X_Hub_Signature="sha256=" + "0" * 64) == 202
    after = running.row(feed_id)
    assert after is not None
    assert (after.state, after.lease_until, after.pushes, after.forged) == (row.state, row.lease_until, 0, 2)


def test_a_push_that_meets_a_dead_web_tier_comes_again(running: Running, eventually: Eventually) -> None:
    hub = running.hub.url("sha256")
    url = running.write("/again", "rss", ["one"], hub)
    feed_id = running.follow(url)
    eventually(lambda: running.is_known(feed_id, "sha256", url))
    running.write("/again", "rss", ["two", "one"], hub)
    web = running.up.pids()["web"]
    os.kill(web, signal.SIGKILL)
    # Or already the next one, where this test was held up.
    eventually(lambda: running.up.status() is None or running.up.pids()["web"] != web)
    running.hub.publish("sha256", url)
    eventually(lambda: running.feed(feed_id).last_seq == 2, message="the hub has tried again")
    eventually(lambda: running.up.status() == 200)
