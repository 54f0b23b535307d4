"""Streams of the Google Reader API: ids, items, counts."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from typing import Any

from flask import Response, request

from app.errors import InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.sync.sync import Part, PartKind, SyncQuery
from app.services.sync.reading import ITEMS_MAX, KEYS_MAX
from app.web.api.greader import atom, names, shapes
from app.web.api.greader.wire import (
    JSON,
    Api,
    actor,
    caller,
    data,
    is_liferea,
    many,
    number,
    one,
    tagged,
    text,
    token_will_do,
)
from app.web.context import services
from app.web.view.own_addresses import handle_in

READING = f"{names.STATE}reading-list"
DEFAULT = 20
#: What changed a little before an app last asked may have been stored after it was answered.
SLACK = dt.timedelta(seconds=60)


def add(api: Api) -> None:
    """Register these routes."""
    api.route("/reader/api/0/stream/contents", "/reader/api/0/stream/contents/<path:stream>")(contents)
    api.route("/reader/api/0/stream/items/ids", methods=("GET", "POST"))(item_ids)
    api.route("/reader/api/0/stream/items/contents", methods=("GET", "POST"))(item_contents)
    api.route("/reader/api/0/stream/items/count")(item_count)
    api.route("/reader/api/0/unread-count")(unread_count)
    api.route("/reader/atom/<path:stream>")(feed_atom)


# -- which stream
def parts(stream_ids: Sequence[str]) -> tuple[Part, ...]:
    """Return the streams of these ids; ``splice/a|b`` is several.

    Raises:
        InvalidError, NotFoundError: there is none of such an id.
    """
    who = actor()
    found: list[Part] = []
    for stream_id in stream_ids:
        spliced = stream_id.removeprefix("splice/").split("|") if stream_id.startswith("splice/") else None
        found += [part(who, each) for each in spliced or [stream_id]]
    return tuple(dict.fromkeys(found))


def part(who: Actor, stream_id: str) -> Part:
    """Return the stream of an id.

    Raises:
        InvalidError: it is no id. NotFoundError: the user has no such feed, or may not see the person.
    """
    named = names.state(stream_id)
    if named is None:
        return Part(PartKind.FEED, feed_id(who, names.feed_name(stream_id)))
    user, kind, name = named
    if kind == "label":
        return Part(PartKind.LABEL, name=name)
    if names.state_kind(name) is PartKind.SHARED and not is_self(user):
        return Part(PartKind.FEED, stream_of(who, user))
    return names.part_of(name)


def feed_id(who: Actor, name: str) -> int:
    """Return the feed of a number or an address."""
    if (number_ := names.number(name)) is not None:
        return number_
    if handle := handle_in(name):
        return services().following.person(who, handle).profile.feed_id
    found = services().sync.feed_of(who, name)
    if found is None:
        raise NotFoundError("You have no such subscription.", url=name[:200])
    return found


def is_self(user: str) -> bool:
    """Return whether the user part of an id is the one who asks."""
    me = caller().user
    return user in ("-", str(me.id)) or user.casefold() == me.name.casefold()


def stream_of(who: Actor, user: str) -> int:
    """Return the feed of what somebody shares, by number or name."""
    return services().following.person(who, handle_of(user)).profile.feed_id


def handle_of(user: str) -> str:
    """Return the name of a person that an app names by number or name."""
    number_ = names.number(user)
    return user if number_ is None else services().sync.name_of(actor(), number_)


# -- what is asked
def _moment(name: str) -> dt.datetime | None:
    seconds = number(name)
    if not seconds:
        return None
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError) as e:
        raise InvalidError("The field “%(field)s” must be seconds since 1970.", field=name) from e


def _query(streams: tuple[Part, ...], most: int) -> SyncQuery:
    since, until = _moment("ot"), _moment("nt")
    order = one("r")
    return SyncQuery(
        parts=streams,
        include=parts(many("it")),
        exclude=parts(many("xt")),
        since=since - SLACK if since and since.timestamp() > SLACK.total_seconds() else None,
        until=until,
        newest_first=order != "o",
        limit=max(1, min(number("n", DEFAULT) or DEFAULT, most)),
        after=names.place(one("c")),
    )


def _asked(stream: str = "") -> list[str]:
    return [stream] if stream else many("s") or [READING]


def _is_social(streams: Sequence[str]) -> bool:
    return any("/state/com.google/broadcast" in s for s in streams)


def _etag(streams: tuple[Part, ...]) -> str | None:
    """Return the tag of an answer about one feed, which is known without reading the feed.

    None too for what is posted: the body says which page is wanted, and the tag is made of the address.
    """
    if request.method == "POST":
        return None
    if len(streams) != 1 or streams[0].kind is not PartKind.FEED or is_liferea():
        return None
    stamp = services().sync.stamp(actor(), streams[0].id)
    if stamp is None:
        return None
    return _hash(f"{stamp}|{request.path}|{request.query_string!r}|{caller().user.id}".encode())


def _unchanged(etag: str | None) -> Response | None:
    if etag is None or not request.if_none_match.contains_weak(etag):
        return None
    return tagged(Response(), etag)


# -- routes
def contents(stream: str = "") -> Response:
    """Items of a stream, with their texts."""
    if one("output") == "atom":
        return _atom(_asked(stream))
    asked = _asked(stream)
    wanted = parts(asked)
    etag = _etag(wanted)
    if same := _unchanged(etag):
        return same
    found, end = services().sync.contents(actor(), _query(wanted, ITEMS_MAX))
    social = _is_social(asked)
    body: dict[str, Any] = {"items": [shapes.item(each, social=social) for each in found]}
    if end is not None:
        body["continuation"] = names.continuation(end)
    # Above them stands the time, which is another one each time.
    etag = etag or _hash(data(body).get_data())
    return tagged(data(shapes.stream_head(asked[0], title(wanted[0])) | body), etag)


def feed_atom(stream: str) -> Response:
    """The same as Atom (newsboat's ``feedhq``)."""
    return _atom([stream])


def _atom(asked: Sequence[str]) -> Response:
    wanted = parts(asked)
    etag = _etag(wanted)
    if same := _unchanged(etag):
        return same
    found, end = services().sync.contents(actor(), _query(wanted, ITEMS_MAX))
    body = atom.document(asked[0], title(wanted[0]), found, end, social=_is_social(asked))
    answer = Response(body, content_type="application/atom+xml; charset=utf-8")
    return tagged(answer, etag or _hash(body))


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def title(wanted: Part) -> str:
    """Return what a stream is called."""
    if wanted.kind is PartKind.FEED:
        return services().sync.title_of(actor(), wanted.id)
    return wanted.name or str(wanted.kind.value)


def item_ids() -> Response:
    """Ids of a stream: up to 10,000 at once."""
    wanted = parts(_asked())
    etag = _etag(wanted) if not one("ot") and not one("nt") else None
    if same := _unchanged(etag):
        return same
    keys, end = services().sync.page(actor(), _query(wanted, KEYS_MAX))
    if one("includeAllDirectStreamIds") == "true":
        refs = ",".join(
            f'{{"id":"{k.id}","directStreamIds":["{names.feed(k.feed_id)}"],"timestampUsec":"{k.at * 1000}"}}'
            for k in keys
        )
    else:
        # Exactly one field each: Readrops reads no more of them.
        refs = ",".join([f'{{"id":"{k.id}"}}' for k in keys])
    # Numbers alone, ten thousand of them: written as they are.
    more = "" if end is None else f',"continuation":"{names.continuation(end)}"'
    answer = Response(f'{{"itemRefs":[{refs}]{more}}}', content_type=JSON)
    return answer if etag is None else tagged(answer, etag)


@token_will_do
def item_contents() -> Response:
    """Items by id; those that are gone or not his are left out."""
    ids = [names.item_id(each) for each in many("i")]
    found = services().sync.items(actor(), ids, newest_first=one("r") != "o")
    if one("output") == "atom":
        body = atom.document(READING, "", found, None, social=False)
        return Response(body, content_type="application/atom+xml; charset=utf-8")
    head = shapes.stream_head(READING, "reading-list")
    items = [shapes.item(each, social=False) for each in found]
    if is_liferea():
        items = [shapes.for_liferea(shape, each) for shape, each in zip(items, found, strict=True)]
    return data({**head, "items": items})


def item_count() -> Response:
    """How many items a stream has, with ``a=true`` also the day of the newest."""
    wanted = parts(_asked())
    count, newest = services().sync.count(actor(), _query(wanted, KEYS_MAX))
    said = str(count)
    if one("a") == "true" and newest:
        said += f"#{newest:%B} {newest.day}, {newest.year}"
    return text(said)


def unread_count() -> Response:
    """Unread counts of feeds, labels, people and all."""
    found = services().sync.unread(actor())
    counts = [(READING, found.total)]
    if found.people:
        counts.append((f"{names.STATE}broadcast-friends", found.friends))
    counts += [(names.label(name), one) for name, one in found.labels.items()]
    counts += [(names.feed(f), one) for f, one in found.feeds.items()]
    counts += [(names.person(user), found.feeds[f]) for f, user in found.people.items()]
    shown = [
        {"id": stream_id, "count": count, "newestItemTimestampUsec": str(newest)}
        for stream_id, (count, newest) in counts
        if count or stream_id == READING
    ]
    return data({"max": 1_000_000, "unreadcounts": shown})
