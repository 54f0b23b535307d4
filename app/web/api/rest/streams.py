"""Lists of entries: pages of a snapshot, marking as read, and undo."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.history import ActionKind, HistoryCursor
from app.models.reading.rules import Rule
from app.models.reading.search import QUERY_MAX, normalise_query
from app.models.reading.story import Copy as StoredCopy
from app.models.reading.stream import EntryRow, Show, Sort, StreamKind, StreamQuery, StreamRef
from app.models.sharing.sharing import Sharer as StoredSharer
from app.models.subscriptions.undo import RestoreResult
from app.web.api.rest.shapes import (
    ENTRY,
    FEED,
    PERSON,
    RULE,
    SHARE,
    SNAPSHOT,
    UNDO,
    Body,
    CursorQuery,
    Id,
    Limit,
    Opaque,
    Query,
    Shape,
    Token,
    Undone,
)
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services
from app.web.view.pictures import sign_picture, sign_pictures
from app.web.view.present import keep_http_url
from app.web.view.undo import restore_token

TAG = "Streams"
Snapshot = Annotated[str, Meta(max_length=128, description="The value from a page of this stream.")]
Words = Annotated[
    str,
    Meta(
        max_length=4 * QUERY_MAX,
        description="Search query, such as `japan` or `title:japan`; only for the stream `search`.",
    ),
]


class Sharer(Shape, frozen=True):
    """A person you follow who shared the entry."""

    share_id: Id
    name: str
    display: str
    note: str


class Label(Shape, frozen=True):
    """A tag."""

    id: Id
    name: str


class Copy(Shape, frozen=True):
    """The same article in another of your feeds."""

    id: Id
    feed_id: Id
    feed_title: str


class HighlightRule(Shape, frozen=True):
    """The rule that highlighted an entry. `name`: null if you have deleted the rule."""

    id: Id
    name: str | None


class EntrySummary(Shape, frozen=True):
    """An entry as shown in a list.

    `html`: its sanitized text, if `whole` was requested; null if it is too long for a list.
    `full_text`: that is the text of the entry's page instead of the feed's, because your subscription has
    `full_text`; one that is too long for a list gives way to the feed's. `at`: the time that lists are
    sorted by. `lost`: why the shared entry can't be shown.
    `copies`: the same article in your other feeds; they have no rows of their own here, also in search
    results, and marks reach all. `highlighted`: by one of your rules, `highlighted_by`, if it is known.
    """

    id: Id
    feed_id: Id
    feed_title: str
    title: str
    url: str
    author: str
    excerpt: str
    at: dt.datetime
    published: dt.datetime | None
    read: bool
    starred: bool
    image: str | None
    tags: tuple[Label, ...]
    shared_by: tuple[Sharer, ...]
    html: str | None
    full_text: bool
    lost: str | None
    copies: tuple[Copy, ...]
    highlighted: bool
    highlighted_by: HighlightRule | None


class EntryPage(Shape, frozen=True):
    """One page of a stream, as of the time when its first page was requested.

    `next`: cursor of the next page, null at the end. `snapshot`: identifies that time for `mark-all-read`.
    `unread` and `total`: counts for the whole stream, null if unknown; each share counts.
    """

    items: tuple[EntrySummary, ...]
    next: str | None
    snapshot: str
    unread: int | None
    total: int | None


class EntryQuery(Query, frozen=True):
    """The page to return and its options. Use the same options for all pages."""

    q: Words = ""
    sort: Sort = Sort.NEWEST
    show: Show = Show.ALL
    whole: Annotated[bool, Meta(description="Include the texts.")] = False
    limit: Limit = 50
    cursor: Opaque = ""


class WordsQuery(Query, frozen=True):
    """The query for the stream `search`."""

    q: Words = ""


class MarkAll(Body, frozen=True):
    """Marks entries up to `snapshot`; without it, up to now. Searches, tags and `today` need one."""

    snapshot: Snapshot = ""


class MarkPart(Body, frozen=True):
    """The entries above or below an entry in a snapshot's list."""

    snapshot: Snapshot
    entry_id: Id
    part: Literal["above", "below"]


class Marked(Shape, frozen=True):
    """Number of entries marked as read; `undo` is null if there were none."""

    count: int
    undo: str | None


class Action(Shape, frozen=True):
    """An action that can be undone. `about`: the stream or the name of the object."""

    undo: str
    kind: ActionKind
    about: str
    count: int
    at: dt.datetime


class History(Shape, frozen=True):
    """Actions that can be undone, newest first; `next`: cursor of the next page, null at the end."""

    items: tuple[Action, ...]
    next: str | None


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
_SHARER = add_example(Sharer(share_id=SHARE, name=PERSON, display="Cleo", note="Worth reading."))
_COPY = add_example(Copy(id=ENTRY + 1, feed_id=FEED + 1, feed_title="planet"))
_RULE = add_example(HighlightRule(id=RULE, name="Chess"))
_ROW = add_example(
    EntrySummary(
        id=ENTRY,
        feed_id=FEED,
        feed_title="blog",
        title="A quiet day",
        url="https://blog.example.org/1",
        author="Ann",
        excerpt="Nothing happened.",
        at=_AT,
        published=_AT,
        read=False,
        starred=False,
        image=None,
        tags=(),
        shared_by=(_SHARER,),
        html=None,
        full_text=False,
        lost=None,
        copies=(_COPY,),
        highlighted=True,
        highlighted_by=_RULE,
    )
)
add_example(EntryPage(items=(_ROW,), next=None, snapshot=SNAPSHOT, unread=1, total=1))
add_example(WordsQuery())
add_example(MarkAll(snapshot=SNAPSHOT))
add_example(MarkPart(snapshot=SNAPSHOT, entry_id=ENTRY, part="below"))
add_example(Marked(count=12, undo=UNDO))
_ACTION = add_example(Action(undo=UNDO, kind=ActionKind.FOLDER, about="News", count=0, at=_AT))
add_example(History(items=(_ACTION,), next=None))


def parse_stream_ref(stream: str, words: str) -> StreamRef:
    """Return the stream of a path.

    Raises:
        InvalidError: A search has no query, or another stream has one.
    """
    if (stream == StreamKind.SEARCH) != bool(words.strip()):
        raise InvalidError("The stream “search” needs a query. Other streams can't have one.", field="q")
    if stream == StreamKind.SEARCH:
        if not (query := normalise_query(words)):
            raise InvalidError("Enter something to search for.", field="q")
        return StreamRef(StreamKind.SEARCH, query=query)
    return StreamRef.parse(stream.replace(":", "/"))


@add_operation("GET", "/streams/{stream}/entries", "List entries", scope=Scope.READ, tag=TAG, errors=(404,))
def list_entries(actor: Actor, stream: str, query: EntryQuery) -> EntryPage:
    """Later pages don't repeat or skip entries, even if new ones arrive. A list stays available for a day."""
    snapshot, cursor = _unpacked(query.cursor)
    page = get_services().reading.load_page(
        actor,
        StreamQuery(
            parse_stream_ref(stream, query.q),
            query.sort,
            cursor,
            snapshot,
            query.limit,
            query.show,
            with_bodies=query.whole,
        ),
    )
    rules = get_services().rules.find_highlighters(actor, page.rows)
    return EntryPage(
        items=tuple(_row(row, rules) for row in page.rows),
        next=_packed(page.snapshot, page.cursor) if page.cursor else None,
        snapshot=page.snapshot,
        unread=page.unread,
        total=page.total,
    )


def _packed(snapshot: str, cursor: str) -> str:
    return base64.urlsafe_b64encode(f"{snapshot} {cursor}".encode()).decode()


def _unpacked(text: str) -> tuple[str | None, str | None]:
    if not text:
        return None, None
    try:
        snapshot, _, cursor = base64.b64decode(text, altchars=b"-_", validate=True).decode().partition(" ")
    except (binascii.Error, ValueError):
        snapshot, cursor = "", ""
    if not (snapshot and cursor):
        raise InvalidError("Can't load more of this list. Reload it.", field="cursor")
    return snapshot, cursor


def _row(row: EntryRow, rules: Mapping[int, Rule]) -> EntrySummary:
    html = row.shown_html
    return EntrySummary(
        id=row.id,
        feed_id=row.feed_id,
        feed_title=row.feed_title,
        title=row.title,
        url=keep_http_url(row.url),
        author=row.author,
        excerpt=row.excerpt,
        at=row.at,
        published=row.published,
        read=row.read,
        starred=row.starred,
        image=sign_picture(row.image, row.url),
        tags=tuple(Label(id=t.id, name=t.name) for t in row.tags),
        shared_by=tuple(map(build_sharer, row.sharers)),
        html=html if html is None else sign_pictures(html, row.url),
        full_text=row.full != "",
        lost=row.lost.value if row.lost else None,
        copies=build_copies(row.copies),
        highlighted=row.highlighted,
        highlighted_by=build_highlighter(row.highlighter, rules),
    )


def build_highlighter(rule_id: int, rules: Mapping[int, Rule]) -> HighlightRule | None:
    """Return the rule that highlighted an entry; None: none did, or it is unknown which.

    Args:
        rules: those that the user still has.
    """
    name = rules[rule_id].name if rule_id in rules else None
    return HighlightRule(id=rule_id, name=name) if rule_id else None


def build_copies(found: Sequence[StoredCopy]) -> tuple[Copy, ...]:
    """Return the copies of an entry in other feeds of its reader."""
    return tuple(Copy(id=one.entry_id, feed_id=one.feed_id, feed_title=one.feed_title) for one in found)


def build_sharer(found: StoredSharer) -> Sharer:
    """Return a person who shared an entry."""
    return Sharer(share_id=found.share_id, name=found.handle, display=found.name, note=found.note)


@add_operation("POST", "/streams/{stream}/mark-all-read", "Mark a stream as read", scope=Scope.MARK, tag=TAG,
           errors=(404,))  # fmt: skip
def mark_all_read(actor: Actor, stream: str, query: WordsQuery, body: MarkAll) -> Marked:
    """Marks everything that the list has shown."""
    ref = parse_stream_ref(stream, query.q)
    done = get_services().reading.mark_all(actor, ref, snapshot=body.snapshot or None)
    return Marked(count=done.count, undo=done.undo if done.count else None)


@add_operation("POST", "/streams/{stream}/mark-part-read", "Mark part of a list as read", scope=Scope.MARK,
           tag=TAG, errors=(404,))  # fmt: skip
def mark_part_read(actor: Actor, stream: str, query: WordsQuery, body: MarkPart) -> Marked:
    """Marks the entries above or below one of the list's first entries."""
    marking = get_services().marking
    mark = marking.mark_above if body.part == "above" else marking.mark_below
    done = mark(actor, parse_stream_ref(stream, query.q), body.snapshot, body.entry_id)
    return Marked(count=done.count, undo=done.undo if done.count else None)


@add_operation("POST", "/undo", "Undo an action", scope=None, tag=TAG, errors=(404, 409))
def undo(actor: Actor, body: Token) -> Undone:
    """Accepts any `undo` token for a day. The access token needs the scope of the original action."""
    done = restore_token(get_services(), actor, body.undo)
    if isinstance(done, RestoreResult):
        return Undone(asked=len(done.requested_user_ids), lost=done.lost_count)
    return Undone(asked=1 if body.undo.startswith("feed.") and done is None else 0)


@add_operation("GET", "/history", "List actions that can be undone", scope=Scope.MARK, tag=TAG)
def list_history(actor: Actor, query: CursorQuery) -> History:
    """Returns the actions of the last day."""
    after = HistoryCursor.parse(query.cursor) if query.cursor else None
    page = get_services().marking.list_history(actor, after)
    return History(
        items=tuple(
            Action(undo=a.undo, kind=a.kind, about=a.about, count=a.count, at=a.at) for a in page.actions
        ),
        next=str(page.after) if page.after else None,
    )
