"""What a person does with files of subscriptions: preview, import, retry, export."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from app import clock, logs
from app.config import Settings
from app.errors import ConflictError, EventrError, get_public_word
from app.gateways.imports.exports import ExportGateway, export_items
from app.gateways.imports.imports import ImportGateway
from app.models.accounts.actor import Actor, Permission
from app.models.imports.imports import ENDED, Import, ImportedFeeds, ImportItem, ItemState
from app.models.imports.opml import SubscriptionList
from app.ports import EventPort, JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.imports.runner import make_import_job
from app.services.subscriptions.bulk_edit import BulkEditService
from app.services.validation import check_id, check_text

log = logs.get(__name__)

LISTED = 50
#: Outlines of a page of the preview: ticks of so many fit into one form.
PAGE = 500
NAME_MAX, FOLDER_MAX = 256, 128


class ImportService:
    """Previews, imports and exports of an actor."""

    def __init__(
        self,
        imports: ImportGateway,
        exports: ExportGateway,
        bulk_edit: BulkEditService,
        jobs: JobPort,
        events: EventPort,
        limiter: Limiter,
        settings: Settings,
    ) -> None:
        self._imports = imports
        self._exports = exports
        self._manager = bulk_edit
        self._jobs = jobs
        self._events = events
        self._limiter = limiter
        self._settings = settings

    def preview(self, actor: Actor, body: bytes, name: str) -> Import:
        """Read a file and keep what is in it; nothing is subscribed yet.

        Args:
            name: of the file, as the person knows it.

        Raises:
            InvalidError: it is no OPML; the sentence says what it is, where that shows, and what to do.
            TooLargeError: a limit of the settings ``opml_…``.
            RateLimitedError: too many files within the hour.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._throttle(actor)
        found = self._imports.read_file(body)
        kept = self._imports.add(
            actor.user_id, found, check_text(name[:NAME_MAX], "name", empty=True), clock.now()
        )
        log.info("import_previewed", user_id=actor.user_id, import_id=kept.id, **kept.counts)
        return kept

    def _throttle(self, actor: Actor) -> None:
        who, limit = f"import:{actor.user_id}", self._settings.imports_per_hour
        throttle(self._limiter, who, limit=limit, window=clock.HOUR)

    def import_list(self, actor: Actor, subscription_list: SubscriptionList, name: str) -> Import:
        """Import a list at once, as it is.

        Raises:
            InvalidError: there is nothing in it that he has not got.
            RateLimitedError: too many lists within the hour.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
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
        """Return the actor's imports, the newest first."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._imports.find_by_user(actor.user_id, LISTED)

    def find_active(self, actor: Actor) -> Import | None:
        """Return the import that runs or waits for its turn, if there is one."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._imports.find_active_by_user(actor.user_id)

    def get(self, actor: Actor, import_id: int) -> Import:
        """Return an import.

        Raises:
            NotFoundError: he has no such import.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._imports.get(actor.user_id, check_id(import_id, "import_id"))

    def list_page(self, actor: Actor, import_id: int, page_number: int = 0) -> Sequence[ImportItem]:
        """Return a page of :data:`PAGE` outlines, from page 0 on."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        first = max(0, min(page_number, 1000)) * PAGE
        return self._imports.find_items(actor.user_id, check_id(import_id, "import_id"), first, PAGE)

    def list_failures(self, actor: Actor, import_id: int) -> Sequence[ImportItem]:
        """Return the outlines that failed; only admins learn what listens where (S13)."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        items = self._imports.find_items(actor.user_id, check_id(import_id, "import_id"))
        return [_seen(actor, item) for item in items if item.state is ItemState.FAILED]

    def list_items(self, actor: Actor, import_id: int) -> Sequence[ImportItem]:
        """Return all outlines."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        items = self._imports.find_items(actor.user_id, check_id(import_id, "import_id"))
        return [_seen(actor, item) for item in items]

    def choose_items(self, actor: Actor, import_id: int, page_number: int, chosen: Collection[int]) -> Import:
        """Take in which outlines of a page are ticked; doubles and faults cannot be.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has been started.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        first = max(0, min(page_number, 1000)) * PAGE
        return self._imports.choose_items(
            actor.user_id, check_id(import_id, "import_id"), first, PAGE, chosen
        )

    def choose_all(self, actor: Actor, import_id: int, on: bool) -> Import:
        """Tick all outlines that he has not got, or none.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has been started.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        found = self._imports.get(actor.user_id, check_id(import_id, "import_id"))
        items = self._imports.find_items(actor.user_id, found.id) if on else []
        chosen = {item.index for item in items if not item.feed_id}
        return self._imports.choose_items(actor.user_id, found.id, 0, max(1, found.total), chosen)

    def start(self, actor: Actor, import_id: int, *, keep_folders: bool = True, into: str = "") -> Import:
        """Import what is ticked.

        Args:
            into: without ``keep_folders`` the one folder for all; empty: none.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has been started.
            InvalidError: nothing is ticked.
            StoreError: MongoDB does not answer. Without Redis it is started all the same.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        into = check_text(into, "into", limit=FOLDER_MAX, empty=True)
        import_id, now = check_id(import_id, "import_id"), clock.now()
        found = self._imports.start(actor.user_id, import_id, keep_folders=keep_folders, into=into, now=now)
        log.info("import_started", user_id=actor.user_id, import_id=found.id, goal=found.goal)
        return self._queued(found)

    def cancel(self, actor: Actor, import_id: int) -> Import:
        """Stop an import; what is subscribed stays.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has ended.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        found = self._imports.cancel(actor.user_id, check_id(import_id, "import_id"), clock.now())
        self._events.notify_progress(actor.user_id, found.id, found.build_report(clock.now()))
        return found

    def resume(self, actor: Actor, import_id: int) -> Import:
        """Take back a cancel.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it was not cancelled.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        return self._queued(
            self._imports.resume(actor.user_id, check_id(import_id, "import_id"), clock.now())
        )

    def retry(self, actor: Actor, import_id: int, index: int | None = None) -> Import:
        """Try failed outlines again: one, or all.

        Raises:
            NotFoundError: he has no such import, or there is no such failure in it.
            ConflictError: it has not ended.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        import_id = check_id(import_id, "import_id")
        return self._queued(self._imports.retry(actor.user_id, import_id, index, clock.now()))

    def remove(self, actor: Actor, import_id: int) -> None:
        """Forget a preview or an import that has ended; subscriptions stay.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has not ended.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._imports.remove(actor.user_id, check_id(import_id, "import_id"))

    def find_imported_feeds(self, actor: Actor, import_id: int) -> ImportedFeeds:
        """Return the feeds that an import subscribed him to: those he follows still, and those he has left.

        Raises:
            NotFoundError: he has no such import.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        found = self._imports.get(actor.user_id, check_id(import_id, "import_id"))
        return self._imports.find_imported_feeds(found)

    def unsubscribe(self, actor: Actor, import_id: int) -> tuple[str, int]:
        """Unsubscribe from what an import has brought; folders stay.

        Returns:
            As ``BulkEditService.unsubscribe``, whose ``restore`` takes it back.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has not ended, or nothing is left of what it brought.
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

    def export_failures(self, actor: Actor, import_id: int) -> bytes:
        """Return an OPML file of the outlines that failed.

        Raises:
            NotFoundError: he has no such import.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        found = self.get(actor, import_id)
        return export_items(found, self.list_failures(actor, import_id))

    def export(self, actor: Actor) -> bytes:
        """Return the actor's subscriptions as OPML 2.0: a feed in several folders is in each of them."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._exports.export_subscriptions(actor.user_id)

    def _queued(self, found: Import) -> Import:
        try:
            self._jobs.enqueue(make_import_job(found.user_id, found.id))
        except EventrError as e:
            # It is stored: the updater queues it as soon as it can.
            log.warning("import_not_queued", import_id=found.id, error=e.word)
        self._events.notify_progress(found.user_id, found.id, found.build_report(clock.now()))
        return found


def _seen(actor: Actor, item: ImportItem) -> ImportItem:
    if item.error is None:
        return item
    return dataclasses.replace(
        item, error=get_public_word(item.error, admin=actor.has_permission(Permission.ADMIN_SEE))
    )
