"""Reading: tree, list and article, as a page or as the part that a script asked for."""

from __future__ import annotations

import dataclasses
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, redirect, request

from app.errors import InvalidError, NotFoundError
from app.models import preferences
from app.models.stream import Page, Show, Sort, StreamKind, StreamQuery, StreamRef, Tree
from app.models.streamview import EXPANDED, FIELDS, StreamView
from app.web import schemas
from app.web.context import actor, person, services
from app.web.pages.share import box_of
from app.web.render import fragment_for, template
from app.web.schemas import text
from app.web.views import Head, head_of

bp = Blueprint("read", __name__)


def _wish(name: str) -> Any:
    return text(max=32, default="", one_of=("", *preferences.values(name)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    entry: int | None = None
    cursor: str = text(max=64, default="")
    snapshot: str = text(max=128, default="")
    rows: int | None = None
    view: str = _wish("view")
    density: str = _wish("density")
    sort: str = _wish("sort")
    show: str = _wish("show")

    @property
    def wishes(self) -> dict[str, str]:
        """How the list is to be shown this once."""
        return {name: value for name in FIELDS if (value := getattr(self, name))}


@bp.get("/read")
def tree_page() -> str:
    """The tree alone, where a screen has room for one pane; beside the list of everything elsewhere."""
    return _whole_page(StreamRef(StreamKind.ALL), Query(), pane="tree")


@bp.get("/read/nothing")
def nothing() -> str:
    """The article pane when no entry is open."""
    return template("parts/article_empty.html")


@bp.get("/read/<any(all, starred, following, shares):kind>")
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
    try:
        if wanted == "stream":
            return _panes(ref, asked)
        return _whole_page(ref, asked, pane="list" if asked.entry is None else "article")
    except NotFoundError:
        # A link from before two feeds turned out to be one.
        feed_id = ref.id if ref.kind is StreamKind.FEED else None
        heir = services().subscriptions.heir(actor(), feed_id) if feed_id else None
        if heir is None:
            raise
        return make_response(redirect(f"/read/feed/{heir}", 303))


@bp.get("/entries/<int:entry_id>")
def entry(entry_id: int) -> Response:
    """A lasting address of an entry: shown in its feed's stream."""
    found = services().reading.article(actor(), entry_id)
    feed_id = found.entry.feed_id
    stream = f"feed/{feed_id}" if feed_id == found.source_id and found.subscribed else "all"
    return make_response(redirect(f"/read/{stream}?entry={entry_id}", 303))


def _article(ref: StreamRef, entry_id: int) -> str:
    found = services().reading.article(actor(), entry_id)
    tags = services().tags.all(actor())
    here = f"/read/{ref}"
    return template("parts/article.html", article=found, ref=ref, here=here, my_tags=tags, **box_of(found))


def _look(ref: StreamRef, asked: Query) -> StreamView:
    return services().streamviews.get(actor(), ref, person().preferences, asked.wishes)


def _query(ref: StreamRef, asked: Query, look: StreamView) -> StreamQuery:
    return StreamQuery(
        ref,
        Sort(look.sort),
        asked.cursor or None,
        asked.snapshot or None,
        asked.rows,
        Show(look.show),
        whole=look.view == EXPANDED,
    )


def _screen(query: StreamQuery) -> tuple[Tree, Page]:
    try:
        return services().reading.screen(actor(), query)
    except (NotFoundError, InvalidError):
        if query.cursor or not query.snapshot:
            raise
        # Back to a list of yesterday, or of another order: its snapshot does not fit, so it is made anew.
        return services().reading.screen(actor(), dataclasses.replace(query, snapshot=None))


def _more(ref: StreamRef, asked: Query) -> str:
    look = _look(ref, asked)
    page = services().reading.page(actor(), _query(ref, asked, look))
    return template("parts/rows.html", page=page, first=False, **_addresses(ref, asked, look))


def _panes(ref: StreamRef, asked: Query) -> str:
    look = _look(ref, asked)
    tree, page = _screen(_query(ref, asked, look))
    return template("parts/stream.html", **_values(ref, asked, look, tree, page))


def _whole_page(ref: StreamRef, asked: Query, *, pane: str) -> str:
    look = _look(ref, asked)
    tree, page = _screen(_query(ref, asked, look))
    values = _values(ref, asked, look, tree, page)
    searches = services().tags.searches(actor())
    return template("pages/read.html", tree=tree, pane=pane, current=str(ref), searches=searches, **values)


def _values(ref: StreamRef, asked: Query, look: StreamView, tree: Tree, page: Page) -> dict[str, object]:
    my_tags = services().tags.all(actor())
    head: Head | None = head_of(tree, ref, my_tags)
    if head is None:
        raise NotFoundError(stream=str(ref))
    article, box = None, dict[str, object]()
    if asked.entry is not None:
        article = services().reading.article(actor(), asked.entry)
        box = box_of(article)
    return {
        "head": head,
        "page": page,
        "article": article,
        **box,
        "has_feeds": has_feeds(tree),
        "my_tags": my_tags,
        **_addresses(ref, asked, look),
    }


def _addresses(ref: StreamRef, asked: Query, look: StreamView) -> dict[str, object]:
    """Return the stream's own address, and that of its next page, which is shown as the first was."""
    path = f"/read/{ref}"
    here = f"{path}?{urlencode(asked.wishes)}" if asked.wishes else path
    going_on = f"{path}?{urlencode({name: getattr(look, name) for name in FIELDS})}"
    return {"ref": ref, "look": look, "here": here, "going_on": going_on}


def has_feeds(tree: Tree) -> bool:
    """Return whether there is any subscription."""
    return bool(tree.feeds or any(f.feeds or f.folders for f in tree.folders))
