"""Eventr as an application that browsers install: its manifest, its icon, what others share with it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping

from flask import Blueprint, Response, g, request
from flask_babel import gettext as _

from app.errors import NotFoundError
from app.web import forms
from app.web.context import get_web
from app.web.forms import declare_text
from app.web.security.sessions import allow_strangers, for_anybody
from app.web.view import i18n, present
from app.web.view.render import render_page
from app.web.view.typography import COLORS, THEMES

bp = Blueprint("installation", __name__)

#: Neither file has its hash in its name, so a changed one must be noticed soon.
_CACHING = "public, max-age=86400"
_ADDRESS = re.compile(r"https?://[^\s<>\"“”]+", re.IGNORECASE)
_END_MARKS = ".,;:!?)]}'"
#: Most characters that go on to the form for a post, in its address.
_POST_MAX = 600


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the manifest's request says itself: browsers send it without cookies."""

    language: str = declare_text(max=8, default="")
    theme: str = declare_text(max=8, one_of=("", *THEMES), default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What another application shares: most put the address into the text."""

    title: str = declare_text(max=2048, default="")
    text: str = declare_text(max=8192, default="")
    url: str = declare_text(max=2048, default="")


@bp.get("/offline")
@allow_strangers
def show_offline() -> str:
    """Show the page that the service worker keeps for times without a connection.

    It has the language of the account, and nothing else of it: it stays after logging out.
    """
    return render_page("pages/offline.html")


@bp.get("/manifest.webmanifest")
@for_anybody
def serve_manifest() -> Response:
    """Describe the application in the language and colors of the page that refers to it."""
    asked = forms.read_query(request, Look)
    if i18n.is_known_language(asked.language):
        g.language = asked.language
    body = json.dumps(_build_manifest(COLORS.get(asked.theme, COLORS["light"])), ensure_ascii=False)
    return _keep(Response(body, content_type="application/manifest+json; charset=utf-8"))


def _build_manifest(color: str) -> Mapping[str, object]:
    return {
        "id": "/",
        "name": "Eventr",
        "short_name": "Eventr",
        "description": _("Follow sites and people, and read what is new in one quiet list."),
        "lang": i18n.get_language(),
        "dir": i18n.get_direction(),
        "start_url": "/",
        "scope": "/",
        "display": "standalone",
        "theme_color": color,
        "background_color": color,
        "categories": ["news", "social", "productivity"],
        "icons": [
            _icon("icon-192.png", 192),
            _icon("icon-512.png", 512),
            {**_icon("icon-maskable.png", 512), "purpose": "maskable"},
        ],
        "shortcuts": [
            _shortcut(_("Read"), "/", "shortcut-read.png"),
            _shortcut(_("Add a feed"), "/add", "shortcut-add.png"),
            _shortcut(_("Search"), "/search", "shortcut-search.png"),
        ],
        "share_target": {
            "action": "/share-target",
            "method": "GET",
            "enctype": "application/x-www-form-urlencoded",
            "params": {"title": "title", "text": "text", "url": "url"},
        },
    }


def _icon(name: str, size: int) -> dict[str, str]:
    return {"src": get_web().assets.get_url(name), "sizes": f"{size}x{size}", "type": "image/png"}


def _shortcut(name: str, url: str, icon: str) -> dict[str, object]:
    return {"name": name, "url": url, "icons": [_icon(icon, 96)]}


@bp.get("/favicon.ico")
@for_anybody
def serve_favicon() -> Response:
    """Serve the icon at the address that programs try which read no page."""
    assets = get_web().assets
    asset = assets.get(assets.get_url("favicon.ico").rpartition("/")[2])
    if asset is None:
        raise NotFoundError
    return _keep(Response(asset.body, content_type=asset.type))


def _keep(response: Response) -> Response:
    g.public_bytes = True
    response.headers["Cache-Control"] = _CACHING
    return response


@bp.get("/share-target")
def show_shared() -> str:
    """Ask what to do with an address that another application shares: subscribe to the site, or share it."""
    asked = forms.read_query(request, Shared)
    address = present.keep_http_url(asked.url.strip()) or find_address(
        f"{asked.url} {asked.text} {asked.title}"
    )
    title = " ".join(asked.title.split())
    words = asked.text.replace(address, "").strip() if address else asked.text.strip()
    return render_page(
        "pages/share_target.html",
        address=address,
        title="" if title == address else title,
        # Many applications repeat the title in the text.
        words="" if words == title else words,
        post_max=_POST_MAX,
    )


def find_address(text: str) -> str:
    """Return the first web address in a text, empty if there is none."""
    found = _ADDRESS.search(text)
    return present.keep_http_url(found[0].rstrip(_END_MARKS)) if found else ""
