"""Feeds of a person's lists at secret addresses, for other readers, screens and scripts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app import logs
from app.errors import InvalidError
from app.gateways.reading.entries import EntryGateway
from app.gateways.sharing.secrecy import SecrecyGateway
from app.gateways.sharing.stream_feeds import StreamFeedGateway
from app.models.accounts.actor import Actor
from app.models.accounts.token import Token
from app.models.accounts.user import Session
from app.models.reading.entry import EntryKey
from app.models.reading.stream import EntryRow, Sort, StreamKind, StreamQuery, StreamRef
from app.models.sharing.pages import FeedFormat
from app.models.sharing.stream_feeds import StreamDocument, StreamFeed
from app.services.access import require_sending
from app.services.accounts.sign_in import Client
from app.services.accounts.tokens import TokenService
from app.services.reading.reading import ReadingService
from app.services.sharing.pages import FILES

log = logs.get(__name__)

#: Where these feeds are: this, the secret, and one of FILES.
PATH = "/feed"


def build_path(secret: str, form: FeedFormat) -> str:
    """Return the path of a list's feed."""
    return f"{PATH}/{secret}/{FILES[form]}"


class StreamFeedService:
    """Makes secret addresses of lists, and the feeds behind them.

    Everyone who knows such an address can read the feed. So it shows only what its owner may share with
    everyone. It leaves out feeds that are private or have a login or a secret address, entries with access
    keys in their links, and shares that aren't public.

    Args:
        rows: entries per feed.
    """

    def __init__(
        self,
        *,
        tokens: TokenService,
        reading: ReadingService,
        entries: EntryGateway,
        secrecy: SecrecyGateway,
        stream_feeds: StreamFeedGateway,
        rows: int,
    ) -> None:
        self._tokens, self._reading, self._secrecy = tokens, reading, secrecy
        self._entries, self._stream_feeds, self._rows = entries, stream_feeds, rows

    def make_address(
        self, actor: Actor, session: Session | None, name: str, stream: str, *, proof: str = ""
    ) -> tuple[Token, str]:
        """Create an address; return it with its secret, which is shown only once.

        Args:
            session: None: the actor is a program, and ``proof`` is required each time.
            proof: the account's password, if it wasn't entered recently (W11).

        Raises:
            NotFoundError: the actor has no such list.
            InvalidError: the feed may not be shared, a value is invalid, or the password is wrong.
            TooLargeError: the actor already has the maximum number of tokens.
            RateLimitedError: too many wrong passwords.
        """
        require_sending(actor)
        ref = StreamRef.parse(stream)
        self._reading.load_page(actor, _query(ref, 1))
        if ref.kind is StreamKind.FEED and ref.id and self._secrecy.find_secret(actor.user_id, [ref.id]):
            raise InvalidError("You can't share this feed, so it can't have a feed address.", field="stream")
        return self._tokens.make_feed_address(actor, session, name, ref, proof=proof)

    def build_feed(
        self, secret: str, form: FeedFormat, client: Client, etags: Collection[str] = ()
    ) -> StreamDocument:
        """Return the newest entries of the list behind an address.

        Args:
            etags: the client's entity tags.

        Raises:
            NotFoundError: there is no such address, or its list was deleted.
            RateLimitedError: too many requests within a minute.
        """
        caller = self._tokens.get_feed_caller(secret, client)
        ref = StreamRef.parse(caller.token.stream)
        rows = self._reading.load_page(caller.actor, _query(ref, self._rows)).rows
        feed = StreamFeed(
            token_id=caller.token.id,
            title=caller.token.name,
            url=build_path(secret, form),
            home=f"/read/{ref}",
            rows=self._keep_public(caller.user.id, rows),
        )
        return self._stream_feeds.render(feed, form, etags)

    def _keep_public(self, user_id: int, rows: Sequence[EntryRow]) -> tuple[EntryRow, ...]:
        """Return the rows that everyone may see."""
        # As a stranger sees them: without shares that aren't public, and without the entries of such shares.
        seen = self._entries.find_with_bodies(None, [EntryKey(row.id, row.feed_id, 0, 0) for row in rows])
        feeds = {row.feed_id for row in rows} | {e.of.feed_id for e in seen.values() if e.of is not None}
        secret = self._secrecy.find_secret(user_id, sorted(feeds))

        def is_public(row: EntryRow) -> bool:
            entry = seen.get(row.id)
            if entry is None or entry.lost is not None or row.lost is not None:
                return False
            root = entry.feed_id if entry.of is None else entry.of.feed_id
            return not ({row.feed_id, root} & secret or self._secrecy.has_access_key(entry))

        return tuple(row for row in rows if is_public(row))


def _query(ref: StreamRef, limit: int) -> StreamQuery:
    return StreamQuery(ref, Sort.NEWEST, limit=limit, with_bodies=True, once=True, for_others=True)
