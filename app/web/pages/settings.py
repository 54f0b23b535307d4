"""Settings of reading and display: each section is a page of its own and is saved by itself."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request

from app.errors import InvalidError
from app.models.accounts.actor import Permission
from app.models.accounts.preferences import Preferences
from app.models.sharing.sharing import Audience, Profile
from app.services.sharing.following import LINKS_MAX
from app.web import forms
from app.web.context import actor, services, session, user, web
from app.web.forms import text
from app.web.security.redirects import safe_next
from app.web.security.sessions import public
from app.web.view import i18n, zones
from app.web.view.render import THEME_COOKIE, THEMES, fragment_for, template

bp = Blueprint("settings", __name__)

_YEAR = 400 * 86400


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    view: str = text(max=16)
    density: str = text(max=16)
    sort: str = text(max=16)
    show: str = text(max=16)
    after_mark_all: str = text(max=16)
    mark_on_scroll: bool = False
    auto_load: bool = False
    hide_read_feeds: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    theme: str = text(max=8, one_of=THEMES)
    text_size: int
    font: str = text(max=16)
    language: str = text(max=8)
    time_zone: str = text(max=64)
    times: str = text(max=16)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    display: str = text(max=256, default="")
    bio: str = text(max=2048, default="")
    link1: str = text(max=2048, default="")
    link2: str = text(max=2048, default="")
    link3: str = text(max=2048, default="")
    link4: str = text(max=2048, default="")
    link5: str = text(max=2048, default="")
    audience: str = text(max=16, one_of=tuple(a.value for a in Audience))
    listed: bool = False
    open_lists: bool = False
    similar: bool = False

    @classmethod
    def of(cls, profile: Profile) -> Sharing:
        """Return the form filled with what is stored."""
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
        """The links, empty ones too."""
        return self.link1, self.link2, self.link3, self.link4, self.link5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
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
    push_follower: bool = False
    push_request: bool = False
    push_reshare: bool = False
    push_like: bool = False
    push_comment: bool = False
    push_reply: bool = False
    push_mention: bool = False
    push_import: bool = False
    push_export: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    theme: str = text(max=8, one_of=THEMES)
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    language: str = text(max=8, default="", one_of=("", *i18n.LANGUAGES))
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    saved: bool = False


@bp.get("/settings")
def page() -> str:
    """All sections; beside them the first one, where there is room."""
    return section("reading", hub=True, saved=False)


@bp.get("/settings/reading")
def reading() -> str:
    """How lists are shown and what is marked by itself."""
    return section("reading", saved=forms.query(request, Query).saved)


@bp.get("/settings/display")
def display() -> str:
    """Colours, letters, language, times."""
    saved = forms.query(request, Query).saved
    admin = actor().may(Permission.ADMIN_SEE)
    languages = {**i18n.LANGUAGES, **({i18n.PSEUDO: "Pseudo"} if admin else {})}
    return section("display", saved=saved, languages=languages, zones=zones.by_region(i18n.locale()))


@bp.get("/settings/sharing")
def sharing() -> str:
    """The own page: name, words, links, and who sees what is shared."""
    saved = forms.query(request, Query).saved
    return _sharing(Sharing.of(services().following.card(actor())), saved=saved)


def _sharing(form: Sharing, **values: object) -> str:
    mine = services().following.card(actor())
    return section("sharing", form=form, mine=mine, base=web().base_url, **values)


@bp.post("/settings/sharing")
def save_sharing() -> Response | tuple[str, int]:
    """Keep what the own page says, and who sees it."""
    form = forms.form(request, Sharing)
    try:
        services().following.edit(
            actor(),
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


def section(name: str, **values: object) -> str:
    """Render one section of the settings."""
    return template(f"pages/settings/{name}.html", section=name, **values)


@bp.post("/settings/reading")
def save_reading() -> Response | str:
    """Keep the settings of reading."""
    form = forms.form(request, Reading)
    services().accounts.set_preferences(actor(), dataclasses.asdict(form))
    return _saved("reading")


@bp.get("/settings/notifications")
def notifications() -> str:
    """Of what one is told."""
    push = services().push
    return section(
        "notifications",
        saved=forms.query(request, Query).saved,
        off=push.off,
        devices=push.devices(actor()) if push.off is None else [],
        session_key=session().key,
    )


@bp.post("/settings/notifications")
def save_notifications() -> Response | str:
    """Keep the settings of notifications."""
    chosen = dataclasses.asdict(forms.form(request, Notifications))
    if services().push.off is not None:
        # The page has no switches of devices then: they stay as they were.
        chosen = {name: on for name, on in chosen.items() if not name.startswith("push_")}
    services().accounts.set_preferences(actor(), chosen)
    return _saved("notifications")


@bp.post("/settings/display")
def save_display() -> Response | str:
    """Keep the settings of display; the colours on this device, the others for the account."""
    form = forms.form(request, Display)
    changes = dataclasses.asdict(form)
    del changes["theme"]
    before = _preferences()
    services().accounts.set_preferences(actor(), changes)
    other = (form.language, form.time_zone, form.times) != (before.language, before.time_zone, before.times)
    response = make_response(_saved("display", anew=other))
    return _keep(response, THEME_COOKIE, form.theme)


def _preferences() -> Preferences:
    person = user()
    return person.preferences if person else Preferences()


def _saved(name: str, *, anew: bool = False) -> Response | str:
    """Say so in place; show the page again where there is no script, or where its words have changed."""
    here = f"/settings/{name}?saved=1"
    if not fragment_for():
        return make_response(redirect(here, 303))
    return Response(headers={"HX-Redirect": here}) if anew else template("parts/saved.html", saved=True)


@bp.post("/settings/theme")
def theme() -> Response:
    """Choose the colours of this device."""
    form = forms.form(request, Theme)
    response = make_response(redirect(safe_next(form.next, "/settings/display"), 303))
    return _keep(response, THEME_COOKIE, form.theme)


@bp.get("/language")
@public
def language() -> Response:
    """Choose the language of this device; a link, as public pages set no cookie (W18)."""
    form = forms.query(request, Language)
    response = make_response(redirect(safe_next(form.next, "/"), 303))
    return _keep(response, i18n.COOKIE, form.language)


def _keep(response: Response, name: str, value: str) -> Response:
    """Keep a choice on this device; it is no secret."""
    response.set_cookie(name, value, max_age=_YEAR, secure=web().secure, httponly=True, samesite="Lax")
    return response
