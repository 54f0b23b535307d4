"""Subscriptions: list, add, rename, put into folders, pause, move to another address, refresh, remove."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime as dt
import math
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from app import clock
from app.errors import InvalidError, get_public_word
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.token import Scope
from app.models.subscriptions.bulk_edit import BulkEditQuery, BulkEditRow, Condition, Order
from app.models.subscriptions.folder import FolderEditMode
from app.models.subscriptions.muting import is_hidden_site
from app.services.subscriptions.subscriptions import (
    HEADERS_MAX,
    KEEP_NEWEST_MAX,
    READ_AFTER_MAX,
    TIME_LIMIT_MAX,
)
from app.web.api.rest.shapes import (
    FEED,
    FEED_URL,
    FOLDER,
    OTHER_FOLDER,
    UNDO,
    UNSET,
    Body,
    Id,
    Id0,
    Opaque,
    Query,
    Shape,
    Title,
    Undo,
    UnsetType,
    Url,
)
from app.web.api.rest.streams import Marked
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services, get_web
from app.web.view import i18n
from app.web.view.own_addresses import parse_own_handle
from app.web.view.present import describe_check

TAG = "Subscriptions"
Minutes = Annotated[int, Meta(ge=1, le=1440)]
Ids = Annotated[tuple[Id, ...], Meta(max_length=1000)]


class Subscription(Shape, frozen=True):
    """A subscription; `person`: the feed is the stream of a person on this server.

    `own_title`: the title that you gave the feed; empty if `title` is the feed's own.
    `private`: you keep the feed private and can't share its entries. `hidden` to `keep_newest`: your
    settings, as PATCH takes them.
    `error`: the error code if the feed fails; `message` explains it. `newest`: time of the newest entry.
    `icon`: address of the feed's icon on this server.
    """

    feed_id: Id
    title: str
    url: str
    unread: int
    folder_ids: tuple[Id, ...]
    paused: bool
    private: bool
    person: bool
    newest: dt.datetime | None
    per_week: float
    error: str | None
    message: str | None
    icon: str | None
    own_title: str
    hidden: bool
    original: bool
    notify: bool
    full_text: bool
    reopen: bool
    read_after: int
    keep_newest: int


class SubscriptionPage(Shape, frozen=True):
    """One page of your subscriptions; `total`: number of matches."""

    items: tuple[Subscription, ...]
    next: str | None
    total: int


class SubscriptionQuery(Query, frozen=True):
    """Which subscriptions to list, and their order; `folder_id` 0: those without a folder."""

    q: Annotated[str, Meta(max_length=200, description="Words in the name or address.")] = ""
    show: Condition = Condition.ALL
    folder_id: Id0 | UnsetType = UNSET
    sort: Order = Order.NAME
    cursor: Opaque = ""


class NewSubscription(Body, frozen=True):
    """The address of a feed, with an optional title and folder; `private`: keep the feed private."""

    url: Url
    title: Title = ""
    folder_id: Id | None = None
    private: bool = False


class Subscribed(Shape, frozen=True):
    """`existed`: you already had the subscription. `ticket`: the job that fetches the first entries."""

    feed_id: Id
    existed: bool
    ticket: str | None


class SubscriptionChange(Body, frozen=True):
    """Omitted fields stay unchanged.

    `title`: empty for the feed's own title. `folder_ids` replaces all of the feed's folders. `private`: you
    can't share the feed's entries, and your shares of them are visible only to you until you change it back.
    `hidden`: the stream `all` leaves the feed out; its folders don't. `original`: titles in lists of the web
    pages open the page at the feed's site. `notify`: you get notifications of new entries.
    `full_text`: entries show the article on their page. `reopen`: entries become unread again when their text
    changes. `read_after`: entries are marked as read after so many days; 0: never.
    `keep_newest`: your lists, counts and searches have only so many of its newest entries; 0: all. Starred,
    tagged and shared entries stay.
    """

    title: Title | UnsetType = UNSET
    folder_ids: Annotated[tuple[Id, ...], Meta(max_length=50)] | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    private: bool | UnsetType = UNSET
    hidden: bool | UnsetType = UNSET
    original: bool | UnsetType = UNSET
    notify: bool | UnsetType = UNSET
    full_text: bool | UnsetType = UNSET
    reopen: bool | UnsetType = UNSET
    read_after: Annotated[int, Meta(ge=0, le=READ_AFTER_MAX)] | UnsetType = UNSET
    keep_newest: Annotated[int, Meta(ge=0, le=KEEP_NEWEST_MAX)] | UnsetType = UNSET


class SubscriptionKept(Shape, frozen=True):
    """Your settings for a subscription; an empty `title` means the feed's own title."""

    feed_id: Id
    title: str
    folder_ids: tuple[Id, ...]
    paused: bool
    private: bool
    hidden: bool
    original: bool
    notify: bool
    full_text: bool
    reopen: bool
    read_after: int
    keep_newest: int


class Address(Body, frozen=True):
    """The new address of the feed."""

    url: Url


class Fetching(Shape, frozen=True):
    """How the feed is fetched for you. With any of these, the feed is your own copy: nobody else can find or
    share it. `has_password`, `has_token`, `has_cookie`, `has_headers`: secrets are stored, and never
    returned.
    """

    login: str
    has_password: bool
    has_token: bool
    has_cookie: bool
    has_headers: bool
    user_agent: str
    time_limit: int | None
    min_minutes: int | None
    max_minutes: int | None


class FetchingChange(Body, frozen=True):
    """Omitted fields stay unchanged; "" and null remove a value.

    `login`, `password`: for HTTP Basic. Removing `login` removes the password. `token`: for HTTP Bearer,
    instead of a login. `headers`: one `Name: value` per line. All are sent only to the feed's site.
    `time_limit`: most seconds of a fetch.
    `min_minutes`, `max_minutes`: the shortest and the longest time between two checks.
    """

    login: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    password: Annotated[str, Meta(max_length=400)] | UnsetType = UNSET
    token: Annotated[str, Meta(max_length=1000)] | UnsetType = UNSET
    cookie: Annotated[str, Meta(max_length=1000)] | UnsetType = UNSET
    user_agent: Annotated[str, Meta(max_length=300)] | UnsetType = UNSET
    headers: Annotated[str, Meta(max_length=HEADERS_MAX)] | UnsetType = UNSET
    time_limit: Annotated[int, Meta(ge=1, le=TIME_LIMIT_MAX)] | UnsetType | None = UNSET
    min_minutes: Minutes | UnsetType | None = UNSET
    max_minutes: Minutes | UnsetType | None = UNSET


class Moved(Shape, frozen=True):
    """The new feed. `known`: this server already had it, and entries you've read stay read. `undo` is empty
    if the subscription stays the same."""

    feed_id: Id
    known: bool
    undo: str


class FeedMove(Body, frozen=True):
    """The new position; null: no folder. `after`: the feed to place it after, 0 for first."""

    source: Id | None = None
    target: Id | None = None
    after: Id0 | None = None


class Tickets(Shape, frozen=True):
    """Jobs that fetch the feeds; an event reports new entries. `resting`: feeds that wait because their sites
    limit requests, the last until `rests_until`. `message` says so.
    """

    tickets: tuple[str, ...]
    resting: int
    rests_until: dt.datetime | None
    message: str


class Feeds(Body, frozen=True):
    """The feeds, by ID; others than yours are ignored."""

    feed_ids: Ids


class Bulk(Body, frozen=True):
    """An action on many feeds; `folder_id`: the folder, for actions that need one."""

    feed_ids: Ids
    do: Literal["add", "remove", "move", "refresh", "pause", "resume", "unsubscribe"]
    folder_id: Id | None = None


class BulkDone(Shape, frozen=True):
    """Number of feeds changed; `undo` is null if there's nothing to undo."""

    count: int
    undo: str | None


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
_ROW = add_example(
    Subscription(
        feed_id=FEED,
        title="blog",
        url=FEED_URL,
        unread=12,
        folder_ids=(FOLDER,),
        paused=False,
        private=False,
        person=False,
        newest=_AT,
        per_week=3.5,
        error=None,
        message=None,
        icon="https://eventr.example.org/icon/9f86d081884c7d65.png",
        own_title="",
        hidden=False,
        original=False,
        notify=False,
        full_text=False,
        reopen=True,
        read_after=30,
        keep_newest=0,
    )
)
add_example(SubscriptionPage(items=(_ROW,), next=None, total=1))
add_example(NewSubscription(url="https://site.example.org/atom.xml", title="A site", folder_id=FOLDER))
add_example(Subscribed(feed_id=FEED, existed=False, ticket="c9d8a7"))
add_example(SubscriptionChange(title="My blog", folder_ids=(FOLDER,)))
add_example(
    SubscriptionKept(
        feed_id=FEED,
        title="My blog",
        folder_ids=(FOLDER,),
        paused=False,
        private=False,
        hidden=False,
        original=False,
        notify=False,
        full_text=False,
        reopen=False,
        read_after=0,
        keep_newest=0,
    )
)
add_example(Address(url="https://blog.example.org/new-feed"))
add_example(Moved(feed_id=FEED, known=False, undo="feed.Zk3vUqJ8mJv1yW2c0n5b3A"))
add_example(
    Fetching(
        login="ann",
        has_password=True,
        has_token=False,
        has_cookie=False,
        has_headers=False,
        user_agent="",
        time_limit=None,
        min_minutes=None,
        max_minutes=60,
    )
)
add_example(FetchingChange(login="ann", password="correct horse", max_minutes=60))  # noqa: S106
add_example(FeedMove(source=FOLDER, target=OTHER_FOLDER, after=0))
add_example(Tickets(tickets=("c9d8a7",), resting=0, rests_until=None, message="Checking 1 feed"))
add_example(Feeds(feed_ids=(FEED,)))
add_example(Bulk(feed_ids=(FEED,), do="add", folder_id=OTHER_FOLDER))
add_example(BulkDone(count=1, undo=UNDO))


@add_operation("GET", "/subscriptions", "List subscriptions", scope=Scope.READ, tag=TAG)
def list_subscriptions(actor: Actor, query: SubscriptionQuery) -> SubscriptionPage:
    """Returns up to 100 subscriptions per page."""
    folder = None if query.folder_id is UNSET else query.folder_id
    asked = BulkEditQuery(query.q, query.show, folder, query.sort, _unpacked(query.cursor))
    page = get_services().bulk_edit.load_page(actor, asked)
    after = base64.urlsafe_b64encode(page.after.encode()).decode() if page.after else None
    return SubscriptionPage(items=tuple(_row(actor, row) for row in page.rows), next=after, total=page.total)


def _unpacked(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise InvalidError("Can't load more of this list. Reload it.", field="cursor") from None


def get_visible_word(actor: Actor, word: str | None) -> str | None:
    """Return the error code that this person may see (S13)."""
    return get_public_word(word, admin=actor.has_permission(Permission.ADMIN_SEE)) if word else None


def _row(who: Actor, row: BulkEditRow) -> Subscription:
    error = get_visible_word(who, row.error)
    return Subscription(
        feed_id=row.feed_id,
        title=row.title,
        url=row.url,
        unread=row.unread,
        folder_ids=row.folder_ids,
        paused=row.paused,
        private=row.private,
        person=row.person,
        newest=row.newest,
        per_week=round(row.rate, 2),
        error=error,
        message=i18n.translate_feed_error(error) if error else None,
        icon=f"{get_web().base_url}{row.icon}" if row.icon else None,
        own_title=row.kept.title,
        hidden=is_hidden_site(row.kept),
        original=row.kept.original,
        notify=row.kept.notify,
        full_text=row.kept.full_text,
        reopen=row.kept.reopen,
        read_after=row.kept.read_after,
        keep_newest=row.kept.keep_newest,
    )


@add_operation("POST", "/subscriptions", "Subscribe", scope=Scope.SUBSCRIBE, tag=TAG,
           status=(201, 200, 202), errors=(404, 413))  # fmt: skip
def subscribe(actor: Actor, body: NewSubscription) -> Reply[Subscribed]:
    """Send the address of the feed itself. To find a site's feeds, use `/discoveries`.

    If you already have the subscription, returns 200. Returns 202 if the feed is being fetched, because it's
    new or failed last time.
    """
    if parse_own_handle(body.url):
        raise InvalidError("This person is on this server. Follow them by user name.", field="url")
    done = get_services().subscriptions.subscribe(
        actor, body.url, title=body.title, folder_id=body.folder_id, private=body.private
    )
    feed_id = done.subscription.feed_id
    status = 200 if done.existed else 202 if done.ticket else 201
    made = Subscribed(feed_id=feed_id, existed=done.existed, ticket=done.ticket)
    return Reply(made, status, f"/subscriptions/{feed_id}")


@add_operation("GET", "/subscriptions/{feed_id}", "Get a subscription", scope=Scope.READ, tag=TAG)
def get_subscription(actor: Actor, feed_id: int) -> Subscription:
    """Returns the same fields as the list."""
    return _row(actor, get_services().bulk_edit.get_row(actor, feed_id))


@add_operation("PATCH", "/subscriptions/{feed_id}", "Update a subscription", scope=Scope.SUBSCRIBE, tag=TAG,
           guarded=True)  # fmt: skip
def change_subscription(actor: Actor, feed_id: int, body: SubscriptionChange) -> SubscriptionKept:
    """Changes the title, the folders, and all other settings of the feed."""
    folders: Sequence[int] | None = None if body.folder_ids is UNSET else body.folder_ids
    title = None if body.title is UNSET else body.title
    paused = None if body.paused is UNSET else body.paused
    now = get_services().subscriptions.update(
        actor,
        feed_id,
        title=title,
        folder_ids=folders,
        paused=paused,
        hidden=None if body.hidden is UNSET else body.hidden,
        original=None if body.original is UNSET else body.original,
        notify=None if body.notify is UNSET else body.notify,
        full_text=None if body.full_text is UNSET else body.full_text,
        reopen=None if body.reopen is UNSET else body.reopen,
        read_after=None if body.read_after is UNSET else body.read_after,
        keep_newest=None if body.keep_newest is UNSET else body.keep_newest,
    )
    private = now.private if body.private is UNSET else body.private
    if private != now.private:
        get_services().sharing.set_feed_private(actor, feed_id, private)
    return SubscriptionKept(
        feed_id=now.feed_id,
        title=now.title,
        folder_ids=now.folder_ids,
        paused=now.paused,
        private=private,
        hidden=is_hidden_site(now),
        original=now.original,
        notify=now.notify,
        full_text=now.full_text,
        reopen=now.reopen,
        read_after=now.read_after,
        keep_newest=now.keep_newest,
    )


@add_operation("DELETE", "/subscriptions/{feed_id}", "Unsubscribe", scope=Scope.SUBSCRIBE, tag=TAG,
           guarded=True)  # fmt: skip
def unsubscribe(actor: Actor, feed_id: int) -> Undo:
    """Starred entries stay in your account."""
    return Undo(undo=f"feed.{get_services().subscriptions.unsubscribe(actor, feed_id)}")


@add_operation("POST", "/subscriptions/{feed_id}/address", "Change a feed's address", scope=Scope.SUBSCRIBE,
           tag=TAG, errors=(409,))  # fmt: skip
def change_address(actor: Actor, feed_id: int, body: Address) -> Moved:
    """Title and folders stay. The feed gets a new ID, unless the address is another spelling of its own."""
    done = get_services().subscriptions.change_address(actor, feed_id, body.url)
    return Moved(feed_id=done.feed_id, known=done.was_known, undo=f"feed.{done.undo}" if done.undo else "")


@add_operation("GET", "/subscriptions/{feed_id}/fetching", "Get how a feed is fetched", scope=Scope.READ,
           tag=TAG)  # fmt: skip
def get_fetching(actor: Actor, feed_id: int) -> Fetching:
    """Returns the login, user agent and interval limits, without secrets."""
    found = get_services().subscriptions.get_fetch_options(actor, feed_id)
    return Fetching(
        login=found.login,
        has_password=bool(found.password),
        has_token=bool(found.token),
        has_cookie=bool(found.cookie),
        has_headers=bool(found.headers),
        user_agent=found.user_agent,
        time_limit=found.time_limit,
        min_minutes=found.min_minutes,
        max_minutes=found.max_minutes,
    )


@add_operation("POST", "/subscriptions/{feed_id}/fetching", "Change how a feed is fetched",
           scope=Scope.SUBSCRIBE, tag=TAG, errors=(409,))  # fmt: skip
def change_fetching(actor: Actor, feed_id: int, body: FetchingChange) -> Moved:
    """Sets login, cookie, user agent and interval limits. The feed gets a new ID when it becomes your own
    copy, and when you remove the last of them.
    """
    changes = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}
    if changes.get("login") == "":
        changes["password"] = ""
    done = get_services().subscriptions.change_fetch_options(
        actor, feed_id, lambda before: dataclasses.replace(before, **changes)
    )
    return Moved(feed_id=done.feed_id, known=done.was_known, undo=f"feed.{done.undo}" if done.undo else "")


@add_operation("POST", "/subscriptions/{feed_id}/move", "Move a feed", scope=Scope.SUBSCRIBE, tag=TAG)
def move_feed(actor: Actor, feed_id: int, body: FeedMove) -> Undo:
    """Moves the feed to another folder, or to a new position in the same folder."""
    token = get_services().folders.move_feed(
        actor, feed_id, source=body.source, target=body.target, after=body.after
    )
    return Undo(undo=f"place.{token}")


@add_operation("POST", "/subscriptions/{feed_id}/refresh", "Fetch a feed now", scope=Scope.SUBSCRIBE, tag=TAG,
           status=202, needs_space=True)  # fmt: skip
def refresh_feed(actor: Actor, feed_id: int) -> Reply[Tickets]:
    """Returns at once, without waiting for the fetch. If the feed waits for its site, `Retry-After` says how
    long.
    """
    return _refresh(actor, feed_id)


@add_operation("POST", "/subscriptions/refresh", "Fetch all feeds now", scope=Scope.SUBSCRIBE, tag=TAG,
           status=202, needs_space=True)  # fmt: skip
def refresh_all(actor: Actor) -> Reply[Tickets]:
    """Returns at once, without waiting for the fetches. Feeds after the first 100 don't get a ticket."""
    return _refresh(actor)


def _refresh(actor: Actor, feed_id: int | None = None) -> Reply[Tickets]:
    subscriptions = get_services().subscriptions
    done = subscriptions.refresh(actor, feed_id)
    ends = subscriptions.list_rest_ends(actor, None if feed_id is None else (feed_id,))
    until = max(ends, default=None)
    body = Tickets(
        tickets=tuple(t.id for t in done.tickets),
        resting=len(ends),
        rests_until=until,
        message=describe_check(done.count, ends),
    )
    all_rest = until is not None and len(ends) >= done.count
    wait = math.ceil((until - clock.now()).total_seconds()) if all_rest and until else 0
    return Reply(body, 202, retry_after=max(wait, 0))


@add_operation("POST", "/subscriptions/{feed_id}/icon", "Look for a feed's icon again", scope=Scope.SUBSCRIBE,
           tag=TAG, status=204)  # fmt: skip
def look_for_icon(actor: Actor, feed_id: int) -> None:
    """Needs the scope `read`, too. After some seconds, `icon` of the subscription has the new address."""
    get_services().subscriptions.get(actor, feed_id)
    get_services().icons.look_again(actor, feed_id)


@add_operation("POST", "/subscriptions/mark-read", "Mark many feeds as read", scope=Scope.MARK, tag=TAG)
def mark_feeds_read(actor: Actor, body: Feeds) -> Marked:
    """Marks all their entries. One `undo` takes all of it back."""
    done = get_services().marking.mark_feeds(actor, body.feed_ids)
    return Marked(count=done.count, undo=done.undo if done.count else None)


@add_operation("POST", "/subscriptions/bulk", "Update many subscriptions", scope=Scope.SUBSCRIBE, tag=TAG,
           errors=(404,), needs_space=True)  # fmt: skip
def change_many(actor: Actor, body: Bulk) -> BulkDone:
    """`add`, `remove` and `move` need a folder. Without one, `move` takes the feeds out of all folders."""
    if body.do == "refresh":
        return BulkDone(count=get_services().bulk_edit.refresh(actor, body.feed_ids), undo=None)
    if body.do in ("pause", "resume"):
        count = get_services().bulk_edit.set_paused(actor, body.feed_ids, body.do == "pause")
        return BulkDone(count=count, undo=None)
    if body.do == "unsubscribe":
        token, count = get_services().bulk_edit.unsubscribe(actor, body.feed_ids)
        return BulkDone(count=count, undo=f"feeds.{token}" if count else None)
    mode = FolderEditMode(body.do)
    if body.folder_id is None and mode is not FolderEditMode.MOVE:
        raise InvalidError("Choose a folder first.", field="folder_id")
    folders = [] if body.folder_id is None else [body.folder_id]
    token, count = get_services().folders.place_feeds(actor, body.feed_ids, folders, mode)
    return BulkDone(count=count, undo=f"place.{token}" if count else None)
