"""Making feeds of pages that have none."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.feeds.page_lists import PageView
from app.web.api.rest.shapes import FEED_URL, PAGE, Body, Id, Shape
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services
from app.web.view import i18n
from app.web.view.present import keep_http_url

TAG = "Subscriptions"
Selector = Annotated[str, Meta(max_length=200)]


class NewPageLists(Body, frozen=True):
    """The address of a page. With `item`, only what these selectors find is returned.

    The other selectors begin at each entry; without them, the usual places are read.
    """

    address: Annotated[str, Meta(min_length=1, max_length=2048)]
    kind: Literal["css", "xpath", "json"] = "css"
    item: Selector = ""
    title: Selector = ""
    link: Selector = ""
    date: Selector = ""
    author: Selector = ""
    body: Selector = ""
    image: Selector = ""


class ListedEntry(Shape, frozen=True):
    """An entry of a list, as it is on the page."""

    title: str
    url: str
    published: dt.datetime | None


class PageList(Shape, frozen=True):
    """A list of the page. Subscribe to its `url`. `item`: the selector of its entries.

    `count`: its entries now; `entries` are the first five.
    """

    url: str
    item: str
    count: int
    entries: tuple[ListedEntry, ...]


class PageLists(Shape, frozen=True):
    """The lists of a page, the likeliest first. `wait`: the page isn't read yet; request its `id` again."""

    id: Id
    wait: bool
    title: str
    lists: tuple[PageList, ...]
    error: str | None
    message: str | None


add_example(NewPageLists(address=FEED_URL))
_ENTRY = add_example(ListedEntry(title="A day at the sea", url="https://blog.example.org/1", published=None))
_LIST = add_example(
    PageList(
        url="https://blog.example.org/#eventr-page:item=ul.posts%20%3E%20li",
        item="ul.posts > li",
        count=1,
        entries=(_ENTRY,),
    )
)
add_example(PageLists(id=PAGE, wait=False, title="blog", lists=(_LIST,), error=None, message=None))


@add_operation("POST", "/page-lists", "Find lists on a page without a feed", scope=Scope.SUBSCRIBE,
               tag=TAG, status=(200, 202))  # fmt: skip
def find_page_lists(actor: Actor, body: NewPageLists) -> Reply[PageLists]:
    """Returns 202 if reading the page takes longer: request `Location` again after a second.

    A list becomes a feed once you subscribe to its address.
    """
    names = ("item", "title", "link", "date", "author", "body", "image")
    selectors = {name: getattr(body, name) for name in names}
    return _reply(
        get_services().page_lists.find_lists(actor, body.address, selectors, kind=body.kind, wait=0)
    )


@add_operation("GET", "/page-lists/{page_id}", "Get the lists of a page", scope=Scope.SUBSCRIBE,
               tag=TAG, status=(200, 202))  # fmt: skip
def get_page_lists(actor: Actor, page_id: int) -> Reply[PageLists]:
    """Results are kept for 30 minutes, errors for one."""
    return _reply(get_services().page_lists.get_progress(actor, page_id))


def _reply(found: PageView) -> Reply[PageLists]:
    answer = PageLists(
        id=found.key,
        wait=found.wait,
        title=found.title,
        lists=tuple(
            PageList(
                url=one.url,
                item=one.item,
                count=one.count,
                entries=tuple(
                    ListedEntry(title=e.title, url=keep_http_url(e.url), published=e.published)
                    for e in one.entries
                ),
            )
            for one in found.lists
        ),
        error=found.error,
        message=i18n.translate_search_error(found.error) if found.error else None,
    )
    return Reply(answer, 202 if found.wait else 200, f"/page-lists/{found.key}")
