"""Single entries: their content, marks and tags."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from typing import Annotated, Literal

from flask_babel import gettext
from msgspec import Meta

from app.errors import EventrError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.feeds.parsed import Enclosure, Replies
from app.models.reading.anchors import scope_anchors
from app.models.reading.stream import Article
from app.models.reading.tag import make_tag_key
from app.services.reading.full_texts import describe_failure
from app.web.api.rest.shapes import ENTRY, FEED, RULE, TAG, UNSET, Body, Id, Shape, UnsetType
from app.web.api.rest.streams import (
    Copy,
    HighlightRule,
    Label,
    Sharer,
    build_copies,
    build_highlighter,
    build_sharer,
)
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services
from app.web.view.pictures import sign_files, sign_picture, sign_pictures
from app.web.view.present import keep_http_url, keep_link_url

GROUP = "Entries"


class File(Shape, frozen=True):
    """A file attached to an entry; `length` in bytes, `duration` in seconds.

    `role`: another version of the entry's recording, its transcript or its chapters.
    """

    url: str
    type: str | None
    length: int | None
    duration: int | None
    role: Literal["alternate", "transcript", "chapters"] | None


class SiteComments(Shape, frozen=True):
    """The comments on an entry at its own site.

    `feed`: a feed of them. `count`: how many there were when Eventr last stored the entry.
    """

    url: str | None
    feed: str | None
    count: int | None


class Entry(Shape, frozen=True):
    """An entry with its text.

    `html`: sanitized, with absolute addresses. `full_text`: that is the text of the entry's page instead of
    the feed's, because your subscription has `full_text` and the page says more. `share`: your own share of
    the entry. `of`: for a share, the entry that was shared. `lost`: why that entry can't be shown. `copies`:
    the same article in your other feeds; `apart`: you keep them in rows of their own. `hidden`: lists leave
    the entry out. `highlighted`: by one of your rules, `highlighted_by`, if it is known.
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
    full_text: bool
    image: str | None
    categories: tuple[str, ...]
    files: tuple[File, ...]
    comments: SiteComments | None
    read: bool
    starred: bool
    liked: bool
    tags: tuple[Label, ...]
    shared_by: tuple[Sharer, ...]
    share: Id | None
    of: Id | None
    lost: str | None
    copies: tuple[Copy, ...]
    apart: bool
    hidden: bool
    highlighted: bool
    highlighted_by: HighlightRule | None


class EntryChange(Body, frozen=True):
    """Omitted fields stay unchanged.

    `tags` replaces all tags of the entry, by name; missing tags are created. `apart`: whether copies of the
    entry in other feeds have rows of their own. `hidden`: whether lists leave the entry and its copies out;
    hidden entries count as read.
    """

    read: bool | UnsetType = UNSET
    starred: bool | UnsetType = UNSET
    liked: bool | UnsetType = UNSET
    tags: Annotated[tuple[Annotated[str, Meta(max_length=256)], ...], Meta(max_length=1000)] | UnsetType = (
        UNSET
    )
    apart: bool | UnsetType = UNSET
    hidden: bool | UnsetType = UNSET


class EntryMarks(Shape, frozen=True, kw_only=True):
    """The fields that were sent, with their current values.

    `tags`: the entry's tags; omitted if only `read` was sent.
    """

    id: Id
    read: bool | UnsetType = UNSET
    starred: bool | UnsetType = UNSET
    liked: bool | UnsetType = UNSET
    tags: tuple[Label, ...] | UnsetType = UNSET
    apart: bool | UnsetType = UNSET
    hidden: bool | UnsetType = UNSET


class Marks(Body, frozen=True):
    """Entries to mark as read or unread."""

    ids: Annotated[tuple[Id, ...], Meta(max_length=1000)]
    read: bool


class MarksDone(Shape, frozen=True):
    """The number of entries changed, and the change in each feed's unread count."""

    moved: int
    feeds: dict[str, int]


class FullText(Shape, frozen=True):
    """The text of an entry's page.

    `html`: sanitized, with absolute addresses; empty with an `error`, or while a job fetches the page
    (`wait`).
    """

    html: str
    wait: bool
    error: str | None
    message: str | None


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
add_example(
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
        full_text=False,
        image=None,
        categories=("days",),
        files=(),
        comments=SiteComments(url="https://blog.example.org/1#comments", feed=None, count=12),
        read=False,
        starred=True,
        liked=False,
        tags=(Label(id=TAG, name="to read"),),
        shared_by=(),
        share=None,
        of=None,
        lost=None,
        copies=(Copy(id=ENTRY + 1, feed_id=FEED + 1, feed_title="planet"),),
        apart=False,
        hidden=False,
        highlighted=True,
        highlighted_by=HighlightRule(id=RULE, name="Chess"),
    )
)
add_example(FullText(html="<p>Nothing happened, at length.</p>", wait=False, error=None, message=None))
add_example(EntryChange(read=True, starred=True, tags=("to read",)))
add_example(EntryMarks(id=ENTRY, read=True, starred=True, tags=(Label(id=TAG, name="to read"),)))
add_example(Marks(ids=(ENTRY,), read=True))
add_example(MarksDone(moved=-1, feeds={str(FEED): -1}))


@add_operation("GET", "/entries/{entry_id}", "Get an entry", scope=Scope.READ, tag=GROUP)
def get_entry(actor: Actor, entry_id: int) -> Entry:
    """Doesn't mark the entry as read."""
    found = get_services().reading.get_article(actor, entry_id)
    entry = found.entry
    full = get_services().full_texts.find(actor, entry) if found.always_full else None
    found = dataclasses.replace(found, wants_full=found.always_full, full=full)
    rules = get_services().rules.find_highlighters(actor, (), found)
    html = found.shown_full or entry.content or entry.summary
    return Entry(
        id=entry.id,
        feed_id=entry.feed_id,
        feed_title=found.feed_title,
        language=found.language,
        title=entry.title,
        url=keep_http_url(entry.url),
        author=entry.author,
        at=entry.at,
        published=entry.published,
        updated=entry.updated,
        html=sign_pictures(scope_anchors(html, entry.id), entry.url),
        full_text=bool(found.shown_full),
        image=sign_picture(entry.image, entry.url),
        categories=entry.categories,
        files=tuple(
            File(url=f.url, type=f.type, length=f.length, duration=f.duration, role=_role(f))
            for f in sign_files(entry.enclosures, entry.url)
            if keep_link_url(f.url)
        ),
        comments=_comments(entry.replies),
        read=found.read,
        starred=found.starred,
        liked=_liked(actor, found),
        tags=tuple(Label(id=t.id, name=t.name) for t in found.tags),
        shared_by=tuple(map(build_sharer, found.sharers)),
        share=get_services().sharing.find_own_share(actor, entry),
        of=entry.of.entry_id if entry.of else None,
        lost=entry.lost.value if entry.lost else None,
        copies=build_copies(found.copies),
        apart=found.is_apart,
        hidden=found.is_hidden,
        highlighted=found.highlighted,
        highlighted_by=build_highlighter(found.highlighter, rules),
    )


@add_operation("POST", "/entries/{entry_id}/full-text", "Get the text of an entry's page",
               scope=Scope.READ, tag=GROUP, status=(200, 202))  # fmt: skip
def fetch_full_text(actor: Actor, entry_id: int) -> Reply[FullText]:
    """For feeds that publish only the beginning: finds the article on the entry's page.

    Returns 202 while a job fetches the page: repeat the request after a second. The page is fetched once for
    all readers, and stored.
    """
    found = get_services().full_texts.request_text(actor, entry_id, wait=0)
    html = ""
    if found and not found.error:
        entry = get_services().reading.get_article(actor, entry_id).entry
        html = sign_pictures(scope_anchors(found.html or entry.content, entry_id), entry.url)
    failure = describe_failure(found) if found else None
    answer = FullText(
        html=html,
        wait=found is None,
        error=found.error if found else None,
        message=gettext(failure) if failure else None,
    )
    return Reply(answer, 202 if found is None else 200, retry_after=1 if found is None else 0)


def _role(file: Enclosure) -> Literal["alternate", "transcript", "chapters"] | None:
    return file.role.value if file.role else None


def _comments(replies: Replies | None) -> SiteComments | None:
    page, feed = (keep_http_url(url) or None for url in (replies or Replies())[:2])
    return SiteComments(url=page, feed=feed, count=replies.total) if replies and (page or feed) else None


def _liked(who: Actor, found: Article) -> bool:
    talk, entry_id = get_services().discussion, found.entry.id
    talks = talk.count_reactions(who, [s for s in found.shares if s.id == entry_id])
    return talks[entry_id].liked if entry_id in talks else bool(talk.find_liked(who, [entry_id]))


@add_operation("PATCH", "/entries/{entry_id}", "Update an entry", scope=Scope.MARK, tag=GROUP, errors=(413,))
def change_entry(actor: Actor, entry_id: int, body: EntryChange) -> EntryMarks:
    """Changes the marks and tags of the entry, whether it is hidden, and whether its copies stay apart."""
    if body.apart is not UNSET:
        get_services().stories.set_apart(actor, entry_id, body.apart)
    if body.hidden is not UNSET:
        get_services().reading.check_marks(actor, entry_id, unread=True)
    has_marks = body.starred is not UNSET or body.liked is not UNSET or body.tags is not UNSET
    done = (_change_marks if has_marks else _mark_entry)(actor, entry_id, body)
    if body.hidden is not UNSET:
        hiding = get_services().hiding
        (hiding.hide_entry if body.hidden else hiding.show_entry)(actor, entry_id)
    return done


def _change_marks(actor: Actor, entry_id: int, body: EntryChange) -> EntryMarks:
    # Check before any change. Marks on entries that the user can no longer see may still be removed.
    if body.starred is True or body.liked is True or body.read is False:
        get_services().reading.check_marks(actor, entry_id, unread=body.read is False)
    before = tags = get_services().tags.get_tags(actor, entry_id)
    if body.tags is not UNSET:
        kept = {make_tag_key(name) for name in body.tags}
        gone = [tag.id for tag in tags if make_tag_key(tag.name) not in kept]
        try:
            tags = get_services().tags.change_tags(actor, entry_id, add=body.tags, remove=gone)
        except InvalidError as e:
            e.ids["field"] = "tags"  # the name of the field in this API
            raise
    if body.liked is True:
        try:
            get_services().discussion.set_liked(actor, entry_id)
        except EventrError:
            new = [tag.id for tag in tags if tag not in before]
            get_services().tags.change_tags(actor, entry_id, add=[tag.name for tag in before], remove=new)
            raise
    if body.starred is True:
        get_services().reading.set_starred(actor, entry_id, True)
    # Removing a mark may remove the user's last access to the entry.
    with contextlib.suppress(NotFoundError):
        if body.starred is False:
            get_services().reading.set_starred(actor, entry_id, False)
    with contextlib.suppress(NotFoundError):
        if body.liked is False:
            get_services().discussion.set_liked(actor, entry_id, False)
    if body.read is not UNSET:
        get_services().reading.mark(actor, [entry_id], body.read)
    return EntryMarks(
        id=entry_id,
        read=body.read,
        starred=body.starred,
        liked=body.liked,
        tags=tuple(Label(id=t.id, name=t.name) for t in tags),
        apart=body.apart,
        hidden=body.hidden,
    )


def _mark_entry(actor: Actor, entry_id: int, body: EntryChange) -> EntryMarks:
    """Change only whether an entry is read: programs do this with every entry, and it needs nothing else."""
    done = None if body.read is UNSET else get_services().reading.mark(actor, [entry_id], body.read)
    if done is None or not done.deltas:
        get_services().tags.get_tags(actor, entry_id)  # raises if the user may not see the entry
    return EntryMarks(id=entry_id, read=body.read, apart=body.apart, hidden=body.hidden)


@add_operation(
    "POST", "/entries/mark", "Mark entries as read or unread", scope=Scope.MARK, tag=GROUP, errors=(404,)
)
def mark_entries(actor: Actor, body: Marks) -> MarksDone:
    """Repeating the request has no further effect.

    Entries that are gone or that you can't see are ignored.
    """
    done = get_services().reading.mark(actor, body.ids, body.read)
    return MarksDone(moved=done.total, feeds={str(feed): delta for feed, delta in done.deltas.items()})
