"""App passwords, access tokens and feed addresses: created, listed, revoked, and checked at each request."""

from __future__ import annotations

import dataclasses
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
from app.models.reading.stream import StreamRef
from app.ports import EventPort
from app.services.access import Limiter, refuse_after, require_permission, require_sending, throttle
from app.services.accounts.admin_accounts import AdminAccountService
from app.services.accounts.sign_in import Client
from app.services.validation import check_id, check_text

log = logs.get(__name__)

NAME = 64
#: The choices for the days until a token expires.
DAYS = (30, 90, 365)
WRONG = N_("The user name or app password is incorrect. Create an app password in Settings.")
UNKNOWN = N_("This access token isn't valid, has expired or was revoked.")
_MINUTE = 60


class TokenService:
    """Manages app passwords and access tokens, and identifies the callers that use them."""

    def __init__(
        self,
        *,
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
        """Return the actor's tokens, newest first."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        return self._tokens.find_by_user(actor.user_id)

    def list_feed_addresses(self, actor: Actor) -> list[Token]:
        """Return the actor's feed addresses, newest first, for programs that may read."""
        require_permission(actor, Permission.ENTRY_READ)
        return [one for one in self._tokens.find_by_user(actor.user_id) if one.kind is TokenKind.FEED]

    def is_proved(self, session: Session) -> bool:
        """Return whether the password was entered recently, so that no form has to request it."""
        return self._people.is_proved(session)

    def make_app_password(
        self, actor: Actor, session: Session, name: str, *, fever: bool = False, proof: str = ""
    ) -> tuple[Token, str]:
        """Create an app password; return it with its secret, which is shown only once.

        Args:
            fever: the password also opens the Fever API, whose apps send an MD5 hash of it.
            proof: the account's password, required while :meth:`is_proved` returns False (W11).

        Raises:
            InvalidError: the name is invalid, or the account's password is required and wrong.
            TooLargeError: the user already has the maximum number of tokens.
            RateLimitedError: too many wrong passwords.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
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
        """Create an access token for the REST API.

        Args:
            scopes: values of :class:`Scope`, at least one.
            days: one of :data:`DAYS`; None: the token doesn't expire.

        Raises:
            As :meth:`make_app_password`.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
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

    def make_feed_address(
        self, actor: Actor, session: Session | None, name: str, ref: StreamRef, *, proof: str = ""
    ) -> tuple[Token, str]:
        """Create the secret address of a list; callers check that the actor has this list.

        Args:
            session: None: the actor is a program, and the password is required each time.

        Raises:
            As :meth:`make_app_password`. The error names the field ``password`` without a session.
        """
        require_sending(actor)
        now, only = clock.now(), (Scope.READ,)
        token = Token(0, actor.user_id, TokenKind.FEED, self._name(name), now, only, stream=str(ref))
        return self._make(actor, session, token, proof)

    def _name(self, name: str) -> str:
        found = " ".join(check_text(name, "name", limit=NAME, empty=True).split())
        if not found:
            raise InvalidError("Enter a name, such as the app or device it's for.", field="name")
        return found

    def _make(self, actor: Actor, session: Session | None, token: Token, proof: str) -> tuple[Token, str]:
        if session is None:
            self._people.check_password(actor, proof)
        else:
            self._people.verify_password(actor, session, proof)
        user = self._accounts.find_user(actor.user_id)
        if user is None:
            raise NotFoundError(user_id=actor.user_id)
        if len(self._tokens.find_by_user(user.id)) >= self._settings.tokens_max:
            raise self._full()
        made, secret = self._tokens.make(token, user)
        # Check again: of several tokens created at the same time, the last one sees all the others.
        if len(self._tokens.find_by_user(user.id)) > self._settings.tokens_max:
            self._tokens.remove(user.id, made.id)
            raise self._full()
        log.info("token_made", user_id=user.id, token_id=made.id, kind=made.kind.value, fever=made.fever)
        return made, secret

    def _full(self) -> TooLargeError:
        return TooLargeError(
            "You can have at most %(limit)s app passwords, access tokens and feed addresses. Revoke one "
            "you don't use anymore.",
            limit=self._settings.tokens_max,
        )

    def revoke(self, actor: Actor, token_id: int) -> None:
        """Delete one of the actor's tokens, so that requests with it are refused.

        Raises:
            NotFoundError: the actor has no such token.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
        self._remove(actor, token_id)

    def revoke_feed_address(self, actor: Actor, token_id: int) -> None:
        """Delete one of the actor's feed addresses, for programs that may share.

        Raises:
            NotFoundError: the actor has no such feed address; it may be another token.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        mine = self._tokens.find_by_user(actor.user_id)
        if not any(one.id == token_id and one.kind is TokenKind.FEED for one in mine):
            raise NotFoundError(token_id=token_id)
        self._remove(actor, token_id)

    def _remove(self, actor: Actor, token_id: int) -> None:
        if not self._tokens.remove(actor.user_id, check_id(token_id, "token")):
            raise NotFoundError(token_id=token_id)
        self._events.end_streams(actor.user_id)
        log.info("token_revoked", user_id=actor.user_id, token_id=token_id)

    # -- programs
    def return_token(self, caller: Caller) -> None:
        """Delete the token that a program used for this request; a missing token isn't an error."""
        if self._tokens.remove(caller.user.id, caller.token.id):
            self._events.end_streams(caller.user.id)
            log.info("token_returned", user_id=caller.user.id, token_id=caller.token.id)

    def log_in(self, login: str, password: str, client: Client) -> Caller:
        """Check the password that an app logs in with.

        Raises:
            AuthRequiredError: name or password is wrong; same message for every reason (W07).
            RateLimitedError: too many attempts (W06).
        """
        pair, network = f"app:{login.strip().casefold()[:256]}:{client.network}", f"app:{client.network}"
        window = self._settings.login_window
        throttle(self._limiter, pair, limit=self._settings.login_failures, window=window)
        found = self._tokens.find_app_caller(login, password, client.agent)
        if found is None:
            # Only failures count: nobody guesses a random password, and others may share the address.
            log.info("app_login_failed", network=client.network)
            throttle(self._limiter, network, limit=self._settings.login_per_network, window=window)
            raise AuthRequiredError(WRONG)
        self._limiter.reset(pair)
        log.info("app_login", user_id=found.user.id, token_id=found.token.id)
        return found

    def build_reader_auth(self, password: str) -> str:
        """Return the Google Reader auth value that an app gets when it logs in with this password."""
        return build_reader_auth(password)

    def get_api_caller(self, secret: str, client: Client, counted: Quota | None = None) -> Caller:
        """Return the caller that an access token of the REST API belongs to, and count the request.

        Args:
            counted: the quota, if the request has been counted.

        Raises:
            AuthRequiredError: the token is unknown, expired or revoked.
            RateLimitedError: too many requests within a minute.
        """
        return self._known(self._tokens.find_api_caller(secret, client.agent), counted)

    def get_reader_caller(self, auth: str, client: Client, counted: Quota | None = None) -> Caller:
        """Return the caller that a Google Reader auth value belongs to, and count the request.

        Args:
            counted: as for :meth:`get_api_caller`.

        Raises:
            As :meth:`get_api_caller`.
        """
        return self._known(self._tokens.find_reader_caller(auth, client.agent), counted)

    def get_feed_caller(self, secret: str, client: Client) -> Caller:
        """Return the caller that a list's secret address belongs to, and count the request.

        Raises:
            NotFoundError: there is no such address, or it was revoked.
            RateLimitedError: too many requests within a minute.
        """
        found = self._tokens.find_feed_caller(secret, client.agent)
        if found is None:
            raise NotFoundError("This feed address doesn't exist, or its owner has revoked it.")
        # Apart from the owner's programs, which others with the address mustn't slow down.
        limit = self._settings.api_per_minute
        refuse_after(self._limiter.count_request(f"feed:{found.token.id}", limit, _MINUTE).wait)
        return found

    def get_fever_caller(self, key: str, client: Client) -> Caller:
        """Return the caller that a Fever key belongs to, and count the request.

        Raises:
            As :meth:`get_api_caller`.
        """
        return self._known(self._tokens.find_fever_caller(key, client.agent))

    def _known(self, found: Caller | None, known: Quota | None = None) -> Caller:
        if found is None:
            raise AuthRequiredError(UNKNOWN)
        if known is not None:
            return dataclasses.replace(found, quota=known)
        limit = self._settings.api_per_minute
        counted = self._limiter.count_request(f"api:{found.user.id}", limit, _MINUTE)
        refuse_after(counted.wait)
        return dataclasses.replace(found, quota=Quota(limit, _MINUTE, counted.left, counted.reset))
