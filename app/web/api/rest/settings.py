"""Display and notification settings. Changes to the account itself need the password and happen on a page."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import msgspec
from flask import g
from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.preferences import KEY_LENGTH, KEYS_MAX, MEDIA_SITES_MAX, Preferences
from app.models.accounts.token import Caller, Scope
from app.models.reading.stream_view import StreamView
from app.web.api.rest.shapes import UNSET, Body, Shape, UnsetType
from app.web.api.rest.streams import WordsQuery, parse_stream_ref
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services
from app.web.keyboard.keys import normalize_changes

TAG = "Settings"

View = Literal["panes", "list", "expanded"]
Density = Literal["compact", "cozy", "card", "expanded"]
Order = Literal["unread-on-top", "newest", "oldest"]
StreamOrder = Annotated[
    Literal["unread-on-top", "newest", "oldest", "relevance"],
    Meta(description="`relevance` is for search results; in other streams it means `newest`."),
]
Filter = Literal["all", "unread"]
Language = Annotated[
    Literal["", "en", "de", "ru", "ar", "en-XA"],
    Meta(description="BCP 47 language tag; empty: the browser's language."),
]
Zone = Annotated[str, Meta(max_length=64, description="IANA time zone; empty: the device's time zone.")]
Pixels = Annotated[int, Meta(ge=16, le=24)]
Font = Literal["system", "serif", "legible", "dyslexic"]
LineHeight = Literal["tight", "normal", "loose"]
TextWidth = Literal["narrow", "medium", "wide", "full"]
Images = Literal["eventr", "site", "none"]
Arrangement = Literal["own", "name", "unread", "newest"]
Swipe = Literal["none", "read", "star", "share", "tag"]
MediaSites = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=261)], ...],
    Meta(
        max_length=MEDIA_SITES_MAX, description="Hosts whose recordings and players load without a question."
    ),
]
Action = Annotated[str, Meta(min_length=1, max_length=KEY_LENGTH)]
Keys = Annotated[
    dict[Action, Annotated[str, Meta(max_length=KEY_LENGTH)]],
    Meta(
        max_length=KEYS_MAX,
        description=(
            "Action → its keys separated by spaces, empty for none. Other actions keep their default keys."
        ),
    ),
]
#: Prefixes of the notification preferences; each becomes a field of its own in the API.
_NOTIFY, _PUSH = "notify_", "push_"


class Pushed(Shape, frozen=True):
    """Which push notifications your devices get; `entries`, `search`: of feeds and searches you chose.

    `found`: a feed was found on a site where you looked for one.
    """

    follower: bool
    request: bool
    reshare: bool
    like: bool
    comment: bool
    reply: bool
    mention: bool
    import_: bool = msgspec.field(name="import")
    export: bool
    entries: bool
    search: bool
    found: bool


class Notified(Pushed, frozen=True):
    """Which notifications you get; `feed`: one of your feeds keeps failing."""

    feed: bool


class PushedChange(Body, frozen=True):
    """Omitted fields stay unchanged."""

    follower: bool | UnsetType = UNSET
    request: bool | UnsetType = UNSET
    reshare: bool | UnsetType = UNSET
    like: bool | UnsetType = UNSET
    comment: bool | UnsetType = UNSET
    reply: bool | UnsetType = UNSET
    mention: bool | UnsetType = UNSET
    import_: bool | UnsetType = msgspec.field(name="import", default=UNSET)
    export: bool | UnsetType = UNSET
    entries: bool | UnsetType = UNSET
    search: bool | UnsetType = UNSET
    found: bool | UnsetType = UNSET


class NotifiedChange(PushedChange, frozen=True):
    """Omitted fields stay unchanged."""

    feed: bool | UnsetType = UNSET


class Settings(Shape, frozen=True):
    """Your settings. `view`, `density`, `sort` and `show` apply to streams without their own view.

    `font`, `text_size`, `line_height`, `text_width` and `justified` apply in browsers without a choice of
    their own.
    `images`: pictures come through this server, from their sites, or not at all. `tree_order`: of feeds and
    folders; `own`: as you have arranged them. `stories`: the copies of an article in several feeds share one
    row and their marks.
    """

    language: Language
    time_zone: Zone
    times: Literal["relative", "absolute"]
    view: View
    density: Density
    sort: Order
    show: Filter
    font: Font
    text_size: Pixels
    line_height: LineHeight
    text_width: TextWidth
    justified: bool
    images: Images
    media_sites: MediaSites
    swipe_right: Swipe
    swipe_left: Swipe
    swipe_long: Swipe
    mark_on_scroll: bool
    auto_load: bool
    after_mark_all: Literal["stay", "next"]
    hide_read_feeds: bool
    tree_order: Arrangement
    stories: bool
    single_keys: bool
    notify: Notified
    push: Pushed
    keys: Keys


class SettingsChange(Body, frozen=True):
    """Omitted fields stay unchanged; `keys` replaces all shortcuts."""

    language: Language | UnsetType = UNSET
    time_zone: Zone | UnsetType = UNSET
    times: Literal["relative", "absolute"] | UnsetType = UNSET
    view: View | UnsetType = UNSET
    density: Density | UnsetType = UNSET
    sort: Order | UnsetType = UNSET
    show: Filter | UnsetType = UNSET
    font: Font | UnsetType = UNSET
    text_size: Pixels | UnsetType = UNSET
    line_height: LineHeight | UnsetType = UNSET
    text_width: TextWidth | UnsetType = UNSET
    justified: bool | UnsetType = UNSET
    images: Images | UnsetType = UNSET
    media_sites: MediaSites | UnsetType = UNSET
    swipe_right: Swipe | UnsetType = UNSET
    swipe_left: Swipe | UnsetType = UNSET
    swipe_long: Swipe | UnsetType = UNSET
    mark_on_scroll: bool | UnsetType = UNSET
    auto_load: bool | UnsetType = UNSET
    after_mark_all: Literal["stay", "next"] | UnsetType = UNSET
    hide_read_feeds: bool | UnsetType = UNSET
    tree_order: Arrangement | UnsetType = UNSET
    stories: bool | UnsetType = UNSET
    single_keys: bool | UnsetType = UNSET
    notify: NotifiedChange | UnsetType = UNSET
    push: PushedChange | UnsetType = UNSET
    keys: Keys | UnsetType = UNSET


class StreamLook(Shape, frozen=True):
    """How a stream is displayed."""

    view: View
    density: Density
    sort: StreamOrder
    show: Filter


class StreamLookChange(Body, frozen=True):
    """Omitted fields stay unchanged."""

    view: View | UnsetType = UNSET
    density: Density | UnsetType = UNSET
    sort: StreamOrder | UnsetType = UNSET
    show: Filter | UnsetType = UNSET


def _shape(found: Preferences) -> Settings:
    names = (field.name for field in dataclasses.fields(Preferences))
    plain = {name: getattr(found, name) for name in names if name in Settings.__struct_fields__}
    told = {
        "notify": Notified(**_part(found, _NOTIFY, Notified)),
        "push": Pushed(**_part(found, _PUSH, Pushed)),
    }
    return Settings(**{**plain, **told, "keys": dict(found.keys)})


def _part(found: Preferences, prefix: str, kind: type[msgspec.Struct]) -> dict[str, bool]:
    return {name: getattr(found, prefix + name.rstrip("_")) for name in kind.__struct_fields__}


add_example(_shape(Preferences()))
add_example(SettingsChange(sort="oldest", notify=NotifiedChange(like=False), keys={"star": "x"}))
add_example(StreamLook(view="list", density="compact", sort="newest", show="unread"))
add_example(StreamLookChange(view="list", density="compact"))


def _mine() -> Preferences:
    caller: Caller = g.caller
    return caller.user.preferences


@add_operation("GET", "/me/settings", "Get your settings", scope=Scope.READ, tag=TAG)
def get_settings(actor: Actor) -> Settings:
    """Returns your reading settings. A browser keeps its own theme and look of articles."""
    return _shape(_mine())


@add_operation("PATCH", "/me/settings", "Update your settings", scope=Scope.SETTINGS, tag=TAG, guarded=True)
def change_settings(actor: Actor, body: SettingsChange) -> Settings:
    """Saves all changes or none. To undo the last change of shortcuts, send `keys.` to `/undo`."""
    return _shape(get_services().accounts.set_preferences(actor, _changes(body)))


def _changes(body: SettingsChange) -> dict[str, Any]:
    sent: dict[str, Any] = msgspec.to_builtins(body)
    for prefix, part in ((_NOTIFY, sent.pop("notify", {})), (_PUSH, sent.pop("push", {}))):
        sent.update({prefix + name: value for name, value in part.items()})
    if "keys" in sent:
        before, sent["keys"] = _mine().keys, normalize_changes(sent["keys"])
        # "Undo" is shared with the pages; an unchanged table must not replace the undo state.
        if sent["keys"] != before:
            sent["keys_before"] = before
    return sent


@add_operation("GET", "/streams/{stream}/look", "Get a stream's view", scope=Scope.READ, tag=TAG)
def get_look(actor: Actor, stream: str, query: WordsQuery) -> StreamLook:
    """Returns the stream's own view or your default. Requests for entries can use other options."""
    return _look(get_services().stream_views.get(actor, parse_stream_ref(stream, query.q), _mine()))


@add_operation(
    "PATCH",
    "/streams/{stream}/look",
    "Update a stream's view",
    scope=Scope.SETTINGS,
    tag=TAG,
    guarded=True,
)
def change_look(actor: Actor, stream: str, query: WordsQuery, body: StreamLookChange) -> StreamLook:
    """Saves the view. The view `expanded` and the density `expanded` always go together."""
    changes: dict[str, str] = msgspec.to_builtins(body)
    return _look(get_services().stream_views.set(actor, parse_stream_ref(stream, query.q), _mine(), changes))


def _look(found: StreamView) -> StreamLook:
    return StreamLook(**dataclasses.asdict(found))
