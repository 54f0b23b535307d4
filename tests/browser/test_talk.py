"""The badge of what one is told of, which moves by itself."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import Site
from tests.sharing.conftest import People
from tests.support.reader import add_user


def test_the_bell_counts_what_is_not_read(site: Site, visit: Callable[..., Page]) -> None:
    people = People(site.services)
    ann, bob = (add_user(site.services, name) for name in ("ann", "bob"))
    (entry,) = people.blog([ann])
    people.open(ann)
    share = site.services.sharing.share(ann, entry).share
    page = visit(login="ann")
    page.goto("/read/all")
    bell = page.get_by_role("link", name="Notifications")
    expect(bell).to_have_text("Notifications")
    _look_again(page, lambda: site.services.discussion.set_liked(bob, share.id))
    expect(bell.locator("b")).to_have_text("1")
    bell.click()
    expect(page.locator(".notes li.new")).to_have_count(1)
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator(".notes li.new")).to_have_count(0)
    page.goto("/read/all")
    expect(bell.locator("b")).to_be_empty()
    _writes(page, ann, share.id)


def _look_again(page: Page, happens: Callable[[], object]) -> None:
    """Do something, then come back to the page."""
    happens()
    with page.expect_response("**/api/counts**"):
        page.evaluate("() => { document.dispatchEvent(new Event('visibilitychange')); }")


def _writes(page: Page, ann: Actor, share_id: int) -> None:
    """A comment is written, answered and removed on its page, and comes back."""
    page.goto(f"/shares/{share_id}/comments")
    page.get_by_label("Your comment").fill("Hello <b>you</b>")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".said .prose")).to_have_text("Hello <b>you</b>")
    page.get_by_role("link", name="Reply").click()
    page.get_by_label("Your reply to ann").fill("Hello again")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".thread ul ul .said .prose")).to_have_text("Hello again")
    page.locator(".said summary").first.click()
    page.get_by_role("button", name="Remove").click()
    expect(page.locator(".thread")).to_contain_text("Comment removed")
    page.locator(".toast button").click()
    expect(page.locator(".said .prose").first).to_have_text("Hello <b>you</b>")
