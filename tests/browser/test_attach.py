"""Pictures in posts and comments with a browser: choosing, pasting, describing, removing them; avatars."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import PHONE, Site, shot
from tests.media import pictures
from tests.support.reader import add_user, elsewhere

CAT: Any = {
    "name": "cat.png",
    "mimeType": "image/png",
    "buffer": pictures.save(pictures.paint(900, 600), "PNG"),
}
TEXT: Any = {"name": "cat.png", "mimeType": "image/png", "buffer": b"not a picture"}


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services, "ann")


def seal_all(site: Site) -> None:
    """Draw what is complete, as a worker does."""

    def seal() -> None:
        for upload in site.services.gateways.uploads.find_sealing():
            site.services.sealing.seal_upload(upload.id)

    elsewhere(seal)


def wait_for_upload(page: Page, site: Site, act: Callable[[], object]) -> None:
    """Do what uploads a picture, and draw it when its last part has arrived."""
    with page.expect_response(lambda r: r.request.method == "PATCH" and r.status == 204):
        act()
    with page.expect_response(lambda r: r.request.method == "HEAD" and "upload-result" in r.headers):
        seal_all(site)


def test_a_post_gets_pictures_with_descriptions(visit: Callable[..., Page], site: Site, ann: Actor) -> None:
    page = visit(login="ann", size=PHONE)
    page.goto("/compose")
    chooser = page.locator('.attach input[type="file"]')
    wait_for_upload(page, site, lambda: chooser.set_input_files(CAT))
    expect(page.locator('.attach-list img[src*="/m/"]')).to_be_visible()
    page.get_by_label("Description for people").fill("A cat asleep")
    shot(page, "compose-picture")
    page.get_by_role("button", name="Publish").click()
    page.wait_for_url("**/read/shares")
    page.goto("/@ann")
    picture = page.get_by_alt_text("A cat asleep")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_pictures_of_a_post_follow_its_text_everywhere(
    visit: Callable[..., Page], site: Site, ann: Actor
) -> None:
    """For its author, for a follower and for strangers; nothing fills the sides of a narrow one.

    The author's avatar is there, too.
    """

    def draw() -> None:
        site.services.picture_uploads.wait = 0.0
        site.services.avatars.upload(ann, io.BytesIO(CAT["buffer"]))
        for path in (site.services.settings.home / "media" / "in").iterdir():
            site.services.avatars.draw(ann.user_id, path.name, 0)

    elsewhere(draw)
    page = visit(login="ann")
    page.goto("/compose")
    tall = {**CAT, "buffer": pictures.save(pictures.paint(300, 1500), "PNG")}
    wait_for_upload(page, site, lambda: page.locator('.attach input[type="file"]').set_input_files(tall))
    page.get_by_label("Description for people").fill("A tower")
    page.locator("#note").fill("Words first.")
    page.get_by_role("button", name="Publish").click()
    page.wait_for_url("**/read/shares")
    bob = add_user(site.services, "bob")
    elsewhere(lambda: site.services.following.follow(bob, "ann"))
    share = elsewhere(lambda: site.services.store.database["shares"].find_one() or {})["_id"]
    views = (
        (page, f"/read/shares?entry={share}", ".pane-article"),
        (visit(login="bob"), f"/read/following?entry={share}", ".pane-article"),
        (visit(), f"/@ann/{share}", "main"),
        (visit(), "/@ann", "main"),
        (visit(), f"/shares/{share}/comments", "main"),
    )
    for reader, path, place in views:
        reader.goto(path)
        shown = reader.locator(f"{place} .attached img")
        expect(shown).to_have_count(1)
        words = reader.locator(place).get_by_text("Words first.", exact=True).last
        above, below = words.bounding_box() or {}, shown.bounding_box() or {}
        assert above["y"] + above["height"] <= below["y"], path
        assert shown.evaluate("(image) => getComputedStyle(image).backgroundColor") == "rgba(0, 0, 0, 0)"
        face = reader.locator(place).locator(".source, .faces, header").locator("img").first
        expect(face).to_have_attribute("src", re.compile("^/a/ann/"))


def test_a_pasted_picture_goes_into_a_comment_and_can_be_removed_again(
    visit: Callable[..., Page], site: Site, ann: Actor
) -> None:
    post = elsewhere(lambda: site.services.sharing.publish_post(ann, "", "A post."))
    page = visit(login="ann")
    page.goto(f"/shares/{post.id}/comments")
    field = page.locator("#f-text")

    def paste() -> None:
        field.evaluate(
            """(field, bytes) => {
                const data = new DataTransfer();
                data.items.add(new File([new Uint8Array(bytes)], "pasted.png", { type: "image/png" }));
                field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
            }""",
            list(CAT["buffer"]),
        )

    wait_for_upload(page, site, paste)
    expect(page.locator('.attach-list img[src*="/m/"]')).to_be_visible()
    page.get_by_label("Description for people").fill("Pasted")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_alt_text("Pasted")).to_be_visible()
    page.locator(".said summary").click()
    page.get_by_role("link", name="Edit").click()
    page.locator(".attach-list").get_by_role("button", name="Remove").click()
    page.locator("#f-text").fill("Without it.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Without it.")).to_be_visible()
    expect(page.get_by_alt_text("Pasted")).to_have_count(0)


def test_what_is_no_picture_says_so_and_does_not_stop_the_post(
    visit: Callable[..., Page], site: Site, ann: Actor
) -> None:
    page = visit(login="ann")
    page.goto("/compose")
    with page.expect_response(lambda r: r.request.method == "PATCH" and r.status == 204):
        page.locator('.attach input[type="file"]').set_input_files(TEXT)
    expect(page.get_by_role("button", name="Publish")).to_be_disabled()
    seal_all(site)
    expect(page.locator(".attach-list [data-state]")).to_contain_text("This picture can't be used.")
    page.locator("#note").fill("Words alone.")
    page.get_by_role("button", name="Publish").click()
    page.wait_for_url("**/read/shares")


def test_an_avatar_is_uploaded_once_chosen_and_shown(
    visit: Callable[..., Page], site: Site, ann: Actor
) -> None:
    site.services.picture_uploads.wait = 0.0
    page = visit(login="ann", size=PHONE)
    page.goto("/settings/sharing")
    page.set_input_files("#f-avatar", CAT)
    expect(page.get_by_text("still being prepared")).to_be_visible()

    def draw() -> None:
        for path in (site.services.settings.home / "media" / "in").iterdir():
            site.services.avatars.draw(ann.user_id, path.name, 0)

    elsewhere(draw)
    page.goto("/settings/sharing")
    face = page.locator(".avatar img")
    expect(face).to_be_visible()
    assert face.evaluate("image => image.decode().then(() => image.naturalWidth)") == 192
    shot(page, "avatar")
    page.get_by_role("button", name="Remove picture").click()
    expect(page.locator(".avatar img")).to_have_count(0)


def test_what_the_audience_of_a_post_means_follows_the_choice(
    site: Site, ann: Actor, visit: Callable[..., Page]
) -> None:
    page = visit(login="ann")
    page.goto("/compose")
    for value, words in {
        "public": "Everyone can see it",
        "followers": "Only your followers",
        "private": "Only you",
    }.items():
        page.get_by_label("Visible to").select_option(value)
        expect(page.locator(".reach span:visible")).to_have_count(1)
        expect(page.locator(".reach span:visible")).to_contain_text(words)
