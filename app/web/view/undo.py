"""Undo of actions by token; the token's prefix names the kind of action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.web import forms


def restore_token(services: Services, actor: Actor, token: str) -> object:
    """Undo the action of this token; return the result of its service.

    Raises:
        NotFoundError: The action is too old, was undone already, or belongs to someone else.
    """
    kind, _dot, rest = token.rpartition(".")
    restore = _restorers(services, actor).get(kind)
    if restore is not None:
        return restore(rest)
    services.reading.undo_mass_mark(actor, token)
    return None


def _restorers(services: Services, who: Actor) -> Mapping[str, Callable[[str], object]]:
    return {
        "feed": partial(services.subscriptions.restore, who),
        "feeds": partial(services.bulk_edit.restore, who),
        "folder": partial(services.folders.restore, who),
        "tag": lambda token: services.tags.restore(who, forms.parse_id(token)),
        "search": partial(services.tags.restore_search, who),
        "share": partial(services.sharing.restore_share, who),
        "note": partial(services.notes.restore, who),
        "page": partial(services.saved_pages.restore, who),
        "hidden": partial(services.hiding.restore, who),
        "comment": partial(services.discussion.restore_comment, who),
        "keys": lambda _token: services.accounts.undo_keys(who),
        "place": partial(services.folders.undo_move, who),
    }
