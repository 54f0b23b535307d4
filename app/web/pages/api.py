"""The unread counts that scripts poll."""

from __future__ import annotations

import dataclasses
import hashlib

from flask import Blueprint, Response, json, request

from app.errors import NotFoundError
from app.models.reading.stream import Tree
from app.web import forms
from app.web.context import get_actor, get_services
from app.web.forms import declare_text
from app.web.view import views
from app.web.view.render import compute_tree_shape

bp = Blueprint("api", __name__, url_prefix="/api")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    snapshot: str = declare_text(max=128, default="")


@bp.get("/counts")
def show_counts() -> Response:
    """Return unread counts other than zero, and the number of entries newer than a list; 304 if unchanged."""
    asked = forms.read_query(request, Query)
    notes = get_services().notifications.count_unread(get_actor())
    answer = {
        **_counts(get_services().reading.get_tree(get_actor())),
        "newer": _newer(asked.snapshot),
        "notes": notes,
    }
    body = json.dumps(answer, separators=(",", ":"))
    response = Response(body, content_type="application/json")
    response.set_etag(hashlib.sha256(body.encode()).hexdigest()[:16])
    response.make_conditional(request)
    return response


def _counts(tree: Tree) -> dict[str, object]:
    return {
        "total": tree.unread,
        "feeds": {f.feed_id: f.unread for f in views.iter_feeds(tree) if f.unread},
        "folders": _folders(tree),
        "shape": compute_tree_shape(tree),
    }


def _folders(tree: Tree) -> dict[str, int]:
    """Return the counts of folders; "following" is treated like a folder in the tree."""
    # Text keys: JSON writes them so anyway, and its sorting can't compare numbers with "following".
    found = {str(f.id): f.unread for f in views.iter_folders(tree) if f.unread}
    return {**found, "following": tree.following} if tree.following else found


def _newer(snapshot: str) -> int:
    try:
        return get_services().reading.count_newer(get_actor(), snapshot) if snapshot else 0
    except NotFoundError:
        return 0  # the list is older than a day: a reload makes a new one
