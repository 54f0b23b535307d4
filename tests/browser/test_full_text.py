"""Full texts in the reader: the page that a job brings, and the way back to the feed's text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import Site
from tests.browser.test_list_rules import subscribe
from tests.reading.test_full_texts import Site as PageSite
from tests.support.reader import add_user, elsewhere

Visit = Callable[..., Page]
PHONE = (390, 844)


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services)


def bring(site: Site, page: Page, pages: PageSite) -> None:
    """Fetch the full text of the open entry, as a worker does."""
    entry_id = int(page.locator("article.article").get_attribute("data-entry") or 0)
    texts: Any = site.services.full_texts
    feed_id = site.services.store.database["entries"].find_one({"_id": entry_id}, {"feed_id": 1})["feed_id"]  # type: ignore[index]
    elsewhere(lambda: asyncio.run(texts.fetch(feed_id, entry_id, pages)))


def test_d_shows_the_full_text_and_the_feeds_text_again(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2, text="Only a beginning.")
    page = visit(login="ann")
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    text = page.locator("#article .prose")
    page.keyboard.press("d")
    # The job of this request never runs: the page goes on to ask until the text is there.
    expect(page.get_by_role("button", name="Full text")).to_be_disabled()
    bring(site, page, PageSite())
    expect(text).to_contain_text("Paragraph 19 of a long story")
    expect(text).not_to_contain_text("Only a beginning")
    page.keyboard.press("d")
    expect(text).to_contain_text("Only a beginning")
    page.get_by_role("button", name="Full text").click()
    expect(text).to_contain_text("Paragraph 19 of a long story")
    page.keyboard.press("j")
    expect(text).to_contain_text("Only a beginning")


def test_feed_with_full_texts_shows_them_at_once(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 2, text="Only a beginning.")
    site.services.subscriptions.update(ann, feed_id, full_text=True)
    page = visit(login="ann")
    page.keyboard.press("j")
    expect(page.locator("#article").get_by_role("status")).to_be_visible()
    text = page.locator("#article .prose")
    expect(text).to_contain_text("Only a beginning")
    bring(site, page, PageSite())
    expect(text).to_contain_text("Paragraph 19 of a long story")
    page.keyboard.press("d")
    expect(text).to_contain_text("Only a beginning")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(text).to_contain_text("Paragraph 19 of a long story")


def test_reason_for_no_full_text_is_said(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 1)
    page = visit(login="ann", size=PHONE)
    page.locator("#rows .row a").first.click()
    expect(page.locator("#entry-title")).to_have_text("one 0")
    bring(site, page, PageSite(error="http_404"))
    page.get_by_role("button", name="Full text").click()
    expect(page.locator("#toasts")).to_have_text("The page doesn't exist anymore.")


def test_full_text_comes_without_scripts(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 1, text="Only a beginning.")
    page = visit(login="ann", js=False)
    page.locator("#rows .row a").first.click()
    bring(site, page, PageSite())
    page.get_by_role("button", name="Full text").click()
    expect(page).to_have_url(re.compile("text=full"))
    expect(page.locator("#article .prose")).to_contain_text("Paragraph 19 of a long story")
    page.get_by_role("link", name="Text of the feed").click()
    expect(page.locator("#article .prose")).to_contain_text("Only a beginning")
