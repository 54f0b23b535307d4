"""All attack vectors of the corpus in a real Chromium: none runs once sanitised, many do raw (H02)."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Route

from app.feeds.html.formulas import ELEMENTS
from app.feeds.html.sanitize import sanitize
from app.models.feeds.link_schemes import LINK_SCHEMES
from tests.support import corpus

ORIGIN = "http://reader.test"
#: Each call that a vector could make to prove that it runs is counted in the top window.
HOOK = """
if (window === window.top) window.ran = [];
for (const name of ["alert", "prompt", "confirm", "print"]) {
  window[name] = (what) => { window.top.ran.push(`${name}: ${what}`); };
}
window.open = () => null;
"""
#: Clicks, hovers over and focuses everything, here and in frames; only javascript: links are followed.
TOUCH = """
async () => {
  const followed = (a) => /^\\s*javascript:/i.test(a.href?.baseVal ?? a.href ?? "");
  const documents = [document];
  for (const frame of document.querySelectorAll("iframe"))
    try { if (frame.contentDocument) documents.push(frame.contentDocument); } catch { continue; }
  for (const d of documents) {
    for (const e of d.querySelectorAll("*")) {
      e.addEventListener("click", (event) => { if (!followed(e)) event.preventDefault(); });
      for (const kind of ["mouseover", "mousemove", "mouseenter", "focus"]) e.dispatchEvent(new Event(kind));
      e.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
    }
  }
  for (let turn = 0; turn < 4; turn++) await new Promise((done) => setTimeout(done, 25));
  return window.ran;
}
"""
INSERT = """
(all) => {
  for (const one of all) document.body.appendChild(document.createElement("div")).innerHTML = one;
}
"""
INSPECT = """
([all, schemes]) => {
  const seen = new Set();
  for (const one of all) {
    const t = document.createElement("template");
    t.innerHTML = one;
    for (const e of t.content.querySelectorAll("*")) {
      seen.add(e.namespaceURI.endsWith("xhtml") ? e.localName : `foreign ${e.localName}`);
      for (const a of e.attributes)
        if (/^(on.*|style|srcdoc|id|name|class)$/.test(a.name) && !/^at-/.test(a.value))
          seen.add(`@${a.name}`);
      if (e.hasAttribute("href") && !schemes.includes(e.protocol)) seen.add(`!${e.href}`);
    }
  }
  return [...seen];
}
"""


def vectors() -> list[dict[str, Any]]:
    folder = corpus.root() / "xss"
    files = ("vectors.json", "benign-markup.json")
    return [v for name in files for v in json.loads((folder / name).read_text("utf-8"))]


def cleaned() -> list[str]:
    return [sanitize(v["payload"], "https://site.example/a/") for v in vectors()]


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A page that reaches nothing: every request is answered here, foreign ones with 404."""
    context = chromium.new_context()
    page = context.new_page()
    page.add_init_script(HOOK)
    yield page
    context.close()


def show(page: Any, body: str) -> None:
    """Load a document with this body as the top document of our origin."""

    def answer(route: Route) -> None:
        if route.request.url == f"{ORIGIN}/" and route.request.frame == page.main_frame:
            route.fulfill(body=f"<!doctype html><meta charset=utf-8><body>{body}", content_type="text/html")
        else:
            # An image that breaks fires onerror, which is what many vectors wait for.
            route.fulfill(status=404, body="", content_type="text/plain")

    page.unroute("**/*")
    page.route("**/*", answer)
    page.goto(f"{ORIGIN}/", wait_until="load")


def framed(payloads: list[str]) -> str:
    """Each payload in a document of its own, so that one cannot swallow the next; all in one page load."""
    return "".join(f'<iframe srcdoc="{html.escape(p)}"></iframe>' for p in payloads)


def test_H02_raw_vectors_do_run(page: Any) -> None:
    # The control: with a hook that does not work, nothing would seem to run.
    show(page, framed([v["payload"] for v in vectors()]))
    assert len(page.evaluate(TOUCH)) >= 10


def test_H02_no_sanitised_vector_runs(page: Any) -> None:
    show(page, framed(cleaned()))
    assert page.evaluate(TOUCH) == []


def test_H02_no_sanitised_vector_runs_among_the_others(page: Any) -> None:
    # As a list of entries shows them, and as a script puts them in.
    show(page, "".join(f"<article>{c}</article>" for c in cleaned()))
    page.evaluate(INSERT, cleaned())
    assert page.evaluate(TOUCH) == []


def test_H02_sanitised_vectors_build_only_allowed_elements(page: Any) -> None:
    show(page, "<p>empty</p>")
    schemes = [f"{scheme}:" for scheme in ("http", "https", *sorted(LINK_SCHEMES))]
    seen = set(page.evaluate(INSPECT, [cleaned(), schemes]))
    assert {"a", "img", "p"} <= seen
    formulas = {f"foreign {name}" for name in ELEMENTS}
    assert {s for s in seen if s[0] in "@!" or s.startswith("foreign")} <= formulas
    assert not seen & {
        "script",
        "style",
        "iframe",
        "object",
        "embed",
        "form",
        "input",
        "base",
        "meta",
        "link",
    }


def test_H06_a_link_gives_its_page_no_opener(page: Any) -> None:
    show(page, sanitize(f"<a href='{ORIGIN}/next' rel=opener>go</a>", "https://site.example/"))
    page.context.route("**/next", lambda route: route.fulfill(body="<p>next", content_type="text/html"))
    with page.context.expect_page() as opened:
        page.get_by_text("go").click()
    opened.value.wait_for_load_state()
    assert opened.value.evaluate("() => [window.opener, document.referrer]") == [None, ""]


def test_H06_names_and_ids_do_not_clobber_the_document(page: Any) -> None:
    links = "".join(f"<a href='#{name}'>x</a>" for name in ("cookie", "body", "ran", "attributes"))
    markup = "<img name=cookie src=x><a id=body href=x></a><form name=ran><input name=attributes></form>"
    show(page, sanitize(f"{links}<a name=cookie>y</a>{markup}", "https://site.example/"))
    assert page.evaluate("() => [typeof document.cookie, document.body.localName]") == ["string", "body"]
    assert page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)") == [
        "at-cookie",
        "at-body",
    ]


def test_formulas_and_drawings_are_drawn_and_footnotes_lead_to_their_notes(page: Any) -> None:
    markup = (
        "<p id=text>a<sup><a href='#n'>1</a></sup> <math><mfrac><mn>1</mn><mn>2</mn></mfrac></math></p>"
        "<svg width=80 height=60><rect width=80 height=60 fill=red /></svg>"
        "<div><br></div><p>" + "word<br>" * 200 + "</p><p id=n>Note</p>"
    )
    show(page, sanitize(markup, "https://site.example/"))
    assert page.evaluate("() => document.querySelector('mfrac') instanceof MathMLElement")
    over, under = (page.locator("mn").nth(n).bounding_box() for n in (0, 1))
    assert over["y"] + over["height"] <= under["y"]
    image = (
        "() => document.querySelector('img').decode().then(() => document.querySelector('img').naturalWidth)"
    )
    assert page.evaluate(image) == 80
    page.get_by_role("link", name="1").click()
    page.wait_for_function("() => document.getElementById('at-n').getBoundingClientRect().top < innerHeight")
