"""Icons of the sprite."""

from __future__ import annotations

import functools

from markupsafe import Markup

from app.web.context import get_web

#: Icons that point in the text's direction: mirrored in right-to-left languages.
DIRECTED = frozenset(("back", "chevron", "external", "logout", "next"))


def render_icon(name: str, label: str = "") -> Markup:
    """Return an icon of the sprite; decorative unless it has a label."""
    # A label may have a person's words, so it isn't kept.
    return _draw(name, label, _sprite()) if label else _draw_plain(name, _sprite())


@functools.cache
def _draw_plain(name: str, sprite: str) -> Markup:
    return _draw(name, "", sprite)


def _draw(name: str, label: str, sprite: str) -> Markup:
    aria = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    kind = "icon flip" if name in DIRECTED else "icon"
    return Markup('<svg class="{}" {}><use href="{}#{}"/></svg>').format(kind, aria, sprite, name)


def _sprite() -> str:
    return get_web().assets.get_url("sprite.svg")
