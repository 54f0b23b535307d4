"""Imports and exports of OPML files: preview, start, cancel, retry, unsubscribe and export."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

from app import clock, logs
from app.config import Settings
from app.errors import ConflictError, EventrError, get_public_word
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.imports.archives import ArchiveGateway
from app.gateways.imports.exports import ExportGateway, export_items
from app.gateways.imports.imports import ImportGateway
from app.models.accounts.actor import Actor, Permission
from app.models.imports.choices import ChoiceKind
from app.models.imports.imports import ENDED, Import, ImportedFeeds, ImportItem, ItemState
from app.models.imports.opml import SubscriptionList
from app.ports import EventPort, JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.fetch_budget import FetchBudget
from app.services.free_space import FreeSpace
from app.services.imports.runner import make_import_job
from app.services.subscriptions.bulk_edit import BulkEditService
from app.services.validation import check_id, check_text

log = logs.get(__name__)

LISTED = 50
#: Outlines per page of the preview: the checkboxes of so many fit into one form.
PAGE = 500
NAME_MAX, FOLDER_MAX = 256, 128


class ImportService:
    """Previews, runs and undoes an actor's imports, and exports their subscriptions."""

    def __init__(
        self,
        *,
        imports: ImportGateway,
        archives: ArchiveGateway,
        exports: ExportGateway,
        feeds: FeedGateway,
        bulk_edit: BulkEditService,
        jobs: JobPort,
        events: EventPort,
        limiter: Limiter,
        free_space: FreeSpace,
        fetch_budget: FetchBudget,
        settings: Settings,
    ) -> None:
        self._imports, self._archives = imports, archives
        self._exports, self._feeds = exports, feeds
        self._manager = bulk_edit
        self._jobs = jobs
        self._events = events
        self._limiter = limiter
        self._free_space, self._fetch_budget = free_space, fetch_budget
        self._settings = settings

    def preview(self, actor: Actor, body: bytes, name: str) -> Import:
        """Read an OPML file, or an archive of another reader, and store it; nothing is subscribed yet.

        Args:
            name: name of the file as uploaded.

        Raises:
            InvalidError: the file is neither; the message says what it is, if that can be seen, and what to
                do.
            TooLargeError: the file exceeds one of the settings ``opml_…`` or ``archive_…``. What it unpacks
                to may not be larger than an OPML file.
            RateLimitedError: too many files within the hour.
            NoSpaceError: a disk is almost full.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._free_space.require_space()
        self._throttle(actor)
        name, now = check_text(name[:NAME_MAX], "name", empty=True), clock.now()
        if self._archives.is_archive(body):
            kept = self._archives.add(actor.user_id, self._archives.read_body(body), name, now)
        else:
            kept = self._imports.add(actor.user_id, self._imports.read_file(body), name, now)
        log.info("import_previewed", user_id=actor.user_id, import_id=kept.id, **kept.counts)
        return kept

    def _throttle(self, actor: Actor) -> None:
        who, limit = f"import:{actor.user_id}", self._settings.imports_per_hour
        throttle(self._limiter, who, limit=limit, window=clock.HOUR)

    def import_list(self, actor: Actor, subscription_list: SubscriptionList, name: str) -> Import:
        """Import a whole list without a preview.

        Raises:
            InvalidError: the actor already has everything in the list.
            RateLimitedError: too many lists within the hour.
            NoSpaceError: a disk is almost full.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._free_space.require_space()
        self._throttle(actor)
        kept = self._imports.add(
            actor.user_id, subscription_list, check_text(name, "name", empty=True), clock.now()
        )
        try:
            return self.start(actor, kept.id)
        except EventrError:
            self._imports.remove(actor.user_id, kept.id)
            raise

    def list_recent(self, actor: Actor) -> list[Import]:
        """Return the actor's imports, newest first."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._imports.find_by_user(actor.user_id, LISTED)

    def find_active(self, actor: Actor) -> Import | None:
        """Return the actor's import that is running or queued, if there is one."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._imports.find_active_by_user(actor.user_id)

    def get(self, actor: Actor, import_id: int) -> Import:
        """Return an import.

        Raises:
            NotFoundError: the actor has no such import.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._imports.get(actor.user_id, check_id(import_id, "import_id"))

    def list_page(self, actor: Actor, import_id: int, page_number: int = 0) -> Sequence[ImportItem]:
        """Return a page of :data:`PAGE` outlines, as in :meth:`list_failures`; the first page is 0."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        first = max(0, min(page_number, 1000)) * PAGE
        items = self._imports.find_items(actor.user_id, check_id(import_id, "import_id"), first, PAGE)
        return [_seen(actor, item) for item in items]

    def list_failures(self, actor: Actor, import_id: int) -> Sequence[ImportItem]:
        """Return the outlines that failed; only admins learn what listens on which host (S13)."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        items = self._imports.find_items(actor.user_id, check_id(import_id, "import_id"))
        return [_seen(actor, item) for item in items if item.state is ItemState.FAILED]

    def find_icons(self, actor: Actor, items: Iterable[ImportItem]) -> dict[int, str]:
        """Return the paths of the icons of those feeds of the actor's outlines that have one, by feed."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        feed_ids = {item.feed_id for item in items if item.feed_id is not None}
        cards = self._feeds.find_cards(sorted(feed_ids)) if feed_ids else {}
        return {feed_id: card.icon for feed_id, card in cards.items() if card.icon}

    def list_items(self, actor: Actor, import_id: int) -> Sequence[ImportItem]:
        """Return all outlines."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        items = self._imports.find_items(actor.user_id, check_id(import_id, "import_id"))
        return [_seen(actor, item) for item in items]

    def choose_items(self, actor: Actor, import_id: int, page_number: int, chosen: Collection[int]) -> Import:
        """Store which outlines of a page are selected; duplicates and invalid outlines can't be selected.

        Raises:
            NotFoundError: the actor has no such import.
            ConflictError: the import has already started.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        first = max(0, min(page_number, 1000)) * PAGE
        return self._imports.choose_items(
            actor.user_id, check_id(import_id, "import_id"), first, PAGE, chosen
        )

    def choose_all(self, actor: Actor, import_id: int, on: bool) -> Import:
        """Select all outlines that the actor isn't subscribed to yet, or none.

        Raises:
            NotFoundError: the actor has no such import.
            ConflictError: the import has already started.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        found = self._imports.get(actor.user_id, check_id(import_id, "import_id"))
        items = self._imports.find_items(actor.user_id, found.id) if on else []
        chosen = {item.index for item in items if not item.feed_id}
        return self._imports.choose_items(actor.user_id, found.id, 0, max(1, found.total), chosen)

    def start(
        self,
        actor: Actor,
        import_id: int,
        *,
        keep_folders: bool = True,
        into: str = "",
        choices: bool = True,
    ) -> Import:
        """Start importing the selected outlines.

        Args:
            into: the folder for all feeds, if ``keep_folders`` is False; empty: no folder.
            choices: take over rules, saved searches and settings of feeds from an archive of Eventr. Rules
                and searches only if the actor may edit them.

        Raises:
            NotFoundError: the actor has no such import.
            ConflictError: the import has already started.
            InvalidError: nothing is selected.
            RateLimitedError: the day's bytes are spent; the message says when they are renewed.
            StoreError: MongoDB does not answer. Without Redis the import still starts.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._fetch_budget.require_budget(actor)
        into = check_text(into, "into", limit=FOLDER_MAX, empty=True)
        import_id, now = check_id(import_id, "import_id"), clock.now()
        kinds = [ChoiceKind.FEEDS] if choices else []
        if choices and actor.has_permission(Permission.TAG_EDIT):
            kinds += [ChoiceKind.SEARCHES, ChoiceKind.RULES]
        found = self._imports.start(
            actor.user_id, import_id, keep_folders=keep_folders, into=into, now=now, choice_kinds=kinds
        )
        log.info("import_started", user_id=actor.user_id, import_id=found.id, goal=found.goal)
        return self._queued(found)

    def cancel(self, actor: Actor, import_id: int) -> Import:
        """Cancel an import; subscriptions added so far stay.

        Raises:
            NotFoundError: the actor has no such import.
            ConflictError: the import has ended.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        found = self._imports.cancel(actor.user_id, check_id(import_id, "import_id"), clock.now())
        self._events.notify_progress(actor.user_id, found.id, found.build_report(clock.now()))
        return found

    def resume(self, actor: Actor, import_id: int) -> Import:
        """Resume a canceled import.

        Raises:
            NotFoundError: the actor has no such import.
            ConflictError: the import was not canceled.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        return self._queued(
            self._imports.resume(actor.user_id, check_id(import_id, "import_id"), clock.now())
        )

    def retry(self, actor: Actor, import_id: int, index: int | None = None) -> Import:
        """Retry one failed outline, or all if ``index`` is None.

        Raises:
            NotFoundError: the actor has no such import, or it has no such failed outline.
            ConflictError: the import has not ended.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        import_id = check_id(import_id, "import_id")
        return self._queued(self._imports.retry(actor.user_id, import_id, index, clock.now()))

    def remove(self, actor: Actor, import_id: int) -> None:
        """Delete a preview or an import that has ended; subscriptions stay.

        Raises:
            NotFoundError: the actor has no such import.
            ConflictError: the import has not ended.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._imports.remove(actor.user_id, check_id(import_id, "import_id"))
        self._archives.release_file(import_id)

    def find_imported_feeds(self, actor: Actor, import_id: int) -> ImportedFeeds:
        """Return the feeds that an import subscribed the actor to: still subscribed ones, and unsubscribed
        ones.

        Raises:
            NotFoundError: the actor has no such import.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        found = self._imports.get(actor.user_id, check_id(import_id, "import_id"))
        return self._imports.find_imported_feeds(found)

    def unsubscribe(self, actor: Actor, import_id: int) -> tuple[str, int]:
        """Unsubscribe from the feeds that an import added; folders stay.

        Returns:
            As ``BulkEditService.unsubscribe``, whose ``restore`` undoes this.

        Raises:
            NotFoundError: the actor has no such import.
            ConflictError: the import has not ended, or none of its feeds is still subscribed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        found = self._imports.get(actor.user_id, check_id(import_id, "import_id"))
        if found.state not in ENDED:
            raise ConflictError("Cancel this import first.")
        feed_ids = self._imports.find_imported_feeds(found).feeds
        if not feed_ids:
            raise ConflictError("You aren't subscribed to any feeds from this import.")
        log.info("import_taken_back", user_id=actor.user_id, import_id=found.id, count=len(feed_ids))
        return self._manager.unsubscribe(actor, feed_ids)

    def export_failures(self, actor: Actor, import_id: int, explain: Callable[[ImportItem], str]) -> bytes:
        """Return an OPML file of the outlines that failed; ``explain`` returns the reason of one.

        Raises:
            NotFoundError: the actor has no such import.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        found = self.get(actor, import_id)
        return export_items(found, self.list_failures(actor, import_id), explain)

    def export(self, actor: Actor) -> bytes:
        """Return the actor's subscriptions as OPML 2.0: a feed in several folders appears in each of them."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._exports.export_subscriptions(actor.user_id)

    def _queued(self, found: Import) -> Import:
        try:
            self._jobs.enqueue(make_import_job(found.user_id, found.id))
        except EventrError as e:
            # The import is stored, so the updater queues the job later.
            log.warning("import_not_queued", import_id=found.id, error=e.word)
        self._events.notify_progress(found.user_id, found.id, found.build_report(clock.now()))
        return found


def _seen(actor: Actor, item: ImportItem) -> ImportItem:
    if item.error is None:
        return item
    word = get_public_word(item.error, admin=actor.has_permission(Permission.ADMIN_SEE))
    # The detail would tell more than the word that is hidden.
    return item if word == item.error else dataclasses.replace(item, error=word, detail="")
