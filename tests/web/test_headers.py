"""Headers of every answer, and what the source may not contain: H07, H08, H10, H11, H14, H16, W18."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from app import create_app
from app.bootstrap.services import Services
from app.web.assets.assets import Assets
from app.web.security import headers
from app.web.view import embeds, present
from tests.web.conftest import ORIGIN, Visitor, is_for_apps
from tests.web.test_csrf import rules

REPO = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((REPO / "app/web/templates").rglob("*.html"))
SCRIPTS = sorted((REPO / "static/js").rglob("*.js"))
FIXED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


#: Where bytes of strangers come from, in other words of other sites.
MEDIA = ("/i/", "/icon/", "/m/", "/a/", "/settings/files/17")


#: The same for everyone, and asked for without cookies.
OURS = {"/manifest.webmanifest": "application/manifest+json", "/favicon.ico": "image/x-icon"}


def test_H08_the_policy_is_the_written_one() -> None:
    """Word by word; ``img-src`` is wider only for people who want pictures from their sites."""
    assert headers.CSP == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; media-src 'self' https: http:; "
        "frame-src 'self' https://www.youtube-nocookie.com https://player.vimeo.com https://open.spotify.com "
        "https://w.soundcloud.com https://bandcamp.com https://framatube.org https://peertube.tv; "
        "manifest-src 'self'; "
        "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types eventr"
    )
    wider = headers.CSP.replace("img-src 'self' data:;", "img-src 'self' data: https: http:;")
    assert wider == headers.FOREIGN_CSP


def test_H11_H08_every_route_has_the_headers(app: Flask, ann: Visitor) -> None:
    paths = [path for _, path in rules(app, "GET")] + ["/nope", "/read/feed/x", "/static/nope.css"]
    answers = [(path, ann.get(path)) for path in paths]
    answers += [(path, ann.client.post(path, headers=ORIGIN)) for _, path in rules(app, "POST")]
    answers.append(("405", ann.get("/logout")))
    answers.append(("413", ann.client.post("/login", data="x" * (2 << 20), headers=ORIGIN)))
    for path, answer in answers:
        is_media = path.startswith(MEDIA) and path != "/i/states"
        # What isn't a page needs no session, and so it allows no players.
        policies = {headers.MEDIA_CSP} if is_media else {headers.CSP, headers.SILENT_CSP}
        assert answer.headers["Content-Security-Policy"] in policies, path
        assert {name: answer.headers[name] for name in FIXED} == FIXED, path
    assert {200, 303, 403, 404, 405, 413} <= {answer.status_code for _, answer in answers}


def test_H08_only_pages_that_can_show_players_may_load_recordings(
    services: Services, app: Flask, ann: Visitor
) -> None:
    stranger = Visitor(app.test_client())
    for path in ("/", "/login", "/signup", "/nope", "/@nobody"):
        policy = stranger.get(path).headers["Content-Security-Policy"]
        assert policy == headers.SILENT_CSP, path
        assert "media-src 'self'; frame-src 'self'; " in policy
    assert ann.get("/settings/privacy").headers["Content-Security-Policy"] == headers.CSP


def test_H11_a_fault_of_ours_has_them_too_and_tells_nothing(services: Services) -> None:
    app = create_app(services.settings, services)
    app.add_url_rule("/fault", "fault", _fault)
    answer = app.test_client().get("/fault", headers={"Accept": "text/html"})
    assert answer.status_code == 500
    assert answer.headers["Content-Security-Policy"] == headers.SILENT_CSP
    assert "canary" not in answer.text
    json = app.test_client().get("/fault", headers={"Accept": "application/json"})
    assert json.get_json().keys() == {"error", "message"}


def _fault() -> str:
    raise RuntimeError("canary")


_fault.public = True  # type: ignore[attr-defined]


def test_H11_https_is_remembered_with_an_https_address_only(services: Services) -> None:
    own = dataclasses.replace(services.settings, base_url="https://reader.example")
    answer = create_app(own, services).test_client().get("/", base_url="https://reader.example")
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert (
        "Strict-Transport-Security"
        not in create_app(services.settings, services).test_client().get("/").headers
    )


@pytest.mark.parametrize(
    ("base_url", "policy"),
    [
        ("https://r.example", "no-referrer"),
        ("http://127.0.0.1:8080", "no-referrer"),
        ("http://r.lan", "same-origin"),
    ],
)
def test_H11_forms_keep_their_origin_where_it_is_all_we_have(base_url: str, policy: str) -> None:
    assert headers.get_referrer_policy(base_url) == policy


def test_W18_personal_answers_are_kept_nowhere(app: Flask, ann: Visitor) -> None:
    for _, path in rules(app, "GET"):
        if path in OURS:
            continue
        answer = ann.get(path)
        assert answer.headers["Cache-Control"] == "no-store", path
        assert "Cookie" in answer.headers["Vary"], path


def test_W18_public_answers_set_no_cookie(app: Flask) -> None:
    names = [asset.path for asset in Assets().all]
    ours = ("/", "/healthz", "/robots.txt", "/nope", "/push.js", *OURS)
    for path in (*ours, *(f"/static/{name}" for name in names)):
        answer = app.test_client().get(path)
        assert "Set-Cookie" not in answer.headers, path
        if path in OURS:
            assert answer.headers["Cache-Control"] == "public, max-age=86400"
            assert "Cookie" not in answer.headers.get("Vary", "")
        if path.startswith("/static/"):
            assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert "Cookie" not in answer.headers["Vary"]


def test_pages_and_files_go_out_compressed(app: Flask, ann: Visitor) -> None:
    for path in ("/read/all", f"/static/{Assets().all[0].path}"):
        plain = ann.get(path, headers={"Accept-Encoding": "gzip;q=0"})
        packed = ann.get(path, headers={"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in plain.headers
        assert packed.headers["Content-Encoding"] == "gzip"
        assert int(packed.headers["Content-Length"]) < len(plain.data) / 2


# -- sources
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_H14_only_one_file_may_make_elements_or_code_of_text(path: Path) -> None:
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|\bFunction\(|setHTMLUnsafe"
    sinks += r"|createPolicy|parseFromString|createContextualFragment|parseHTMLUnsafe|srcdoc"
    sinks += r"|setTimeout\(\s*[\"'`]"
    # What htmx puts in a place goes through the one policy; here this is the name of a place.
    source = re.sub(r'swap: "(inner|outer)HTML"', "", path.read_text("utf-8"))
    found = re.findall(sinks, source)
    assert found == (["createPolicy"] if path.name == "trusted.js" else [])


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_H08_templates_hold_no_code_and_no_styles(path: Path) -> None:
    source = path.read_text("utf-8")
    assert not re.search(
        r"\son\w+=|hx-on|hx-vals=.js:|javascript:|\sstyle=|<style|hx-trigger=\"[^\"]*\[", source
    )
    for tag in re.findall(r"<script[^>]*>(?!</script>)", source):
        raise AssertionError(f"{path.name}: {tag} has a body")


def test_H04_html_is_passed_through_in_one_macro_only() -> None:
    places = [
        path.name
        for path in TEMPLATES
        for _ in re.findall(r"\|\s*safe\b|autoescape", path.read_text("utf-8"))
    ]
    assert places == ["body.html"]
    assert "hx-ignore" in (REPO / "app/web/templates/macros/body.html").read_text("utf-8")


def test_H09_no_route_serves_bytes_of_others(app: Flask, ann: Visitor) -> None:
    """Without a picture or file that exists: pages, JSON, and files of ours by their exact names."""
    types = {ann.get(path).mimetype for _, path in rules(app, "GET") if path not in OURS}
    assert {path: ann.get(path).mimetype for path in OURS} == OURS
    # Exports are written by us and go out as files to be kept; the one script is the service worker.
    files = {"text/x-opml", "text/markdown"}
    assert types <= {"text/html", "text/plain", "application/json", "text/javascript", *files}
    assert [p for _, p in rules(app, "GET") if ann.get(p).mimetype == "text/javascript"] == ["/push.js"]
    assert ann.get("/export/opml").headers["Content-Disposition"].startswith("attachment")
    for name in ("../app.py", "%2e%2e/wsgi.py", "vendor.json", "app.css", "..%2f..%2fwsgi.py"):
        assert ann.get(f"/static/{name}").status_code == 404, name


def test_H10_no_foreign_document_is_framed_or_served(app: Flask) -> None:
    """There is no view of original pages yet: when one comes, it needs the sandbox of H10."""
    assert not [path.name for path in TEMPLATES if "<iframe" in path.read_text("utf-8")]
    script = "".join(path.read_text("utf-8") for path in SCRIPTS)
    assert script.count('createElement("iframe")') == 1
    assert (
        'setAttribute("sandbox", "allow-scripts allow-same-origin allow-popups allow-presentation")' in script
    )


_YOUTUBE = "https://www.youtube-nocookie.com/embed/aaaaaaaaaaa"


@pytest.mark.parametrize(
    ("url", "src"),
    [
        ("https://www.youtube.com/watch?v=aaaaaaaaaaa&t=3", _YOUTUBE),
        ("https://youtu.be/aaaaaaaaaaa", _YOUTUBE),
        ("https://www.youtube.com/embed/aaaaaaaaaaa?autoplay=1", _YOUTUBE),
        ("https://www.youtube.com/shorts/aaaaaaaaaaa", _YOUTUBE),
        ("https://vimeo.com/12345678", "https://player.vimeo.com/video/12345678?dnt=1"),
        ("https://player.vimeo.com/video/12345678", "https://player.vimeo.com/video/12345678?dnt=1"),
        (
            "https://open.spotify.com/embed/episode/4rOoJ6Egrf8K2IrywzwOMk?utm_source=x",
            "https://open.spotify.com/embed/episode/4rOoJ6Egrf8K2IrywzwOMk",
        ),
        (
            "https://w.soundcloud.com/player/?url=https%3A//api.soundcloud.com/tracks/123&color=x&auto_play=true",
            "https://w.soundcloud.com/player/?url=https%3A//api.soundcloud.com/tracks/123",
        ),
        (
            "https://bandcamp.com/EmbeddedPlayer/album=12/size=large/bgcol=ffffff/track=34/transparent=true/",
            "https://bandcamp.com/EmbeddedPlayer/album=12/track=34/size=large/artwork=small/",
        ),
        (
            "https://framatube.org/videos/embed/0b04f13d-1e18-4f1d-814e-4979aa7c9c44",
            "https://framatube.org/videos/embed/0b04f13d-1e18-4f1d-814e-4979aa7c9c44?p2p=0",
        ),
        ("https://w.soundcloud.com/player/?url=https%3A//evil.example/tracks/1", None),
        ("https://open.spotify.com/embed/episode/../../../x", None),
        ("https://bandcamp.com/EmbeddedPlayer/size=large/", None),
        ("https://framatube.org.evil/videos/embed/0b04f13d", None),
        ("https://youtube.com.evil/watch?v=aaaaaaaaaaa", None),
        ("https://evil.example/youtube.com/watch?v=aaaaaaaaaaa", None),
        ("https://www.youtube.com@evil.example/watch?v=aaaaaaaaaaa", None),
        ("https://evil@www.youtube.com/watch?v=aaaaaaaaaaa", None),
        ("https://www.youtube.com:8443/watch?v=aaaaaaaaaaa", None),
        ("javascript://www.youtube.com/watch?v=aaaaaaaaaaa", None),
        ("//www.youtube.com/watch?v=aaaaaaaaaaa", None),
        ('https://www.youtube.com/watch?v="><script>', None),
        ("https://www.youtube.com/embed/aaaaaaaaaaa/../../x", None),
        ("https://vimeo.com/1/../x", None),
        ("https://www.youtube.com/feed/subscriptions", None),
        ("http://[::1", None),
        (None, None),
    ],
)
def test_H07_players_are_made_of_exact_hosts_and_ids(url: str | None, src: str | None) -> None:
    found = embeds.find_player(url)
    assert (found.src if found else None) == src
    assert found is None or found.host in embeds.FRAME_HOSTS


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//e",
        "/x",
        "ftp://e/x",
        "http://e/ x",
        "vbscript:x",
        "",
        None,
    ],
)
def test_H16_only_web_addresses_become_links(url: str | None) -> None:
    assert present.keep_http_url(url) == ""


def test_H16_web_addresses_stay_as_they_are() -> None:
    assert present.keep_http_url("https://e.example/a?b=c#d") == "https://e.example/a?b=c#d"


def test_every_route_names_who_may_see_it(app: Flask, visitor: Callable[[], Visitor]) -> None:
    views = {name: view for name, view in app.view_functions.items() if not is_for_apps(name)}
    public = {name for name, view in views.items() if getattr(view, "public", False)}
    probes = (
        "origin",
        "secure",
        "slash",
        "path",
        "query",
        "authorization",
        "etag",
        "fresh",
        "forwarded",
        "body",
    )
    assert public == {
        *(f"check.probe_{name}" for name in probes),
        "attachments.download_file",
        "attachments.serve_picture",
        "avatars.serve_avatar",
        "check.list_probes",
        "check.show_body_button",
        "check.show_check",
        "devices.serve_worker",
        "hub.submit_request",
        "installation.serve_favicon",
        "installation.serve_manifest",
        "installation.show_offline",
        "live.answer_events",
        "new_password.choose_password",
        "new_password.show_new_password",
        "people.show_contacts",
        "pictures.list_states",
        "pictures.serve_icon",
        "pictures.serve_picture",
        "pictures.serve_signed",
        "public.check_health",
        "public.show_home",
        "public.check_ready",
        "public.serve_robots",
        "public.show_about",
        "restdocs.show_docs",
        "settings.set_language",
        "shared.show_chain",
        "shared.show_share",
        "shared.show_stream",
        "sharedfeeds.serve_atom",
        "sharedfeeds.serve_json_feed",
        "stream_feeds.serve_atom",
        "stream_feeds.serve_json_feed",
        "sign_in.check_name",
        "sign_in.log_in",
        "sign_in.show_log_in",
        "sign_in.sign_up",
        "sign_in.show_sign_up",
        "static_files.serve_file",
        "talk.show_comments",
        "websub.confirm",
        "websub.push",
    }


def test_a_page_tells_of_its_style_sheet_ahead(ann: Visitor) -> None:
    page = ann.get("/read/all")
    (sheet,) = re.findall(r'<link rel="stylesheet" href="(/static/app[^"]+)">', page.text)
    assert page.headers["Link"] == f"<{sheet}>; rel=preload; as=style"
    assert "Link" in ann.get("/no/such/page").headers
    for path, sent in (("/settings", {"HX-Request": "true"}), ("/api/counts", {}), (sheet, {}), ("/", {})):
        answer = ann.get(path, headers=sent)
        assert "Link" not in answer.headers, (path, answer.status_code)
