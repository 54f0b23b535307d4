"""Sign-up, login, resumed sessions and logout."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import re

from app import logs
from app.config import Settings
from app.errors import N_, AuthRequiredError, ExistsError, ForbiddenError, InvalidError, RateLimitedError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.accounts.sessions import SessionGateway, hash_token
from app.models.accounts.user import Credentials, NewUser, Session, User
from app.ports import EventPort
from app.services.access import Limiter, refuse_after, throttle
from app.services.accounts import passwords, reserved_names
from app.services.accounts.passwords import Hasher

log = logs.get(__name__)

_EMAIL = re.compile(r"[^\s@\x00-\x1f]{1,64}@[^\s@.]+(\.[^\s@.]+)*")
#: Attempts per account, from all networks together, whose network has used up its own. A right password isn't
#: counted: strangers behind the same address must not keep someone out.
PER_ACCOUNT_BEYOND = 1
WRONG = N_("The user name or password is incorrect.")


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A browser in which someone has logged in before, as its signed cookie says."""

    user_id: int
    id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """The source of a request: the address that trusted proxies report, the User-Agent header, and the
    browser if it is known."""

    address: str = ""
    agent: str = ""
    device: Device | None = None

    @property
    def network(self) -> str:
        """The /24 or /64 of the address, which rate limits use and sessions store."""
        try:
            address = ipaddress.ip_address(self.address)
        except ValueError:
            return "unknown"
        size = 24 if address.version == 4 else 64
        return str(ipaddress.ip_network((address, size), strict=False))


@dataclasses.dataclass(frozen=True, slots=True)
class SignUp:
    """A filled-in sign-up form."""

    email: str
    name: str
    password: str
    invite: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class NameCheck:
    """The problem of a wished user name, and a free name near it."""

    problem: InvalidError | ExistsError | None
    suggestion: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Passed:
    """The counters that an attempt has passed: the account's own, and one that others share.

    Attributes:
        wait: seconds until the network has attempts again, which the answer to a wrong password reports.
    """

    own: str
    limit: int
    shared: str = ""
    shared_limit: int = 0
    wait: int = 0

    def refund_shared(self, limiter: Limiter) -> None:
        if self.shared:
            limiter.refund(self.shared, self.shared_limit)


class SignInService:
    """Signs people up, logs them in and out, and resumes their sessions."""

    def __init__(
        self,
        *,
        accounts: AccountGateway,
        sessions: SessionGateway,
        events: EventPort,
        hasher: Hasher,
        limiter: Limiter,
        settings: Settings,
    ) -> None:
        self._accounts, self._sessions = accounts, sessions
        self._events = events
        self._hasher = hasher
        self._limiter = limiter
        self._settings = settings

    def get_signup_mode(self) -> str:
        """Return ``first`` on a server without users, else ``open``, ``closed`` or ``invite``."""
        return self._settings.signup if self._accounts.has_users() else "first"

    def sign_up(self, form: SignUp, client: Client) -> str:
        """Create an account and log it in.

        Names are public (each has a page), so the error says when a name is taken. Email addresses are not:
        the result is the same whether or not another account has this address (W07).

        Returns:
            The session id for the cookie.

        Raises:
            InvalidError: a field is invalid.
            ForbiddenError: sign-up is closed, or the invite isn't valid.
            ExistsError: the name is taken.
            RateLimitedError: too many accounts from one network, or too many logins at this moment.
        """
        check_identity(form.name, form.email)
        passwords.check(form.password, name=form.name, email=form.email)
        network = f"signup:{client.network}"
        self._throttle(network, self._settings.login_per_network)
        try:
            new = NewUser(form.email, form.name, self._hasher.hash(form.password))
        except RateLimitedError:
            self._limiter.refund(network, self._settings.login_per_network)
            raise
        user = self._first(new) or self._further(new, form.invite)
        log.info("user_created", user_id=user.id, role=user.role.value)
        return self._sessions.open_session(user.id, agent=client.agent, address=client.network)

    def check_name(self, wish: str, client: Client) -> NameCheck:
        """Say whether a new account could have a name, and which similar one if not.

        Raises:
            ForbiddenError: sign-up is closed, so nobody needs to know.
            RateLimitedError: too many names from one network.
        """
        if self.get_signup_mode() == "closed":
            raise ForbiddenError("This server doesn't accept new accounts.")
        throttle(
            self._limiter,
            f"names:{client.network}",
            limit=self._settings.login_names,
            window=self._settings.login_window,
        )
        try:
            reserved_names.check(wish)
        except InvalidError as e:
            return NameCheck(e, self._find_free(reserved_names.suggest_name(wish)))
        if self._is_free(wish.strip()):
            return NameCheck(None)
        taken = ExistsError("This user name is taken. Choose another one.", field="name")
        return NameCheck(taken, self._find_free(wish.strip()))

    def suggest_name(self, wish: str) -> str:
        """Return a free user name near a refused one; empty if there is none."""
        return self._find_free(reserved_names.suggest_name(wish))

    def _is_free(self, name: str) -> bool:
        """Return whether no account has or had a name; only servers that are open to everyone tell."""
        if self.get_signup_mode() not in ("open", "first"):
            return True
        return self._accounts.find_by_name(name) is None and self._accounts.find_by_former_name(name) is None

    def _find_free(self, name: str) -> str:
        """Return the name, or the first free one with a number after it; empty if there is none nearby."""
        tries = (name, *(f"{name[:30]}-{number}" for number in range(2, 6))) if name else ()
        return next((one for one in tries if self._is_free(one)), "")

    def _first(self, new: NewUser) -> User | None:
        return None if self._accounts.has_users() else self._accounts.add_first(new)

    def _further(self, new: NewUser, invite: str) -> User:
        if self._settings.signup == "closed":
            raise ForbiddenError("This server doesn't accept new accounts.")
        if self._settings.signup == "open":
            return self._accounts.add_user(new)
        if not self._accounts.consume_invite(invite):
            raise ForbiddenError("This invite link isn't valid or has already been used.")
        try:
            return self._accounts.add_user(new)
        except ExistsError:
            self._accounts.restore_invite(invite)
            raise

    def log_in(self, login: str, password: str, client: Client) -> str:
        """Check a password and start a session.

        Returns:
            The session id for the cookie, always a new one (W01).

        Raises:
            AuthRequiredError: name or password is wrong; same message and time for every reason (W07).
            RateLimitedError: too many attempts (W06), or too many logins at this moment (W05).
        """
        known = self._accounts.find_credentials(login)
        passed = self._admit(login, known, client)
        try:
            fits = self._hasher.verify(known.password_hash if known else None, password)
        except RateLimitedError:
            self._limiter.refund(passed.own, passed.limit)
            passed.refund_shared(self._limiter)
            raise
        if not fits or known is None or known.user.disabled:
            log.info("login_failed", network=client.network, user_id=known.user.id if known else None)
            refuse_after(passed.wait)
            raise AuthRequiredError(WRONG)
        self._limiter.reset(passed.own)
        # Not reset: otherwise anyone with an account could keep guessing other accounts' passwords.
        passed.refund_shared(self._limiter)
        if self._hasher.is_outdated(known.password_hash):
            with contextlib.suppress(RateLimitedError):  # the next login renews it
                self._accounts.replace_hash(known.user.id, known.password_hash, self._hasher.hash(password))
        token = self._sessions.open_session(known.user.id, agent=client.agent, address=client.network)
        # A concurrent password change ended only the sessions that existed then, not this one.
        now = self._accounts.find_password_hash(known.user.id)
        if now != known.password_hash and not self._verify_again(token, now, password):
            self._sessions.end_session(hash_token(token))
            log.info("login_failed", network=client.network, user_id=known.user.id)
            raise AuthRequiredError(WRONG)
        log.info("login", user_id=known.user.id)
        return token

    def _verify_again(self, token: str, stored: str | None, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except RateLimitedError:
            self._sessions.end_session(hash_token(token))
            raise

    def _admit(self, login: str, known: Credentials | None, client: Client) -> _Passed:
        """Count an attempt to log in, or refuse it (W06).

        A known browser has a count of its own. Everyone else counts for the account in their network, and for
        their network. Where a network has used up its attempts, an account still has its own few.
        """
        limit = self._settings.login_failures
        if known is not None and client.device is not None and client.device.user_id == known.user.id:
            own = f"login:device:{client.device.id}"
            self._throttle(own, limit)
            return _Passed(own, limit)
        name = login.strip().casefold()[:256]
        own = f"login:{name}:{client.network}"
        self._throttle(own, limit)
        network = f"login:{client.network}"
        most = self._settings.login_per_network  # for all accounts together (W06)
        wait = self._limiter.count_try(network, most, self._settings.login_window)
        if not wait:
            return _Passed(own, limit, network, most)
        beyond = f"login:{name}:beyond"
        self._throttle(beyond, PER_ACCOUNT_BEYOND)
        return _Passed(own, limit, beyond, PER_ACCOUNT_BEYOND, wait)

    def _throttle(self, who: str, limit: int) -> None:
        throttle(self._limiter, who, limit=limit, window=self._settings.login_window)

    def resume(self, token: str) -> tuple[Session, User] | None:
        """Return the session and user behind a cookie, or None if the session has ended."""
        return self._sessions.find_session(token)

    def log_out(self, session: Session) -> None:
        """End a session, so that its cookie isn't valid anymore (W01)."""
        self._sessions.end_session(session.key)
        self._events.end_streams(session.user_id)
        log.info("logout", user_id=session.user_id)


def check_identity(name: str, email: str, *, current_name: str | None = None) -> None:
    """Refuse an invalid user name or email address.

    Args:
        current_name: the account's name today, which may be older than the rules; None for a new account.

    Raises:
        InvalidError: the message says what is allowed.
    """
    if name.strip() != current_name:
        reserved_names.check(name)
    if len(email) > 254 or not _EMAIL.fullmatch(email.strip()):
        raise InvalidError("Enter a valid email address.", field="email")
