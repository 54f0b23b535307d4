"""Services that entries are sent to: their secrets, the requests to them, and the results."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from app.config import Settings
from app.errors import ConflictError, InvalidError, NotFoundError, TooLargeError
from app.feeds import sealing
from app.feeds import targets as kinds
from app.feeds.fetch.address_policy import Policy
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.tags import TagGateway
from app.mappers.accounts.users import UserMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.reading.targets import TargetMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.fetched import Fetched, FetchRequest, Purpose
from app.models.reading.targets import (
    Delivery,
    DeliveryState,
    Occasion,
    SentEntry,
    Target,
    TargetKind,
    Wanted,
)

#: Time for which a delivery is remembered, so that it isn't made again.
EXPIRES = dt.timedelta(days=90)
#: Time after which the delivery of a worker that has died is made again.
CLAIMED = dt.timedelta(minutes=2)
#: The span of the limit of deliveries.
DAY = dt.timedelta(days=1)
#: Time for which it is remembered that something was too much; a repeated job counts it once.
DROPPED = dt.timedelta(days=2)
_JITTER = 0.1
NameHost = Callable[[str], str]


class TargetGateway:
    """Stores targets and deliveries, and builds the requests."""

    def __init__(
        self,
        *,
        targets: TargetMapper,
        users: UserMapper,
        subscriptions: SubscriptionMapper,
        entries: EntryGateway,
        feeds: FeedMapper,
        tags: TagGateway,
        settings: Settings,
        rng: random.Random | None = None,
    ) -> None:
        self.targets, self._entries, self._feeds, self._tags = targets, entries, feeds, tags
        self.users, self._subscriptions = users, subscriptions
        self._settings, self._policy = settings, Policy(settings, Purpose.SEND)
        self._key = sealing.derive_key(settings.secret_key)
        self._rng = rng or random.Random()  # noqa: S311 — spreads load, guards nothing

    def add(
        self,
        user_id: int,
        kind: TargetKind,
        address: str,
        *,
        name: str,
        secret: str,
        on: Sequence[Occasion],
    ) -> Target:
        """Store a target.

        Raises:
            InvalidError: the address or the secret can't be used.
            TooLargeError: the user has the maximum number of targets.
        """
        url, secret = kinds.check_address(kind, address, self._policy), kinds.check_secret(kind, secret)
        if len(self.targets.find_by_user(user_id)) >= self._settings.targets_max:
            raise TooLargeError(
                "You can have at most %(limit)s services. Delete one first.", limit=self._settings.targets_max
            )
        sealed = self._seal(user_id, secret)
        return self.targets.add(Target(0, user_id, kind, name, url, sealed, tuple(on)))

    def set_secret(self, user_id: int, target_id: int, secret: str, now: dt.datetime) -> None:
        """Replace the secret of a target; what waits for it is due now.

        Raises:
            NotFoundError: the user has no such target.
            InvalidError: the secret can't be used.
            ConflictError: its address was changed meanwhile.
        """
        target = self.get(user_id, target_id)
        sealed = self._seal(user_id, kinds.check_secret(target.kind, secret))
        self._store(target, now, sealed=sealed)

    def set_address(
        self,
        user_id: int,
        target_id: int,
        address: str,
        secret: str,
        now: dt.datetime,
        *,
        name_host: NameHost,
    ) -> None:
        """Replace the address of a target, and its secret; what waits for it is due now.

        Without a new secret the stored one stays, but only for the same scheme, host and port: who changes
        the address must not learn the secret there.

        Args:
            secret: empty: the stored one, if there is one.
            name_host: makes a name of an address; a name that was made of the old one follows.

        Raises:
            NotFoundError: the user has no such target.
            InvalidError: the address or the secret can't be used.
            ConflictError: its address was changed meanwhile.
        """
        target = self.get(user_id, target_id)
        url = kinds.check_address(target.kind, address, self._policy)
        name = name_host(url) if target.name == name_host(target.address) else target.name
        if secret.strip() or target.sealed is None:
            sealed = self._seal(user_id, kinds.check_secret(target.kind, secret))
            self._store(target, now, address=url, name=name, sealed=sealed)
        elif kinds.is_same_server(target.address, url):
            self._store(target, now, address=url, name=name)
        else:
            raise InvalidError(
                "Enter the secret or access token again: another server doesn't get the stored one.",
                field="secret",
            )

    def _store(self, target: Target, now: dt.datetime, **changes: Any) -> None:
        """Store an address, a secret or both, as long as the address is the one they were checked with."""
        found = target
        while found.address == target.address:
            if self.targets.store_access(found, dataclasses.replace(found, **changes), now):
                return
            found = self.get(target.user_id, target.id)
        raise ConflictError("The address of this service was just changed. Check it and try again.")

    def _seal(self, user_id: int, secret: str) -> bytes | None:
        if secret and not self._key:
            raise InvalidError("This server has no key for secrets. Ask its administrator to set one.")
        return sealing.encrypt_text(self._key, secret.encode(), _name(user_id)) if secret else None

    def get(self, user_id: int, target_id: int) -> Target:
        """Return a target.

        Raises:
            NotFoundError: the user has no such target.
        """
        found = self.targets.find(user_id, target_id)
        if found is None:
            raise NotFoundError("You don't have this service.", target_id=target_id)
        return found

    def store_requests(
        self, user_id: int, wanted: Sequence[Wanted], now: dt.datetime, mine: Sequence[Target] | None = None
    ) -> tuple[int, int]:
        """Store what is to be sent to a user's targets that are on.

        What was requested before isn't sent again, whatever became of it.

        Args:
            mine: the user's targets; None: they are read.

        Returns:
            How much is new, and how much isn't sent, because it is too much for a day.
        """
        if mine is None:
            mine = self.targets.find_by_user(user_id) if wanted else ()
        known = {one.id for one in mine if one.enabled}
        fresh = [one for one in wanted if one.target_id in known]
        if not fresh:
            return 0, 0
        before = self.targets.find_known(user_id, fresh)
        fresh = [one for one in dict.fromkeys(fresh) if one not in before]
        most = self._settings.sends_per_day
        left = max(0, most - self.targets.count_since(user_id, now - DAY, most))
        stored = self.targets.add_deliveries(user_id, fresh[:left], now, now + EXPIRES) if fresh[:left] else 0
        if too_many := fresh[left:]:
            self._drop(user_id, too_many, now)
        return stored, len(too_many)

    def _drop(self, user_id: int, wanted: Sequence[Wanted], now: dt.datetime) -> None:
        """Count what is too much for a day, once. Entries sent by hand raise an error instead."""
        automatic = [one for one in wanted if one.occasion not in (Occasion.KEY, Occasion.TEST)]
        new = self.targets.add_dropped(user_id, automatic, now + DROPPED) if automatic else []
        for target_id, count in Counter(one.target_id for one in new).items():
            self.targets.count_dropped(user_id, target_id, count)

    def build_request(self, target: Target, one: Delivery) -> FetchRequest | None:
        """Return the request of a delivery; None: its entry is gone, or the user may not see it anymore.

        Raises:
            NoPageError: the service keeps addresses, and the entry has none.
            InvalidError: the secret can't be read, because the key of this server has changed.
        """
        secret = b""
        if target.sealed is not None:
            opened = sealing.open_seal(self._key, target.sealed, _name(one.user_id)) if self._key else None
            if opened is None:
                raise InvalidError("The secret can't be read anymore.")
            secret = opened
        sent = self._describe(one)
        if sent is None:
            return None
        within = self._settings.send_timeout
        return kinds.build_request(target.kind, target.address, secret.decode(), sent, one, within=within)

    def _describe(self, one: Delivery) -> SentEntry | None:
        origin = self._settings.own_origin
        if one.occasion is Occasion.TEST:
            return SentEntry(0, "Eventr", f"{origin}/", f"{origin}/", excerpt="Test", feed_title="Eventr")
        try:
            entry = self._entries.get(one.user_id, one.entry_id)
        except NotFoundError:
            return None
        mine = self._subscriptions.find(one.user_id, entry.feed_id)
        card = self._feeds.find_cards([entry.feed_id]).get(entry.feed_id)
        title = (mine.title if mine else "") or (card.title if card else "")
        if not title and mine and card:  # an address may be a secret of those who follow the feed
            title = card.url
        marks = self._tags.find_marks(one.user_id, [entry.id])
        tags = self._tags.find_by_marks(one.user_id, marks).get(entry.id, ())
        return SentEntry(
            entry.id,
            entry.title,
            entry.url or "",
            f"{origin}/entries/{entry.id}",
            entry.author,
            entry.excerpt,
            title,
            entry.published,
            tuple(tag.name for tag in tags),
        )

    def record_result(self, one: Delivery, fetched: Fetched | None, now: dt.datetime) -> str:
        """Record the result of an attempt; return its error word, empty for success."""
        error, is_temporary = kinds.classify_response(fetched)
        asked = fetched.retry_after if fetched else None
        self.store_outcome(one, error, now, is_temporary=is_temporary, asked=asked or 0)
        return error

    def store_outcome(
        self, one: Delivery, error: str, now: dt.datetime, *, is_temporary: bool = False, asked: int = 0
    ) -> None:
        """Store how an attempt ended, and when the next one is.

        Args:
            error: empty: it succeeded.
            asked: seconds that the service asked to wait.
        """
        settings = self._settings
        self.targets.record_result(one.user_id, one.target_id, error, now)
        if not error:
            self.targets.store_state(one, DeliveryState.SENT)
            # The service responds, so the others needn't wait because an entry before them failed.
            self.targets.release_target(one.user_id, one.target_id, now)
        elif is_temporary and one.tries < settings.send_tries:
            wait = min(settings.send_backoff_min * (1 << (one.tries - 1)), settings.send_backoff_max)
            pause = max(wait * self._rng.uniform(1 - _JITTER, 1 + _JITTER), float(asked))
            due = now + dt.timedelta(seconds=pause)
            self.targets.store_rest(one.user_id, one.target_id, due)
            self.targets.store_state(one, DeliveryState.WAITING, error, due)
            # One attempt tells enough; many would hold a worker up for a service that doesn't respond.
            self.targets.postpone_target(one.user_id, one.target_id, due, now)
        else:
            self.targets.store_state(one, DeliveryState.FAILED, error)

    def postpone(self, one: Delivery, seconds: float, now: dt.datetime) -> None:
        """Try a delivery later that wasn't begun; that isn't an attempt."""
        due = now + dt.timedelta(seconds=seconds)
        self.targets.store_state(one, DeliveryState.WAITING, one.error, due, tries=max(1, one.tries) - 1)


def _name(user_id: int) -> bytes:
    return b"target %d" % user_id
