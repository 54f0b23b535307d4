"""The form of a new service asks only for what its kind needs."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.support.reader import add_user

Visit = Callable[..., Page]


def test_the_fields_follow_the_chosen_kind(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/settings/sending")
    address = page.locator("#f-address")
    expect(address).to_be_hidden()
    page.get_by_label("Service").select_option("gotify")
    expect(page.locator("#f-secret")).to_have_accessible_name("Access token")
    assert page.locator("#h-address").inner_text() == "The address of your server."
    page.get_by_label("Service").select_option("webhook")
    expect(page.locator("#f-secret")).to_have_accessible_name("Secret (optional)")
    assert page.locator("#h-address").inner_text() == "Any address that accepts JSON."


def test_a_search_of_the_settings_leads_to_a_field_of_no_chosen_kind(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/settings/sending#f-address")
    expect(page.locator("#f-address")).to_be_visible()
    expect(page.locator("#s-star")).to_be_visible()
    expect(page.locator("#f-secret")).to_have_accessible_name("Access token")
