"""Feeds of a person's lists at secret addresses, for other readers, screens and scripts."""

from __future__ import annotations

from collections.abc import Collection

from app import logs
from app.errors import InvalidError
from app.gateways.sharing.secrecy import SecrecyGateway
from app.gateways.sharing.stream_feeds import StreamFeedGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.token import Token
from app.models.accounts.user import Session
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.models.sharing.pages import FeedFormat
from app.models.sharing.stream_feeds import StreamDocument, StreamFeed
from app.services.access import require_permission
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

    Everyone who knows such an address can read the feed. So it leaves out entries of feeds that its owner
    may not share: private ones, and those with a login or a secret address.

    Args:
        rows: entries per feed.
    """

    def __init__(
        self,
        *,
        tokens: TokenService,
        reading: ReadingService,
        secrecy: SecrecyGateway,
        stream_feeds: StreamFeedGateway,
        rows: int,
    ) -> None:
        self._tokens, self._reading, self._secrecy = tokens, reading, secrecy
        self._stream_feeds, self._rows = stream_feeds, rows

    def make_address(
        self, actor: Actor, session: Session, name: str, stream: str, *, proof: str = ""
    ) -> tuple[Token, str]:
        """Create an address; return it with its secret, which is shown only once.

        Args:
            proof: the account's password, if it wasn't entered recently (W11).

        Raises:
            NotFoundError: the actor has no such list.
            InvalidError: the feed may not be shared, a value is invalid, or the password is wrong.
            TooLargeError: the actor already has the maximum number of tokens.
            RateLimitedError: too many wrong passwords.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
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
        secret_ids = self._secrecy.find_secret(caller.user.id, sorted({row.feed_id for row in rows}))
        feed = StreamFeed(
            token_id=caller.token.id,
            title=caller.token.name,
            url=build_path(secret, form),
            home=f"/read/{ref}",
            rows=tuple(row for row in rows if row.feed_id not in secret_ids and row.lost is None),
        )
        return self._stream_feeds.render(feed, form, etags)


def _query(ref: StreamRef, limit: int) -> StreamQuery:
    return StreamQuery(ref, Sort.NEWEST, limit=limit, with_bodies=True, once=True)
