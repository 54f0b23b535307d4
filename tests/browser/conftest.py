"""A real server and a real browser; each page is watched for errors of the console and of the CSP."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from werkzeug.serving import make_server

from app import create_app
from app.bootstrap.services import Services
from app.services.accounts.sign_in import Client
from app.web.security.sessions import get_cookie_name
from tests.conftest import CHROMIUM_ARGS, launched
from tests.support.reader import PASSWORD
from tests.support.up import free_port

ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"
WIDE, PHONE = (1440, 900), (360, 740)
_WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (e) =>
  window.__violations.push([e.effectiveDirective, e.blockedURI, e.sample, e.sourceFile].join(" ")));
"""


@dataclasses.dataclass(frozen=True)
class Site:
    """The web tier of one test."""

    url: str
    services: Services


@pytest.fixture(scope="package")
def chromium(windowless_path: str) -> Iterator[Browser]:
    """One for all tests of this folder: a start takes seconds, and none of them runs an event loop."""
    with launched(windowless_path) as browser:
        yield browser


@pytest.fixture(scope="package")
def whole(chromium: Browser, chromium_path: str) -> Iterator[Browser]:
    """The one with windows, started where a test asks for it.

    It shows notifications, and it opens tabs behind the one in sight: built without windows Chromium loses
    such a tab, or crashes, when the machine is busy.
    """
    with contextlib.closing(
        chromium.browser_type.launch(executable_path=chromium_path, args=CHROMIUM_ARGS)
    ) as browser:
        yield browser


@pytest.fixture
def site(services: Services) -> Iterator[Site]:
    """The application on a real socket, many threads."""
    with serve(services) as found:
        yield found


@contextlib.contextmanager
def serve(services: Services) -> Iterator[Site]:
    """Serve the application on a free port of loopback."""
    port = free_port()
    own = dataclasses.replace(services.settings, base_url=f"http://127.0.0.1:{port}", port=port)
    server = make_server("127.0.0.1", port, create_app(own, services), threaded=True)
    server.daemon_threads = True
    # It looks so often whether it is to end: with the usual half second each test waits for that.
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield Site(own.base_url, services)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def visit(request: pytest.FixtureRequest, chromium: Browser, site: Site) -> Iterator[Callable[..., Page]]:
    """``visit(size=, touch=, scheme=, js=, login=, language=, zone=)``: a page of a new browser.

    Logged in when ``login`` names a user;
    ``expect``: part of a console error that belongs to the test;
    ``routes``: the test holds requests back or answers them itself. The browser tells a page that is
    there already on another way than keys and clicks, which can overtake that under load;
    ``whole``: in the browser with windows;
    ``workers``: with the service worker, through which pages then come.

    At the end of the test every page must be without console errors and CSP reports.
    """
    with contextlib.ExitStack() as stack:
        yield lambda whole=False, **wish: _page(
            stack, request.getfixturevalue("whole") if whole else chromium, site, **wish
        )


def _page(
    stack: contextlib.ExitStack,
    browser: Browser,
    site: Site,
    *,
    size: tuple[int, int] = WIDE,
    touch: bool | None = None,
    scheme: str = "light",
    js: bool = True,
    login: str = "",
    language: str = "en-GB",
    zone: str = "UTC",
    expect: str = "",
    routes: bool = False,
    workers: bool = False,
) -> Page:
    touch = size[0] < 700 if touch is None else touch
    context = browser.new_context(
        base_url=site.url,
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        java_script_enabled=js,
        has_touch=touch,
        is_mobile=touch,
        reduced_motion="reduce",
        locale=language,
        timezone_id=zone,
        service_workers="allow" if workers else "block",
    )
    stack.callback(context.close)
    if routes:
        context.route("**/from-the-first-page-on", lambda route: route.continue_())
    page = context.new_page()
    stack.callback(watched(page, js=js, expect=expect))
    if login:
        recognised(page, site, login)
        page.goto("/read/all")
    return page


def watched(page: Page, *, js: bool = True, expect: str = "") -> Callable[[], None]:
    """Note what a page complains of from now on; call what is returned to see that it is nothing."""
    problems: list[str] = []
    page.on("console", lambda message: _note(problems, message, expect))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.add_init_script(_WATCH)
    return lambda: _check(page, problems, js)


def recognised(page: Page, site: Site, name: str) -> None:
    """Log in without the form: its own tests fill it in, all others save two pages."""
    client = Client("127.0.0.1", page.evaluate("navigator.userAgent"))
    token = site.services.sign_in.log_in(name, PASSWORD, client)
    page.context.add_cookies([{"name": get_cookie_name(secure=False), "value": token, "url": site.url}])


def _note(problems: list[str], message: Any, expect: str) -> None:
    # A picture that has no host here and a request that a test held back are the tests' own doing.
    # So is that pages have no service worker, unless the test is about it.
    texts = ("ERR_NAME_NOT_RESOLVED", "ERR_FAILED", "Service Worker registration blocked")
    ours = any(text in message.text for text in texts)
    expected = expect and expect in message.text
    if message.type in ("error", "warning") and not ours and not expected:
        problems.append(f"{message.type}: {message.text} {message.location.get('url', '')}")


def _check(page: Page, problems: list[str], js: bool) -> None:
    if js and not page.is_closed():
        problems += page.evaluate("window.__violations ?? []")
    assert not problems, "\n".join(problems)


def log_in(page: Page, name: str) -> None:
    """Log in through the form."""
    page.goto("/login")
    # In any language.
    page.locator("[name=login]").fill(name)
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("[name=password]").press("Enter")
    page.wait_for_url("**/read/all")


def shot(page: Page, name: str) -> None:
    """Keep a picture of the page for people to look at."""
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}.png")
