"""Signing up and logging in: the name's rule while typing, nothing typed is lost, passwords on request."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.support.reader import PASSWORD, add_user

Visit = Callable[..., Page]
SIZES = [(390, 844), (720, 450), (1024, 768), (1440, 900)]


@pytest.mark.parametrize("size", SIZES)
def test_the_rule_of_names_is_told_while_typing_and_nothing_typed_is_lost(
    site: Site, visit: Visit, size: tuple[int, int]
) -> None:
    add_user(site.services, "ann")
    page = visit(size=size, expect="409")
    page.goto("/signup")
    hint = page.locator("#h-name")
    expect(hint).to_contain_text("2 to 32 letters")
    page.get_by_label("User name").press_sequentially("Ann Example")
    expect(hint.get_by_role("button", name="Use ann-example")).to_be_visible()
    expect(page.get_by_label("User name")).to_have_attribute("aria-invalid", "true")
    hint.get_by_role("button").click()
    expect(hint).to_have_text("This user name is free.")
    expect(page.get_by_label("User name")).to_have_value("ann-example")
    page.get_by_label("User name").fill("ann")
    page.get_by_label("Email").fill("new@example.org")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(hint).to_contain_text("taken")
    assert page.get_by_label("Password", exact=True).input_value() == PASSWORD
    assert page.get_by_label("Email").input_value() == "new@example.org"
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.get_by_label("User name").fill("ann-3")
    page.get_by_role("button", name="Create account").click()
    page.wait_for_url("**/welcome")


def test_a_password_is_shown_on_request_and_sent_as_one(site: Site, visit: Visit) -> None:
    add_user(site.services, "ann")
    page = visit()
    page.goto("/login")
    field = page.get_by_label("Password", exact=True)
    field.fill(PASSWORD)
    show = page.get_by_role("button", name="Show Password")
    show.click()
    expect(field).to_have_attribute("type", "text")
    expect(show).to_have_attribute("aria-pressed", "true")
    show.click()
    expect(field).to_have_attribute("type", "password")
    show.click()
    page.get_by_label("User name or email address").fill("ann")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/read/**")


def test_the_log_in_page_says_what_to_do_about_a_forgotten_password(site: Site, visit: Visit) -> None:
    add_user(site.services, "ann")
    page = visit(js=False)
    page.goto("/login")
    page.get_by_text("Forgot your password?").click()
    expect(page.get_by_text("Contact an admin of this server")).to_be_visible()
    expect(page.get_by_role("button", name="Show Password")).to_be_hidden()
