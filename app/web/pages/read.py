"""Reading: tree, list and article, as a page or as the part that a script requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import InvalidError, NotFoundError
from app.models.accounts import preferences
from app.models.reading.stream import Article, Page, Show, Sort, StreamKind, StreamQuery, StreamRef, Tree
from app.models.reading.stream_view import EXPANDED, FIELDS, LIST, StreamView
from app.models.reading.suggestions import Suggestion
from app.models.reading.tag import SavedSearch
from app.services.reading.full_texts import describe_failure
from app.services.reading.wider_searches import WiderSearch
from app.web import forms
from app.web.context import get_actor, get_services, get_user
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.pages.share import build_box, build_row_states, describe_shares
from app.web.security.redirects import get_safe_next
from app.web.view.render import get_fragment_id, render_page
from app.web.view.sidebar import has_feeds
from app.web.view.today import Group, group_rows
from app.web.view.views import Head, build_head

bp = Blueprint("read", __name__)

#: Popular entries on "Today".
POPULAR = 5
#: Which text of an entry is shown: that of its page, or that of its feed.
FULL, FEED = "full", "feed"


def _wish(name: str) -> Any:
    return declare_text(max=32, default="", one_of=("", *preferences.list_choices(name)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    entry: int | None = None
    cursor: str = declare_text(max=64, default="")
    snapshot: str = declare_text(max=128, default="")
    rows: int | None = None
    view: str = _wish("view")
    density: str = _wish("density")
    sort: str = _wish("sort")
    show: str = _wish("show")
    #: The entry that a list without its row has on top, which its later pages leave out.
    pinned: int | None = None
    text: str = declare_text(max=8, default="", one_of=("", FULL, FEED))

    @property
    def overrides(self) -> dict[str, str]:
        """Display options for this request only."""
        return {name: value for name in FIELDS if (value := getattr(self, name))}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TreeQuery:
    whole: bool = False


@bp.get("/read")
def show_tree() -> str:
    """Show the tree alone on narrow screens, beside the list of all entries on wide ones."""
    ref = StreamRef(StreamKind.ALL)
    get_services().page_frame.prefetch_stream(get_actor(), ref)
    return _whole_page(ref, Query(), pane="tree")


@bp.get("/read/tree")
def show_tree_alone() -> str:
    """Show the tree without a list, for pages whose tree is out of date, and for finding any feed."""
    asked = forms.read_query(request, TreeQuery)
    actor = get_actor()
    get_services().page_frame.prefetch_stream(actor)
    tree, tags = get_services().reading.get_tree(actor), get_services().tags
    return render_page(
        "parts/tree.html",
        tree=tree,
        whole_tree=asked.whole,
        pane="tree",
        current="",
        has_feeds=has_feeds(tree),
        my_tags=tags.list_tags(actor),
        searches=tags.list_searches(actor),
    )


@bp.get("/read/nothing")
def show_no_article() -> str:
    """Show the article pane without an entry."""
    return render_page("parts/article_empty.html")


@bp.get("/read/<any(today, all, starred, notes, recent, following, shares):kind>")
@bp.get("/read/<any(feed, folder, tag):kind>/<int:stream_id>")
@bp.get("/read/<any(search):kind>/<stream_id>")
def show_stream(kind: str, stream_id: int | str | None = None) -> Response | str:
    """Show a stream: the whole page, its two panes, more rows, or one entry."""
    ref = StreamRef.parse(kind if stream_id is None else f"{kind}/{stream_id}")
    asked = forms.read_query(request, Query)
    wanted = get_fragment_id()
    if wanted == "article" and asked.entry is not None:
        return _article(ref, asked, asked.entry)
    if wanted == "more":
        return _more(ref, asked)
    get_services().page_frame.prefetch_stream(get_actor(), ref, whole=wanted != "stream")
    try:
        if wanted == "stream":
            return _panes(ref, asked)
        return _whole_page(ref, asked, pane="list" if asked.entry is None else "article")
    except NotFoundError:
        # The link may be older than a merge of two feeds.
        feed_id = ref.id if ref.kind is StreamKind.FEED else None
        heir = get_services().subscriptions.find_successor(get_actor(), feed_id) if feed_id else None
        if heir is None:
            raise
        return make_response(redirect(f"/read/feed/{heir}", 303))


@bp.get("/entries/<int:entry_id>")
def show_entry(entry_id: int) -> Response:
    """Redirect an entry's permanent address to the entry in its feed's stream."""
    stream = get_services().reading.get_stream(get_actor(), entry_id)
    return make_response(redirect(f"/read/{stream}?entry={entry_id}", 303))


@bp.get("/entries/<int:entry_id>/chapters")
def list_chapters(entry_id: int) -> Response:
    """Return the chapters of an episode; null while they are fetched."""
    return jsonify(chapters=get_services().chapters.find_for_entry(get_actor(), entry_id))


@bp.post("/entries/<int:entry_id>/full-text")
def fetch_full_text(entry_id: int) -> Response:
    """Fetch the text of an entry's page; if this takes long, answer "wait" and let the page ask again."""
    form = forms.read_form(request, Next)
    found = get_services().full_texts.request_text(get_actor(), entry_id)
    if not is_json_wanted():
        target = get_safe_next(form.next)
        return make_response(redirect(f"{target}{'&' if '?' in target else '?'}text={FULL}", 303))
    failure = describe_failure(found) if found else None
    return jsonify(wait=found is None, message=_(failure) if failure else None)


def _article(ref: StreamRef, asked: Query, entry_id: int) -> str:
    found = _open(ref, asked, entry_id)
    tags = get_services().tags.list_tags(get_actor())
    back = f"/read/{ref}"
    return render_page(
        "parts/article.html",
        article=found,
        ref=ref,
        back=back,
        my_tags=tags,
        highlighters=get_services().rules.find_highlighters(get_actor(), (), found),
        **build_box(found),
    )


def _open(ref: StreamRef, asked: Query, entry_id: int) -> Article:
    """Return an entry, and let the pictures of the next ones be fetched."""
    reading, actor = get_services().reading, get_actor()
    found = reading.get_article(actor, entry_id)
    reading.record_opened(actor, found, ref)
    get_services().ahead.request_following(get_user(), ref, found, asked.overrides)
    chapters = get_services().chapters.find(actor, found.entry)
    wants_full = asked.text == FULL or (found.always_full and asked.text != FEED)
    full = get_services().full_texts.find(actor, found.entry) if wants_full else None
    return dataclasses.replace(found, chapters=chapters, wants_full=wants_full, full=full)


def _look(ref: StreamRef, asked: Query) -> StreamView:
    found = get_services().stream_views.get(get_actor(), ref, get_user().preferences, asked.overrides)
    if ref.kind is not StreamKind.TODAY:
        return found
    # It is made of pictures and headlines, however other lists are shown.
    return dataclasses.replace(found, view=LIST if found.view == EXPANDED else found.view, density="cozy")


def _query(ref: StreamRef, asked: Query, look: StreamView) -> StreamQuery:
    return StreamQuery(
        ref,
        Sort(look.sort),
        asked.cursor or None,
        asked.snapshot or None,
        asked.rows,
        Show(look.show),
        with_bodies=look.view == EXPANDED,
    )


def _screen(query: StreamQuery, *, whatever: bool = False) -> tuple[Tree, Page]:
    """Return tree and list; with ``whatever``, start from the beginning if the cursor isn't valid anymore."""
    try:
        return get_services().reading.load_tree_and_page(get_actor(), query)
    except (NotFoundError, InvalidError):
        if (query.cursor and not whatever) or not query.snapshot:
            raise
        # The snapshot is too old or has another order, so make a new one.
        return get_services().reading.load_tree_and_page(
            get_actor(), dataclasses.replace(query, snapshot=None, cursor=None)
        )


def _more(ref: StreamRef, asked: Query) -> str:
    look = _look(ref, asked)
    page = get_services().reading.load_page(get_actor(), _query(ref, asked, look)).drop_row(asked.pinned)
    values = _addresses(ref, asked, look, pinned=asked.pinned) | _states(ref, look, page)
    lit = get_services().rules.find_highlighters(get_actor(), page.all_rows)
    return render_page("parts/rows.html", page=page, first=False, highlighters=lit, **values)


def _states(ref: StreamRef, look: StreamView, page: Page) -> dict[str, object]:
    states = build_row_states(page) if look.view == EXPANDED else {}
    return states | {"share_states": describe_shares(page) if ref.kind is StreamKind.SHARES else {}}


def _panes(ref: StreamRef, asked: Query) -> str:
    look = _look(ref, asked)
    tree, page = _screen(_query(ref, asked, look))
    return render_page("parts/stream.html", **_values(ref, asked, look, tree, page))


def _whole_page(ref: StreamRef, asked: Query, *, pane: str) -> str:
    look = _look(ref, asked)
    # Beside an entry, any list will do.
    tree, page = _screen(_query(ref, asked, look), whatever=asked.entry is not None)
    values = _values(ref, asked, look, tree, page)
    values |= _places(ref, asked, values["page"])
    searches = get_services().tags.list_searches(get_actor())
    return render_page("pages/read.html", tree=tree, pane=pane, current=str(ref), searches=searches, **values)


def _values(ref: StreamRef, asked: Query, look: StreamView, tree: Tree, page: Page) -> dict[str, Any]:
    my_tags = get_services().tags.list_tags(get_actor())
    head: Head | None = build_head(tree, ref, my_tags)
    if head is None:
        raise NotFoundError(stream=str(ref))
    article, box = None, dict[str, object]()
    if asked.entry is not None:
        article = _open(ref, asked, asked.entry)
        box = build_box(article)
        with_bodies = look.view == EXPANDED
        page = get_services().reading.pin_row(get_actor(), page, article, with_bodies=with_bodies)
    groups = _list_groups(ref, tree, page)
    rows = page.all_rows if groups is None else [row for group in groups for row in group.page.rows]
    return {
        "head": head,
        "page": page,
        "article": article,
        "groups": groups,
        "highlighters": get_services().rules.find_highlighters(get_actor(), rows, article),
        **box,
        "saved_search": _find_saved(ref),
        "near_queries": _find_near(ref),
        "wider_queries": _find_wider(ref, page),
        **_states(ref, look, page),
        "has_feeds": has_feeds(tree),
        "has_unread": bool(tree.unread),
        "my_tags": my_tags,
        **_addresses(ref, asked, look, pinned=page.pinned.id if page.pinned else None),
    }


def _find_saved(ref: StreamRef) -> SavedSearch | None:
    """Return the saved search that a stream shows, if it does."""
    if ref.kind is not StreamKind.SEARCH:
        return None
    mine = get_services().tags.list_searches(get_actor())
    return next((one for one in mine if one.query == ref.query), None)


def _find_near(ref: StreamRef) -> Sequence[Suggestion]:
    """Return a search with names that nearly match, if it has one that nothing matches."""
    return get_services().search_suggestions.find_corrections(get_actor(), ref.query) if ref.query else ()


def _find_wider(ref: StreamRef, page: Page) -> Sequence[WiderSearch]:
    """Return what a search that found nothing would find without one of its parts."""
    if ref.kind is not StreamKind.SEARCH or page.rows or page.cursor:
        return ()
    return get_services().wider_searches.find_wider(get_actor(), ref.query)


def _list_groups(ref: StreamRef, tree: Tree, page: Page) -> list[Group] | None:
    """Return the sections of "Today"; None: another list."""
    if ref.kind is not StreamKind.TODAY:
        return None
    return group_rows(tree, page, get_services().trends.list_rows(get_actor(), POPULAR))


def _addresses(
    ref: StreamRef, asked: Query, look: StreamView, *, pinned: int | None = None
) -> dict[str, object]:
    """Return the stream's address and that of its next page, which uses the same display options.

    ``here`` is the address of the rows: all rows that a script has loaded belong to one list.
    """
    begin = _begin(ref, asked)
    names = {name: getattr(look, name) for name in FIELDS} | ({"pinned": pinned} if pinned else {})
    going_on = f"/read/{ref}?{urlencode(names)}"
    return {"ref": ref, "look": look, "begin": begin, "here": begin, "back": begin, "going_on": going_on}


def _begin(ref: StreamRef, asked: Query) -> str:
    return f"/read/{ref}?{urlencode(asked.overrides)}" if asked.overrides else f"/read/{ref}"


def _places(ref: StreamRef, asked: Query, page: Page) -> dict[str, object]:
    """Return the addresses of a page's links without scripts: the same rows in the same order."""
    begin, continued = _begin(ref, asked), page.snapshot == asked.snapshot
    names = {"cursor": asked.cursor} if asked.cursor and continued else {}
    same = _with(begin, **names, snapshot=page.snapshot)
    before, after = _neighbours(page, asked.entry)
    return {
        "here": same if continued else begin,
        "back": same,
        "before": _with(same, entry=before) if before else None,
        "after": _with(same, entry=after) if after else None,
    }


def _neighbours(page: Page, entry_id: int | None) -> tuple[int | None, int | None]:
    """Return the rows above and below an entry; None: no such row on this page."""
    ids = [None, *(row.id for row in page.all_rows), None]
    if entry_id is None or entry_id not in ids:
        return None, None
    at = ids.index(entry_id)
    return ids[at - 1], ids[at + 1]


def _with(address: str, **names: object) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(names)}"
