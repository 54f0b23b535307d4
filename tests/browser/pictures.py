"""``make screens``: a picture of every screen, wide and light, and of a phone in the dark, for docs/screens.

``python -m tests.browser.pictures NAME …`` draws some of them; ``product`` those of the landing page.

Pictures of entries come from their own sites in life; here each is replaced by a drawn one, as nothing is
fetched from outside. Icons are fetched from a site on loopback.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import io
import shutil
import sys
import tempfile
import wave
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import redis
from PIL import Image, ImageChops, ImageDraw
from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from app import clock, embedded
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue
from app.models.media.blob import ORIGINAL, BlobKind
from tests.browser.conftest import Site, log_in, serve
from tests.browser.drawings import draw_picture
from tests.browser.screens import EXTRAS, SCREENS, Screen
from tests.media.farm import Worker, build_services
from tests.support import demo, demo_product, demo_rich
from tests.support.media import add_file, make_content
from tests.support.rawserver import RawServer, Reply

FOLDER = Path(__file__).resolve().parents[2] / "docs/screens"
LOOKS: dict[str, dict[str, Any]] = {
    "": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "-phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "dark",
        "has_touch": True,
        "is_mobile": True,
    },
    "-1024": {"viewport": {"width": 1024, "height": 768}, "color_scheme": "light"},
}
#: What is drawn at the width where most changes.
MEDIUM = ("list", "article", "talk-answer", "view-expanded")
#: The pictures of the landing page, and the card that other sites show of it: size, pixels per unit, scheme.
LANDING = FOLDER.parents[1] / "static/img"
PRODUCT = "product"
PRODUCTS: dict[str, tuple[tuple[int, int], float, str]] = {
    "product-light.webp": ((1200, 750), 4 / 3, "light"),
    "product-dark.webp": ((1200, 750), 4 / 3, "dark"),
    "product-phone-light.webp": ((390, 640), 2, "light"),
    "product-phone-dark.webp": ((390, 640), 2, "dark"),
    "product-card.jpg": ((1200, 630), 1, "light"),
}
#: Bytes of a picture of the landing page, which everybody loads.
PRODUCT_MAX = 88_000
#: Name, bytes and owners of the files of ann.
_FILES = (
    ("eventr-export.zip", 18_400_000, ()),
    ("Garden in spring.jpg", 2_310_000, ("share:1",)),
    ("Talk about old roofs.mp3", 41_200_000, ("share:2",)),
    ("Old roofs.jpg", 1_940_000, ("share:2",)),
)
#: A picture of a page needs no more: a third of the bytes.
COLOURS = 256
#: One with photos keeps all, if they would differ by more than this (0 to 255), up to so many bytes.
BANDS, LARGE = 10, 200_000


def main(names: Sequence[str] = ()) -> None:
    """Draw all of them anew, or those of these names."""
    FOLDER.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eventr-screens-")))
        running = stack.enter_context(embedded.start_servers(Settings(home=home)))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        stack.callback(browser.close)
        stack.enter_context(clock.set_source(lambda: demo.NOW))
        if not names or PRODUCT in names:
            with _serve(home, running.settings, PRODUCT, demo_product.fill) as (site, filled):
                _draw_product(browser, site, filled)
        if [*names] == [PRODUCT]:
            return
        for suffix, look in LOOKS.items():
            if suffix == "-1024":
                names = [name for name in names or MEDIUM if name in MEDIUM]
                if not names:
                    break
            with _serve(home, running.settings, f"look{suffix}", demo_rich.fill) as (site, filled):
                contexts = [
                    browser.new_context(base_url=site.url, service_workers="block", **look) for _ in range(2)
                ]
                _draw(contexts, filled, suffix, names)


@contextlib.contextmanager
def _serve(
    home: Path, running: Settings, name: str, fill: Callable[[Services], demo.Demo]
) -> Iterator[tuple[Site, demo.Demo]]:
    settings = dataclasses.replace(
        running,
        # The search index has one writer.
        home=home / name,
        mongodb_name=f"screens_{name.replace('-', '_')}",
        secret_key="pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
        session_idle=10**9,
        session_max=10**9,
        # Without a worker: the browser gets pictures of entries, drawn below.
        images="direct",
    )
    # Jobs of the look before are about feeds that this one has not.
    with redis.Redis.from_url(running.redis_url) as client:
        client.flushall()
    with contextlib.closing(bootstrap.build(settings)) as services:
        services.migrate()
        filled = fill(services)
        _illustrate(services, filled)
        with serve(services) as site:
            yield site, filled


def _draw_product(browser: Browser, site: Site, filled: demo.Demo) -> None:
    for name, (size, scale, scheme) in PRODUCTS.items():
        phone = size[0] < size[1]
        context = browser.new_context(
            base_url=site.url,
            viewport={"width": size[0], "height": size[1]},
            device_scale_factor=scale,
            color_scheme="dark" if scheme == "dark" else "light",
            has_touch=phone,
            is_mobile=phone,
        )
        context.route("**/*", _answer)
        page = context.new_page()
        log_in(page, "ann")
        page.goto("/read/all" if phone else f"/read/all?entry={filled.entry}")
        page.wait_for_load_state("networkidle")
        shot = Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
        for quality in (80,) if name.endswith("jpg") else (55, 50, 45, 40, 35):
            shot.save(LANDING / name, quality=quality, method=6, optimize=True)
            if (LANDING / name).stat().st_size < PRODUCT_MAX:
                break
        context.close()


def _illustrate(services: Services, filled: demo.Demo) -> None:
    """Give feeds their icons, and ann an avatar and files."""
    client = redis.Redis.from_url(services.settings.redis_url)
    with client, RawServer() as server, contextlib.closing(build_services(services, server)) as own:
        # A feed on another host may not lead into this network: for now, they are all on this site.
        feeds = services.store.database["feeds"]
        urls = {doc["_id"]: doc["url"] for doc in feeds.find({}, {"url": 1})}
        for number, feed_id in enumerate(filled.feeds.values()):
            # Some have none.
            if number % 4 != 3:
                server.set(f"/{number}.png", Reply(body=_icon(number)))
                moved = {"url": server.url(f"/{number}"), "icon": server.url(f"/{number}.png")}
                feeds.update_one({"_id": feed_id}, {"$set": moved})
            else:
                feeds.update_one(
                    {"_id": feed_id}, {"$set": {"icon_next": clock.now() + dt.timedelta(days=9)}}
                )
        own.jobs.enqueue_many(own.icons.find_due_jobs(clock.now()))
        Worker(own, client).work()
        for feed_id, url in urls.items():
            feeds.update_one({"_id": feed_id}, {"$set": {"url": url}})
        own.picture_uploads.wait = 0.0
        own.avatars.upload(filled.ann, io.BytesIO(draw_picture("ann")))
        for body in (own.settings.home / "media" / "in").iterdir():
            own.avatars.draw(filled.ann.user_id, body.name, 0)
        # The job for the same avatar, which no worker will run.
        client.delete(redis_keys.make_queue_key(Queue.MEDIA))
        for number, (name, size, owners) in enumerate(_FILES):
            names = ("t208", "w640") if name.endswith(".jpg") else (ORIGINAL,)
            content = make_content(number, names)
            if content.kind is BlobKind.PICTURE:
                content = dataclasses.replace(
                    content, files=dict.fromkeys(names, _shrink(draw_picture(name)))
                )
            add_file(own, filled.ann.user_id, dataclasses.replace(content, size=size), owners, name)


def _shrink(picture: bytes) -> bytes:
    image, out = Image.open(io.BytesIO(picture)), io.BytesIO()
    image.resize((208, 144)).save(out, "WEBP")
    return out.getvalue()


def _draw(contexts: list[BrowserContext], filled: demo.Demo, suffix: str, names: Sequence[str]) -> None:
    pages = []
    for context in contexts:
        context.route("**/*", _answer)
        pages.append(context.new_page())
    stranger, known = pages
    log_in(known, "ann")
    # A player goes on in all pages of its tab.
    for screen in EXTRAS:
        if names and screen.name not in names:
            continue
        page = known.context.new_page()
        _take(page, screen, filled, suffix)
        page.close()
    for screen in SCREENS:
        if (names and screen.name not in names) or (screen.wide and suffix == "-phone"):
            continue
        _take(stranger if screen.stranger else known, screen, filled, suffix)


def _take(page: Page, screen: Screen, filled: demo.Demo, suffix: str) -> None:
    with screen.shown(page, filled):
        page.wait_for_load_state("networkidle")
        _keep(page.screenshot(animations="disabled", caret="hide"), FOLDER / f"{screen.name}{suffix}.png")


def _keep(shot: bytes, path: Path) -> None:
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    few = image.quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE)
    if _find_bands(image, few.convert("RGB")) > BANDS:
        image.save(path, optimize=True)
        if path.stat().st_size <= LARGE:
            return
    few.save(path, optimize=True)


def _find_bands(image: Image.Image, few: Image.Image) -> int:
    """Return by how much the colors of a thousandth of all pixels differ at least."""
    counts = ImageChops.difference(image, few).convert("L").histogram()
    left = image.width * image.height // 1000
    for difference in range(255, 0, -1):
        left -= counts[difference]
        if left <= 0:
            return difference
    return 0


def _answer(route: Route) -> None:
    if route.request.url.startswith("http://127.0.0.1"):
        route.continue_()
    elif route.request.resource_type == "media":
        route.fulfill(body=_silence(), content_type="audio/wav")
    elif route.request.resource_type == "image":
        route.fulfill(body=draw_picture(route.request.url), content_type="image/png")
    else:
        route.abort()


def _silence(seconds: int = 90, rate: int = 3000) -> bytes:
    """Return a recording in which nothing is heard."""
    out = io.BytesIO()
    with wave.open(out, "wb") as recording:
        recording.setnchannels(1)
        recording.setsampwidth(1)
        recording.setframerate(rate)
        recording.writeframes(b"\x80" * seconds * rate)
    return out.getvalue()


def _icon(number: int) -> bytes:
    """Return an icon, each with another color and shape."""
    image = Image.new("RGBA", (64, 64))
    draw = ImageDraw.Draw(image)
    color = ((196, 61, 47), (29, 111, 160), (40, 40, 46), (214, 140, 20), (54, 128, 84))[number % 5]
    draw.rounded_rectangle((0, 0, 63, 63), radius=12 + 20 * (number % 2), fill=color)
    draw.polygon(
        [(32, 12), (52, 48), (12, 48)] if number % 3 else [(14, 14), (50, 32), (14, 50)], fill="white"
    )
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
