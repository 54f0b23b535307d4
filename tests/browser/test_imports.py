"""Importing with a browser: a dropped file, ticks, live progress, coming back, and every state of the screens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Site, shot
from tests.data.test_imports import Pulling, feeds, listed, run
from tests.support.reader import add_user, elsewhere

LIST = listed(
    ("daring", ("News", "World")),
    ("plain", ("News",)),
    ("missing", ("Science",)),
    ("daring", ("Science",)),
    ("alone", ()),
)


def test_shots(visit: Callable[..., Page], site: Site, tmp_path: Path) -> None:
    actor = add_user(site.services, "ann")
    site.services.subscriptions.subscribe(actor, "https://feeds.example/plain")
    body = LIST.replace(b"</body>", b"<outline text='No web address' xmlUrl='gopher://x.example/'/></body>")
    (tmp_path / "mine.opml").write_bytes(body)
    for scheme, size, name in (("light", (1440, 900), "wide"), ("dark", (1440, 900), "dark"), ("light", PHONE, "phone")):
        page = visit(login="ann", scheme=scheme, size=size)
        page.goto("/imports")
        shot(page, f"imp-centre-{name}")
        page.locator("#f-file").set_input_files(tmp_path / "mine.opml")
        if name == "phone":
            page.wait_for_timeout(100)
        page.wait_for_url("**/imports/*")
        shot(page, f"imp-preview-{name}")
        page.locator(".start .primary").click()
        page.wait_for_url("**/imports/*")
        page.wait_for_selector("#bar")
        shot(page, f"imp-run-{name}")
        one = site.services.imports.active(actor)
        assert one
        elsewhere(lambda: run(site.services, site.services.imports.get(actor, one.id), Pulling(site.services, feeds("daring", "alone"))))
        expect(page.locator("#job")).to_have_attribute("data-state", "done", timeout=15000)
        page.screenshot(path=f"tests/artifacts/imp-done-{name}.png", full_page=True)
        for feed in site.services.reading.tree(actor).feeds:
            pass
        for path in ("/packs", "/packs/science", "/welcome"):
            page.goto(path)
            shot(page, f"imp-{path.strip('/').replace('/', '-')}-{name}")
        for feed in site.services.gateways.subscriptions.feed_ids(actor.user_id):
            site.services.subscriptions.unsubscribe(actor, feed)
