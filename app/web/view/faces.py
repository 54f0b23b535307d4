"""The pictures that stand for people: their avatar, or a letter on a color."""

from __future__ import annotations

from typing import Protocol

from markupsafe import Markup, escape

from app.models.accounts.user import User, build_avatar_path
from app.models.media.sizes import AVATAR_SIZES
from app.web.view.tree import render_tile

#: Pixels of each size of an avatar; it is shown at most half as large, so that it is sharp on fine screens.
_WIDTHS = {size.name: size.width for size in AVATAR_SIZES}


class Face(Protocol):
    """A person as lists know them: profiles, sharers, authors of comments, contacts."""

    @property
    def handle(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def avatar(self) -> str: ...


def render_face(who: Face, *, size: str = "a48", kind: str = "av person") -> str:
    """Return a person's avatar, or the letter tile that stands for them.

    Args:
        kind: the classes of the picture.
    """
    if path := build_avatar_path(who.handle, who.avatar, size):
        side = _WIDTHS[size] // 2
        return (
            f'<img class="{kind}" src="{escape(path)}" alt="" width="{side}" height="{side}"'
            ' loading="lazy" decoding="async">'
        )
    return render_tile(who.handle, who.name, person=True)


def render_face_html(who: Face, *, size: str = "a48", kind: str = "av person") -> Markup:
    """Return the same for a template."""
    return Markup(render_face(who, size=size, kind=kind))  # noqa: S704 — built from escaped parts only


def render_own_face(user: User, *, size: str = "a96", kind: str = "av person") -> Markup:
    """Return the picture of the user who is logged in."""
    return render_face_html(_Own(user), size=size, kind=kind)


class _Own:
    def __init__(self, user: User) -> None:
        self.handle = self.name = user.name
        self.avatar = user.avatar_version
