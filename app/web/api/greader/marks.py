"""Changes of the Google Reader API to items and labels: each says what is to be, so twice is as once."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Sequence

from flask import Response

from app.errors import ExistsError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.sync.sync import PartKind, called
from app.services.reading.reading import MARKS_MAX
from app.web.api.greader import names, streams
from app.web.api.greader.wire import OK, Api, actor, many, one, text
from app.web.context import services

#: States that are told but mean nothing here (tracking of what was read elsewhere).
_IGNORED = "tracking-"
#: Digits of a time → its parts of a second: apps say seconds, milli-, micro- or nanoseconds.
_UNITS = ((11, 1), (14, 1_000), (17, 1_000_000))
_NANO = 1_000_000_000


def add(api: Api) -> None:
    """Register these routes."""
    api.route("/reader/api/0/edit-tag", methods=("POST",))(edit_tag)
    api.route("/reader/api/0/mark-all-as-read", methods=("POST",))(mark_all)
    api.route("/reader/api/0/rename-tag", methods=("POST",))(rename_tag)
    api.route("/reader/api/0/disable-tag", methods=("POST",))(disable_tag)


def edit_tag() -> Response:
    """Add states and labels to items and take others away; a label alone is made."""
    ids = list(dict.fromkeys(names.item_id(each) for each in many("i")))
    added, removed = many("a"), many("r")
    if not ids:
        if not added:
            raise InvalidError("Say which items.", field="i")
        _make_labels(added)
        return text(OK)
    if not (added or removed):
        raise InvalidError("Say what is to be done with them.", field="a")
    who = actor()
    # All of them are looked at before the first is made: what is refused changes nothing.
    changes = [
        (_change(who, each, on), on) for tags, on in ((added, True), (removed, False)) for each in tags
    ]
    for change, on in changes:
        if change is not None:
            change(who, ids, on)
    return text(OK)


Change = Callable[[Actor, Sequence[int], bool], None]


def _change(who: Actor, tag_id: str, on: bool) -> Change | None:
    """Return what a state or label does to items; None: nothing.

    Raises:
        InvalidError: there is no such state, or there can be no such label.
    """
    named = names.state(tag_id)
    if named is None:
        raise InvalidError("There is no such state.", field="a", given=tag_id[:64])
    _, kind, name = named
    if kind == "label":
        if on:
            _label_for(who, name)
        return _labelling(name)
    if name.startswith(_IGNORED):
        return None
    state = names.state_kind(name)
    if state not in _CHANGES:
        raise InvalidError("Items cannot be given this state.", field="a", given=tag_id[:64])
    return _CHANGES[state]


def _read(who: Actor, ids: Sequence[int], on: bool) -> None:
    for start in range(0, len(ids), MARKS_MAX):
        try:
            services().reading.mark(who, ids[start : start + MARKS_MAX], on)
        except NotFoundError:
            continue  # all of them are gone: nothing is left to be unread


def _unread(who: Actor, ids: Sequence[int], on: bool) -> None:
    _read(who, ids, not on)


def _each(ids: Sequence[int], work: Callable[[int], object]) -> None:
    """Do something to each item; what is gone meanwhile is passed over, since the app cannot know it."""
    for entry_id in ids:
        try:
            work(entry_id)
        except NotFoundError:
            continue


def _star(who: Actor, ids: Sequence[int], on: bool) -> None:
    _each(ids, lambda i: services().reading.star(who, i, on))


def _like(who: Actor, ids: Sequence[int], on: bool) -> None:
    _each(ids, lambda i: services().talk.like(who, i, on))


def _share(who: Actor, ids: Sequence[int], on: bool) -> None:
    if not on:
        return _each(ids, lambda i: services().sharing.unshare(who, i))
    note, sharing = one("annotation"), services().sharing

    def share(entry_id: int) -> None:
        done = sharing.share(who, entry_id, note=note)
        if done.existed and note and done.share.note != note:
            sharing.edit(who, done.share.id, note=note)

    return _each(ids, share)


_CHANGES: dict[PartKind, Change] = {
    PartKind.READ: _read,
    PartKind.UNREAD: _unread,
    PartKind.STARRED: _star,
    PartKind.LIKED: _like,
    PartKind.SHARED: _share,
}


def _labelling(name: str) -> Change:
    def change(who: Actor, ids: Sequence[int], on: bool) -> None:
        if on:
            wanted = _label_for(who, name)
            _each(ids, lambda i: services().tags.change(who, i, add=[wanted]))
        elif (tag := _tag(name)) is not None:
            _each(ids, lambda i: services().tags.change(who, i, remove=[tag]))

    return change


def _label_for(who: Actor, name: str) -> str:
    """Return what items are tagged with; a name that is there may be any that the web lets one choose.

    Raises:
        InvalidError: there is none, and none can be made.
    """
    return name if _tag(name) is not None else services().tags.named(who, names.new_label(names.label(name)))


def _make_labels(tag_ids: Sequence[str]) -> None:
    """Make empty labels: folders, since an empty tag is none."""
    for each in tag_ids:
        _folder_for(each)
    for each in tag_ids:
        if (name := _folder_for(each)) is not None:
            with contextlib.suppress(ExistsError):  # another request of the same app was faster
                services().folders.create(actor(), name)


def _folder_for(tag_id: str) -> str | None:
    """Return the name of the folder that is to be made; None: it is there."""
    return None if _folders(names.label_name(tag_id)) else names.new_label(tag_id)


def mark_all() -> Response:
    """Mark a stream as read, up to a time."""
    wanted = many("s")
    if not wanted:
        raise InvalidError("Say which list.", field="s")
    who, when = actor(), _time(one("ts"))
    for stream_id in wanted:
        services().sync_marks.mark_before(who, streams.part(who, stream_id), when)
    return text(OK)


def _time(raw: str) -> dt.datetime | None:
    """Return the time that an app means, by how long its number is; None: it names none."""
    if not raw or set(raw) == {"0"}:
        return None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 20):
        raise InvalidError("The field “%(field)s” must be a number.", field="ts")
    unit = next((unit for digits, unit in _UNITS if len(raw) <= digits), _NANO)
    try:
        return dt.datetime.fromtimestamp(int(raw) / unit, dt.UTC)
    except (ValueError, OverflowError, OSError) as e:
        raise InvalidError("The field “%(field)s” must be a number.", field="ts") from e


def rename_tag() -> Response:
    """Rename a label, folder and tag of this name alike."""
    old = names.label_name(one("s") or one("t"))
    new = names.new_label(one("dest"))
    if old == new:
        return text(OK)
    who, folders, tag = actor(), _folders(old), _tag(old)
    if not (folders or tag is not None or _folders(new) or _tag(new) is not None):
        raise NotFoundError("You have no such folder or tag.", label=old[:64])
    _check_free(folders, new)
    # The tag first: it may be refused, and the folders by now are not.
    if tag is not None:
        services().tags.rename(who, tag, new)
    for folder in folders:
        services().folders.rename(who, folder, new)
    return text(OK)


def _check_free(renamed: Sequence[int], name: str) -> None:
    """Raise ExistsError where folders cannot all get a name: no two that lie in the same one have it."""
    folders = services().sync.folders(actor())
    homes = [f.parent for f in folders if f.id in renamed]
    taken = {f.parent for f in folders if f.name == name and f.id not in renamed}
    if len(homes) > len({*homes} - taken):
        raise ExistsError("There is a folder with this name already.", field="dest")


def disable_tag() -> Response:
    """Delete labels; feeds that lay in a folder stay."""
    wanted = [names.label_name(each) for each in many("s", "t")]
    if not wanted:
        raise InvalidError("Say which label.", field="s")
    who = actor()
    for name in wanted:
        for folder in _folders(name):
            services().folders.delete(who, folder)
        if (tag := _tag(name)) is not None:
            services().tags.delete(who, tag)
    return text(OK)


def _folders(name: str) -> list[int]:
    return called(services().sync.folders(actor()), name)


def _tag(name: str) -> int | None:
    return next(iter(called(services().sync.tags(actor()), name)), None)
