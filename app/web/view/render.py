"""Templates: what each of them may use, and how a page is put together."""

from __future__ import annotations

import functools
import re
from typing import Any, cast

from flask import Flask, g, render_template, request
from flask_babel import gettext as _
from markupsafe import Markup

from app.errors import N_, feed_fix, outside_word
from app.models.accounts.actor import Permission
from app.models.accounts.preferences import Preferences
from app.models.feeds.feed import FetchRecord
from app.models.imports.imports import Import
from app.models.reading.stream import Tree
from app.models.sharing.sharing import Link
from app.models.subscriptions.folder import folder_paths
from app.web.context import services, user, web
from app.web.keyboard import keys, names
from app.web.security.csrf import FIELD
from app.web.security.sessions import csrf_token
from app.web.view import chart, embeds, highlight, i18n, present, views
from app.web.view import tree as treeview

#: The sections of the settings: address below /settings, picture, title.
SETTINGS_SECTIONS = (
    ("reading", "book", N_("Reading")),
    ("display", "eye", N_("Display and language")),
    ("keys", "key", N_("Keys")),
    ("sharing", "feed", N_("Sharing")),
    ("notifications", "comment", N_("What I am told")),
    ("apps", "device", N_("Apps")),
    ("account", "user", N_("Account")),
    ("sessions", "clock", N_("Sessions")),
)
#: BCP 47, as feeds write it.
_TAG = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")
#: Pictures that point along the text: mirrored where it runs from right to left.
DIRECTED = frozenset(("back", "chevron", "external", "logout", "next"))
THEMES = ("auto", "light", "dark")
THEME_COOKIE = "theme"
#: In clean HTML: a source up to its condition, and that.
_CONDITION = re.compile(r'(<source (?:(?!media=)[a-z-]+="[^"]*" )*media=")([^"]*)')
_COLOURS = re.compile(r"\(\s*prefers-color-scheme\s*:\s*(light|dark)\s*\)", re.IGNORECASE)


def install(app: Flask) -> None:
    """Give templates of ``app`` their helpers; nothing in them is configured elsewhere."""
    env = app.jinja_env
    env.trim_blocks = env.lstrip_blocks = True
    env.globals.update(
        asset=lambda name: web().assets.url(name),
        icon=icon,
        csrf=csrf_field,
        csrf_token=csrf_token,
        user=user,
        theme=theme,
        text_size=text_size,
        font=font,
        settings_sections=SETTINGS_SECTIONS,
        is_admin=is_admin,
        notices=notices,
        running_import=running_import,
        unread_notes=unread_notes,
        tab_counts=tab_counts,
        tab_is=lambda pattern, path: re.search(pattern, path) is not None,
        key_groups=keys.GROUPS,
        key_map=key_map,
        key_hint=key_hint,
        key_labels=names.labels,
        key_name=key_name,
        feed_message=feed_words,
        search_message=lambda word: i18n.search_said(seen_word(word)),
        feed_fix=lambda word: _(feed_fix(seen_word(word))),
        lost=lost,
        nested_tree=nested_tree,
        tree_shape=views.shape,
        player=embeds.player,
        tile=treeview.tile_html,
        search_ref=highlight.stream_of,
        widened=highlight.widened,
    )
    env.filters.update(
        ago=present.ago,
        folder_paths=folder_paths,
        relative=present.relative,
        minutes=present.minutes,
        number=present.number,
        percent=present.percent,
        milliseconds=present.milliseconds,
        said=i18n.said,
        lang=lang,
        moment=present.moment,
        iso=present.iso,
        http=present.http_only,
        host=present.host,
        size=present.size,
        rate=present.per_week,
        filename=present.filename,
        playtime=present.playtime,
        in_theme=in_theme,
        browser=present.browser,
        found=highlight.marked,
        note=highlight.note,
        span=present.span,
        outcome=outcome,
        measured=measured,
    )


def template(name: str, **values: Any) -> str:
    """Render a template."""
    return render_template(name, **values)


def icon(name: str, label: str = "") -> Markup:
    """Return a picture of the sprite; decorative unless it has a label."""
    return _icon(name, label, _sprite())


@functools.cache
def _icon(name: str, label: str, sprite: str) -> Markup:
    aria = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    kind = "icon flip" if name in DIRECTED else "icon"
    return Markup('<svg class="{}" {}><use href="{}#{}"/></svg>').format(kind, aria, sprite, name)


def lang(code: str | None) -> Markup:
    """Return the attribute that tells what language a foreign text is in, where it is not the page's."""
    if not code or not _TAG.fullmatch(code) or code.lower() == i18n.language():
        return Markup()
    return Markup(' lang="{}"').format(code)


def lost(link: str | None) -> str:
    """Return what stands for something shared that is not shown, empty where it is."""
    if not link:
        return ""
    return str(_("private share") if link == Link.PRIVATE else _("removed share"))


def nested_tree(tree: Tree, current: str) -> Markup:
    """Return the folders and feeds of the tree."""
    icons = {
        "chevron": str(icon("chevron")),
        "warn": str(icon("warn", _("Has an error"))).replace("icon", "icon warn", 1),
    }
    return treeview.nested(tree, current, icons)


def feed_words(word: str) -> str:
    """Return the sentence for a feed's error; only admins learn what listens where (S13)."""
    return i18n.feed_said(seen_word(word))


def seen_word(word: str) -> str:
    """Return the error word that this person may see."""
    return outside_word(word, admin=is_admin())


def is_admin() -> bool:
    """Return whether this person finds anything below ``/admin``."""
    current = user()
    return current is not None and current.actor.may(Permission.ADMIN_SEE)


def outcome(fetch: FetchRecord) -> str:
    """Return a fetch's outcome in words."""
    word = seen_word(fetch.error) if fetch.error else None
    return chart.label(fetch._replace(error=word))


def measured(fetch: FetchRecord) -> bool:
    """Return whether status, time and size may be shown: 0, 1 or 5,000 ms tell as much as the word (S13)."""
    return not fetch.error or seen_word(fetch.error) == fetch.error


def _sprite() -> str:
    return web().assets.url("sprite.svg")


def csrf_field() -> Markup:
    """Return the hidden field that every form needs."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, csrf_token())


def key_map() -> keys.KeyMap:
    """Return this person's keys."""
    if "key_map" not in g:
        person = user()
        g.key_map = keys.KeyMap.of(person.preferences) if person else keys.KeyMap({})
    return cast(keys.KeyMap, g.key_map)


def key_hint(action: str) -> str:
    """Return the value of ``aria-keyshortcuts`` for an action's button, empty without a key."""
    return key_map().aria(action)


def key_name(action: str) -> str:
    """Return an action's first key for a sentence, empty without one."""
    found = key_map().keys(action)
    return names.shown(found[0]) if found else ""


def theme() -> str:
    """Return the colours this device asked for; kept per device, not per account."""
    chosen = request.cookies.get(THEME_COOKIE, "auto")
    return chosen if chosen in THEMES else "auto"


def in_theme(markup: str) -> str:
    """Return clean HTML with the pictures for the colours that this device asked for.

    What browsers compare with is the system's colours, whatever a page sets for itself.
    """
    chosen = theme()
    if chosen == "auto" or "prefers-color-scheme" not in markup:
        return markup

    def answer(asked: re.Match[str]) -> str:
        return "(min-width:0)" if asked[1].lower() == chosen else "(max-width:0)"

    return _CONDITION.sub(lambda source: source[1] + _COLOURS.sub(answer, source[2]), markup)


def text_size() -> int:
    """Return how large articles are set, pixels; kept with the account, so it is the same everywhere."""
    person = user()
    return person.preferences.text_size if person else Preferences().text_size


def font() -> str:
    """Return the letters that articles are set in."""
    person = user()
    return person.preferences.font if person else Preferences().font


def notices() -> tuple[Any, ...]:
    """Return the messages waiting for this page; they are shown once."""
    current = user()
    if current is None or g.get("session") is None:
        return ()
    return services().accounts.notices(current.actor, g.session)


def running_import() -> Import | None:
    """Return the import of this person that runs or waits for its turn."""
    current = user()
    return services().imports.active(current.actor) if current else None


def unread_notes() -> int:
    """Return how many notifications this person has not read."""
    current = user()
    return services().notifications.unread(current.actor) if current else 0


def tab_counts(tree: Tree | None = None) -> tuple[int, int]:
    """Return what is unread of those whom this person follows, and of his notifications.

    Args:
        tree: where it was read for the page anyway.
    """
    current = user()
    if current is None:
        return 0, 0
    heard = tree.following if tree else services().reading.following(current.actor)
    return heard or 0, unread_notes()


def fragment_for() -> str:
    """Return the id of the element that a script wants anew, empty for a whole page.

    htmx names its target as ``tag#id``.
    """
    return request.headers.get("HX-Target", "").partition("#")[2] if request.headers.get("HX-Request") else ""
