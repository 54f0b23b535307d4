"""Subscriptions and labels of the Google Reader API: lists, changes, OPML files."""

from __future__ import annotations

import contextlib
from typing import Any

from flask import Response, request
from flask_babel import gettext

from app.errors import ConflictError, EventrError, ExistsError, InvalidError, NotFoundError, SearchError
from app.models.accounts.actor import Actor
from app.models.subscriptions.folder import build_folder_labels
from app.models.sync.sync import SyncStreamKind, find_folders_by_label
from app.services.reading.saved_pages import FEED_TITLE
from app.services.validation import check_text
from app.web.api.greader import names, shapes, streams
from app.web.api.greader.wire import (
    OK,
    Api,
    accept_document,
    answer_json,
    answer_json_if_changed,
    answer_text,
    get_actor,
    read_field,
    read_fields,
    read_values,
)
from app.web.context import get_services
from app.web.view.own_addresses import parse_own_handle

#: Shows article tags as folders, all of them empty.
_TAGLESS = "NetNewsWire"
FILE = "subscriptions.opml"


def add_routes(api: Api) -> None:
    """Register these routes."""
    api.register_view("/reader/api/0/subscription/list")(list_subscriptions)
    api.register_view("/reader/api/0/tag/list")(list_tags)
    api.register_view("/reader/api/0/subscription/edit", methods=("POST",))(edit_subscription)
    api.register_view("/reader/api/0/subscription/quickadd", methods=("POST",))(quick_add)
    api.register_view("/reader/api/0/subscription/export", "/reader/subscriptions/export")(
        export_subscriptions
    )
    api.register_view("/reader/api/0/subscription/import", methods=("POST",))(import_subscriptions)
    api.register_view("/reader/api/0/subscribed")(check_subscribed)


def list_subscriptions() -> Response:
    """List all subscriptions, including people, so that apps that don't support people can show them."""
    found = get_services().sync.list_feeds(get_actor())
    owners = {feed.card.owner for feed in found if feed.card.owner is not None}
    handles = get_services().sync.find_handles(get_actor(), owners)
    shown = [shapes.encode_subscription(feed, handles.get(feed.card.owner or 0)) for feed in found]
    return answer_json_if_changed(b'{"subscriptions":[' + b",".join(shown) + b"]}")


def list_tags() -> Response:
    """List the starred state, folders and tags."""
    who = get_actor()
    found: dict[str, dict[str, Any]] = {}
    # Only on request: counts change with each entry read, which would defeat the ETag.
    counts = get_services().sync.count_unread(who).labels if read_field("types") else None
    for label in build_folder_labels(get_services().sync.list_folders(who)).values():
        more = {} if counts is None else {"unread_count": counts.get(label, (0, 0))[0]}
        found.setdefault(label, {"id": names.format_label_id(label), "type": "folder", **more})
    if _TAGLESS not in request.headers.get("User-Agent", ""):
        for tag in get_services().sync.list_tags(who):
            found.setdefault(tag.name, {"id": names.format_label_id(tag.name), "type": "tag"})
    # Without a sortid, as in FreshRSS: apps that get one sort by it and not by name.
    return answer_json_if_changed({"tags": [{"id": f"{names.STATE}starred"}, *found.values()]})


# -- changes
def edit_subscription() -> Response:
    """Subscribe, unsubscribe, rename, add to folders or remove from folders."""
    who, action, wanted = get_actor(), read_field("ac"), read_values("s")
    if not wanted:
        raise InvalidError("Specify a feed.", field="s")
    titles = [check_text(each, "t", empty=True) for each in read_fields().getlist("t")]
    if action not in ("unsubscribe", "remove"):
        _check_labels(who)
    if len(wanted) > 1:  # a rejected request changes nothing
        for stream_id in wanted:
            _check_editable(who, action, stream_id)
    for place, stream_id in enumerate(wanted):
        title = titles[place] if place < len(titles) else ""
        match action:
            case "subscribe" | "add":
                feed_id = _subscribe(who, stream_id)
                _arrange(who, feed_id, title)
            case "unsubscribe" | "remove":
                _unsubscribe(who, stream_id)
            case "edit":
                _arrange(who, _feed(who, stream_id), title)
            case _:
                raise InvalidError("This action doesn't exist.", field="ac", given=action[:32])
    return answer_text(OK)


def _check_editable(who: Actor, action: str, stream_id: str) -> None:
    """Reject a stream that an action can't apply to, before any change.

    Raises:
        InvalidError, NotFoundError: As the action.
    """
    if action in ("subscribe", "add"):
        if (named := names.parse_state(stream_id)) is not None:
            if named[1] == "label" or names.get_state_kind(named[2]) is not SyncStreamKind.SHARED:
                raise InvalidError("This isn't a feed.", field="s", given=stream_id[:200])
            get_services().following.get_person(who, streams.resolve_handle(named[0]))
            return
        name = names.parse_feed_name(stream_id)
        if (number := names.parse_number(name)) is not None:
            get_services().subscriptions.get(who, number)
        elif parse_own_handle(name) is None:
            get_services().sync.resolve_address(who, name)
    elif action == "edit":
        _feed(who, stream_id)
    else:
        with contextlib.suppress(NotFoundError):  # a missing subscription counts as ended
            _feed(who, stream_id)


def _check_labels(who: Actor) -> None:
    """Reject invalid labels before any change; otherwise a failed request would still subscribe."""
    folders = get_services().sync.list_folders(who)
    for name in map(names.parse_label, read_values("a")):
        if not find_folders_by_label(folders, name):
            names.parse_new_label(name)
    for each in read_values("r"):
        names.parse_label(each)


def _feed(who: Actor, stream_id: str) -> int:
    part = streams.parse_stream(who, stream_id)
    if part.kind is not SyncStreamKind.FEED:
        raise InvalidError("This isn't a feed.", field="s", given=stream_id[:200])
    return get_services().subscriptions.get(who, part.id).feed_id


def _subscribe(who: Actor, stream_id: str) -> int:
    if (named := names.parse_state(stream_id)) is not None:
        user, _, name = named
        if names.get_state_kind(name) is not SyncStreamKind.SHARED:
            raise InvalidError("This isn't a feed.", field="s", given=stream_id[:200])
        return _follow(who, streams.resolve_handle(user))[0]
    name = names.parse_feed_name(stream_id)
    if (number := names.parse_number(name)) is not None:
        return get_services().subscriptions.get(who, number).feed_id
    return _by_address(who, name, is_feed=True)[0]


def _follow(who: Actor, handle: str) -> tuple[int, str, bool]:
    """Follow a person; return their stream, their name, and whether the user followed them already."""
    try:
        was = get_services().following.get_person(who, handle)
        tie = get_services().following.follow(who, handle)
    except NotFoundError as e:
        raise NotFoundError("Nobody with this user name shares anything on this server.") from e
    if not tie.follows:
        raise ConflictError("You've sent a follow request. This person hasn't responded yet.")
    return was.profile.feed_id, was.profile.name, was.tie.follows


def _by_address(who: Actor, address: str, *, is_feed: bool) -> tuple[int, str, bool]:
    """Subscribe to the feed at an address; return the feed, its title, and whether it was subscribed before.

    An address of this server is never fetched: it leads to a person.

    Args:
        is_feed: The app says that this is a feed's address. If discovery takes long, subscribe without
            waiting for it; the first fetch shows whether the address is right.
    """
    if handle := parse_own_handle(address):
        return _follow(who, handle)
    found = get_services().discovery.discover(who, address)
    if found.error:
        raise SearchError(found.error)
    if found.wait and (mine := get_services().sync.find_feed_by_url(who, address)) is not None:
        return mine, get_services().sync.get_feed_title(who, mine), True
    if found.wait and not is_feed:
        # The search continues, and a repeated request joins it. A page stored as a feed would stay broken.
        raise ConflictError("Eventr is still looking for feeds. Try again in a few seconds.")
    first = next(iter(found.feeds), None)
    done = get_services().subscriptions.subscribe(
        who, first.url if first else get_services().sync.resolve_address(who, address)
    )
    feed_id = done.subscription.feed_id
    return feed_id, done.subscription.title or (first.title if first else address), done.existed


def _unsubscribe(who: Actor, stream_id: str) -> None:
    """End a subscription; a missing subscription counts as ended."""
    try:
        mine = get_services().subscriptions.get(who, _feed(who, stream_id))
    except NotFoundError:
        return
    handle = get_services().following.find_feed_owner(who, mine.feed_id) if mine.person else None
    if handle is not None:
        get_services().following.unfollow(who, handle)
    else:
        get_services().subscriptions.unsubscribe(who, mine.feed_id)


def _arrange(who: Actor, feed_id: int, title: str) -> None:
    added = [_folder(who, names.parse_label(each)) for each in read_values("a")]
    folders = get_services().sync.list_folders(who)
    gone = [i for each in read_values("r") for i in find_folders_by_label(folders, names.parse_label(each))]
    get_services().subscriptions.update(who, feed_id, title=title or None)
    if added or gone:
        get_services().subscriptions.update_folders(who, feed_id, add=added, remove=gone)


def _folder(who: Actor, name: str) -> int:
    """Return the folder of this name; create it if it doesn't exist."""
    if known := find_folders_by_label(get_services().sync.list_folders(who), name):
        return known[0]
    # The name of an existing folder may contain characters that apps may not use in new names.
    name = names.parse_new_label(name)
    try:
        return get_services().folders.create(who, name).id
    except ExistsError:  # another request of the same app was faster
        if known := find_folders_by_label(get_services().sync.list_folders(who), name):
            return known[0]
        raise  # and yet another request deleted the folder


#: Before the address of a page to save, in the field where an app adds feeds.
_PAGE = "page/"


def quick_add() -> Response:
    """Subscribe to the feed at an address, or save ``page/<address>``; report failures in the answer."""
    who, asked = get_actor(), read_field("quickadd")
    address = names.parse_feed_name(asked) if asked.startswith("feed/") else asked
    nothing: dict[str, Any] = {"numResults": 0, "query": asked}
    try:
        number = names.parse_number(address) if asked.startswith("feed/") else None
        if asked.startswith(_PAGE):
            feed_id, existed = _save_page(who, asked.removeprefix(_PAGE)), False
            title = get_services().sync.get_feed_title(who, feed_id)
        elif number is not None:
            feed_id = get_services().subscriptions.get(who, number).feed_id
            title, existed = get_services().sync.get_feed_title(who, feed_id), True
        else:
            feed_id, title, existed = _by_address(who, address, is_feed=asked.startswith("feed/"))
    except EventrError as e:
        if e.http_status >= 429 or e.http_status in (401, 403):
            raise
        return answer_json({**nothing, "error": e.message})
    if existed:
        return answer_json(
            {**nothing, "error": f"Already subscribed! {address}", "streamId": names.format_feed_id(feed_id)}
        )
    return answer_json(
        {
            "numResults": 1,
            "query": asked,
            "streamId": names.format_feed_id(feed_id),
            "streamName": title or address,
        }
    )


def _save_page(who: Actor, address: str) -> int:
    """Save a page; return the feed of saved pages."""
    pages = get_services().saved_pages
    return pages.save(who, address, feed_title=gettext(FEED_TITLE)).feed_id


def check_subscribed() -> Response:
    """Answer whether the user subscribes to the feed of an address."""
    try:
        found = _feed(get_actor(), read_field("s"))
    except NotFoundError:
        return answer_text("false")
    return answer_text("true" if found else "false")


# -- files
def export_subscriptions() -> Response:
    """Export all subscriptions as OPML."""
    body = get_services().imports.export(get_actor())
    answer = Response(body, content_type="text/xml; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{FILE}"'
    return answer


@accept_document
def import_subscriptions() -> Response:
    """Start to import an OPML file. Its feeds appear while the import runs."""
    sent = next(iter(request.files.values()), None) if request.mimetype == "multipart/form-data" else None
    body = sent.read() if sent else request.get_data()
    begun = get_services().imports.preview(get_actor(), body, (sent.filename if sent else None) or FILE)
    try:
        get_services().imports.start(get_actor(), begun.id)
    except InvalidError:  # all feeds are subscribed already
        get_services().imports.remove(get_actor(), begun.id)
        return answer_text(f"{OK}: 0")
    return answer_text(f"{OK}: {begun.total}")
