"""Reading, display, sharing and notification settings; each section has its own page and form."""

from __future__ import annotations

import dataclasses
from typing import BinaryIO, cast

from flask import Blueprint, Response, jsonify, make_response, redirect, request

from app.errors import (
    InvalidError,
    NoSpaceError,
    PictureError,
    PicturesUnsupportedError,
    RateLimitedError,
)
from app.models.accounts.actor import Permission
from app.models.accounts.preferences import Preferences
from app.models.sharing.sharing import Audience, Profile
from app.services.sharing.following import LINKS_MAX
from app.web import forms
from app.web.context import find_user, get_actor, get_services, get_session, get_web
from app.web.forms import declare_text
from app.web.saving import SelfSaving, take_changes
from app.web.security.redirects import get_safe_next
from app.web.security.sessions import allow_strangers, takes_file
from app.web.view import i18n, zones
from app.web.view.render import get_fragment_id, render_page
from app.web.view.settings_search import find_settings
from app.web.view.typography import FIELDS, THEME_COOKIE, THEMES, keep_choice, keep_typography

bp = Blueprint("settings", __name__)

#: Errors of a picture that the page shows above its form.
_SHOWN = (InvalidError, NoSpaceError, PictureError, PicturesUnsupportedError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading(SelfSaving):
    view: str = declare_text(max=16)
    density: str = declare_text(max=16)
    sort: str = declare_text(max=16)
    show: str = declare_text(max=16)
    after_mark_all: str = declare_text(max=16)
    images: str = declare_text(max=16, default="eventr")
    swipe_right: str = declare_text(max=16, default="read")
    swipe_left: str = declare_text(max=16, default="star")
    swipe_long: str = declare_text(max=16, default="share")
    mark_on_scroll: bool = False
    auto_load: bool = False
    hide_read_feeds: bool = False
    stories: bool = False
    tree_order: str = declare_text(max=16, default="own")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Privacy(SelfSaving):
    images: str = declare_text(max=16)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Display(SelfSaving):
    theme: str = declare_text(max=8, one_of=THEMES)
    text_size: int
    font: str = declare_text(max=16)
    line_height: str = declare_text(max=16)
    text_width: str = declare_text(max=16)
    justified: bool = False
    language: str = declare_text(max=8)
    time_zone: str = declare_text(max=64)
    times: str = declare_text(max=16)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    display: str = declare_text(max=256, default="")
    bio: str = declare_text(max=2048, default="")
    link1: str = declare_text(max=2048, default="")
    link2: str = declare_text(max=2048, default="")
    link3: str = declare_text(max=2048, default="")
    link4: str = declare_text(max=2048, default="")
    link5: str = declare_text(max=2048, default="")
    audience: str = declare_text(max=16, one_of=tuple(a.value for a in Audience))
    listed: bool = False
    open_lists: bool = False
    similar: bool = False

    @classmethod
    def from_profile(cls, profile: Profile) -> Sharing:
        """Return the form filled with the stored values."""
        links = {f"link{n}": link for n, link in enumerate(profile.links[:LINKS_MAX], 1)}
        return cls(
            display=profile.display,
            bio=profile.bio,
            audience=profile.audience.value,
            listed=profile.listed,
            open_lists=profile.open_lists,
            similar=profile.similar,
            **links,
        )

    @property
    def links(self) -> tuple[str, ...]:
        """The links, including empty ones."""
        return self.link1, self.link2, self.link3, self.link4, self.link5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Notifications(SelfSaving):
    notify_follower: bool = False
    notify_request: bool = False
    notify_reshare: bool = False
    notify_like: bool = False
    notify_comment: bool = False
    notify_reply: bool = False
    notify_mention: bool = False
    notify_import: bool = False
    notify_export: bool = False
    notify_feed: bool = False
    notify_entries: bool = False
    notify_search: bool = False
    notify_found: bool = False
    push_follower: bool = False
    push_request: bool = False
    push_reshare: bool = False
    push_like: bool = False
    push_comment: bool = False
    push_reply: bool = False
    push_mention: bool = False
    push_import: bool = False
    push_export: bool = False
    push_entries: bool = False
    push_search: bool = False
    push_found: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A change of theme or text; an empty field keeps its value."""

    theme: str = declare_text(max=8, one_of=("", *THEMES), default="")
    text_size: int = 0
    font: str = declare_text(max=16, default="")
    line_height: str = declare_text(max=16, default="")
    text_width: str = declare_text(max=16, default="")
    justified: str = declare_text(max=1, one_of=("", "0", "1"), default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    theme: str = declare_text(max=8, one_of=THEMES)
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    language: str = declare_text(max=8, default="", one_of=("", *i18n.LANGUAGES))
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    q: str = declare_text(max=200, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    saved: bool = False
    drawing: bool = False


@bp.get("/settings")
def show_settings() -> str:
    """Show all sections or those settings that are searched for, and the first section on wide screens."""
    query = forms.read_query(request, Search).q
    found = find_settings(query)
    if get_fragment_id() == "found-settings":
        return render_page("parts/found_settings.html", query=query, found=found)
    return render_section("reading", hub=True, saved=False, query=query, found=found)


@bp.get("/settings/reading")
def show_reading() -> str:
    """Show the reading settings: views of lists and automatic marking."""
    return render_section("reading", saved=forms.read_query(request, Query).saved)


@bp.get("/settings/display")
def show_display() -> str:
    """Show the display settings: theme, font, language, times."""
    saved = forms.read_query(request, Query).saved
    admin = get_actor().has_permission(Permission.ADMIN_SEE)
    languages = {**i18n.LANGUAGES, **({i18n.PSEUDO: "Pseudo"} if admin else {})}
    return render_section(
        "display", saved=saved, languages=languages, zones=zones.list_by_region(i18n.get_locale())
    )


@bp.get("/settings/sharing")
def show_sharing() -> str:
    """Show the sharing settings: profile, links, audience."""
    asked = forms.read_query(request, Query)
    mine = get_services().following.preview_profile(get_actor())
    return _sharing(Sharing.from_profile(mine), saved=asked.saved, drawing=asked.drawing)


def _sharing(form: Sharing, **values: object) -> str:
    mine = get_services().following.preview_profile(get_actor())
    return render_section(
        "sharing",
        form=form,
        mine=mine,
        base=get_web().base_url,
        can_upload=get_services().avatars.is_supported,
        avatar_max=get_web().settings.avatar_max,
        **values,
    )


@bp.post("/settings/avatar")
@takes_file("avatar_max")
def upload_avatar() -> Response | tuple[str, int]:
    """Accept a picture, and wait a moment until it is drawn."""
    forms.read_form(request, forms.Empty)
    file = request.files.get("file")
    try:
        if file is None or not file.filename:
            raise InvalidError("Choose a picture first.", field="file")
        is_done = get_services().avatars.upload(get_actor(), cast(BinaryIO, file.stream))
    except _SHOWN as e:
        mine = get_services().following.preview_profile(get_actor())
        return _sharing(Sharing.from_profile(mine), avatar_error=e), e.http_status
    return make_response(redirect(f"/settings/sharing?{'saved' if is_done else 'drawing'}=1", 303))


@bp.post("/settings/avatar/remove")
def remove_avatar() -> Response:
    """Let a letter stand for the user again."""
    forms.read_form(request, forms.Empty)
    get_services().avatars.remove(get_actor())
    return make_response(redirect("/settings/sharing?saved=1", 303))


@bp.post("/settings/sharing")
def save_sharing() -> Response | tuple[str, int]:
    """Save the profile and its audience."""
    form = forms.read_form(request, Sharing)
    try:
        get_services().following.update_profile(
            get_actor(),
            display=form.display,
            bio=form.bio,
            links=form.links,
            audience=Audience(form.audience),
            listed=form.listed,
            open_lists=form.open_lists,
            similar=form.similar,
        )
    except InvalidError as e:
        return _sharing(form, error=e), e.http_status
    return make_response(redirect("/settings/sharing?saved=1", 303))


def render_section(name: str, **values: object) -> str:
    """Render one section of the settings."""
    return render_page(f"pages/settings/{name}.html", section=name, **values)


@bp.post("/settings/reading")
def save_reading() -> Response | str:
    """Save the reading settings."""
    get_services().accounts.set_preferences(get_actor(), *take_changes(forms.read_form(request, Reading)))
    return _saved("reading")


@bp.post("/settings/privacy")
def save_privacy() -> Response | str:
    """Save the privacy settings."""
    get_services().accounts.set_preferences(get_actor(), *take_changes(forms.read_form(request, Privacy)))
    return _saved("privacy")


@bp.get("/settings/notifications")
def show_notifications() -> str:
    """Show the notification settings."""
    push = get_services().push
    return render_section(
        "notifications",
        saved=forms.read_query(request, Query).saved,
        off=push.disabled_reason,
        devices=push.list_devices(get_actor()) if push.disabled_reason is None else [],
        session_key=get_session().key,
    )


@bp.post("/settings/notifications")
def save_notifications() -> Response | str:
    """Save the notification settings."""
    chosen, save = take_changes(forms.read_form(request, Notifications))
    if get_services().push.disabled_reason is not None:
        # The page has no push switches then, so keep their values.
        chosen = {name: on for name, on in chosen.items() if not name.startswith("push_")}
    get_services().accounts.set_preferences(get_actor(), chosen, save)
    return _saved("notifications")


@bp.post("/settings/display")
def save_display() -> Response | str:
    """Save the display settings: the look for this device, the others for the account."""
    form = forms.read_form(request, Display)
    changes, save = take_changes(form)
    theme = changes.pop("theme", None)
    before = _preferences()
    get_services().accounts.set_preferences(get_actor(), changes, save)
    of_texts = ("language", "time_zone", "times")
    other = any(name in changes and changes[name] != getattr(before, name) for name in of_texts)
    response = make_response(_saved("display", anew=other))
    if look := {name: changes[name] for name in FIELDS if name in changes}:
        keep_typography(response, look)
    return keep_choice(response, THEME_COOKIE, theme) if theme else response


def _preferences() -> Preferences:
    person = find_user()
    return person.preferences if person else Preferences()


def _saved(name: str, *, anew: bool = False) -> Response | str:
    """Confirm on the page; without a script, or after a change of language, reload the page."""
    here = f"/settings/{name}?saved=1"
    if not get_fragment_id():
        return make_response(redirect(here, 303))
    return Response(headers={"HX-Redirect": here}) if anew else render_page("parts/saved.html", saved=True)


@bp.get("/settings/look")
def show_look() -> str:
    """Show the choices of theme and text alone, for the popover of the reader."""
    return render_page("parts/text_look.html")


@bp.post("/settings/look")
def change_look() -> Response:
    """Store a changed theme or text: for this device, and as the start of devices that have no choice yet."""
    form = forms.read_form(request, Look)
    changes = {name: value for name in FIELDS if (value := getattr(form, name)) not in ("", 0)}
    if "justified" in changes:
        changes["justified"] = form.justified == "1"
    response = jsonify(saved=True)
    if changes:
        get_services().accounts.set_preferences(get_actor(), changes)
        keep_typography(response, changes)
    return keep_choice(response, THEME_COOKIE, form.theme) if form.theme else response


@bp.post("/settings/theme")
def set_theme() -> Response:
    """Set the theme of this device."""
    form = forms.read_form(request, Theme)
    response = make_response(redirect(get_safe_next(form.next, "/settings/display"), 303))
    return keep_choice(response, THEME_COOKIE, form.theme)


@bp.get("/language")
@allow_strangers
def set_language() -> Response:
    """Set the language of this device by a link, since public pages set no session cookie (W18)."""
    form = forms.read_query(request, Language)
    response = make_response(redirect(get_safe_next(form.next, "/"), 303))
    return keep_choice(response, i18n.COOKIE, form.language)
