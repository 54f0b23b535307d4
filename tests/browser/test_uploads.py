"""Settings → Files with a browser: uploading in parts, pause, reload; and tus-js-client unmodified."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.media.blob import Purpose
from tests.browser.conftest import PHONE, Site, serve, shot
from tests.media.test_attachments import add_file, add_picture
from tests.media.test_uploads import rebuild
from tests.support.reader import add_user, elsewhere

PART = 64 << 10
DATA = random.Random(7).randbytes(4 * PART + 1000)
SHA256 = hashlib.sha256(DATA).digest()
FILE: Any = {"name": "talk.bin", "mimeType": "application/octet-stream", "buffer": DATA}
TUS = Path(__file__).resolve().parents[1] / "support" / "tus" / "tus.min.js"


@pytest.fixture
def site(services: Services) -> Iterator[Site]:
    with serve(rebuild(services, upload_part_max=PART)) as found:
        yield found


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services, "ann")


def seal_all(site: Site, ann: Actor) -> None:
    """Store what is complete, as a worker does."""

    def seal() -> None:
        for upload in site.services.gateways.uploads.find_sealing():
            assert site.services.sealing.seal_upload(upload.id)["state"] == "done"

    elsewhere(seal)


def list_blobs(site: Site, ann: Actor) -> list[bytes]:
    return elsewhere(lambda: [file.blob for file in site.services.files.list_files(ann)])


def hold_part(page: Page, offset: int) -> list[Route]:
    """Hold back the part that begins at ``offset``."""
    held: list[Route] = []

    def answer(route: Route) -> None:
        request = route.request
        if request.method == "PATCH" and request.headers.get("upload-offset") == str(offset) and not held:
            held.append(route)
        else:
            route.fallback()  # another part may be held back as well

    page.route("**/uploads/*", answer)
    return held


#: Events of a file that is dragged over the page.
_DRAG = """(kind) => {
  const files = new DataTransfer();
  files.items.add(new File(["text"], "mine.txt"));
  document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: files, bubbles: true, cancelable: true }));
}"""


def test_the_drop_zone_shows_that_a_file_is_over_it(
    visit: Callable[..., Page], site: Site, ann: Actor
) -> None:
    page = visit(login="ann")
    page.goto("/settings/files")
    zone = page.locator("#upload")
    for end in ("dragleave", "drop"):
        page.evaluate(_DRAG, "dragover")
        expect(zone).to_have_class(re.compile(r"\bover\b"))
        page.evaluate(_DRAG, end)
        expect(zone).not_to_have_class(re.compile(r"\bover\b"))
    expect(page.locator("#uploads li")).to_have_count(1)


def test_a_file_is_uploaded_in_parts_and_shown(visit: Callable[..., Page], site: Site, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto("/settings/files")
    expect(page.get_by_text("No files yet.")).to_be_visible()
    page.set_input_files("#f-file", FILE)
    expect(page.locator("#uploads .state")).to_have_text("Storing…")
    seal_all(site, ann)
    expect(page.get_by_role("link", name="talk.bin")).to_be_visible()
    expect(page.locator("#uploads li")).to_have_count(0)
    assert list_blobs(site, ann) == [SHA256]
    shot(page, "files")
    with page.expect_download() as download:
        page.get_by_role("link", name="talk.bin").click()
    assert Path(download.value.path()).read_bytes() == DATA
    delete = page.locator("summary", has_text="Delete")
    expect(delete).to_have_css("list-style-type", "none")
    delete.click()
    page.get_by_role("button", name="Yes, delete the file").click()
    expect(page.get_by_text("No files yet.")).to_be_visible()


@pytest.mark.parametrize("size", [PHONE, None], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_of_files_shows_pictures(
    visit: Callable[..., Page], site: Site, ann: Actor, size: Any, scheme: Any
) -> None:
    def add() -> None:
        add_picture(site.services, ann)
        add_picture(site.services, ann, 1, Purpose.AVATAR)
        add_file(site.services, ann)

    elsewhere(add)
    page = visit(login="ann", **({"size": size} if size else {}))
    page.emulate_media(color_scheme=scheme)
    page.goto("/settings/files")
    shown = page.locator(".own-files img.preview")
    expect(shown).to_have_count(2)
    for picture in shown.all():
        expect(picture).to_have_js_property("complete", True)
        assert picture.evaluate("one => one.naturalWidth") >= 96
    expect(page.locator(".own-files span.preview")).to_have_text("HTML")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#files").scroll_into_view_if_needed()
    page.mouse.wheel(0, 2000)
    shot(page, f"files-{'phone' if size else 'desktop'}-{scheme}")


@pytest.mark.parametrize("elsewhere_too", [False, True])
def test_an_upload_pauses_and_goes_on_after_a_reload_or_on_another_device(
    visit: Callable[..., Page], site: Site, ann: Actor, tmp_path: Path, elsewhere_too: bool
) -> None:
    file = tmp_path / "talk.bin"
    file.write_bytes(DATA)
    page = visit(login="ann", routes=True, size=PHONE)
    page.goto("/settings/files")
    held = hold_part(page, 2 * PART)
    page.set_input_files("#f-file", file)
    expect(page.locator("#uploads progress")).to_have_js_property("value", 2 * PART)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#uploads .state")).to_have_text("Paused")
    assert len(held) == 1
    hold_part(page, 3 * PART)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#uploads progress")).to_have_js_property("value", 3 * PART)
    page.reload()
    expect(page.locator("#uploads .state")).to_contain_text("To continue, choose the same file again.")
    shot(page, "files-paused")
    page.unroute_all(behavior="ignoreErrors")
    if elsewhere_too:
        page = visit(login="ann")
        page.goto("/settings/files")
    page.set_input_files("#f-file", file)
    expect(page.locator("#uploads .state")).to_have_text("Storing…")
    seal_all(site, ann)
    expect(page.locator("#uploads li")).to_have_count(0)
    assert list_blobs(site, ann) == [SHA256]


def test_an_upload_is_cancelled(visit: Callable[..., Page], site: Site, ann: Actor) -> None:
    page = visit(login="ann", routes=True)
    page.goto("/settings/files")
    hold_part(page, PART)
    hold_part(page, 0)
    page.set_input_files("#f-file", FILE)
    expect(page.locator("#uploads .state")).to_have_text("0 bytes of 263.1 kB")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#uploads progress")).to_have_js_property("value", PART)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#uploads li")).to_have_count(0)
    assert elsewhere(lambda: site.services.uploads.list_active(ann)) == []
    page.unroute_all(behavior="ignoreErrors")


def test_without_scripts_a_form_uploads_and_cancels(
    visit: Callable[..., Page], site: Site, ann: Actor
) -> None:
    page = visit(login="ann", js=False)
    page.goto("/settings/files")
    page.set_input_files("#f-file", FILE)
    page.get_by_role("button", name="Upload", exact=True).click()
    seal_all(site, ann)
    page.goto("/settings/files")
    expect(page.get_by_role("link", name="talk.bin")).to_be_visible()
    assert list_blobs(site, ann) == [SHA256]


_TUS = """([url, csrf, bytes, parts]) => new Promise((resolve, reject) => {
  const file = new Blob([new Uint8Array(bytes)]);
  const headers = { "X-CSRF-Token": csrf };
  const upload = new tus.Upload(file, { endpoint: url, headers, chunkSize: parts ?? Infinity,
    retryDelays: [0, 100],
    metadata: { filename: "by-tus-js.bin" }, onError: (e) => reject(e), onSuccess: () => resolve(upload.url),
    uploadDataDuringCreation: true });
  upload.start();
})"""


@pytest.mark.parametrize("parts", [PART, 100_000, None])
def test_U03_tus_js_client_uploads_a_file(
    visit: Callable[..., Page], site: Site, ann: Actor, parts: int | None
) -> None:
    page = visit(login="ann")
    page.goto("/settings/files")
    page.evaluate(TUS.read_text())
    token = page.locator('meta[name="csrf-token"]').get_attribute("content")
    url = page.evaluate(_TUS, ["/uploads", token, list(DATA[:150_000]), parts])
    assert "/uploads/" in url
    seal_all(site, ann)
    assert list_blobs(site, ann) == [hashlib.sha256(DATA[:150_000]).digest()]


@pytest.mark.parametrize("size", [(390, 844), (720, 900), (1024, 768), (1440, 900)])
@pytest.mark.parametrize("section", ["files", "display", "account"])
def test_the_parts_of_a_settings_page_stand_below_each_other(
    visit: Callable[..., Page], ann: Actor, size: tuple[int, int], section: str
) -> None:
    """A class of the same name on another screen once put them side by side."""
    page = visit(login="ann", size=size)
    page.goto(f"/settings/{section}")
    boxes = page.locator("div.section > :visible").evaluate_all(
        "(all) => all.filter((each) => !each.matches('.vh')).map((each) => each.getBoundingClientRect())"
    )
    assert len(boxes) >= 2
    for above, below in itertools.pairwise(boxes):
        assert below["top"] >= above["bottom"] - 1
    whole = page.locator("div.section").evaluate("(all) => all.getBoundingClientRect().width")
    assert max(box["width"] for box in boxes) >= 0.95 * whole
