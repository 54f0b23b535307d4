"""Saved pages: entries of a feed that only one person reads, and the roots of their shares."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import html
import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from app import clock, logs
from app.errors import ConflictError, EventrError, ExistsError, NotFoundError, TooLargeError
from app.feeds.html.sanitize import SANITIZER_VERSION
from app.feeds.urls import find_page_host, hash_page, normalise_address, strip_tracking
from app.gateways.feeds import entry_bodies
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.mappers.feeds.entries import EntryMapper, NumberedEntry
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session, Store
from app.mappers.reading.index_queue import IndexQueueMapper
from app.mappers.reading.marks import MarkMapper
from app.mappers.reading.saved_pages import SavedPageMapper
from app.mappers.reading.tags import TagMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.models.media.rewriting import find_lead_picture
from app.models.reading.entry import Entry, EntryChange, NewEntry
from app.models.reading.full_text import FullText
from app.models.reading.saved import NewPage, SavedPage, make_title
from app.models.reading.stream import MAX_ID
from app.models.sharing.sharing import Origin
from app.models.subscriptions.subscription import Subscription
from app.models.subscriptions.undo import Removal, Step

_log = logs.get(__name__)

#: Attempts to store a page that another request stores at the same moment.
ROUNDS: Final = 5
#: Most pages that one transaction stores, and most removals of a store that are finished at a time.
TOGETHER: Final = 100
#: After this time, a removal or a restoration is finished by others; the request itself takes less.
LEFT_AFTER: Final = dt.timedelta(seconds=5)


class _EndedError(Exception):
    """Another process has finished it meanwhile."""


class SavedPageGateway:
    """Stores, removes and restores the pages that people save.

    Args:
        limit: most pages of one person.
    """

    def __init__(
        self,
        *,
        store: Store,
        cells: Cells,
        pages: SavedPageMapper,
        feeds: FeedMapper,
        entries: EntryMapper,
        subscriptions: SubscriptionGateway,
        index_queue: IndexQueueMapper,
        removals: RemovalMapper,
        marks: MarkMapper,
        tags: TagMapper,
        sanitize: entry_bodies.Sanitize,
        origin: str,
        limit: int,
    ) -> None:
        self._store, self._cells = store, cells
        self._pages, self._feeds, self._entries = pages, feeds, entries
        self._subscriptions, self._index_queue, self._removals = subscriptions, index_queue, removals
        self._marks, self._tags = marks, tags
        self._sanitize, self._origin, self._limit = sanitize, origin, limit

    def find_feed(self, user_id: int) -> int | None:
        """Return the feed with a person's saved pages; None: they haven't saved any."""
        return self._pages.find_feed(_make_key(user_id))

    def resolve_url(self, text: str) -> str:
        """Return the address of a page in a text, without tracking parameters; empty: there is none."""
        known = text if text.startswith(("https://", "http://")) and " " not in text else ""
        found = known or next(iter(normalise_address(text)), "")
        parts = urlsplit(found) if _is_valid(found) else None
        return strip_tracking(found) if parts and parts.scheme in ("http", "https") and parts.hostname else ""

    def prepare_feed(self, user_id: int, title: str, now: dt.datetime) -> int:
        """Return the feed with a person's saved pages, to which they then subscribe.

        Args:
            title: of a new feed.

        Raises:
            TooLargeError: the person has the maximum number of subscriptions.
        """
        self.finish_begun(user_id)  # a removal that finishes later must not take what is saved now
        url = f"{self._origin}/saved"
        feed_id = self._pages.get_or_create_feed(_make_key(user_id), url, title, now, private_to=user_id)
        if not self._subscriptions.find_by_user(user_id, [feed_id]):
            feed = self._feeds.find(feed_id)
            if feed is None:
                raise NotFoundError(feed_id=feed_id)
            with contextlib.suppress(ExistsError):  # another request was faster
                # With full texts, an article says why its page can't be read, and tries again.
                self._subscriptions.add(Subscription(0, user_id, feed_id, full_text=True), feed, now)
        return feed_id

    def save(self, feed_id: int, pages: Sequence[NewPage], now: dt.datetime) -> list[SavedPage]:
        """Store pages, in order; of a page that is there already, return that one.

        A page that is there without any text gets the one that the person brings along.

        Raises:
            TooLargeError: the person would have too many pages.
            NotFoundError: the feed is gone.
        """
        stored: list[SavedPage] = []
        for start in range(0, len(pages), TOGETHER):
            stored += self._save_some(feed_id, pages[start : start + TOGETHER], now)
        brought = {one.entry_id: page for one, page in zip(stored, pages, strict=True) if page.html}
        for one in stored:
            if one.existed and (page := brought.pop(one.entry_id, None)):
                self._bring_text(one, page, now)
        return stored

    def _save_some(self, feed_id: int, pages: Sequence[NewPage], now: dt.datetime) -> list[SavedPage]:
        guids = [make_page_guid(page.url) for page in pages]
        fresh: set[bytes] = set()
        for _ in range(ROUNDS):
            known = self._pages.find_pages(feed_id, guids)
            new: dict[bytes, NewPage] = {}
            for guid, page in zip(guids, pages, strict=True):
                if guid not in known:
                    first = new.setdefault(guid, page)
                    new[guid] = first._replace(html=first.html or page.html)
            if not new:
                return [known[guid]._replace(existed=guid not in fresh) for guid in guids]
            self._check_room(feed_id, len(new))
            entries = [self._make_entry(guid, page, now) for guid, page in new.items()]
            with contextlib.suppress(ConflictError):  # another request saved one of them
                self._store.run_in_transaction(partial(self._write, feed_id, entries, now))
                fresh = set(new)
        raise ConflictError(feed_id=feed_id)

    def _check_room(self, feed_id: int, count: int) -> None:
        card = self._feeds.find_cards([feed_id]).get(feed_id)
        if card and card.private_to and card.last_seq - card.missing + count > self._limit:
            raise TooLargeError(
                "You can save at most %(limit)s pages. Remove pages that you no longer need.",
                limit=self._limit,
            )

    def _write(self, feed_id: int, entries: Sequence[NewEntry], now: dt.datetime, session: Session) -> None:
        newest = max(entry.at for entry in entries)
        first = self._pages.take_numbers(feed_id, len(entries), newest, now, session)
        if first is None:
            raise NotFoundError(feed_id=feed_id)
        numbered = [NumberedEntry(feed_id, first + i, entry) for i, entry in enumerate(entries)]
        self._entries.add_in_transaction(numbered, session)

    def _bring_text(self, saved: SavedPage, page: NewPage, now: dt.datetime) -> None:
        entry = self._entries.find(saved.entry_id, [saved.feed_id])
        if entry is None or entry.content or entry.summary:
            return
        body = entry_bodies.clean_body(page.html, "", page.url, self._sanitize)
        change = _make_change(entry, body)

        def write_text(session: Session) -> None:
            if body.content and self._entries.store_page_text(entry, change, None, now, session):
                self._pages.mark_changed(entry.feed_id, now, session)

        self._store.run_in_transaction(write_text)

    def _make_entry(self, guid: bytes, page: NewPage, now: dt.datetime) -> NewEntry:
        markup = page.html or "".join(
            f"<p>{html.escape(line)}</p>" for line in page.text.splitlines() if line.strip()
        )
        body = entry_bodies.clean_body(markup, "", page.url, self._sanitize)
        title = page.title or make_title(page.url)
        brought = bool(page.html and body.content)
        return NewEntry(guid, page.at or now, now, title, url=page.url, brought=brought, **body._asdict())

    def remove(self, user_id: int, entry_id: int, expires: dt.datetime) -> str:
        """Remove a saved page with its marks; return a token for :meth:`restore`, valid until ``expires``.

        Raises:
            NotFoundError: the person hasn't saved such a page.
        """
        feed_id, token = self.find_feed(user_id), secrets.token_urlsafe(16)
        if feed_id is None:
            raise NotFoundError(entry_id=entry_id)
        if not self._cells.is_home(user_id):
            return self._remove_elsewhere(user_id, feed_id, entry_id, token, expires)

        def move_to_undo(session: Session) -> None:
            doc = self._delete_page(feed_id, entry_id, session)
            if doc is None:
                raise NotFoundError(entry_id=entry_id)
            mark = self._marks.find_all(user_id, entry_id, session)
            self._removals.add(Removal(token, user_id, page=doc, mark=mark), expires, session)
            self._drop_mark(user_id, entry_id, mark, session)

        self._cells.run_in_transaction(user_id, move_to_undo)
        return token

    def _delete_page(self, feed_id: int, entry_id: int, session: Session) -> dict[str, Any] | None:
        doc = self._pages.remove(feed_id, entry_id, session)
        if doc is not None:
            self._index_queue.add_removals([(feed_id, entry_id)], session)
        return doc

    # -- pages of people in another cell: what has begun there is finished, as often as it is tried

    def _remove_elsewhere(
        self, user_id: int, feed_id: int, entry_id: int, token: str, expires: dt.datetime
    ) -> str:
        """Remove a page in three steps: a removal begins, the page is deleted, its marks are deleted."""
        for removal, step in self._removals.find_begun(user_id):
            if _get_page_id(removal) == entry_id:
                self._finish(user_id, removal, step)
                if step is Step.REMOVE:
                    return removal.token  # an earlier attempt to remove it, which had failed
        page = self._pages.find(feed_id, entry_id)
        if page is None:
            raise NotFoundError(entry_id=entry_id)
        removal = Removal(token, user_id, page=page)

        def begin(session: Session) -> None:
            self._removals.begin(removal, expires, clock.now(), session)

        self._cells.run_in_transaction(user_id, begin)
        self._finish(user_id, removal, Step.REMOVE)
        return token

    def _finish(self, user_id: int, removal: Removal, step: Step) -> None:
        """Do what is left of a removal or a restoration; nothing if another process was faster.

        Raises:
            ExistsError: the page that would be restored has been saved again; the removal stays.
        """
        with contextlib.suppress(_EndedError):
            (self._finish_removal if step is Step.REMOVE else self._finish_restore)(user_id, removal)

    def _finish_removal(self, user_id: int, removal: Removal) -> None:
        (feed_id, entry_id), token = _get_keys(removal), removal.token

        def delete_at_home(session: Session) -> None:
            page = self._delete_page(feed_id, entry_id, session)
            # Asked after the page is locked: otherwise, a slow process would delete a page that is back.
            if page is not None and not self._removals.confirm(user_id, token, Step.REMOVE, page):
                raise _EndedError

        def drop_in_cell(session: Session) -> None:
            mark = self._marks.find_all(user_id, entry_id, session)
            if self._removals.end(user_id, token, Step.REMOVE, session, mark=mark):
                self._drop_mark(user_id, entry_id, mark, session)
                self._count_again(feed_id, entry_id, mark, session)

        self._store.run_in_transaction(delete_at_home)
        self._cells.run_in_transaction(user_id, drop_in_cell)

    def _finish_restore(self, user_id: int, removal: Removal) -> None:
        (feed_id, entry_id), token, now = _get_keys(removal), removal.token, clock.now()

        def restore_at_home(session: Session) -> None:
            if self._pages.find(feed_id, entry_id, session):
                return  # before the crash
            self._restore_page(feed_id, removal.page or {}, now, session)
            if not self._removals.confirm(user_id, token, Step.RESTORE):
                raise _EndedError

        def restore_in_cell(session: Session) -> None:
            if self._removals.end(user_id, token, Step.RESTORE, session):
                self._removals.remove(user_id, token, session)
                self._restore_mark(user_id, removal.mark, session)
                self._count_again(feed_id, entry_id, removal.mark, session)

        def give_up(session: Session) -> None:
            self._removals.end(user_id, token, Step.RESTORE, session)

        try:
            self._store.run_in_transaction(restore_at_home)
        except ExistsError:
            self._cells.run_in_transaction(user_id, give_up)
            raise
        self._cells.run_in_transaction(user_id, restore_in_cell)

    def _count_again(
        self, feed_id: int, entry_id: int, mark: Mapping[str, Any] | None, session: Session
    ) -> None:
        # The page that is kept for the undo has the number of the home store, which may be late.
        if mark:
            self._entries.change_star_count(feed_id, entry_id, 0, session)

    def finish_begun(self, user_id: int) -> None:
        """Finish what a crash has left of a person's removals and restorations of pages.

        Raises:
            StoreError: a store isn't responding.
        """
        if self._cells.is_spread:
            for removal, step in self._removals.find_begun(user_id):
                with contextlib.suppress(ExistsError):
                    self._finish(user_id, removal, step)

    def finish_left(self, now: dt.datetime) -> int:
        """Finish the removals and restorations that processes have left; return of how many people.

        What can't be finished, because a store isn't responding or a person moves, is left for the next call.

        Raises:
            StoreError: the home store isn't responding.
        """
        done = 0
        for user_id in {user_id for user_id, _ in self._removals.find_left(now - LEFT_AFTER, TOGETHER)}:
            try:
                self.finish_begun(user_id)
            except EventrError as e:
                _log.warning("saved_page_not_finished", user_id=user_id, error=e.word)
            else:
                done += 1
        return done

    def _drop_mark(
        self, user_id: int, entry_id: int, mark: Mapping[str, Any] | None, session: Session
    ) -> None:
        if not mark:
            return
        self._marks.remove(user_id, [entry_id], session)
        for tag in mark.get("tags") or ():
            self._tags.change_count(user_id, tag, -1, session)

    def _restore_mark(self, user_id: int, mark: Mapping[str, Any] | None, session: Session) -> None:
        if not mark:
            return
        known = {tag.id for tag in self._tags.find_by_user(user_id, session)}
        for tag in self._marks.restore(dict(mark), known, session) or ():
            self._tags.change_count(user_id, tag, 1, session)

    def restore(self, user_id: int, token: str, now: dt.datetime) -> int:
        """Restore a removed page with its marks; return its id.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the person's.
            ExistsError: the person has saved the page again.
        """
        if not self._cells.is_home(user_id):
            return self._restore_elsewhere(user_id, token, now)
        removal = self._removals.find(user_id, token, now)
        if removal is None or removal.page is None:
            raise NotFoundError("This can no longer be undone.", undo=token)
        (feed_id, entry_id), page, mark = _get_keys(removal), removal.page, removal.mark

        def restore_from_undo(session: Session) -> None:
            if not self._removals.remove(user_id, token, session):
                raise NotFoundError("This can no longer be undone.", undo=token)
            self._restore_page(feed_id, page, now, session)
            self._restore_mark(user_id, mark, session)

        self._cells.run_in_transaction(user_id, restore_from_undo)
        return entry_id

    def _restore_elsewhere(self, user_id: int, token: str, now: dt.datetime) -> int:
        """Restore a page in three steps: a restoration begins, the page is back, its marks are back."""
        removal = self._removals.find(user_id, token, now)
        if removal is not None and removal.page is not None:

            def begin(session: Session) -> None:
                self._removals.begin_restore(user_id, token, now, session)

            self._cells.run_in_transaction(user_id, begin)
        # Also one that an earlier attempt has begun.
        begun = [found for found, step in self._removals.find_begun(user_id, token) if step is Step.RESTORE]
        if not begun:
            raise NotFoundError("This can no longer be undone.", undo=token)
        self._finish(user_id, begun[0], Step.RESTORE)
        return _get_page_id(begun[0])

    def _restore_page(
        self, feed_id: int, page: Mapping[str, Any], now: dt.datetime, session: Session
    ) -> None:
        self._index_queue.cancel_removal(feed_id, int(page["_id"]), session)
        if not self._pages.restore(feed_id, dict(page), now, session):
            raise ExistsError("You've saved this page again since.", entry_id=int(page["_id"]))

    def is_saved(self, feed_id: int) -> bool:
        """Return whether a feed holds saved pages, or the roots of their shares."""
        card = self._feeds.find_cards([feed_id]).get(feed_id)
        return card is not None and card.saved

    def _is_personal(self, feed_id: int) -> bool:
        card = self._feeds.find_cards([feed_id]).get(feed_id)
        return card is not None and card.private_to is not None

    def store_text(
        self, entry: Entry, title: str, body: entry_bodies.Body, picture: str | None, now: dt.datetime
    ) -> FullText:
        """Store the text of a person's saved page as the entry's own, which apps and the search read.

        The page behind shares is there for everyone. So only an excerpt is its own, and its readers may
        request the rest like the full text of any other entry. A title that Eventr made from the address
        gives way to the page's own.
        """
        if self._is_personal(entry.feed_id):
            change, full = _make_change(entry, body), FullText(now, title=title)
        else:
            change = _make_change(entry, entry_bodies.make_quote(body))
            full = FullText(now, body.content, body.raw, body.cleaned_by, title=title)
            picture = picture or find_lead_picture(body.content)
        change = dataclasses.replace(change, title=_choose_title(entry, title), image=picture or entry.image)

        def write_text(session: Session) -> None:
            if self._entries.store_page_text(entry, change, full, now, session):
                self._pages.mark_changed(entry.feed_id, now, session)

        self._store.run_in_transaction(write_text)
        return full

    def store_failure(self, entry: Entry, error: str, url: str, title: str, now: dt.datetime) -> FullText:
        """Store why the text of a saved page stays as it is.

        A title that Eventr made from the address gives way to the page's own, unless the site led to another
        page: many lead to their first one if a page is gone.

        Args:
            error: of :mod:`app.models.reading.full_text`.
            url: address of the page that the site led to.
            title: of that page.
        """
        full = FullText(now, error=error)
        is_same = make_page_guid(url) == make_page_guid(entry.url or "")
        chosen = _choose_title(entry, title) if is_same else entry.title
        if chosen == entry.title:
            self._entries.store_full(entry, full)
            return full

        def write_title(session: Session) -> None:
            if self._entries.store_page_title(entry, chosen, full, now, session):
                self._pages.mark_changed(entry.feed_id, now, session)

        self._store.run_in_transaction(write_title)
        return full

    def find_root(self, entry: Entry, now: dt.datetime) -> Entry:
        """Return the entry that stands for a saved page in shares: one for all people who save the page.

        Only the address, and what Eventr itself has fetched, get there: what a person wrote would become
        everyone's, and outlive that person's account.
        """
        url, host = entry.url or "", find_page_host(entry.url or "")
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"
        feed_id = self._pages.get_or_create_feed(f"pages/{host}", site, host, now, private_to=None)
        (saved,) = self.save(feed_id, [NewPage(url)], now)
        root = self._entries.find(saved.entry_id, [feed_id])
        if root is None:
            raise NotFoundError(entry_id=entry.id)
        is_fetched = entry.full is not None and entry.full.error is None and not entry.brought
        if entry.full and is_fetched and entry.content and not (root.full and root.full.html):
            body = entry_bodies.Body(
                entry.content, entry.summary, entry.excerpt, entry.raw, entry.cleaned_by or SANITIZER_VERSION
            )
            self.store_text(root, entry.full.title, body, entry.image, now)
            root = self._entries.find(saved.entry_id, [feed_id]) or root
        return root

    def iter_pages(self, user_id: int, batch: int) -> Iterator[list[Entry]]:
        """Yield a person's saved pages with their texts, in batches, by number."""
        feed_id, after = self.find_feed(user_id), 0
        while feed_id is not None and (found := self._entries.find_range(feed_id, after, MAX_ID, batch)):
            yield found
            after = found[-1].seq

    def find_root_id(self, entry: Entry) -> Origin | None:
        """Return the root of a saved page's shares; None: nobody has shared the page yet."""
        feed_id = self._pages.find_feed(f"pages/{find_page_host(entry.url or '')}")
        guid = make_page_guid(entry.url or "")
        found = self._pages.find_pages(feed_id, [guid]).get(guid) if feed_id else None
        return Origin(found.entry_id, found.feed_id) if found else None

    def find_page_ids(self, feed_id: int, urls: Sequence[str]) -> dict[str, SavedPage]:
        """Return the saved pages among these addresses."""
        guids = {url: make_page_guid(url) for url in urls}
        known = self._pages.find_pages(feed_id, list(set(guids.values())))
        return {url: known[guid] for url, guid in guids.items() if guid in known}


def _make_change(entry: Entry, body: entry_bodies.Body) -> EntryChange:
    return EntryChange(
        guid_hash=b"",
        title=entry.title,
        url=entry.url,
        author=entry.author,
        image=entry.image,
        **body._asdict(),
    )


def _choose_title(entry: Entry, title: str) -> str:
    """Return the page's own title for one that was made from the address."""
    return title if title and entry.title == make_title(entry.url or "") else entry.title


def _get_keys(removal: Removal) -> tuple[int, int]:
    """Return the feed and the id of a removed page."""
    page = removal.page or {}
    return int(page["feed_id"]), int(page["_id"])


def _get_page_id(removal: Removal) -> int:
    return _get_keys(removal)[1]


def _make_key(user_id: int) -> str:
    return f"saved/{user_id}"


def _is_valid(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def make_page_guid(url: str) -> bytes:
    """Return the identity of a page among saved pages, 8 bytes, the same for all spellings of its address."""
    return (hash_page(url) or 0).to_bytes(8, "big", signed=True)
