"""Taking over a person's choices from Eventr's own archive: saved searches, rules, settings of feeds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app import logs
from app.errors import EventrError, StoreError
from app.models.accounts.actor import Actor
from app.models.imports.choices import SETTINGS
from app.models.reading.rules import FILE_KIND, FILE_VERSION
from app.models.subscriptions.subscription import Subscription
from app.services.reading.rules import RuleService
from app.services.reading.tags import TagService
from app.services.sharing.sharing import SharingService
from app.services.subscriptions.subscriptions import SubscriptionService

log = logs.get(__name__)


class ChoiceService:
    """Applies choices. What the person already has stays as it is, so doing it twice changes nothing."""

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

    def apply(self, actor: Actor, choices: str, feeds: Mapping[str, int]) -> int:
        """Take over choices; return how many were new. What can't be used here is left out.

        Args:
            choices: as :func:`app.models.imports.choices.pack_choices` returns them.
            feeds: address → feed, for the feeds of the import.

        Raises:
            StoreError: a store isn't responding; a later run does it again.
        """
        found = json.loads(choices)
        count = sum(self._set_feed(actor, feeds, *row) for row in found["feeds"])
        known = {one.name for one in self._tags.list_searches(actor)}
        count += sum(self._add_search(actor, row) for row in found["searches"] if _name(row) not in known)
        have = [_plain(row) for row in self._rules.export(actor)["rules"]]
        count += sum(self._add_rule(actor, row) for row in found["rules"] if _plain(row) not in have)
        log.info("import_choices_applied", user_id=actor.user_id, count=count)
        return count

    def _set_feed(
        self, actor: Actor, feeds: Mapping[str, int], address: str, chosen: Mapping[str, Any], private: bool
    ) -> bool:
        feed_id = feeds.get(address)
        if not feed_id:
            return False
        try:
            if not _is_usual(self._subscriptions.get(actor, feed_id)):
                return False
            self._subscriptions.update(actor, feed_id, **chosen)
            if private:
                self._sharing.set_feed_private(actor, feed_id, True)
        except StoreError:
            raise
        except (EventrError, TypeError):  # the file was edited
            return False
        return True

    def _add_search(self, actor: Actor, row: Any) -> bool:
        try:
            made = self._tags.save_search(actor, _name(row), str(row.get("query", "")))
            if row.get("notify") is True:
                self._tags.set_search_notify(actor, made.id, True)
        except StoreError:
            raise
        except (EventrError, AttributeError):
            return False
        return True

    def _add_rule(self, actor: Actor, row: Any) -> bool:
        file = {"kind": FILE_KIND, "version": FILE_VERSION, "rules": [row]}
        try:
            return self._rules.import_rules(actor, json.dumps(file).encode())[0] > 0
        except StoreError:
            raise
        except EventrError:
            return False


def _name(row: Any) -> str:
    return str(row.get("name", "")) if isinstance(row, dict) else ""


def _plain(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def _is_usual(one: Subscription) -> bool:
    """Return whether a subscription has the usual settings, so that the person hasn't chosen any here."""
    names = {"hidden": "muted"}
    return not one.private and not any(getattr(one, names.get(name, name)) for name in SETTINGS.values())
