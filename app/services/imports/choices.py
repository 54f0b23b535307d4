"""Taking over a person's choices from Eventr's own archive: saved searches, rules, settings of feeds."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app import logs
from app.errors import EventrError, StoreError
from app.models.accounts.actor import Actor
from app.models.imports.choices import ChoiceKind
from app.services.reading.rules import RuleService
from app.services.reading.tags import TagService
from app.services.sharing.sharing import SharingService
from app.services.subscriptions.subscriptions import SubscriptionService

log = logs.get(__name__)

#: Feeds and searches that are changed between two signs of life of the import.
PART = 20
#: Settings whose names differ in a subscription.
_FIELDS = {"hidden": "muted"}


class ChoiceService:
    """Applies choices. What the person already has stays as it is."""

    def __init__(
        self,
        *,
        tags: TagService,
        rules: RuleService,
        subscriptions: SubscriptionService,
        sharing: SharingService,
    ) -> None:
        self._tags, self._rules = tags, rules
        self._subscriptions, self._sharing = subscriptions, sharing

    def apply(
        self,
        actor: Actor,
        choices: Mapping[str, Sequence[Any]],
        kinds: Collection[str],
        feeds: Mapping[str, int],
        is_alive: Callable[[], bool],
    ) -> dict[str, int] | None:
        """Take over choices. What can't be used here is left out.

        Args:
            choices: :class:`ChoiceKind` → rows, see :class:`app.models.imports.choices.Choices`.
            kinds: those that are taken over.
            feeds: address → feed, for the feeds whose settings are changed.
            is_alive: says that the import is still running, and returns whether it is; called every
                :data:`PART` writes.

        Returns:
            How many were new, by kind; None: the import has ended, and the rest was left out.

        Raises:
            StoreError: a store isn't responding; a later run does it again.
            ConflictError: the rules were being changed all the time; likewise.
        """
        counts = Counter[str]()
        wanted = {kind: choices.get(kind, ()) if kind in kinds else () for kind in ChoiceKind}
        settings = [row for row in wanted[ChoiceKind.FEEDS] if feeds.get(row[0])]
        for number, (address, chosen, is_private) in enumerate(settings):
            if number % PART == 0 and not is_alive():
                return None
            counts[ChoiceKind.FEEDS] += self._set_feed(actor, feeds[address], chosen, is_private)
        known = {one.name for one in self._tags.list_searches(actor)}
        new = [row for row in wanted[ChoiceKind.SEARCHES] if (row["name"] or row["query"]) not in known]
        for number, row in enumerate(new):
            if number % PART == 0 and not is_alive():
                return None
            counts[ChoiceKind.SEARCHES] += self._add_search(actor, row)
        if not is_alive():
            return None
        if wanted[ChoiceKind.RULES]:
            counts[ChoiceKind.RULES] = self._rules.take_over(actor, wanted[ChoiceKind.RULES])
        log.info("import_choices_applied", user_id=actor.user_id, **counts)
        return {str(kind): count for kind, count in counts.items() if count}

    def _set_feed(self, actor: Actor, feed_id: int, chosen: Mapping[str, Any], is_private: bool) -> bool:
        """Change the settings that are the usual ones, and close the person's shares of a private feed."""
        is_done = False
        if is_private:
            is_done = _attempt(lambda: self._sharing.set_feed_private(actor, feed_id, True))
        try:
            mine = self._subscriptions.get(actor, feed_id)
        except StoreError:
            raise
        except EventrError:  # the person has unsubscribed meanwhile
            return is_done
        new = {name: value for name, value in chosen.items() if not getattr(mine, _FIELDS.get(name, name))}
        if not new:
            return is_done
        if _attempt(lambda: self._subscriptions.update(actor, feed_id, **new)):
            return True
        for name, value in new.items():  # one of them can't be used
            is_done |= _attempt(
                functools.partial(self._subscriptions.update, actor, feed_id, **{name: value})
            )
        return is_done

    def _add_search(self, actor: Actor, row: Mapping[str, Any]) -> bool:
        def save() -> None:
            made = self._tags.save_search(actor, row["name"], row["query"])
            if row["notify"]:
                self._tags.set_search_notify(actor, made.id, True)

        return _attempt(save)


def _attempt(change: Callable[[], object]) -> bool:
    """Return whether a change was possible.

    Raises:
        StoreError: a store isn't responding.
    """
    try:
        change()
    except StoreError:
        raise
    except EventrError:
        return False
    return True
