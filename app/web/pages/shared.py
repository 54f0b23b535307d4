"""Public pages of people's shares, without scripts or an account. Their feeds are in ``sharedfeeds``."""

from __future__ import annotations

import dataclasses
from urllib.parse import quote

from flask import Blueprint, Response, make_response, redirect, request

from app.models.accounts.actor import Actor
from app.models.sharing.sharing import ChainNode, Profile
from app.services.sharing.sharing import CURSOR_MAX
from app.web import forms
from app.web.context import find_user, get_services, get_web
from app.web.forms import declare_text
from app.web.security.sessions import allow_strangers
from app.web.view.render import render_page

bp = Blueprint("shared", __name__)

#: Hops of a chain that lists show; the chain's page shows all.
WAY = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    before: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChainQuery:
    cursor: str = declare_text(max=CURSOR_MAX, default="")


@dataclasses.dataclass(frozen=True, slots=True)
class TreeRow:
    """A share in the nested list: its number of children on this page, and the lists that end after it."""

    node: ChainNode
    children: int
    closes: int


@bp.get("/@<name>")
@allow_strangers
def show_stream(name: str) -> Response | str:
    """Show a person's page: profile and shares."""
    asked = forms.read_query(request, Query)
    view = get_services().public_pages.get_person_page(_actor(), name, asked.before)
    if moved := _moved(name, view.person.profile):
        return moved
    return render_page(
        "pages/shared/stream.html", view=view, way=WAY, first=asked.before is None, **_values(name)
    )


@bp.get("/@<name>/<int:share_id>")
@allow_strangers
def show_share(name: str, share_id: int) -> Response | str:
    """Show one share with the whole text."""
    person, item = get_services().public_pages.get_share(_actor(), name, share_id)
    if moved := _moved(name, person.profile, f"/{share_id}"):
        return moved
    return render_page("pages/shared/share.html", person=person, item=item, **_values(name))


@bp.get("/@<name>/<int:share_id>/chain")
@allow_strangers
def show_chain(name: str, share_id: int) -> Response | str:
    """Show all shares of an entry as a tree."""
    asked = forms.read_query(request, ChainQuery)
    person, view = get_services().public_pages.get_chain(_actor(), name, share_id, asked.cursor or None)
    if moved := _moved(name, person.profile, f"/{share_id}/chain"):
        return moved
    rows = build_tree_rows(view.page.nodes)
    return render_page("pages/shared/chain.html", person=person, view=view, rows=rows, **_values(name))


def _actor() -> Actor | None:
    current = find_user()
    return current.actor if current else None


def _values(name: str) -> dict[str, object]:
    return {"base": get_web().base_url, "path": f"/@{quote(name)}", "at": build_path}


def build_path(handle: str, share_id: int | None = None) -> str:
    """Return the path of a person's page, or of a share on it."""
    return f"/@{quote(handle)}" if share_id is None else f"/@{quote(handle)}/{share_id}"


def _moved(name: str, profile: Profile, rest: str = "") -> Response | None:
    """Return a redirect if the name has a different case or is a former user name."""
    if name == profile.handle:
        return None
    query = f"?{request.query_string.decode('ascii', 'replace')}" if request.query_string else ""
    return make_response(redirect(f"{build_path(profile.handle)}{rest}{query}", 301))


def build_tree_rows(nodes: tuple[ChainNode, ...]) -> list[TreeRow]:
    """Return the nodes of a chain, prepared so that a template can nest them without recursion.

    A branch may be as deep as a chain is long; each node is at most one level deeper than the previous one.
    """
    children, above = [0] * len(nodes), list[int]()
    for n, node in enumerate(nodes):
        del above[node.depth :]
        if above:
            children[above[-1]] += 1
        above.append(n)
    depths = [n.depth for n in nodes[1:]] + [0]
    return [TreeRow(node, children[n], max(node.depth - depths[n], 0)) for n, node in enumerate(nodes)]
