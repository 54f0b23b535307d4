"""How this device shows pages and texts: its theme, and the font, size and lines of articles.

A device remembers its own choice in cookies, which aren't secret, so that no page flashes in another look
while it loads. The account's preferences are what a device without a choice begins with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from flask import Response, g, request
from markupsafe import Markup

from app.errors import InvalidError
from app.models.accounts.preferences import Preferences, check
from app.web.context import find_user, get_web

#: The themes by name: which of the two color schemes of browsers each one belongs to.
SCHEMES = {"auto": "", "light": "light", "sepia": "light", "dark": "dark", "black": "dark"}
THEMES = tuple(SCHEMES)
#: The ground of each theme, for the bars that browsers and phones draw around a page. As in tokens.css.
COLORS = {"light": "#fcfcfa", "sepia": "#f5ecd9", "dark": "#161614", "black": "#000000"}
THEME_COOKIE, TEXT_COOKIE = "theme", "text"
#: Set by a script (static/js/side.js).
SIDEBAR_COOKIE = "side"
#: The preferences in the order of the cookie's parts.
FIELDS = ("font", "text_size", "line_height", "text_width", "justified")
_YEAR = 400 * 86400


def get_theme() -> str:
    """Return the color theme of this device."""
    chosen = request.cookies.get(THEME_COOKIE, "auto")
    return chosen if chosen in SCHEMES else "auto"


def get_scheme() -> str:
    """Return the color scheme of this device, "light" or "dark"; empty if the system decides."""
    return SCHEMES[get_theme()]


def get_sidebar() -> str:
    """Return how this device shows the tree on wide screens: "full", or "rail" for icons only."""
    return "rail" if request.cookies.get(SIDEBAR_COOKIE) == "rail" else "full"


def get_typography() -> Preferences:
    """Return the preferences with those of articles that this device has chosen."""
    if "typography" not in g:
        person = find_user()
        mine = person.preferences if person else Preferences()
        own = _read_cookie()
        g.typography = dataclasses.replace(mine, **own) if own else mine
    return cast(Preferences, g.typography)


def render_attributes() -> Markup:
    """Return the attributes of ``<html>`` that the style sheets follow."""
    looks = get_typography()
    return Markup(
        'data-theme="{}" data-font="{}" data-text-size="{}"'
        ' data-line="{}" data-measure="{}" data-justified="{}" data-side="{}"'
    ).format(
        get_theme(),
        looks.font,
        looks.text_size,
        looks.line_height,
        looks.text_width,
        "true" if looks.justified else "false",
        get_sidebar(),
    )


def render_theme_colors() -> Markup:
    """Return the ``theme-color`` of a page: that of its theme, or two that the system chooses from."""
    if color := COLORS.get(get_theme()):
        return Markup('<meta name="theme-color" content="{}">').format(color)
    meta = Markup('<meta name="theme-color" content="{}" media="(prefers-color-scheme: {})">')
    return Markup("\n").join(meta.format(COLORS[scheme], scheme) for scheme in ("light", "dark"))


def keep_typography(response: Response, changes: Mapping[str, object]) -> None:
    """Store checked preferences of articles on this device; those not in ``changes`` stay as they are."""
    looks = dataclasses.replace(get_typography(), **cast("dict[str, Any]", changes))
    values = (getattr(looks, name) for name in FIELDS)
    parts = [str(int(value)) if isinstance(value, bool) else str(value) for value in values]
    keep_choice(response, TEXT_COOKIE, ".".join(parts))


def keep_choice(response: Response, name: str, value: str) -> Response:
    """Store a choice on this device; the value isn't secret."""
    response.set_cookie(name, value, max_age=_YEAR, secure=get_web().secure, httponly=True, samesite="Lax")
    return response


def _read_cookie() -> dict[str, Any]:
    parts = request.cookies.get(TEXT_COOKIE, "").split(".")
    if len(parts) != len(FIELDS):
        return {}
    own: dict[str, Any] = {}
    for name, part in zip(FIELDS, parts, strict=True):
        try:
            own[name] = check(name, _parse(name, part))
        except InvalidError:
            continue
    return own


def _parse(name: str, part: str) -> object:
    if name == "justified":
        return {"0": False, "1": True}.get(part)
    return int(part) if name == "text_size" and part in _SIZES else part


_SIZES = frozenset(map(str, range(16, 25)))
