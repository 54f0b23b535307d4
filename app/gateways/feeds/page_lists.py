"""Reading the lists of a page that isn't a feed, and the cache of the results."""

from __future__ import annotations

import datetime as dt

import xxhash

from app.errors import InvalidError, ParseError
from app.feeds import urls
from app.feeds.pages.extract import PageTree, check_recipe, read_page
from app.feeds.pages.guess import guess_lists
from app.feeds.pages.outline import build_outline
from app.feeds.parse import Limits
from app.mappers.feeds.page_lists import PageListMapper
from app.models.feeds.fetched import Fetched
from app.models.feeds.page_lists import SHOWN, TITLE, FoundLists, ListedEntry, PageList, StoredPage
from app.models.feeds.parsed import ParsedFeed
from app.models.feeds.recipe import Recipe, add_recipe, split_recipe

#: How long lists are kept; errors only shortly, since the person may be fixing the selectors.
KEPT, ERROR_KEPT = dt.timedelta(minutes=30), dt.timedelta(minutes=1)
#: Lists that a page is searched for: the first three are shown, the others can be chosen by their numbers.
LISTS = 12


class PageListGateway:
    """Reads pages, and caches their lists."""

    def __init__(self, pages: PageListMapper, limits: Limits) -> None:
        self.pages, self._limits = pages, limits

    def open_page(self, address: str, recipe: Recipe | None, now: dt.datetime) -> StoredPage:
        """Return the page at an address as cached, or without a result if it isn't.

        Args:
            recipe: a recipe to try; None: the page is searched for lists.

        Raises:
            InvalidError: there is no web address in the text, or a selector isn't understood.
        """
        tries = urls.normalise_address(split_recipe(address)[0])
        if not tries:
            raise InvalidError(
                "This isn't a web address. Enter a page's address, such as example.org/news.", field="address"
            )
        url = tries[0]
        if recipe is not None:
            check_recipe(recipe)
            url = add_recipe(url, recipe)
        key = xxhash.xxh3_64_intdigest(f"page {urls.hash_url(url)}".encode()) >> 11
        return self.pages.find(key, now) or StoredPage(key, url, None, is_stored=False)

    def store_page(self, page: StoredPage, now: dt.datetime) -> None:
        """Store a page, and its result if there is one."""
        has_error = page.result is not None and page.result.error is not None
        self.pages.store_page(page, now + (ERROR_KEPT if has_error else KEPT))

    def read(self, page: StoredPage, fetched: Fetched) -> FoundLists:
        """Return the lists in the answer for a page; never raises because of the site."""
        if fetched.error or not fetched.body:
            return FoundLists(error=fetched.error.word if fetched.error else "empty")
        _, recipe = split_recipe(page.address)
        url = fetched.url or page.address
        own = split_recipe(fetched.permanent_url or page.address)[0]
        try:
            if recipe is not None:
                feed = read_page(
                    fetched.body, recipe, url=url, content_type=fetched.content_type, limits=self._limits
                )
                # The page may have moved to an address that is too long.
                found = _describe(own, recipe, feed) or _describe(split_recipe(page.address)[0], recipe, feed)
                return FoundLists(feed.title, (found,) if found else ())
            guesses = guess_lists(fetched.body, url, fetched.content_type, limit=LISTS)
            tree = PageTree(fetched.body, url, fetched.content_type)
        except ParseError as e:
            return FoundLists(error=e.word)
        lists = tuple(filter(None, (_describe(own, guess.recipe, guess.feed) for guess in guesses)))
        return FoundLists(tree.title, lists, None if lists else "no_list_found", build_outline(tree))


def _describe(url: str, recipe: Recipe, feed: ParsedFeed) -> PageList | None:
    """Return a list; None: its address would be too long."""
    try:
        address = add_recipe(url, recipe)
    except InvalidError:
        return None
    entries = tuple(
        ListedEntry(entry.title[:TITLE], entry.url or "", entry.published) for entry in feed.entries[:SHOWN]
    )
    return PageList(address, recipe.item, len(feed.entries), entries)
