"""Streams of the Google Reader API: ids, items, counts."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from typing import Any

from flask import Response, request

from app.errors import InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.sync.sync import SyncQuery, SyncStream, SyncStreamKind
from app.services.sync.reading import ITEMS_MAX, KEYS_MAX
from app.web.api.greader import atom, names, shapes
from app.web.api.greader.wire import (
    JSON,
    Api,
    allow_body_token,
    answer_json,
    answer_text,
    get_actor,
    get_caller,
    is_liferea,
    read_field,
    read_number,
    read_values,
    set_etag,
)
from app.web.context import get_services
from app.web.view.own_addresses import parse_own_handle

READING = f"{names.STATE}reading-list"
DEFAULT = 20
#: An entry that changed shortly before an app's last request may have been stored after the answer.
SLACK = dt.timedelta(seconds=60)


def add_routes(api: Api) -> None:
    """Register these routes."""
    api.register_view("/reader/api/0/stream/contents", "/reader/api/0/stream/contents/<path:stream>")(
        list_contents
    )
    api.register_view("/reader/api/0/stream/items/ids", methods=("GET", "POST"))(list_item_ids)
    api.register_view("/reader/api/0/stream/items/contents", methods=("GET", "POST"))(list_item_contents)
    api.register_view("/reader/api/0/stream/items/count")(count_items)
    api.register_view("/reader/api/0/unread-count")(count_unread)
    api.register_view("/reader/atom/<path:stream>")(list_as_atom)


# -- which stream
def parse_streams(stream_ids: Sequence[str]) -> tuple[SyncStream, ...]:
    """Return the streams of these ids; ``splice/a|b`` names several.

    Raises:
        InvalidError, NotFoundError: No stream has such an id.
    """
    who = get_actor()
    found: list[SyncStream] = []
    for stream_id in stream_ids:
        spliced = stream_id.removeprefix("splice/").split("|") if stream_id.startswith("splice/") else None
        found += [parse_stream(who, each) for each in spliced or [stream_id]]
    return tuple(dict.fromkeys(found))


def parse_stream(actor: Actor, stream_id: str) -> SyncStream:
    """Return the stream of an id.

    Raises:
        InvalidError: The text isn't an id.
        NotFoundError: The user doesn't have this feed, or may not see the person.
    """
    named = names.parse_state(stream_id)
    if named is None:
        return SyncStream(SyncStreamKind.FEED, resolve_feed_id(actor, names.parse_feed_name(stream_id)))
    user, kind, name = named
    if kind == "label":
        return SyncStream(SyncStreamKind.LABEL, name=name)
    if names.get_state_kind(name) is SyncStreamKind.SHARED and not is_self(user):
        return SyncStream(SyncStreamKind.FEED, resolve_shares_feed(actor, user))
    return names.build_own_stream(name)


def resolve_feed_id(actor: Actor, name: str) -> int:
    """Return the feed of a number or an address."""
    if (number_ := names.parse_number(name)) is not None:
        return number_
    if handle := parse_own_handle(name):
        return get_services().following.get_person(actor, handle).profile.feed_id
    found = get_services().sync.find_feed_by_url(actor, name)
    if found is None:
        raise NotFoundError("You aren't subscribed to this feed.", url=name[:200])
    return found


def is_self(user: str) -> bool:
    """Return whether the user part of an id is the caller."""
    me = get_caller().user
    return user in ("-", str(me.id)) or user.casefold() == me.name.casefold()


def resolve_shares_feed(actor: Actor, user: str) -> int:
    """Return the feed of a person's shares, by number or name."""
    return get_services().following.get_person(actor, resolve_handle(user)).profile.feed_id


def resolve_handle(user: str) -> str:
    """Return the handle of a person that an app names by number or name."""
    number_ = names.parse_number(user)
    return user if number_ is None else get_services().sync.get_handle(get_actor(), number_)


# -- the query
def _moment(name: str) -> dt.datetime | None:
    seconds = read_number(name)
    if not seconds:
        return None
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError) as e:
        raise InvalidError("The field “%(field)s” must be a Unix time in seconds.", field=name) from e


def _query(streams: tuple[SyncStream, ...], limit: int) -> SyncQuery:
    since, until = _moment("ot"), _moment("nt")
    order = read_field("r")
    return SyncQuery(
        streams=streams,
        include=parse_streams(read_values("it")),
        exclude=parse_streams(read_values("xt")),
        since=since - SLACK if since and since.timestamp() > SLACK.total_seconds() else None,
        until=until,
        newest_first=order != "o",
        limit=max(1, min(read_number("n", DEFAULT) or DEFAULT, limit)),
        after=names.parse_continuation(read_field("c")),
    )


def _asked(stream: str = "") -> list[str]:
    return [stream] if stream else read_values("s") or [READING]


def _is_social(streams: Sequence[str]) -> bool:
    return any("/state/com.google/broadcast" in s for s in streams)


def _etag(streams: tuple[SyncStream, ...]) -> str | None:
    """Return the ETag of an answer about one feed, without reading the feed.

    None for POST requests too: the ETag depends on the address, but a POST names its page in the body.
    """
    if request.method == "POST":
        return None
    if len(streams) != 1 or streams[0].kind is not SyncStreamKind.FEED or is_liferea():
        return None
    stamp = get_services().sync.make_stamp(get_actor(), streams[0].id)
    if stamp is None:
        return None
    return _hash(f"{stamp}|{request.path}|{request.query_string!r}|{get_caller().user.id}".encode())


def _unchanged(etag: str | None) -> Response | None:
    if etag is None or not request.if_none_match.contains_weak(etag):
        return None
    return set_etag(Response(), etag)


# -- routes
def list_contents(stream: str = "") -> Response:
    """List the items of a stream, with their content."""
    if read_field("output") == "atom":
        return _atom(_asked(stream))
    asked = _asked(stream)
    wanted = parse_streams(asked)
    etag = _etag(wanted)
    if same := _unchanged(etag):
        return same
    found, end = get_services().sync.load_contents(get_actor(), _query(wanted, ITEMS_MAX))
    social = _is_social(asked)
    body: dict[str, Any] = {"items": [shapes.build_item(each, social=social) for each in found]}
    if end is not None:
        body["continuation"] = names.format_continuation(end)
    # The head contains the current time, so it must not be part of the ETag.
    etag = etag or _hash(answer_json(body).get_data())
    head = shapes.build_stream_head(asked[0], get_title(wanted[0]), get_language(wanted[0]))
    return set_etag(answer_json(head | body), etag)


def list_as_atom(stream: str) -> Response:
    """List the items of a stream as Atom (newsboat's ``feedhq``)."""
    return _atom([stream])


def _atom(asked: Sequence[str]) -> Response:
    wanted = parse_streams(asked)
    etag = _etag(wanted)
    if same := _unchanged(etag):
        return same
    found, end = get_services().sync.load_contents(get_actor(), _query(wanted, ITEMS_MAX))
    body = atom.render_stream(asked[0], get_title(wanted[0]), found, end, social=_is_social(asked))
    answer = Response(body, content_type="application/atom+xml; charset=utf-8")
    return set_etag(answer, etag or _hash(body))


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def get_title(wanted: SyncStream) -> str:
    """Return the title of a stream."""
    if wanted.kind is SyncStreamKind.FEED:
        return get_services().sync.get_feed_title(get_actor(), wanted.id)
    return wanted.name or str(wanted.kind.value)


def get_language(wanted: SyncStream) -> str | None:
    """Return the language that the feed of a stream declares; None: it declares none, or isn't a feed."""
    if wanted.kind is SyncStreamKind.FEED:
        return get_services().sync.get_feed_language(get_actor(), wanted.id)
    return None


def list_item_ids() -> Response:
    """List the ids of a stream, up to 10,000 at once."""
    wanted = parse_streams(_asked())
    etag = _etag(wanted) if not read_field("ot") and not read_field("nt") else None
    if same := _unchanged(etag):
        return same
    query = _query(wanted, KEYS_MAX)
    if read_field("includeAllDirectStreamIds") == "true":
        keys, end = get_services().sync.load_page(get_actor(), query)
        refs = ",".join(
            f'{{"id":"{k.id}","directStreamIds":["{names.format_feed_id(k.feed_id)}"],'
            f'"timestampUsec":"{k.id}"}}'
            for k in keys
        )
    else:
        # Exactly one field each: Readrops fails on more.
        ids, end = get_services().sync.load_ids(get_actor(), query)
        joined = '"},{"id":"'.join(map(str, ids))
        refs = f'{{"id":"{joined}"}}' if ids else ""
    # Ten thousand plain numbers: formatting them directly is faster than a JSON encoder.
    more = "" if end is None else f',"continuation":"{names.format_continuation(end)}"'
    answer = Response(f'{{"itemRefs":[{refs}]{more}}}', content_type=JSON)
    return answer if etag is None else set_etag(answer, etag)


@allow_body_token
def list_item_contents() -> Response:
    """Return items by id; omit those that are gone or that the user can't see."""
    ids = [names.parse_item_id(each) for each in read_values("i")]
    found = get_services().sync.load_items(get_actor(), ids, newest_first=read_field("r") != "o")
    if read_field("output") == "atom":
        body = atom.render_stream(READING, "", found, None, social=False)
        return Response(body, content_type="application/atom+xml; charset=utf-8")
    head = shapes.build_stream_head(READING, "reading-list")
    items = [shapes.build_item(each, social=False) for each in found]
    if is_liferea():
        items = [shapes.adapt_to_liferea(shape, each) for shape, each in zip(items, found, strict=True)]
    return answer_json({**head, "items": items})


def count_items() -> Response:
    """Count the items of a stream; with ``a=true`` add the day of the newest."""
    wanted = parse_streams(_asked())
    count, newest = get_services().sync.count_entries(get_actor(), _query(wanted, KEYS_MAX))
    said = str(count)
    if read_field("a") == "true" and newest:
        said += f"#{newest:%B} {newest.day}, {newest.year}"
    return answer_text(said)


def count_unread() -> Response:
    """Return the unread counts of feeds, labels, people and in total."""
    found = get_services().sync.count_unread(get_actor())
    counts = [(READING, found.total)]
    if found.people:
        counts.append((f"{names.STATE}broadcast-friends", found.friends))
    counts += [(names.format_label_id(name), one) for name, one in found.labels.items()]
    counts += [(names.format_feed_id(f), one) for f, one in found.feeds.items()]
    counts += [(names.format_person_id(user), found.feeds[f]) for f, user in found.people.items()]
    shown = [
        {"id": stream_id, "count": count, "newestItemTimestampUsec": str(newest)}
        for stream_id, (count, newest) in counts
        if count or stream_id == READING
    ]
    return answer_json({"max": found.total[0], "unreadcounts": shown})
