"""Single entries: their texts, marks and tags."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.errors import EventrError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.stream import Article
from app.models.reading.tag import key_of
from app.web.api.rest.shapes import ENTRY, FEED, TAG, UNSET, Body, Id, Shape, UnsetType
from app.web.api.rest.streams import Label, Sharer, sharer
from app.web.api.rest.table import example, operation
from app.web.context import services
from app.web.view.present import http_only

GROUP = "Entries"


class File(Shape, frozen=True):
    """A file that belongs to an entry; `length` in bytes, `duration` in seconds."""

    url: str
    type: str | None
    length: int | None
    duration: int | None


class Entry(Shape, frozen=True):
    """An entry with its text.

    `html`: cleaned, with absolute addresses. `share`: your own share of it. `of`: the entry that a share is
    of. `lost`: why nothing of that is shown.
    """

    id: Id
    feed_id: Id
    feed_title: str
    language: str | None
    title: str
    url: str
    author: str
    at: dt.datetime
    published: dt.datetime | None
    updated: dt.datetime | None
    html: str
    image: str | None
    categories: tuple[str, ...]
    files: tuple[File, ...]
    read: bool
    starred: bool
    liked: bool
    tags: tuple[Label, ...]
    shared_by: tuple[Sharer, ...]
    share: Id | None
    of: Id | None
    lost: str | None


class EntryChange(Body, frozen=True):
    """What is left out stays. `tags`: all it has from then on, by name; new ones are made."""

    read: bool | UnsetType = UNSET
    starred: bool | UnsetType = UNSET
    liked: bool | UnsetType = UNSET
    tags: Annotated[tuple[Annotated[str, Meta(max_length=256)], ...], Meta(max_length=1000)] | UnsetType = (
        UNSET
    )


class EntryMarks(Shape, frozen=True, kw_only=True):
    """What was changed, as it is now; and its tags."""

    id: Id
    read: bool | UnsetType = UNSET
    starred: bool | UnsetType = UNSET
    liked: bool | UnsetType = UNSET
    tags: tuple[Label, ...]


class Marks(Body, frozen=True):
    """Entries that become read, or unread again."""

    ids: Annotated[tuple[Id, ...], Meta(max_length=1000)]
    read: bool


class MarksDone(Shape, frozen=True):
    """By how much each feed's count has moved."""

    moved: int
    feeds: dict[str, int]


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
example(
    Entry(
        id=ENTRY,
        feed_id=FEED,
        feed_title="blog",
        language="en",
        title="A quiet day",
        url="https://blog.example.org/1",
        author="Ann",
        at=_AT,
        published=_AT,
        updated=None,
        html="<p>Nothing happened.</p>",
        image=None,
        categories=("days",),
        files=(),
        read=False,
        starred=True,
        liked=False,
        tags=(Label(id=TAG, name="to read"),),
        shared_by=(),
        share=None,
        of=None,
        lost=None,
    )
)
example(EntryChange(read=True, starred=True, tags=("to read",)))
example(EntryMarks(id=ENTRY, read=True, starred=True, tags=(Label(id=TAG, name="to read"),)))
example(Marks(ids=(ENTRY,), read=True))
example(MarksDone(moved=-1, feeds={str(FEED): -1}))


@operation("GET", "/entries/{entry_id}", "Get an entry", scope=Scope.READ, tag=GROUP)
def get_entry(who: Actor, entry_id: int) -> Entry:
    """This marks nothing as read."""
    found = services().reading.article(who, entry_id)
    entry = found.entry
    return Entry(
        id=entry.id,
        feed_id=entry.feed_id,
        feed_title=found.feed_title,
        language=found.language,
        title=entry.title,
        url=http_only(entry.url),
        author=entry.author,
        at=entry.at,
        published=entry.published,
        updated=entry.updated,
        html=entry.content or entry.summary,
        image=http_only(entry.image) or None,
        categories=entry.categories,
        files=tuple(
            File(url=f.url, type=f.type, length=f.length, duration=f.duration)
            for f in entry.enclosures
            if http_only(f.url)
        ),
        read=found.read,
        starred=found.starred,
        liked=_liked(who, found),
        tags=tuple(Label(id=t.id, name=t.name) for t in found.tags),
        shared_by=tuple(map(sharer, found.sharers)),
        share=services().sharing.mine(who, entry),
        of=entry.of.entry_id if entry.of else None,
        lost=entry.lost.value if entry.lost else None,
    )


def _liked(who: Actor, found: Article) -> bool:
    talk, entry_id = services().talk, found.entry.id
    talks = talk.talks(who, [s for s in found.shares if s.id == entry_id])
    return talks[entry_id].liked if entry_id in talks else bool(talk.liked(who, [entry_id]))


@operation("PATCH", "/entries/{entry_id}", "Mark an entry", scope=Scope.MARK, tag=GROUP, errors=(413,))
def change_entry(who: Actor, entry_id: int, body: EntryChange) -> EntryMarks:
    """Read, starred, liked, and its tags."""
    # Refused before anything is done; what he kept of something closed he may still let go.
    if body.starred is True or body.liked is True or body.read is False:
        services().reading.check_marks(who, entry_id, unread=body.read is False)
    before = tags = services().tags.change(who, entry_id)
    if body.tags is not UNSET:
        kept = {key_of(name) for name in body.tags}
        gone = [tag.id for tag in tags if key_of(tag.name) not in kept]
        try:
            tags = services().tags.change(who, entry_id, add=body.tags, remove=gone)
        except InvalidError as e:
            e.ids["field"] = "tags"  # as it is called here
            raise
    if body.liked is True:
        try:
            services().talk.like(who, entry_id)
        except EventrError:
            new = [tag.id for tag in tags if tag not in before]
            services().tags.change(who, entry_id, add=[tag.name for tag in before], remove=new)
            raise
    if body.starred is True:
        services().reading.star(who, entry_id, True)
    # What is let go may have been the last that he kept of it.
    with contextlib.suppress(NotFoundError):
        if body.starred is False:
            services().reading.star(who, entry_id, False)
    with contextlib.suppress(NotFoundError):
        if body.liked is False:
            services().talk.like(who, entry_id, False)
    if body.read is not UNSET:
        services().reading.mark(who, [entry_id], body.read)
    return EntryMarks(
        id=entry_id,
        read=body.read,
        starred=body.starred,
        liked=body.liked,
        tags=tuple(Label(id=t.id, name=t.name) for t in tags),
    )


@operation("POST", "/entries/mark", "Mark many entries", scope=Scope.MARK, tag=GROUP, errors=(404,))
def mark_entries(who: Actor, body: Marks) -> MarksDone:
    """Twice is the same as once; what is gone or not yours is left out."""
    done = services().reading.mark(who, body.ids, body.read)
    return MarksDone(moved=done.total, feeds={str(feed): delta for feed, delta in done.deltas.items()})
