"""What scripts ask for: the counters."""

from __future__ import annotations

import dataclasses
import hashlib

from flask import Blueprint, Response, json, request

from app.errors import NotFoundError
from app.models.reading.stream import Tree
from app.web import forms
from app.web.context import actor, services
from app.web.forms import text
from app.web.view import views

bp = Blueprint("api", __name__, url_prefix="/api")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    snapshot: str = text(max=128, default="")


@bp.get("/counts")
def counts() -> Response:
    """Unread counts that are not zero, and how much is newer than a list; 304 when nothing changed."""
    asked = forms.query(request, Query)
    notes = services().notifications.unread(actor())
    answer = {**_counts(services().reading.tree(actor())), "newer": _newer(asked.snapshot), "notes": notes}
    body = json.dumps(answer, separators=(",", ":"))
    response = Response(body, content_type="application/json")
    response.set_etag(hashlib.sha256(body.encode()).hexdigest()[:16])
    response.make_conditional(request)
    return response


def _counts(tree: Tree) -> dict[str, object]:
    return {
        "total": tree.unread,
        "feeds": {f.feed_id: f.unread for f in views.feeds(tree) if f.unread},
        "folders": _folders(tree),
        "shape": views.shape(tree),
    }


def _folders(tree: Tree) -> dict[int | str, int]:
    """Return the counts of folders; those whom one follows stand in the tree like one."""
    found: dict[int | str, int] = {f.id: f.unread for f in views.folders(tree) if f.unread}
    return {**found, "following": tree.following} if tree.following else found


def _newer(snapshot: str) -> int:
    try:
        return services().reading.newer(actor(), snapshot) if snapshot else 0
    except NotFoundError:
        return 0  # the list is older than a day: its bar stays away, a reload makes a new one
