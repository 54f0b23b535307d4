"""How things look and what somebody is told of; what is the account's own needs its password, and a page."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import msgspec
from flask import g
from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.preferences import KEY_LENGTH, KEYS_MAX, Preferences
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
Filter = Literal["all", "unread"]
Language = Annotated[
    Literal["", "en", "de", "ru", "ar", "en-XA"],
    Meta(description="BCP 47; empty: the browser's."),
]
Zone = Annotated[str, Meta(max_length=64, description="Of the IANA; empty: as the device says.")]
Pixels = Annotated[int, Meta(ge=16, le=24)]
Action = Annotated[str, Meta(min_length=1, max_length=KEY_LENGTH)]
Keys = Annotated[
    dict[Action, Annotated[str, Meta(max_length=KEY_LENGTH)]],
    Meta(
        max_length=KEYS_MAX,
        description="Action → its keys divided by blanks, empty for none; the others are as at first.",
    ),
]
#: What a person is told of; in the settings each is a field of its own.
_NOTIFY, _PUSH = "notify_", "push_"


class Pushed(Shape, frozen=True):
    """What is sent to devices that were let."""

    follower: bool
    request: bool
    reshare: bool
    like: bool
    comment: bool
    reply: bool
    mention: bool
    import_: bool = msgspec.field(name="import")
    export: bool


class Notified(Pushed, frozen=True):
    """What stands among the notifications; `feed`: one of yours is broken."""

    feed: bool


class PushedChange(Body, frozen=True):
    """What is left out stays."""

    follower: bool | UnsetType = UNSET
    request: bool | UnsetType = UNSET
    reshare: bool | UnsetType = UNSET
    like: bool | UnsetType = UNSET
    comment: bool | UnsetType = UNSET
    reply: bool | UnsetType = UNSET
    mention: bool | UnsetType = UNSET
    import_: bool | UnsetType = msgspec.field(name="import", default=UNSET)
    export: bool | UnsetType = UNSET


class NotifiedChange(PushedChange, frozen=True):
    """What is left out stays."""

    feed: bool | UnsetType = UNSET


class Settings(Shape, frozen=True):
    """Of reading. `view`, `density`, `sort`, `show`: of streams that have no look of their own."""

    language: Language
    time_zone: Zone
    times: Literal["relative", "absolute"]
    view: View
    density: Density
    sort: Order
    show: Filter
    font: Literal["system", "serif", "legible"]
    text_size: Pixels
    mark_on_scroll: bool
    auto_load: bool
    after_mark_all: Literal["stay", "next"]
    hide_read_feeds: bool
    single_keys: bool
    notify: Notified
    push: Pushed
    keys: Keys


class SettingsChange(Body, frozen=True):
    """What is left out stays; `keys` replaces all of them."""

    language: Language | UnsetType = UNSET
    time_zone: Zone | UnsetType = UNSET
    times: Literal["relative", "absolute"] | UnsetType = UNSET
    view: View | UnsetType = UNSET
    density: Density | UnsetType = UNSET
    sort: Order | UnsetType = UNSET
    show: Filter | UnsetType = UNSET
    font: Literal["system", "serif", "legible"] | UnsetType = UNSET
    text_size: Pixels | UnsetType = UNSET
    mark_on_scroll: bool | UnsetType = UNSET
    auto_load: bool | UnsetType = UNSET
    after_mark_all: Literal["stay", "next"] | UnsetType = UNSET
    hide_read_feeds: bool | UnsetType = UNSET
    single_keys: bool | UnsetType = UNSET
    notify: NotifiedChange | UnsetType = UNSET
    push: PushedChange | UnsetType = UNSET
    keys: Keys | UnsetType = UNSET


class StreamLook(Shape, frozen=True):
    """How a list is shown."""

    view: View
    density: Density
    sort: Order
    show: Filter


class StreamLookChange(Body, frozen=True):
    """What is left out stays."""

    view: View | UnsetType = UNSET
    density: Density | UnsetType = UNSET
    sort: Order | UnsetType = UNSET
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


@add_operation("GET", "/me/settings", "Your settings", scope=Scope.READ, tag=TAG)
def get_settings(actor: Actor) -> Settings:
    """Those of reading; light or dark is each device's own."""
    return _shape(_mine())


@add_operation("PATCH", "/me/settings", "Change your settings", scope=Scope.SETTINGS, tag=TAG, guarded=True)
def change_settings(actor: Actor, body: SettingsChange) -> Settings:
    """All of them or none. The last change of keys is taken back by `keys.`, sent to `/undo`."""
    return _shape(get_services().accounts.set_preferences(actor, _changes(body)))


def _changes(body: SettingsChange) -> dict[str, Any]:
    sent: dict[str, Any] = msgspec.to_builtins(body)
    for prefix, part in ((_NOTIFY, sent.pop("notify", {})), (_PUSH, sent.pop("push", {}))):
        sent.update({prefix + name: value for name, value in part.items()})
    if "keys" in sent:
        before, sent["keys"] = _mine().keys, normalize_changes(sent["keys"])
        # The way back is the one of the pages; what comes twice does not take it away.
        if sent["keys"] != before:
            sent["keys_before"] = before
    return sent


@add_operation("GET", "/streams/{stream}/look", "How a stream is shown", scope=Scope.READ, tag=TAG)
def get_look(actor: Actor, stream: str, query: WordsQuery) -> StreamLook:
    """As you left it, or as your settings say. A list is asked for in any other way all the same."""
    return _look(get_services().stream_views.get(actor, parse_stream_ref(stream, query.q), _mine()))


@add_operation(
    "PATCH",
    "/streams/{stream}/look",
    "Show a stream differently",
    scope=Scope.SETTINGS,
    tag=TAG,
    guarded=True,
)
def change_look(actor: Actor, stream: str, query: WordsQuery, body: StreamLookChange) -> StreamLook:
    """It is kept. Whole texts stand in one column: the density `expanded` brings the view, and back."""
    changes: dict[str, str] = msgspec.to_builtins(body)
    return _look(get_services().stream_views.set(actor, parse_stream_ref(stream, query.q), _mine(), changes))


def _look(found: StreamView) -> StreamLook:
    return StreamLook(**dataclasses.asdict(found))
