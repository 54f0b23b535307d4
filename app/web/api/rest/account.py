"""The owner of the access token, and unread counts."""

from __future__ import annotations

import datetime as dt

from flask import g

from app.models.accounts.actor import Actor
from app.models.accounts.token import Caller, Scope
from app.web.api.rest.shapes import FEED, FOLDER, USER, Id, Shape
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services
from app.web.view import views

TAG = "Account"


class Me(Shape, frozen=True):
    """The owner, name and scopes of the access token; `expires` is null if the token never expires."""

    id: Id
    name: str
    language: str
    token: str
    scopes: tuple[Scope, ...]
    expires: dt.datetime | None


class Counts(Shape, frozen=True):
    """Unread counts by feed and folder; those without unread entries are omitted.

    `following`: unread entries shared by people you follow, each counted once; null if you don't follow
    anyone. `notifications`: unread notifications, at most 99.
    """

    unread: int
    following: int | None
    notifications: int
    feeds: dict[str, int]
    folders: dict[str, int]


_NAME = "A script"
add_example(Me(id=USER, name="ann", language="en", token=_NAME, scopes=(Scope.READ,), expires=None))
add_example(Counts(unread=12, following=3, notifications=1, feeds={str(FEED): 12}, folders={str(FOLDER): 12}))


@add_operation("GET", "/me", "Get the token's owner", scope=None, tag=TAG)
def get_me(actor: Actor) -> Me:
    """Works with any access token."""
    caller: Caller = g.caller
    return Me(
        id=actor.user_id,
        name=caller.user.name,
        language=caller.user.preferences.language or "en",
        token=caller.token.name,
        scopes=caller.token.scopes,
        expires=caller.token.expires,
    )


@add_operation("DELETE", "/me/token", "Revoke the token", scope=None, tag=TAG, once=False, status=204)
def return_token(actor: Actor) -> None:
    """Revokes the access token that sends this request. All copies of the token stop working."""
    get_services().tokens.return_token(g.caller)


@add_operation("GET", "/counts", "Get unread counts", scope=Scope.READ, tag=TAG)
def get_counts(actor: Actor) -> Counts:
    """To poll this often, send `If-None-Match`. To get changes at once, listen to events instead."""
    tree = get_services().reading.get_tree(actor)
    return Counts(
        unread=tree.unread,
        following=tree.following,
        notifications=get_services().notifications.count_unread(actor),
        feeds={str(f.feed_id): f.unread for f in views.iter_feeds(tree) if f.unread},
        folders={str(f.id): f.unread for f in views.iter_folders(tree) if f.unread},
    )
