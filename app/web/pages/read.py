"""Reading: tree, list and article, as a page or as the part that a script asked for."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request

from app.errors import NotFoundError
from app.models.stream import Page, Sort, StreamKind, StreamQuery, StreamRef, Tree
from app.web import schemas
from app.web.context import actor, services
from app.web.render import fragment_for, template
from app.web.schemas import text
from app.web.views import Head, head_of

bp = Blueprint("read", __name__)

SORTS = tuple(s.value for s in Sort)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    entry: int | None = None
    cursor: str = text(max=64, default="")
    snapshot: str = text(max=128, default="")
    sort: str = text(max=32, default=Sort.UNREAD_ON_TOP.value, one_of=SORTS)


@bp.get("/read")
def tree_page() -> str:
    """The tree alone, where a screen has room for one pane; beside the list of everything elsewhere."""
    return _whole_page(StreamRef(StreamKind.ALL), Query(), pane="tree")


@bp.get("/read/nothing")
def nothing() -> str:
    """The article pane when no entry is open."""
    return template("parts/article_empty.html")


@bp.get("/read/<any(all, starred):kind>")
@bp.get("/read/<any(feed, folder, tag):kind>/<int:stream_id>")
@bp.get("/read/<any(search):kind>/<stream_id>")
def stream(kind: str, stream_id: int | str | None = None) -> Response | str:
    """A stream: whole, its two panes, more of its rows, or one of its entries."""
    ref = StreamRef.parse(kind if stream_id is None else f"{kind}/{stream_id}")
    asked = schemas.query(request, Query)
    wanted = fragment_for()
    if wanted == "article" and asked.entry is not None:
        return _article(ref, asked.entry)
    if wanted == "more":
        return _more(ref, asked)
    if wanted == "stream":
        return _panes(ref, asked)
    return _whole_page(ref, asked, pane="list" if asked.entry is None else "article")


@bp.get("/entries/<int:entry_id>")
def entry(entry_id: int) -> Response:
    """A lasting address of an entry: shown in its feed's stream."""
    found = services().reading.article(actor(), entry_id)
    return make_response(redirect(f"/read/feed/{found.entry.feed_id}?entry={entry_id}", 303))


def _article(ref: StreamRef, entry_id: int) -> str:
    found = services().reading.article(actor(), entry_id)
    return template("parts/article.html", article=found, ref=ref, my_tags=services().tags.all(actor()))


def _query(ref: StreamRef, asked: Query) -> StreamQuery:
    return StreamQuery(ref, Sort(asked.sort), asked.cursor or None, asked.snapshot or None)


def _screen(ref: StreamRef, asked: Query) -> tuple[Tree, Page]:
    try:
        return services().reading.screen(actor(), _query(ref, asked))
    except NotFoundError:
        if asked.cursor or not asked.snapshot:
            raise
        # Back to a list of yesterday: its snapshot is gone, so it is made anew.
        return services().reading.screen(actor(), StreamQuery(ref, Sort(asked.sort)))


def _more(ref: StreamRef, asked: Query) -> str:
    page = services().reading.page(actor(), _query(ref, asked))
    return template("parts/rows.html", page=page, ref=ref, sort=asked.sort, first=False)


def _panes(ref: StreamRef, asked: Query) -> str:
    tree, page = _screen(ref, asked)
    return template("parts/stream.html", **_values(ref, asked, tree, page))


def _whole_page(ref: StreamRef, asked: Query, *, pane: str) -> str:
    tree, page = _screen(ref, asked)
    values = _values(ref, asked, tree, page)
    searches = services().tags.searches(actor())
    return template("pages/read.html", tree=tree, pane=pane, current=str(ref), searches=searches, **values)


def _values(ref: StreamRef, asked: Query, tree: Tree, page: Page) -> dict[str, object]:
    my_tags = services().tags.all(actor())
    head: Head | None = head_of(tree, ref, my_tags)
    if head is None:
        raise NotFoundError(stream=str(ref))
    article = None
    if asked.entry is not None:
        article = services().reading.article(actor(), asked.entry)
    return {
        "ref": ref,
        "head": head,
        "page": page,
        "sort": asked.sort,
        "article": article,
        "has_feeds": has_feeds(tree),
        "my_tags": my_tags,
    }


def has_feeds(tree: Tree) -> bool:
    """Return whether there is any subscription."""
    return bool(tree.feeds or any(f.feeds or f.folders for f in tree.folders))
