"""Changes to items and labels through the Google Reader API. Each sets a state, so repeating one is safe."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from flask import Response

from app.errors import ExistsError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.reading.stream import MAX_ID
from app.models.subscriptions.folder import build_folder_paths, join_folder_path
from app.models.sync.sync import ReadLimit, SyncStreamKind, find_folders_by_label, find_tag_by_label
from app.services.reading.reading import MARKS_MAX
from app.web.api.greader import names, streams
from app.web.api.greader.wire import OK, Api, answer_text, get_actor, read_field, read_values
from app.web.context import get_services

#: States that apps send but Eventr ignores (tracking of what was read elsewhere).
_IGNORED = "tracking-"
#: (most digits of a time, microseconds of its unit): apps send seconds, milli-, micro- or nanoseconds.
_UNITS = ((11, 1_000_000), (14, 1_000), (17, 1))


def add_routes(api: Api) -> None:
    """Register these routes."""
    api.register_view("/reader/api/0/edit-tag", methods=("POST",))(edit_tag)
    api.register_view("/reader/api/0/mark-all-as-read", methods=("POST",))(mark_all)
    api.register_view("/reader/api/0/rename-tag", methods=("POST",))(rename_tag)
    api.register_view("/reader/api/0/disable-tag", methods=("POST",))(disable_tag)


def edit_tag() -> Response:
    """Add states and labels to items and remove others; without items, create the labels.

    A state without items changes nothing, as in FreshRSS: some apps send an empty batch, and stop their queue
    at an error.
    """
    ids = list(dict.fromkeys(names.parse_item_id(each) for each in read_values("i")))
    added, removed = read_values("a"), read_values("r")
    if not ids:
        if not (added or removed):
            raise InvalidError("Specify at least one item.", field="i")
        for each in removed:
            if not _is_settable(each):
                names.parse_label(each)
        _make_labels([each for each in added if not _is_settable(each)])
        return answer_text(OK)
    if not (added or removed):
        raise InvalidError("Specify what to do with the items.", field="a")
    who = get_actor()
    # Check all changes before the first one: a rejected request changes nothing.
    changes = [
        (_change(who, each, on), on) for tags, on in ((added, True), (removed, False)) for each in tags
    ]
    for change, on in changes:
        if change is not None:
            change(who, ids, on)
    return answer_text(OK)


def _is_settable(tag_id: str) -> bool:
    """Return whether a tag is a state that items can have, and not a label."""
    named = names.parse_state(tag_id)
    if named is None or named[1] == "label":
        return False
    return named[2].startswith(_IGNORED) or names.get_state_kind(named[2]) in _CHANGES


Change = Callable[[Actor, Sequence[int], bool], None]


def _change(who: Actor, tag_id: str, on: bool) -> Change | None:
    """Return the change that a state or label makes to items; None: no change.

    Raises:
        InvalidError: The state doesn't exist, or the label is invalid.
    """
    named = names.parse_state(tag_id)
    if named is None:
        raise InvalidError("This state doesn't exist.", field="a", given=tag_id[:64])
    _, kind, name = named
    if kind == "label":
        if on:
            _label_for(who, name)
        return _labelling(name)
    if name.startswith(_IGNORED):
        return None
    state = names.get_state_kind(name)
    if state not in _CHANGES:
        raise InvalidError("You can't set this state on items.", field="a", given=tag_id[:64])
    return _CHANGES[state]


def _read(who: Actor, ids: Sequence[int], on: bool) -> None:
    for start in range(0, len(ids), MARKS_MAX):
        try:
            get_services().reading.mark(who, ids[start : start + MARKS_MAX], on)
        except NotFoundError:
            continue  # all entries are gone: nothing to mark as unread


def _unread(who: Actor, ids: Sequence[int], on: bool) -> None:
    _read(who, ids, not on)


def _each(ids: Sequence[int], work: Callable[[int], object]) -> None:
    """Call ``work`` for each item; skip items that are gone, since the app can't know about them."""
    for entry_id in ids:
        try:
            work(entry_id)
        except NotFoundError:
            continue


def _star(who: Actor, ids: Sequence[int], on: bool) -> None:
    if len(ids) == 1:
        return _each(ids, lambda i: get_services().reading.set_starred(who, i, on))
    for start in range(0, len(ids), MARKS_MAX):
        get_services().reading.set_many_starred(who, ids[start : start + MARKS_MAX], on)
    return None


def _like(who: Actor, ids: Sequence[int], on: bool) -> None:
    if len(ids) == 1:
        return _each(ids, lambda i: get_services().discussion.set_liked(who, i, on))
    for start in range(0, len(ids), MARKS_MAX):
        get_services().discussion.set_many_liked(who, ids[start : start + MARKS_MAX], on)
    return None


def _share(who: Actor, ids: Sequence[int], on: bool) -> None:
    if not on:
        return _each(ids, lambda i: get_services().sharing.unshare(who, i))
    note, sharing = read_field("annotation"), get_services().sharing

    def share(entry_id: int) -> None:
        done = sharing.share(who, entry_id, note=note)
        if done.existed and note and done.share.note != note:
            sharing.update_share(who, done.share.id, note=note)

    return _each(ids, share)


_CHANGES: dict[SyncStreamKind, Change] = {
    SyncStreamKind.READ: _read,
    SyncStreamKind.UNREAD: _unread,
    SyncStreamKind.STARRED: _star,
    SyncStreamKind.LIKED: _like,
    SyncStreamKind.SHARED: _share,
}


def _labelling(name: str) -> Change:
    def change_label(actor: Actor, ids: Sequence[int], on: bool) -> None:
        tags, wanted = get_services().tags, _label_for(actor, name) if on else None
        tag = None if on else _tag(name)
        if wanted is None and tag is None:
            return
        if len(ids) == 1:
            gone = [] if tag is None else [tag]
            _each(ids, lambda i: tags.change_tags(actor, i, add=[wanted] if wanted else [], remove=gone))
            return
        for start in range(0, len(ids), MARKS_MAX):
            tags.change_many_tags(actor, ids[start : start + MARKS_MAX], add=wanted, remove=tag)

    return change_label


def _label_for(who: Actor, name: str) -> str:
    """Return the name to tag items with; an existing tag may have a name that apps may not use for new ones.

    Raises:
        InvalidError: The tag doesn't exist and the name isn't valid for a new one.
    """
    return (
        name
        if _tag(name) is not None
        else get_services().tags.check_name(who, names.parse_new_label(names.format_label_id(name)))
    )


def _make_labels(tag_ids: Sequence[str]) -> None:
    """Create empty labels as folders, since a tag without entries doesn't exist."""
    for each in tag_ids:
        _folder_for(each)
    for each in tag_ids:
        if (name := _folder_for(each)) is not None:
            with contextlib.suppress(ExistsError):  # another request of the same app was faster
                get_services().folders.create(get_actor(), name)


def _folder_for(tag_id: str) -> str | None:
    """Return the name of the folder to create; None: the folder exists."""
    return None if _folders(names.parse_label(tag_id)) else names.parse_new_label(tag_id)


def mark_all() -> Response:
    """Mark a stream as read, up to a time."""
    wanted = read_values("s")
    if not wanted:
        raise InvalidError("Specify a list.", field="s")
    who, when = get_actor(), _time(read_field("ts"))
    parsed = streams.parse_streams(wanted)
    if len(parsed) > 1:  # a rejected request changes nothing
        for stream in parsed:
            get_services().sync_marks.check_markable(who, stream)
    for stream in parsed:
        get_services().sync_marks.mark_before(who, stream, when)
    return answer_text(OK)


def _time(raw: str) -> ReadLimit | None:
    """Return the time that an app sends, in the unit that its number of digits implies; None: no time."""
    if not raw or set(raw) == {"0"}:
        return None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 20):
        raise InvalidError("The field “%(field)s” must be a number.", field="ts")
    # At most 10^17 seconds or 10^20 nanoseconds; every id is smaller than the end of that.
    number, micros = int(raw), next((micros for digits, micros in _UNITS if len(raw) <= digits), 0)
    if not micros:
        return ReadLimit(number // 1000, number // 1000)
    return ReadLimit(min(number * micros, MAX_ID), min((number + 1) * micros - 1, MAX_ID))


def rename_tag() -> Response:
    """Rename a label: the folders and the tag of this name."""
    old, dest = names.parse_label(read_field("s") or read_field("t")), read_field("dest")
    if old == names.parse_label(dest):
        return answer_text(OK)
    who, folders, tag = get_actor(), _folders(old), _tag(old)
    new = names.parse_new_label(_strip_place(folders, names.parse_label(dest)))
    if not (folders or tag is not None or _folders(names.parse_label(dest)) or _tag(new) is not None):
        raise NotFoundError("You don't have this folder or tag.", label=old[:64])
    _check_free(folders, new)
    # Rename the tag first: this may still fail, while the folders have been checked above.
    if tag is not None:
        get_services().tags.rename(who, tag, new)
    for folder in folders:
        get_services().folders.rename(who, folder, new)
    return answer_text(OK)


def _strip_place(renamed: Sequence[int], name: str) -> str:
    """Return the last part of a new name if the rest of it is the place where the folder already lies."""
    paths = build_folder_paths(get_services().sync.list_folders(get_actor()))
    places = {join_folder_path(paths[i][:-1]) for i in renamed if len(paths[i]) > 1}
    return next((name[len(place) + 1 :] for place in places if name.startswith(f"{place}/")), name)


def _check_free(renamed: Sequence[int], name: str) -> None:
    """Raise ExistsError if the new name would put two folders of the same name into one folder."""
    folders = get_services().sync.list_folders(get_actor())
    homes = [f.parent for f in folders if f.id in renamed]
    taken = {f.parent for f in folders if f.name == name and f.id not in renamed}
    if len(homes) > len({*homes} - taken):
        raise ExistsError("You already have a folder with this name.", field="dest")


def disable_tag() -> Response:
    """Delete labels; the feeds of a deleted folder stay subscribed."""
    wanted = [names.parse_label(each) for each in read_values("s", "t")]
    if not wanted:
        raise InvalidError("Specify a label.", field="s")
    who = get_actor()
    # Find all before the first is gone: the labels of other folders may change with it.
    folders = {folder: None for name in wanted for folder in _folders(name)}
    tags = {tag: None for name in wanted if (tag := _tag(name)) is not None}
    for folder in folders:
        get_services().folders.delete(who, folder)
    for tag in tags:
        get_services().tags.delete(who, tag)
    return answer_text(OK)


def _folders(name: str) -> list[int]:
    return find_folders_by_label(get_services().sync.list_folders(get_actor()), name)


def _tag(name: str) -> int | None:
    return find_tag_by_label(get_services().sync.list_tags(get_actor()), name)
