"""The digest of a fetch: a pure function from (feed, answer, now) to the data to store.

fetch → unchanged? → parse → identify → sanitize only new entries → plan. Nothing here does I/O, so every
outcome of a pull can be tested as data, and a benchmark can time it alone.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from app import logs
from app.config import Settings
from app.errors import FeedError, FetchError, ParseError
from app.feeds import schedule, urls
from app.feeds.fetch import freshness
from app.feeds.identity import Diff
from app.feeds.known_entries import count_listed, join_rows, split_rows
from app.feeds.pages.extract import read_page
from app.feeds.parse import Limits, parse
from app.feeds.parse.dates import clamp
from app.feeds.parse.incremental import FeedChanges, LastFetch, compare, find_changes
from app.feeds.websub import subscriber
from app.gateways.feeds import entry_bodies
from app.gateways.feeds.fetching import is_consent_page
from app.gateways.feeds.sort_times import calculate_sort_times, find_published
from app.models.feeds.feed import UNSET, Feed, FeedFields, FeedPoll, FeedUpdate, FetchRecord
from app.models.feeds.fetched import Fetched, Validators
from app.models.feeds.parsed import ParsedEntry, ParsedFeed
from app.models.feeds.recipe import get_fragment, split_recipe
from app.models.feeds.schedule import Hints, Plan
from app.models.feeds.websub import HubAnnouncement
from app.models.media.rewriting import find_lead_picture
from app.models.reading.entry import EntryChange, NewEntry

log = logs.get(__name__)

#: The error of a feed whose recipe doesn't find its entries anymore.
RECIPE_BROKEN = "recipe_broken"
#: If more than this part of at least so many entries is new, a recipe may read another list than before;
#: after such a time without a check, or with this error, all may really be new.
TURNOVER, TURNOVER_ENTRIES = 0.8, 5
TURNOVER_AFTER, BELIEVED = dt.timedelta(days=3), dt.timedelta(days=1)
#: Longest detail of an error, in characters.
DETAIL: Final = 300
#: Equal permanent redirects in a row, each with a parsed answer, before a new address is stored (S09).
MOVES: Final = 3
#: The error of a feed whose document is cut off (X04); its complete entries are stored.
CUT: Final = "cut_off"
#: The error of a feed that is larger than the limit; the entries before the limit are stored.
LIMITED: Final = "read_in_part"
#: Errors of feeds whose complete entries are stored.
PARTIAL: Final = frozenset([CUT, LIMITED])
#: Known entries after such a cut that ``seen`` keeps; the store knows the others.
BEHIND: Final = 500
#: A fetch that took this part of the time for the first byte marks its feed as slow; one that took less than
#: half of that doesn't.
SLOW: Final = 0.75
_DAY_MS: Final = 86_400_000

Parse = Callable[..., ParsedFeed]
Sanitize = Callable[[str, str], str]


@dataclasses.dataclass(frozen=True, slots=True)
class Digest:
    """The update to store after a fetch, and its record for the fetch log.

    ``moved_to`` is set once a permanent redirect has been seen :data:`MOVES` times. ``announced_url`` is the
    new address that the feed itself stated as often; it has to be fetched and parsed before the feed moves.
    """

    update: FeedUpdate
    record: FetchRecord
    plan: Plan
    moved_to: str | None = None
    announced_url: str | None = None


class _Fixed(random.Random):
    """A random source that always returns ``at``, in [0, 1)."""

    def __init__(self, at: float) -> None:
        super().__init__(0)
        self._at = at

    def random(self) -> float:
        return self._at


class Digester:
    """Digests fetches under one set of limits.

    Args:
        settings: limits of entries, schedule and parser.
        rng: draws the jitter of the schedule.
        parse, sanitize: replaced only by the benchmark that compares parsers. Without a custom parser,
            entries known by their bytes are not parsed at all.
    """

    def __init__(
        self,
        settings: Settings,
        rng: random.Random | None = None,
        *,
        parse: Parse | None = None,
        sanitize: Sanitize | None = None,
    ) -> None:
        self._limits = Limits.from_settings(settings)
        self._bounds = schedule.Limits.from_settings(settings)
        self._max_html = settings.entry_max_html
        self._slow = SLOW * min(settings.fetch_first_byte_timeout, settings.fetch_total_timeout)
        self._hubs = subscriber.is_enabled(settings)
        self._rng = rng or random.Random()  # noqa: S311 — spreads load, guards nothing
        self._parse = parse
        self._sanitize = sanitize or entry_bodies.make_sanitizer(settings)

    def make_batch_rng(self) -> random.Random:
        """Return the random source of a batch: all its feeds get the same jitter, each batch a different one.

        So feeds with equal intervals stay together: one statement writes them, and feeds of a host reuse its
        connection. The jitter spreads batches instead of feeds.
        """
        return _Fixed(self._rng.random())

    def calculate_rest(
        self, poll: FeedPoll, fetched: Fetched, now: dt.datetime, rng: random.Random | None = None
    ) -> dt.timedelta | None:
        """Return the time until a feed's next check if this answer changes nothing else; None: digest it."""
        if poll.claim_token is not None or poll.torn:
            return None  # its last writer died or was late: the next claim reconciles it
        if not fetched.unchanged or fetched.error or fetched.permanent_url or poll.moved_to:
            return None
        if poll.error and poll.error != LIMITED:
            return None
        if poll.other_url:
            return None
        # The fetcher returns the same validators object when an answer repeats them.
        if fetched.validators is not poll.validators and _kept(poll, fetched) != poll.validators:
            return None
        now_ms = int(now.timestamp() * 1000)
        days = max(0, now_ms - poll.read_ms) // _DAY_MS
        hints = _hints(fetched, days, poll.ttl_minutes, poll.skip_hours, self._hubs and poll.push_ms > now_ms)
        late = (now_ms - poll.due_ms) / 1000 if poll.due_ms is not None else 0.0
        history = schedule.History.from_doc(poll.history)
        bounds = self._get_bounds(poll)
        plan = schedule.plan(history, now, hints, bounds, rng=rng or self._rng, lateness=late)
        return plan.next_check_at - now

    def digest_fetch(self, feed: Feed, fetched: Fetched, now: dt.datetime) -> Digest:
        """Return the digest of a fetch; never raises, even if the document breaks the parser.

        Args:
            feed: the feed as claimed; ``feed.claim_token`` goes into the update.
            fetched: the answer to the request that was made from ``feed``.
            now: time of the answer, with a time zone.
        """
        try:
            if fetched.error:
                raise fetched.error
            if fetched.unchanged:
                return self._unchanged(feed, fetched, now)
            return self._changed(feed, fetched, now)
        except FeedError as error:
            return self._failed(feed, fetched, now, error)
        except Exception as error:  # noqa: BLE001 — a bug of ours must not fail the other feeds
            return self.make_unreadable(feed, fetched, now, error)

    def make_unreadable(self, feed: Feed, fetched: Fetched, now: dt.datetime, error: Exception) -> Digest:
        """Return the digest of an answer that a bug of ours kept us from reading or storing."""
        log.error("feed_unreadable", exc_info=True, feed_id=feed.id)
        return self._failed(feed, fetched, now, FeedError("unreadable", type(error).__name__))

    def _unchanged(self, feed: Feed, fetched: Fetched, now: dt.datetime) -> Digest:
        skip, pushed = frozenset(feed.skip_hours), self._is_pushed(feed, now)
        hints = _hints(fetched, _unread_days(feed, now), feed.ttl_minutes, skip, pushed)
        plan = self._plan(feed, schedule.History.from_doc(feed.history), now, hints, _late(feed, now))
        fields = FeedFields(
            next_check_at=plan.next_check_at,
            checked_at=now,
            **({} if feed.error == LIMITED else _recovered(feed)),
            **_moved(feed, fetched, feed.new_url),
            **self._pace(feed, fetched),
        )
        validators = _kept(feed, fetched)
        if validators != feed.validators:
            fields = dataclasses.replace(fields, validators=validators)
        return _digest(feed, fetched, now, plan=plan, fields=fields)

    def _changed(self, feed: Feed, fetched: Fetched, now: dt.datetime) -> Digest:
        found = self._news(feed, fetched, now)
        parsed, diff = found.parsed, found.diff
        limited = fetched.limit > 0
        cut = parsed.cut or limited
        modified = fetched.validators.last_modified
        times = calculate_sort_times(diff.new, feed.checked_at, now, modified)
        new = tuple(
            self._entry(entry, diff.get_hash(entry), at, now)
            for entry, at in zip(diff.new, times, strict=True)
        )
        changed = tuple(self._change(entry, diff.get_hash(entry), now) for entry in diff.changed)
        pushed = self._is_pushed(feed, now)
        hints = _hints(fetched, _unread_days(feed, now), parsed.ttl_minutes, parsed.skip_hours, pushed)
        hub, topic = subscriber.find_announced_hub(
            fetched.headers, fetched.url, hub=parsed.hub, self_url=parsed.self_url
        )
        described = _described(feed, found, hub, topic, cut)
        says = {
            **described,
            **_look_for_icon(feed, described, now),
            **(_cut_off(feed, now, fetched.limit) if cut else _recovered(feed)),
            **_moved(feed, fetched, parsed.new_url),
            **self._pace(feed, fetched),
        }
        if not cut or limited:  # else the next fetch must get the whole document
            says["validators"] = fetched.validators
        # After a first cut document, entries from its end keep their dates later. If every document is cut,
        # treat new entries as new.
        if not cut or limited or feed.error == CUT:
            says["checked_at"] = now
        timed = functools.partial(self._timed, feed, says, hints, now)
        plan, fields = timed(new)
        heard = HubAnnouncement(feed.id, hub, topic) if hub or (feed.hub and not cut) else None
        if feed.private_to is not None:
            heard = None  # a hub would learn the address, and push what others see
        error = str(says["error"]) if cut else None
        digest = _digest(
            feed, fetched, now, plan=plan, fields=fields, new=new, changed=changed, error=error, heard=heard
        )
        if not new:
            return digest
        # The store may find that some entries are not new; it then recalculates the fields.
        update = dataclasses.replace(digest.update, fields_of=lambda added: timed(added)[1])
        return dataclasses.replace(digest, update=update)

    def _timed(
        self, feed: Feed, says: dict[str, Any], hints: Hints, now: dt.datetime, new: Sequence[NewEntry]
    ) -> tuple[Plan, FeedFields]:
        """Return the plan of the next check after these new entries, and the feed's fields to store."""
        history = _history(feed, new, now)
        plan = self._plan(feed, history, now, hints, _late(feed, now))
        news: dict[str, Any] = {"changed_at": now, "history": history.pack()} if new else {}
        return plan, FeedFields(**says, **news, next_check_at=plan.next_check_at)

    def is_move(self, old_url: str, fetched: Fetched) -> bool:
        """Return whether the answer from an announced address is a feed that doesn't point back."""
        parsed = self._parse_answer(fetched)
        if parsed is None:
            return False
        return parsed.new_url is None or urls.hash_url(parsed.new_url) != urls.hash_url(old_url)

    def is_upgrade(self, old_url: str, new_url: str) -> bool:
        """Return whether a change of address would replace plain http by https."""
        return urls.is_upgrade(old_url, new_url)

    def is_better_spelling(self, old_url: str, fetched: Fetched) -> bool:
        """Return whether the answer from another spelling of an address is a feed, and still by https if
        that was the point.
        """
        lost = urls.is_upgrade(old_url, fetched.request.url) and not fetched.url.startswith("https:")
        return not lost and self._parse_answer(fetched) is not None

    def _parse_answer(self, fetched: Fetched) -> ParsedFeed | None:
        if fetched.error or fetched.body is None:
            return None
        try:
            return parse(
                fetched.body, url=fetched.url, content_type=fetched.content_type, limits=self._limits
            )
        except FeedError:
            return None

    def _is_pushed(self, feed: Feed, now: dt.datetime) -> bool:
        return self._hubs and feed.push_until is not None and feed.push_until > now

    def _news(self, feed: Feed, fetched: Fetched, now: dt.datetime) -> FeedChanges:
        body = fetched.body or b""
        known = LastFetch(feed.seen, feed.volatile_guids, feed.chunks, feed.checked_at)
        how: dict[str, Any] = {"url": fetched.url, "content_type": fetched.content_type}
        try:
            if recipe := split_recipe(feed.url)[1]:
                parsed = read_page(body, recipe, limits=self._limits, **how)
                return _check_turnover(feed, compare(parsed, known), now)
            if self._parse is None:
                return find_changes(body, known, limits=self._limits, **how)
            return compare(self._parse(body, limits=self._limits, **how), known)
        except ParseError as e:
            if fetched.limit and e.word == "broken_feed":
                # JSON, for example, can't be read without its end.
                raise FetchError("too_large", f"more than {fetched.limit} bytes") from e
            if is_consent_page(fetched):
                raise FetchError("consent_page", urls.redact_url(fetched.url)) from e
            raise

    def _failed(self, feed: Feed, fetched: Fetched, now: dt.datetime, error: FeedError) -> Digest:
        errors = feed.errors + 1
        history = schedule.History.from_doc(feed.history)
        plan = self._plan(feed, history, now, Hints(errors=errors, retry_after=fetched.retry_after))
        if _is_overtaken(feed, fetched, now):
            return _digest(feed, fetched, now, plan=plan, fields=FeedFields(), error=error.word)
        fields = FeedFields(
            # Only "gone" ends polling: the server says that the feed will never come back.
            next_check_at=None if error.word == "gone" else plan.next_check_at,
            errors=errors,
            error=error.word,
            error_detail=error.detail[:DETAIL],
            error_since=feed.error_since or now,
            slow=UNSET if feed.slow or fetched.seconds < self._slow else True,
        )
        if fetched.retry_after:
            seconds = min(fetched.retry_after, self._bounds.error_backoff_max)
            fields = dataclasses.replace(fields, retry_at=now + dt.timedelta(seconds=seconds))
        return _digest(feed, fetched, now, plan=plan, fields=fields, error=error.word)

    def _pace(self, feed: Feed, fetched: Fetched) -> dict[str, Any]:
        """Return whether a feed's server answers slowly, if that has changed.

        A poll without news doesn't store it: that would be a write for every feed of a server that is
        sometimes slow. Such a feed is marked when it times out.
        """
        if feed.slow:
            return {"slow": False} if fetched.seconds < self._slow / 2 else {}
        return {"slow": True} if fetched.seconds >= self._slow else {}

    def _plan(
        self, feed: Feed, history: schedule.History, now: dt.datetime, hints: Hints, late: float = 0.0
    ) -> Plan:
        return schedule.plan(history, now, hints, self._get_bounds(feed), rng=self._rng, lateness=late)

    def _get_bounds(self, feed: Feed | FeedPoll) -> schedule.Limits:
        """Return the bounds of a feed's schedule, within those of the server."""
        if feed.min_minutes is None and feed.max_minutes is None:
            return self._bounds
        return self._bounds.derive_limits(feed.min_minutes, feed.max_minutes)

    def _entry(self, entry: ParsedEntry, guid_hash: bytes, at: dt.datetime, now: dt.datetime) -> NewEntry:
        published = find_published(entry, now)
        return NewEntry(
            guid_hash=guid_hash, at=at, arrived=now, published=published, **self._body(entry, now)
        )

    def _change(self, entry: ParsedEntry, guid_hash: bytes, now: dt.datetime) -> EntryChange:
        return EntryChange(guid_hash=guid_hash, **self._body(entry, now))

    def _body(self, entry: ParsedEntry, now: dt.datetime) -> dict[str, Any]:
        longest = self._max_html
        body = entry_bodies.clean_body(
            entry.content[:longest], entry.summary[:longest], entry.base_url, self._sanitize
        )
        return {
            "title": entry.title,
            "author": entry.author,
            "url": entry.url,
            "updated": clamp(entry.updated, now),
            "content": body.content,
            "summary": body.summary,
            "excerpt": body.excerpt,
            "raw": body.raw,
            "cleaned_by": body.cleaned_by,
            "categories": entry.categories,
            "enclosures": entry.enclosures,
            "image": entry.image or find_lead_picture(body.content or body.summary),
            "remote": entry.chain,
            "replies": entry.replies,
        }


def make_fetch_record(
    fetched: Fetched, now: dt.datetime, new: int = 0, error: str | None = None
) -> FetchRecord:
    """Return the fetch log's record of an answer; the request's key is the feed id."""
    key = fetched.request.key
    return FetchRecord(key, now, fetched.status, fetched.ms, fetched.wire_bytes, new, error)


def _is_overtaken(feed: Feed, fetched: Fetched, now: dt.datetime) -> bool:
    """Return whether a failed fetch is outdated, because the feed answered another fetch after this one
    began.

    This happens when a frozen process wakes up. Retry-After and "gone" still count, since they apply to the
    future.
    """
    telling = fetched.retry_after is not None or (fetched.error is not None and fetched.error.word == "gone")
    begun = now - dt.timedelta(milliseconds=fetched.ms)
    return not telling and feed.checked_at is not None and feed.checked_at > begun


def make_crash_update(feed: Feed, now: dt.datetime, rest: float) -> FeedUpdate:
    """Return the update of a feed that crashed a worker; the feed rests for ``rest`` seconds."""
    fields = FeedFields(
        errors=feed.errors + 1,
        error="crashed",
        error_detail="",
        error_since=feed.error_since or now,
        next_check_at=now + dt.timedelta(seconds=rest),
    )
    return FeedUpdate(feed.id, feed.claim_token or "", now, fields=fields)


def _history(feed: Feed, new: Sequence[NewEntry], now: dt.datetime) -> schedule.History:
    if feed.checked_at is None and not feed.history:
        return schedule.seed((entry.published for entry in new if entry.published), now)
    return schedule.record_arrivals(schedule.History.from_doc(feed.history), (entry.at for entry in new), now)


def _late(feed: Feed, now: dt.datetime) -> float:
    """Return for how many seconds a feed has been due; 0 at the first poll, before which there is no
    schedule.
    """
    due = feed.next_check_at if feed.checked_at else None
    return (now - due).total_seconds() if due else 0.0


def _hints(
    fetched: Fetched, unread_days: int, ttl_minutes: int | None, skip_hours: frozenset[int], pushed: bool
) -> Hints:
    return Hints(
        max_age=freshness.read_max_age(fetched.headers),
        ttl_minutes=ttl_minutes,
        skip_hours=skip_hours,
        retry_after=fetched.retry_after,
        pushed=pushed,
        unread_days=unread_days,
    )


def _unread_days(feed: Feed, now: dt.datetime) -> int:
    return (now - (feed.read_at or feed.created)).days


def _kept(feed: Feed | FeedPoll, fetched: Fetched) -> Validators:
    """Return the validators after an unchanged answer; a 304 may omit unchanged ones."""
    old, new = feed.validators, fetched.validators
    return old._replace(
        etag=new.etag or old.etag,
        last_modified=new.last_modified or old.last_modified,
        body_hash=new.body_hash or old.body_hash,
    )


def _recovered(feed: Feed) -> dict[str, Any]:
    clear: dict[str, Any] = {"errors": 0, "error": None, "error_detail": "", "error_since": None}
    if feed.retry_at:
        clear["retry_at"] = None
    return clear if feed.errors or feed.error else {}


def _cut_off(feed: Feed, now: dt.datetime, limit: int) -> dict[str, Any]:
    """Return the error of a feed that was cut off, or read up to the size limit (bytes; 0: cut off)."""
    # Always counted as one error: entries still arrive, so the feed needs no back-off.
    word, detail = (LIMITED, str(limit)) if limit else (CUT, "")
    return {"errors": 1, "error": word, "error_detail": detail, "error_since": feed.error_since or now}


def _seen(feed: Feed, diff: Diff) -> bytes:
    """Return the rows of known entries, including those after a cut, which will reappear later."""
    if diff.volatile:
        return diff.seen
    listed = split_rows(diff.seen)[: count_listed(diff.seen)]
    return join_rows(listed, split_rows(feed.seen), room=BEHIND)


def _check_turnover(feed: Feed, found: FeedChanges, now: dt.datetime) -> FeedChanges:
    """Return the entries that a recipe has read, unless it seems to read another list than before.

    After a redesign a selector may find something else, which would flood the readers. A page whose list
    really is all new is believed after a day.

    Raises:
        ParseError: ``recipe_broken``: hardly any entry is known.
    """
    count = len(found.parsed.entries)
    if not feed.seen or count < TURNOVER_ENTRIES or len(found.diff.new) <= TURNOVER * count:
        return found
    is_late = feed.checked_at is None or now - feed.checked_at > TURNOVER_AFTER
    is_old = (
        feed.error == RECIPE_BROKEN and feed.error_since is not None and now - feed.error_since > BELIEVED
    )
    if is_late or is_old:
        return found
    raise ParseError(RECIPE_BROKEN, f"{len(found.diff.new)} of {count} entries are new")


def _moved(feed: Feed, fetched: Fetched, stated: str | None) -> dict[str, Any]:
    """Count equal permanent redirects, or new addresses that the feed states, in a row.

    Unchanged answers count too, since the body once parsed.
    """
    target = fetched.permanent_url or _announced(feed, fetched, stated)
    if target is not None:
        target += get_fragment(feed.url)
    if target is None:
        return {"moved_to": None, "moved_times": 0} if feed.moved_to else {}
    return {"moved_to": target, "moved_times": feed.moved_times + 1 if target == feed.moved_to else 1}


def _announced(feed: Feed, fetched: Fetched, stated: str | None) -> str | None:
    """Return the new address that a feed states, unless it is its own or gives up https."""
    if not stated:
        return None
    target = urls.strip_tracking(stated.partition("#")[0])
    if urls.hash_url(target) in (feed.url_key, urls.hash_url(feed.url), urls.hash_url(fetched.url)):
        return None
    return target if target.startswith("https:") or not feed.url.startswith("https:") else None


def _described(
    feed: Feed, found: FeedChanges, hub: str | None, topic: str | None, cut: bool
) -> dict[str, Any]:
    """Return the feed's fields that have changed; most polls change few.

    If the document is cut off, keep fields that are missing from it.
    """
    parsed, diff = found.parsed, found.diff
    says: dict[str, Any] = {
        "title": parsed.title,
        "site_url": parsed.site_url,
        "description": parsed.description,
        "language": parsed.language,
        "icon": parsed.icon,
        "hub": hub,
        "topic": topic,
        "ttl_minutes": parsed.ttl_minutes,
        "skip_hours": tuple(sorted(parsed.skip_hours)),
        "new_url": parsed.new_url,
        "unlisted": parsed.unlisted,
    }
    if cut:
        says = {name: value for name, value in says.items() if value}
    says |= {
        "seen": _seen(feed, diff) if cut else diff.seen,
        "chunks": found.chunks,
        "volatile_guids": diff.volatile,
    }
    return {name: value for name, value in says.items() if value != getattr(feed, name)}


def _look_for_icon(feed: Feed, described: dict[str, Any], now: dt.datetime) -> dict[str, Any]:
    """Let the icon be looked for again if the feed states another one, or another page."""
    is_new = described.get("icon") or described.get("site_url")
    return {"icon_next": now} if is_new and feed.icon_next else {}


def _digest(
    feed: Feed,
    fetched: Fetched,
    now: dt.datetime,
    *,
    plan: Plan,
    fields: FeedFields,
    new: tuple[NewEntry, ...] = (),
    changed: tuple[EntryChange, ...] = (),
    error: str | None = None,
    heard: HubAnnouncement | None = None,
) -> Digest:
    record = make_fetch_record(fetched, now, len(new), error)
    update = FeedUpdate(feed.id, feed.claim_token or "", now, new, changed, fields, heard, record)
    times = fields.moved_times
    moved_to = fetched.permanent_url if isinstance(times, int) and times >= MOVES else None
    announced = None
    if fetched.permanent_url is None and isinstance(times, int) and times > 0 and times % MOVES == 0:
        announced = fields.moved_to if isinstance(fields.moved_to, str) else None
    return Digest(update, record, plan, moved_to, announced)
