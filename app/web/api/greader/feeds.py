"""Subscriptions and labels of the Google Reader API: lists, changes, files."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from app.errors import ConflictError, EventrError, ExistsError, InvalidError, NotFoundError, SearchError
from app.models.accounts.actor import Actor
from app.models.sync.sync import PartKind, called
from app.services.validation import a_text
from app.web.api.greader import names, shapes, streams
from app.web.api.greader.wire import OK, Api, actor, data, fresh, given, many, one, takes_document, text
from app.web.context import services
from app.web.view.own_addresses import handle_in

#: Shows tags of articles as folders, all of them empty.
_TAGLESS = "NetNewsWire"
FILE = "subscriptions.opml"


def add(api: Api) -> None:
    """Register these routes."""
    api.route("/reader/api/0/subscription/list")(subscriptions)
    api.route("/reader/api/0/tag/list")(tags)
    api.route("/reader/api/0/subscription/edit", methods=("POST",))(edit)
    api.route("/reader/api/0/subscription/quickadd", methods=("POST",))(quickadd)
    api.route("/reader/api/0/subscription/export", "/reader/subscriptions/export")(export)
    api.route("/reader/api/0/subscription/import", methods=("POST",))(import_)
    api.route("/reader/api/0/subscribed")(subscribed)


def subscriptions() -> Response:
    """All subscriptions, people among them: so apps that know nothing of people can follow them."""
    found = services().sync.feeds(actor())
    owners = {feed.card.owner for feed in found if feed.card.owner is not None}
    handles = services().sync.handles(actor(), owners)
    shown = [shapes.subscription(feed, handles.get(feed.card.owner or 0)) for feed in found]
    return fresh({"subscriptions": shown})


def tags() -> Response:
    """Starred, folders and tags."""
    who = actor()
    found: dict[str, dict[str, Any]] = {}
    # Only for who asks for it: an answer that changes with each entry that is read spares nobody anything.
    counts = services().sync.unread(who).labels if one("types") else None
    for folder in services().sync.folders(who):
        more = {} if counts is None else {"unread_count": counts.get(folder.name, (0, 0))[0]}
        found.setdefault(folder.name, {"id": names.label(folder.name), "type": "folder", **more})
    if _TAGLESS not in request.headers.get("User-Agent", ""):
        for tag in services().sync.tags(who):
            found.setdefault(tag.name, {"id": names.label(tag.name), "type": "tag"})
    starred = {"id": f"{names.STATE}starred", "sortid": "00000000"}
    rest = [{**each, "sortid": f"{n:08X}"} for n, each in enumerate(found.values(), 1)]
    return fresh({"tags": [starred, *rest]})


# -- changes
def edit() -> Response:
    """Subscribe, unsubscribe, rename, put into folders and take out of them."""
    who, action, wanted = actor(), one("ac"), many("s")
    if not wanted:
        raise InvalidError("Say which feed.", field="s")
    titles = [a_text(each, "t", empty=True) for each in given().getlist("t")]
    if action not in ("unsubscribe", "remove"):
        _check_labels(who)
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
                raise InvalidError("There is no such action.", field="ac", given=action[:32])
    return text(OK)


def _check_labels(who: Actor) -> None:
    """Refuse labels that cannot be, before anything is done: a subscription would be made all the same."""
    folders = services().sync.folders(who)
    for name in map(names.label_name, many("a")):
        if not called(folders, name):
            names.new_label(name)
    for each in many("r"):
        names.label_name(each)


def _feed(who: Actor, stream_id: str) -> int:
    part = streams.part(who, stream_id)
    if part.kind is not PartKind.FEED:
        raise InvalidError("This is no feed.", field="s", given=stream_id[:200])
    return services().subscriptions.get(who, part.id).feed_id


def _subscribe(who: Actor, stream_id: str) -> int:
    if (named := names.state(stream_id)) is not None:
        user, _, name = named
        if names.state_kind(name) is not PartKind.SHARED:
            raise InvalidError("This is no feed.", field="s", given=stream_id[:200])
        return _follow(who, streams.handle_of(user))[0]
    name = names.feed_name(stream_id)
    if (number := names.number(name)) is not None:
        return services().subscriptions.get(who, number).feed_id
    return _by_address(who, name, is_feed=True)[0]


def _follow(who: Actor, handle: str) -> tuple[int, str, bool]:
    """Follow somebody; return his stream, what he is called, and whether that was so already."""
    try:
        was = services().following.person(who, handle)
        tie = services().following.follow(who, handle)
    except NotFoundError as e:
        raise NotFoundError("There is nobody of this name here who shares anything.") from e
    if not tie.follows:
        raise ConflictError("You have asked to follow; there is no answer yet.")
    return was.profile.feed_id, was.profile.name, was.tie.follows


def _by_address(who: Actor, address: str, *, is_feed: bool) -> tuple[int, str, bool]:
    """Subscribe to what is found at an address; return the feed, its title, and whether it was there.

    An address of this server is never fetched: it leads to a person.

    Args:
        is_feed: the app says so: where the search takes long it is believed, and the first fetch tells.
    """
    if handle := handle_in(address):
        return _follow(who, handle)
    found = services().discovery.discover(who, address)
    if found.error:
        raise SearchError(found.error)
    if found.wait and (mine := services().sync.feed_of(who, address)) is not None:
        return mine, services().sync.title_of(who, mine), True
    if found.wait and not is_feed:
        # The search goes on, and who asks again joins it; a page taken for a feed would stay broken.
        raise ConflictError("Still looking for feeds there. Try again in a few seconds.")
    first = next(iter(found.feeds), None)
    done = services().subscriptions.subscribe(
        who, first.url if first else services().sync.address(who, address)
    )
    feed_id = done.subscription.feed_id
    return feed_id, done.subscription.title or (first.title if first else address), done.existed


def _unsubscribe(who: Actor, stream_id: str) -> None:
    """End a subscription; what is not there any more is ended."""
    try:
        mine = services().subscriptions.get(who, _feed(who, stream_id))
    except NotFoundError:
        return
    handle = services().following.of_feed(who, mine.feed_id) if mine.person else None
    if handle is not None:
        services().following.unfollow(who, handle)
    else:
        services().subscriptions.unsubscribe(who, mine.feed_id)


def _arrange(who: Actor, feed_id: int, title: str) -> None:
    added = [_folder(who, names.label_name(each)) for each in many("a")]
    folders = services().sync.folders(who)
    gone = [i for each in many("r") for i in called(folders, names.label_name(each))]
    services().subscriptions.edit(who, feed_id, title=title or None)
    if added or gone:
        services().subscriptions.arrange(who, feed_id, add=added, remove=gone)


def _folder(who: Actor, name: str) -> int:
    """Return the folder of this name, which is made where there is none."""
    if known := called(services().sync.folders(who), name):
        return known[0]
    # A name that is there may be any that the web lets one choose.
    name = names.new_label(name)
    try:
        return services().folders.create(who, name).id
    except ExistsError:  # another request of the same app was faster
        if known := called(services().sync.folders(who), name):
            return known[0]
        raise  # and yet another one has taken it away


def quickadd() -> Response:
    """Subscribe to whatever is found at an address; failures are told in the answer."""
    who, asked = actor(), one("quickadd")
    address = names.feed_name(asked) if asked.startswith("feed/") else asked
    nothing: dict[str, Any] = {"numResults": 0, "query": asked}
    try:
        number = names.number(address) if asked.startswith("feed/") else None
        if number is not None:
            feed_id = services().subscriptions.get(who, number).feed_id
            title, existed = services().sync.title_of(who, feed_id), True
        else:
            feed_id, title, existed = _by_address(who, address, is_feed=asked.startswith("feed/"))
    except EventrError as e:
        if e.http_status >= 429 or e.http_status in (401, 403):
            raise
        return data({**nothing, "error": e.message})
    if existed:
        return data({**nothing, "error": f"Already subscribed! {address}", "streamId": names.feed(feed_id)})
    return data(
        {"numResults": 1, "query": asked, "streamId": names.feed(feed_id), "streamName": title or address}
    )


def subscribed() -> Response:
    """Whether the user reads the feed of an address."""
    try:
        found = _feed(actor(), one("s"))
    except NotFoundError:
        return text("false")
    return text("true" if found else "false")


# -- files
def export() -> Response:
    """All subscriptions as OPML."""
    body = services().imports.export(actor())
    answer = Response(body, content_type="text/xml; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{FILE}"'
    return answer


@takes_document
def import_() -> Response:
    """Import a file of subscriptions: begun at once, its feeds come as the import goes on."""
    sent = next(iter(request.files.values()), None) if request.mimetype == "multipart/form-data" else None
    body = sent.read() if sent else request.get_data()
    begun = services().imports.preview(actor(), body, (sent.filename if sent else None) or FILE)
    try:
        services().imports.start(actor(), begun.id)
    except InvalidError:  # he has all of it already
        services().imports.remove(actor(), begun.id)
        return text(f"{OK}: 0")
    return text(f"{OK}: {begun.total}")
