"""Saved pages: any page of the web as an entry."""

from __future__ import annotations

from typing import Annotated

from flask_babel import gettext
from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.services.reading.saved_pages import FEED_TITLE
from app.web.api.rest.shapes import ENTRY, FEED, Body, Id, Shape, Title, Undo, Url
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services

TAG = "Saved pages"


class NewPage(Body, frozen=True):
    """A page to save. `title`: empty for the page's own. `text`: a passage of the page, as plain text."""

    url: Url
    title: Title = ""
    text: Annotated[str, Meta(max_length=20_000)] = ""


class SavedPage(Shape, frozen=True):
    """The entry of a saved page, and the feed that holds your saved pages.

    `existed`: you had saved the page before; its entry is unread again.
    """

    entry_id: Id
    feed_id: Id
    existed: bool


add_example(NewPage(url="https://magazine.example.org/roofs", title="Old roofs of Kyoto"))
add_example(SavedPage(entry_id=ENTRY, feed_id=FEED, existed=False))


@add_operation("POST", "/pages", "Save a page", scope=Scope.SUBSCRIBE, tag=TAG,
               status=(201, 200), errors=(413,))  # fmt: skip
def save_page(actor: Actor, body: NewPage) -> Reply[SavedPage]:
    """The page becomes an unread entry of your feed of saved pages. A job fetches its text.

    If you have saved the page before, returns 200.
    """
    saved = get_services().saved_pages.save(
        actor, body.url, title=body.title, text=body.text, feed_title=gettext(FEED_TITLE)
    )
    answer = SavedPage(entry_id=saved.entry_id, feed_id=saved.feed_id, existed=saved.existed)
    return Reply(answer, 200 if saved.existed else 201, location=f"/entries/{saved.entry_id}")


@add_operation("DELETE", "/pages/{entry_id}", "Remove a saved page", scope=Scope.SUBSCRIBE, tag=TAG)
def remove_page(actor: Actor, entry_id: int) -> Undo:
    """Shares of the page stay."""
    return Undo(undo=f"page.{get_services().saved_pages.remove(actor, entry_id)}")
