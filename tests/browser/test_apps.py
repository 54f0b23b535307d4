"""Passwords of apps and the test of the way to the server, as people and their browsers meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.models.operations.proxy_probes import PROBES
from app.services.accounts.sign_in import Client
from tests.browser.conftest import PHONE, WIDE, Site
from tests.browser.test_screens import _faults, _unroll
from tests.support.reader import add_user

Visit = Callable[..., Page]
SIZES = (WIDE, (820, 1100), PHONE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_password_that_was_made_is_accessible_everywhere(site: Site, visit: Visit, scheme: str) -> None:
    add_user(site.services, "ann")
    page = visit(login="ann", scheme=scheme)
    page.goto("/settings/apps?app=unread")
    page.get_by_role("button", name="Create app password").click()
    expect(page.locator("#made")).to_be_visible()
    page.locator(".ask summary").click()
    for size in SIZES:
        _unroll(page, size)
        assert list(_faults(page)) == []


def test_it_is_copied_and_not_there_after_a_reload(site: Site, visit: Visit) -> None:
    ann = add_user(site.services, "ann")
    page = visit(login="ann")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    page.goto("/settings/apps")
    page.get_by_label("Name").first.fill("Phone")
    page.get_by_role("button", name="Create app password").click()
    code = page.locator("#v-secret")
    secret = code.inner_text()
    assert site.services.tokens.log_in("ann", secret, Client("192.0.2.7", "x")).user.id == ann.user_id
    expect(page.get_by_role("heading", name="App password for Phone")).to_be_focused()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.locator(".toast")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    # The answer of a form, loaded again: it asks for the list, and sends no form.
    page.reload()
    expect(code).to_have_count(0)
    assert secret not in page.content()
    assert len(site.services.tokens.list_tokens(ann)) == 1
    assert page.url == f"{site.url}/settings/apps"
    page.goto("/read/all")
    page.go_back()
    assert secret not in page.content()


def test_revoking_takes_two_steps_with_keys_alone(site: Site, visit: Visit) -> None:
    ann = add_user(site.services, "ann")
    page = visit(login="ann")
    page.goto("/settings/apps?app=reeder")
    page.get_by_role("button", name="Create app password").press("Enter")
    # It takes the focus when its script comes, which may be just before the key.
    expect(page.locator("#made h2")).to_be_focused()
    page.locator(".ask summary").press("Enter")
    page.get_by_role("button", name="Revoke permanently").press("Enter")
    expect(page.locator(".toast")).to_contain_text("Revoked")
    assert site.services.tokens.list_tokens(ann) == []


def test_without_a_script_all_of_it_works(site: Site, visit: Visit) -> None:
    ann = add_user(site.services, "ann")
    page = visit(login="ann", js=False)
    page.goto("/settings/apps/clients")
    page.get_by_role("link", name="Create app password for Unread").click()
    page.get_by_role("button", name="Create app password").click()
    assert len(page.locator("#v-secret").inner_text()) == 24
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
    page.locator(".ask summary").click()
    page.get_by_role("button", name="Revoke permanently").click()
    assert site.services.tokens.list_tokens(ann) == []
    page.goto("/check")
    page.get_by_role("link", name="Try it Two slashes").click()
    expect(page.locator(".note")).to_contain_text("passed")
    page.get_by_role("link", name="All tests").click()
    page.get_by_role("link", name="Try it A 700 kB request").click()
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".note")).to_contain_text("passed")


@pytest.mark.parametrize("login", ["", "ann"])
def test_the_way_to_a_server_on_this_machine_is_free(site: Site, visit: Visit, login: str) -> None:
    add_user(site.services, "ann")
    page = visit(login=login)
    page.goto("/check")
    expect(page.locator("#verdict")).to_have_text("No problems found.", use_inner_text=True)
    expect(page.locator(".probes .ok:visible")).to_have_count(len(PROBES))
    expect(page.locator(".remedy:visible")).to_have_count(0)


def test_what_is_in_the_way_is_said_with_what_to_change(site: Site, visit: Visit) -> None:
    page = visit(routes=True)

    def without(route: Any) -> None:
        headers = {k: v for k, v in route.request.headers.items() if k != "authorization"}
        route.continue_(headers=headers)

    page.route("**/check/authorization", without)
    page.route("**/check/body", lambda route: route.abort())
    page.route("**/check/path/**", lambda route: route.fulfill(json={"ok": False}))
    page.goto("/check")
    expect(page.locator("#verdict .bad")).to_be_visible()
    failed = page.locator(".probes > li").filter(has=page.locator(".bad:visible"))
    assert [row.get_attribute("id") for row in failed.all()] == ["path", "authorization", "body"]
    expect(page.locator("#path .remedy")).to_contain_text("AllowEncodedSlashes NoDecode")
    for size in SIZES:
        _unroll(page, size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            assert list(_faults(page)) == []
