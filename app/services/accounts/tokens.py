"""Passwords of apps and tokens of programs: made, listed, revoked, and shown at each request."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.config import Settings
from app.errors import N_, AuthRequiredError, InvalidError, NotFoundError, TooLargeError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.accounts.tokens import TokenGateway, build_reader_auth
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.token import Caller, Quota, Scope, Token, TokenKind
from app.models.accounts.user import Session
from app.ports import EventPort
from app.services.access import Limiter, require_permission, throttle
from app.services.accounts.admin_accounts import AdminAccountService
from app.services.accounts.sign_in import PER_NETWORK, Client
from app.services.validation import check_id, check_text

log = logs.get(__name__)

NAME = 64
#: Days after which a token may end by itself.
DAYS = (30, 90, 365)
WRONG = N_("The user name or app password is incorrect. Create an app password in Settings.")
UNKNOWN = N_("This access token isn't valid, has expired or was revoked.")
_MINUTE = 60


class TokenService:
    """Makes actors out of programs."""

    def __init__(
        self,
        tokens: TokenGateway,
        accounts: AccountGateway,
        people: AdminAccountService,
        events: EventPort,
        limiter: Limiter,
        settings: Settings,
    ) -> None:
        self._tokens, self._accounts, self._people = tokens, accounts, people
        self._events, self._limiter, self._settings = events, limiter, settings

    # -- the settings
    def list_tokens(self, actor: Actor) -> list[Token]:
        """Return the actor's tokens, the newest first."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        return self._tokens.find_by_user(actor.user_id)

    def is_proved(self, session: Session) -> bool:
        """Whether the password is not asked for at the moment."""
        return self._people.is_proved(session)

    def make_app_password(
        self, actor: Actor, session: Session, name: str, *, fever: bool = False, proof: str = ""
    ) -> tuple[Token, str]:
        """Make a password for an app; return it with its secret, which is shown once.

        Args:
            fever: it opens the Fever API too, which has its apps send an MD5 of it.
            proof: the account's password, where :meth:`is_proved` says no (W11).

        Raises:
            InvalidError: the name does not fit, or the password is wanted and wrong.
            TooLargeError: he has as many as he may.
            RateLimitedError: too many wrong passwords.
        """
        token = Token(0, actor.user_id, TokenKind.APP, self._name(name), clock.now(), fever=bool(fever))
        return self._make(actor, session, token, proof)

    def make_api_token(
        self,
        actor: Actor,
        session: Session,
        name: str,
        scopes: Sequence[str],
        *,
        days: int | None = None,
        proof: str = "",
    ) -> tuple[Token, str]:
        """Make a token for the REST API.

        Args:
            scopes: words of :class:`Scope`, one at least.
            days: one of :data:`DAYS`, None: for ever.

        Raises:
            As :meth:`make_app`.
        """
        try:
            wanted = tuple(scope for scope in Scope if scope in {Scope(word) for word in scopes})
        except ValueError as e:
            raise InvalidError("This scope doesn't exist.", field="scopes") from e
        if not wanted:
            raise InvalidError("Choose what the access token can do.", field="scopes")
        if days is not None and days not in DAYS:
            raise InvalidError("Choose when the access token expires.", field="days")
        now = clock.now()
        expires = None if days is None else now + dt.timedelta(days=days)
        token = Token(0, actor.user_id, TokenKind.API, self._name(name), now, wanted, expires=expires)
        return self._make(actor, session, token, proof)

    def _name(self, name: str) -> str:
        found = " ".join(check_text(name, "name", limit=NAME, empty=True).split())
        if not found:
            raise InvalidError("Enter a name, such as the app or device it's for.", field="name")
        return found

    def _make(self, actor: Actor, session: Session, token: Token, proof: str) -> tuple[Token, str]:
        require_permission(actor, Permission.USER_EDIT_SELF)
        self._people.verify_password(actor, session, proof)
        user = self._accounts.find_user(actor.user_id)
        if user is None:
            raise NotFoundError(user_id=actor.user_id)
        if len(self._tokens.find_by_user(user.id)) >= self._settings.tokens_max:
            raise self._full()
        made, secret = self._tokens.make(token, user)
        # Of those that are made at one moment the last one sees all others, so that they are never too many.
        if len(self._tokens.find_by_user(user.id)) > self._settings.tokens_max:
            self._tokens.remove(user.id, made.id)
            raise self._full()
        log.info("token_made", user_id=user.id, token_id=made.id, kind=made.kind.value, fever=made.fever)
        return made, secret

    def _full(self) -> TooLargeError:
        return TooLargeError(
            "You can have at most %(limit)s app passwords and access tokens. Revoke one you don't "
            "use anymore.",
            limit=self._settings.tokens_max,
        )

    def revoke(self, actor: Actor, token_id: int) -> None:
        """Delete a token of the actor's: what comes with it is refused from now on.

        Raises:
            NotFoundError: he has no such one.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
        if not self._tokens.remove(actor.user_id, check_id(token_id, "token")):
            raise NotFoundError(token_id=token_id)
        self._events.end_streams(actor.user_id)
        log.info("token_revoked", user_id=actor.user_id, token_id=token_id)

    # -- programs
    def return_token(self, caller: Caller) -> None:
        """Delete the token that a program has come with; gone already is no error."""
        if self._tokens.remove(caller.user.id, caller.token.id):
            self._events.end_streams(caller.user.id)
            log.info("token_returned", user_id=caller.user.id, token_id=caller.token.id)

    def log_in(self, login: str, password: str, client: Client) -> Caller:
        """Check the password that an app logs in with.

        Raises:
            AuthRequiredError: it is none, or another one's, in the same words for any reason (W07).
            RateLimitedError: too many tries (W06).
        """
        pair, network = f"app:{login.strip().casefold()[:256]}:{client.network}", f"app:{client.network}"
        window = self._settings.login_window
        throttle(self._limiter, pair, limit=self._settings.login_failures, window=window)
        throttle(self._limiter, network, limit=PER_NETWORK, window=window)
        found = self._tokens.find_app_caller(login, password, client.agent)
        if found is None:
            log.info("app_login_failed", network=client.network)
            raise AuthRequiredError(WRONG)
        self._limiter.reset(pair)
        self._limiter.refund(network, PER_NETWORK)
        log.info("app_login", user_id=found.user.id, token_id=found.token.id)
        return found

    def build_reader_auth(self, password: str) -> str:
        """Return what an app gets that has logged in with this password."""
        return build_reader_auth(password)

    def get_api_caller(self, secret: str, client: Client) -> Caller:
        """Return who comes with a token of the API, and count the request.

        Raises:
            AuthRequiredError: it opens nothing.
            RateLimitedError: too many requests within a minute.
        """
        return self._known(self._tokens.find_api_caller(secret, client.agent))

    def get_quota(self, caller: Caller) -> Quota:
        """Return how many requests are left to all programs of this user."""
        limit = self._settings.api_per_minute
        return Quota(limit, _MINUTE, *self._limiter.count_left(f"api:{caller.user.id}", limit, _MINUTE))

    def get_reader_caller(self, auth: str, client: Client) -> Caller:
        """Return who comes with what his app got when it logged in.

        Raises:
            As :meth:`bearer`.
        """
        return self._known(self._tokens.find_reader_caller(auth, client.agent))

    def get_fever_caller(self, key: str, client: Client) -> Caller:
        """Return who comes with a Fever key.

        Raises:
            As :meth:`bearer`.
        """
        return self._known(self._tokens.find_fever_caller(key, client.agent))

    def _known(self, found: Caller | None) -> Caller:
        if found is None:
            raise AuthRequiredError(UNKNOWN)
        limit = self._settings.api_per_minute
        throttle(self._limiter, f"api:{found.user.id}", limit=limit, window=_MINUTE)
        return found
