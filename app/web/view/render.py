"""Templates: their helper functions, and the rendering of pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from flask import Flask, current_app, g, render_template, request
from flask_babel import gettext as _
from markupsafe import Markup

from app.errors import N_, get_feed_fix, get_public_word
from app.models.accounts.actor import Permission
from app.models.accounts.user import build_avatar_path
from app.models.feeds.feed import FetchRecord
from app.models.feeds.parsed import Enclosure, FileRole
from app.models.imports.imports import Import
from app.models.media.recordings import list_recordings
from app.models.reading.anchors import scope_anchors
from app.models.reading.full_text import FullText
from app.models.reading.rules import Rule
from app.models.reading.search import find_language
from app.models.reading.stream import Article, Page, Tree
from app.models.reading.stream_view import StreamView
from app.models.sharing.typed_text import remove_signs
from app.models.subscriptions.folder import build_folder_paths
from app.services.reading.full_texts import describe_failure
from app.web.context import find_user, get_services, get_user, get_web
from app.web.keyboard import keys, names
from app.web.security.csrf import FIELD
from app.web.security.sessions import get_csrf_token
from app.web.view import (
    chart,
    code,
    embeds,
    faces,
    heading,
    highlight,
    highlights,
    i18n,
    pictures,
    players,
    present,
    reasons,
    typography,
)
from app.web.view import tree as treeview
from app.web.view.own_shares import ShareState
from app.web.view.qr_code import render_qr_code
from app.web.view.rows import RowRenderer, has_thumbs
from app.web.view.sidebar import load_sidebar
from app.web.view.sprite import render_icon
from app.web.view.templates import LanguageTemplates

#: The groups of the sections of the settings: title, and each section's address below /settings, icon, title.
SETTINGS_GROUPS = (
    (
        N_("Feeds and entries"),
        (
            ("reading", "book", N_("Reading")),
            ("display", "theme", N_("Display and language")),
            ("keys", "keyboard", N_("Keyboard shortcuts")),
            ("rules", "sort", N_("Rules")),
            ("sending", "send", N_("Send to")),
            ("statistics", "chart", N_("Reading statistics")),
        ),
    ),
    (
        N_("Other people"),
        (
            ("sharing", "share", N_("Profile and sharing")),
            ("notifications", "bell", N_("Notification settings")),
            ("privacy", "shield", N_("Privacy")),
        ),
    ),
    (
        N_("Account and access"),
        (
            ("account", "user", N_("Account")),
            ("sessions", "lock", N_("Sessions")),
            ("apps", "device", N_("Apps")),
            ("files", "folder", N_("Files")),
        ),
    ),
)
SETTINGS_SECTIONS = tuple(section for _title, sections in SETTINGS_GROUPS for section in sections)
_TEMPLATES, _TREES = "eventr.templates", "eventr.trees"
#: In clean HTML: a source up to its media condition, and the condition.
_CONDITION = re.compile(r'(<source (?:(?!media=)[a-z-]+="[^"]*" )*media=")([^"]*)')
_COLOURS = re.compile(r"\(\s*prefers-color-scheme\s*:\s*(light|dark)\s*\)", re.IGNORECASE)


def install(app: Flask, tree_cache: int) -> None:
    """Register the helpers of the templates of ``app``; they are configured only here.

    Args:
        app: The application.
        tree_cache: Number of feeds whose lines in trees stay rendered.
    """
    env = app.jinja_env
    env.trim_blocks = env.lstrip_blocks = True
    app.extensions[_TEMPLATES] = LanguageTemplates(env)
    app.extensions[_TREES] = treeview.TreeRenderer(tree_cache)
    env.globals.update(
        asset=lambda name: get_web().assets.get_url(name),
        icon=render_icon,
        csrf=render_csrf_field,
        csrf_token=get_csrf_token,
        user=find_user,
        qr_code=render_qr_code,
        theme=typography.get_theme,
        color_scheme=typography.get_scheme,
        typography=typography.get_typography,
        looks=typography.render_attributes,
        theme_colors=typography.render_theme_colors,
        settings_groups=SETTINGS_GROUPS,
        is_admin=is_admin,
        notices=pop_notices,
        running_import=find_running_import,
        unread_notes=count_unread_notifications,
        sidebar=load_sidebar,
        tab_is=lambda pattern, path: re.search(pattern, path) is not None,
        key_groups=keys.GROUPS,
        key_map=get_key_map,
        key_hint=get_key_hint,
        key_labels=names.format_labels,
        key_name=get_key_name,
        tree_keys=names.TREE_KEYS,
        key_suffix=format_key_suffix,
        named=render_button_name,
        feed_message=describe_feed_error,
        search_message=lambda word: i18n.translate_search_error(get_visible_word(word)),
        feed_reason=describe_reason,
        feed_fix=lambda word: _(get_feed_fix(get_visible_word(word))),
        lost=i18n.describe_lost,
        full_text_failure=describe_full_text,
        nested_tree=render_tree,
        row_renderer=make_row_renderer,
        tree_shape=compute_tree_shape,
        player=embeds.find_player,
        list_recordings=list_recordings,
        show_recordings=players.show_recordings,
        show_embed=players.show_embed,
        tile=treeview.render_tile_html,
        face=faces.render_face_html,
        avatar_path=build_avatar_path,
        own_face=faces.render_own_face,
        collect_entry=pictures.collect_entry,
        collect_thumbs=pictures.collect_thumbs,
        show_picture=pictures.show_picture,
        thumb=pictures.show_thumb,
        sign_picture=pictures.sign_picture,
        search_ref=highlight.build_search_ref,
        find_language=find_language,
    )
    env.filters.update(
        ago=present.format_ago,
        author=heading.format_author,
        reading_minutes=heading.count_minutes,
        folder_paths=build_folder_paths,
        relative=present.format_relative,
        minutes=present.format_minutes,
        number=present.format_number,
        unless_zero=present.format_count,
        hour=present.format_hour,
        percent=present.format_percentage,
        milliseconds=present.format_milliseconds,
        said=i18n.translate_error,
        lang=i18n.render_lang,
        directed=i18n.render_direction,
        is_mixed=i18n.is_mixed,
        moment=present.format_moment,
        brief=present.format_brief_moment,
        day=present.format_day,
        month=present.format_month,
        iso=present.format_iso,
        http=present.keep_http_url,
        linkable=present.keep_link_url,
        scoped=scope_anchors,
        host=present.get_site,
        size=present.format_size,
        rate=present.format_weekly_rate,
        filename=present.get_filename,
        file_name=describe_file,
        playtime=present.format_playtime,
        in_theme=apply_theme,
        coded=code.show_code,
        with_quotes=highlights.mark_quotes,
        pictured=pictures.show_pictures,
        playable=players.show_players,
        with_chapters=players.add_chapters,
        with_moments=players.link_moments,
        browser=present.describe_browser,
        found=highlight.highlight_terms,
        found_source=highlight.highlight_source,
        note=highlight.explain_note,
        without_signs=remove_signs,
        span=present.format_span,
        outcome=describe_outcome,
        measured=is_measured,
    )


def render_page(name: str, **values: Any) -> str:
    """Render a template in the page's language."""
    templates = cast(LanguageTemplates, current_app.extensions[_TEMPLATES])
    return render_template(templates.load(name, i18n.get_language()), **values)


def describe_file(file: Enclosure) -> str:
    """Return the name under which an entry's file is listed."""
    if file.role is FileRole.TRANSCRIPT:
        return str(_("Transcript"))
    if file.role is FileRole.CHAPTERS:
        return str(_("Chapters"))
    return (file.text if file.role else "") or present.get_filename(file.url)


def render_tree(tree: Tree, current: str, *, whole: object = False) -> Markup:
    """Return the folders and feeds of this person's tree; ``whole``: all of them, however many."""
    warn = str(render_icon("warn", _("Has an error"))).replace("icon", "icon warn", 1)
    icons = treeview.Icons(i18n.get_language(), str(render_icon("chevron")), warn)
    return _get_trees().render(get_user().actor.user_id, tree, current, icons, whole=bool(whole))


def make_row_renderer(
    page: Page,
    look: StreamView,
    here: str,
    stars: Mapping[bool, str],
    *,
    first: bool,
    article: Article | None,
    own: bool = False,
    own_tag: int | None = None,
    led: bool = False,
    shares: Mapping[int, ShareState] | None = None,
    highlighters: Mapping[int, Rule] | None = None,
) -> RowRenderer:
    """Return what renders the rows of a list.

    Args:
        here: address of the list.
        stars: the star button by its state, with ``{id}`` in place of the entry's id.
        first: the rows begin a list, above which "All caught up" may stand instead of a heading.
        article: the open entry, if any.
        own: the list is that of one feed.
        own_tag: the tag whose list it is, if it's that of one.
        led: the first row has a large picture.
        shares: what rows of the user's own shares say of them, by id.
        highlighters: the rules that have highlighted entries, by id.
    """
    pictures.collect_rows(page.all_rows, thumbs=has_thumbs(look.density, look.view))
    return RowRenderer(
        page,
        here=here,
        stars=stars,
        open_id=article.entry.id if article else None,
        density=look.density,
        view=look.view,
        divided=not (first and page.split == 0 and page.pinned is None),
        own=own,
        own_tag=own_tag,
        led=led,
        shares=shares,
        highlighters=highlighters,
    )


def compute_tree_shape(tree: Tree) -> str:
    """Return a hash of everything that this person's tree shows except counts."""
    return _get_trees().compute_shape(get_user().actor.user_id, tree)


def _get_trees() -> treeview.TreeRenderer:
    return cast(treeview.TreeRenderer, current_app.extensions[_TREES])


def describe_feed_error(word: str) -> str:
    """Return the message for a feed's error; only admins see details of private networks (S13)."""
    return i18n.translate_feed_error(get_visible_word(word))


def describe_full_text(full: FullText | None) -> str:
    """Return why an entry's page isn't shown: it can't be read, or hasn't come yet."""
    failure = describe_failure(full) if full else None
    return str(
        _(failure) if failure else _("Eventr is fetching the page. Reload this page in a few seconds.")
    )


def describe_reason(word: str, detail: str) -> str:
    """Return what a feed error's message leaves out, as far as this person may know it (S13).

    The address itself may be shown, but not what its name resolves to.
    """
    return reasons.describe_reason(word, detail) if get_visible_word(word) == word else ""


def get_visible_word(word: str) -> str:
    """Return the error code that this person may see."""
    return get_public_word(word, admin=is_admin())


def is_admin() -> bool:
    """Return whether this person may see the pages below ``/admin``."""
    current = find_user()
    return current is not None and current.actor.has_permission(Permission.ADMIN_SEE)


def describe_outcome(fetch: FetchRecord) -> str:
    """Return a fetch's outcome as text."""
    word = get_visible_word(fetch.error) if fetch.error else None
    return chart.format_outcome(fetch._replace(error=word))


def is_measured(fetch: FetchRecord) -> bool:
    """Return whether status, time and size may be shown; timings reveal as much as the error code (S13)."""
    return not fetch.error or get_visible_word(fetch.error) == fetch.error


def render_csrf_field() -> Markup:
    """Return the hidden CSRF field that every form needs."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, get_csrf_token())


def get_key_map() -> keys.KeyMap:
    """Return this person's shortcuts."""
    if "key_map" not in g:
        person = find_user()
        g.key_map = keys.KeyMap.from_preferences(person.preferences) if person else keys.KeyMap({})
    return cast(keys.KeyMap, g.key_map)


def get_key_hint(action: str) -> str:
    """Return the value of ``aria-keyshortcuts`` for an action's button, empty without a key."""
    return get_key_map().format_aria(action)


def get_key_name(action: str) -> str:
    """Return an action's first key for a sentence, empty without one."""
    found = get_key_map().get_keys(action)
    return names.format_key(found[0]) if found else ""


def format_key_suffix(action: str) -> str:
    """Return an action's first key for the end of a tooltip: " (s)", empty without one."""
    key = get_key_name(action)
    return f" ({key})" if key else ""


def render_button_name(words: str, action: str = "") -> Markup:
    """Return the attributes that name a button without text: read out, and shown with its key."""
    if not action or not get_key_name(action):
        return Markup('aria-label="{0}" title="{0}"').format(words)
    both = Markup('aria-label="{0}" title="{0}{1}" aria-keyshortcuts="{2}"')
    return both.format(words, format_key_suffix(action), get_key_hint(action))


def apply_theme(markup: str) -> str:
    """Return clean HTML whose pictures match the color theme of this device.

    Browsers only compare media conditions with the system's theme, never with a page's own.
    """
    chosen = typography.get_scheme()
    if not chosen or "prefers-color-scheme" not in markup:
        return markup

    def replace_condition(asked: re.Match[str]) -> str:
        return "(min-width:0)" if asked[1].lower() == chosen else "(max-width:0)"

    return _CONDITION.sub(lambda source: source[1] + _COLOURS.sub(replace_condition, source[2]), markup)


def pop_notices() -> tuple[Any, ...]:
    """Return the messages waiting for this page, which are shown once."""
    current = find_user()
    if current is None or g.get("session") is None:
        return ()
    return get_services().accounts.pop_notices(current.actor, g.session)


def find_running_import() -> Import | None:
    """Return this person's import that is running or queued."""
    current = find_user()
    if current is None:
        return None
    # A whole page shows both; one command reads them, unless the view has read them already.
    get_services().page_frame.prefetch_counts(current.actor)
    return get_services().imports.find_active(current.actor)


def count_unread_notifications() -> int:
    """Return the number of this person's unread notifications."""
    current = find_user()
    return get_services().notifications.count_unread(current.actor) if current else 0


def get_fragment_id() -> str:
    """Return the id of the element that a script wants to replace, empty for a whole page.

    htmx names its target as ``tag#id``.
    """
    return request.headers.get("HX-Target", "").partition("#")[2] if request.headers.get("HX-Request") else ""
