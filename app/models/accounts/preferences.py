"""Reading preferences: one table of fields, values and defaults."""

from __future__ import annotations

import dataclasses
import functools
import re
import zoneinfo
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from app.errors import InvalidError
from app.models.subscriptions.tree_order import TreeOrder

#: Most actions of a key map, and most characters of an entry. A person's map is far smaller.
KEYS_MAX, KEY_LENGTH = 80, 40
#: What a swipe over a row does.
SWIPES = ("none", "read", "star", "share", "tag")
#: Most sites whose recordings play without a question.
MEDIA_SITES_MAX = 200
#: Most stories whose copies a person keeps apart; the oldest choice is given up first.
APART_MAX = 200
#: Most hidden stories whose later copies are hidden, too.
HIDDEN_MAX = 200
#: A host as in the address of a recording: a name or an IP address, with its port.
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?")


def _choice(default: str, *values: str) -> Any:
    return dataclasses.field(default=default, metadata={"values": values})


def _number(default: int, least: int, limit: int) -> Any:
    return dataclasses.field(default=default, metadata={"least": least, "most": limit})


@dataclasses.dataclass(frozen=True, slots=True)
class Preferences:
    """A person's preferences; the settings of one stream (view, sort, filter) override them.

    Attributes:
        language: BCP 47, "" for the browser's.
        time_zone: IANA name ("Europe/Berlin"), "" for the device's.
        font, text_size, line_height, text_width, justified: of articles; the size is in pixels. A device may
            have its own.
        tree_order: of feeds and folders in the tree.
        media_sites: hosts whose recordings and players may load without a question.
        swipe_right, swipe_left, swipe_long: what a swipe over a row does; mirrored if texts run left.
        images: how pictures of other sites are shown: through this server, from the sites, or not at all.
        stories: whether copies of an article in several feeds share one row and their marks.
        stories_apart: ids of stories whose copies stay apart.
        stories_hidden: ids of stories that are hidden, with copies that arrive later.
        stories_since: an id of the moment when copies came together again; 0: they always were.
        keys: action → its keys separated by spaces ("j", "g+a"), "" for none; only changed actions.
        keys_before: ``keys`` before the last change, for its undo.
    """

    language: str = _choice("", "", "en", "de", "ru", "ar", "en-XA")
    time_zone: str = ""
    times: str = _choice("relative", "relative", "absolute")
    view: str = _choice("panes", "panes", "list", "expanded")
    density: str = _choice("cozy", "compact", "cozy", "card", "expanded")
    sort: str = _choice("unread-on-top", "unread-on-top", "newest", "oldest")
    show: str = _choice("all", "all", "unread")
    font: str = _choice("system", "system", "serif", "legible", "dyslexic")
    text_size: int = _number(18, 16, 24)
    line_height: str = _choice("normal", "tight", "normal", "loose")
    text_width: str = _choice("medium", "narrow", "medium", "wide", "full")
    justified: bool = False
    images: str = _choice("eventr", "eventr", "site", "none")
    media_sites: tuple[str, ...] = ()
    swipe_right: str = _choice("read", *SWIPES)
    swipe_left: str = _choice("star", *SWIPES)
    swipe_long: str = _choice("share", *SWIPES)
    mark_on_scroll: bool = False
    auto_load: bool = True
    after_mark_all: str = _choice("stay", "stay", "next")
    hide_read_feeds: bool = False
    tree_order: str = _choice("own", *(order.value for order in TreeOrder))
    single_keys: bool = True
    statistics: bool = False
    stories: bool = True
    stories_apart: tuple[int, ...] = ()
    stories_hidden: tuple[int, ...] = ()
    stories_since: int = _number(0, 0, (1 << 53) - 1)
    notify_follower: bool = True
    notify_request: bool = True
    notify_reshare: bool = True
    notify_like: bool = True
    notify_comment: bool = True
    notify_reply: bool = True
    notify_mention: bool = True
    notify_import: bool = True
    notify_export: bool = True
    notify_feed: bool = True
    notify_entries: bool = True
    notify_search: bool = True
    notify_found: bool = True
    push_follower: bool = False
    push_request: bool = True
    push_reshare: bool = False
    push_like: bool = False
    push_comment: bool = True
    push_reply: bool = True
    push_mention: bool = True
    push_import: bool = False
    push_export: bool = False
    push_entries: bool = True
    push_search: bool = True
    push_found: bool = True
    keys: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    keys_before: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Preferences:
        """Read stored values; a value that is no longer valid falls back to its default."""
        kept = {}
        for name, value in stored.items():
            try:
                kept[name] = check(name, value)
            except InvalidError:
                continue
        return cls(**kept)


@functools.cache
def list_time_zones() -> frozenset[str]:
    """Return the names of all time zones."""
    return frozenset(zoneinfo.available_timezones())


_FIELDS = {field.name: field for field in dataclasses.fields(Preferences)}


def list_choices(name: str) -> tuple[str, ...]:
    """Return the valid values of a setting with choices."""
    return tuple(_FIELDS[name].metadata["values"])


def check(name: str, value: object) -> Any:
    """Return a setting's value if it is valid.

    Raises:
        InvalidError: the setting doesn't exist, or the value isn't valid for it.
    """
    field = _FIELDS.get(name)
    if field is None:
        raise InvalidError("This setting doesn't exist.", field=name)
    if name in ("keys", "keys_before"):
        return _keys(value)
    if name == "media_sites":
        return _sites(value)
    if name in ("stories_apart", "stories_hidden"):
        return _ids(value, name)
    if name == "time_zone":
        fits = value == "" or value in list_time_zones()
    elif "values" in field.metadata:
        fits = value in field.metadata["values"]
    elif "least" in field.metadata:
        # The store's 64-bit numbers are a type of their own.
        is_number = isinstance(value, int) and not isinstance(value, bool)
        fits = is_number and field.metadata["least"] <= value <= field.metadata["most"]
    else:
        fits = isinstance(value, bool)
    if not fits:
        raise InvalidError("This isn't a valid value for the setting.", field=name)
    return value


def _sites(value: object) -> tuple[str, ...]:
    fits = (
        isinstance(value, (list, tuple))
        and len(value) <= MEDIA_SITES_MAX
        and all(isinstance(site, str) and _HOST.fullmatch(site) for site in value)
        and len(set(value)) == len(value)
    )
    if not fits:
        raise InvalidError("This isn't a valid list of sites.", field="media_sites")
    return tuple(value)  # type: ignore[arg-type]  # a list of texts, checked above


def _ids(value: object, name: str) -> tuple[int, ...]:
    fits = (
        isinstance(value, (list, tuple))
        and len(value) <= APART_MAX
        and all(isinstance(number, int) and number is not True and 0 < number < 1 << 53 for number in value)
        and len(set(value)) == len(value)
    )
    if not fits:
        raise InvalidError("This isn't a valid list of stories.", field=name)
    return tuple(value)  # type: ignore[arg-type]  # a list of numbers, checked above


def _keys(value: object) -> Mapping[str, str]:
    fits = (
        isinstance(value, Mapping)
        and len(value) <= KEYS_MAX
        and all(isinstance(part, str) and _is_short(part) for pair in value.items() for part in pair)
        # Actions become field names in the store, where "$" and "." have a meaning.
        and not any(action == "" or action[0] in "$." or "." in action for action in value)
    )
    if not fits:
        raise InvalidError("This isn't a valid set of keyboard shortcuts.", field="keys")
    return MappingProxyType(dict(value))  # type: ignore[call-overload]  # a mapping of texts, checked above


def _is_short(text: str) -> bool:
    return len(text) <= KEY_LENGTH and text.isprintable()
