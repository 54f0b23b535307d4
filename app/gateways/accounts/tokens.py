"""App passwords and access tokens: how their secrets are made, stored as hashes and looked up."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets

from app import clock
from app.gateways.accounts.sessions import TOUCH_EVERY
from app.mappers.accounts.tokens import TokenMapper
from app.mappers.accounts.users import UserMapper, make_name_key
from app.models.accounts.token import Caller, Secrets, Token, TokenKind
from app.models.accounts.user import User

#: Letters and digits that look different from each other, since some passwords are typed on a phone. No signs
#: that need escaping, since Liferea sends the password unescaped in a form.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
#: Length of an app password: 119 bits.
LENGTH = 24
PREFIX = "evt_"
AGENT = 200


class TokenGateway:
    """Makes tokens, and finds the token that a program authenticates with."""

    def __init__(self, tokens: TokenMapper, users: UserMapper) -> None:
        self._tokens, self._users = tokens, users

    def make(self, token: Token, user: User) -> tuple[Token, str]:
        """Store a token and return it with its secret, which can't be shown again."""
        if token.kind is TokenKind.API:
            secret = PREFIX + secrets.token_urlsafe(32)
            return self._tokens.add(token, Secrets(_hash(secret))), secret
        if token.kind is TokenKind.FEED:
            secret = secrets.token_urlsafe(24)
            return self._tokens.add(token, Secrets(_hash(secret))), secret
        secret = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        fever = tuple(_hash(key) for key in _fever_keys(user, secret)) if token.fever else ()
        token = dataclasses.replace(token, fever_name=make_name_key(user.name) if token.fever else "")
        made = self._tokens.add(token, Secrets(_hash(secret), _hash(build_reader_auth(secret)), fever))
        self._users.set_synced(user.id)
        return made, secret

    def find_api_caller(self, secret: str, agent: str) -> Caller | None:
        """Return the caller that an access token of the REST API belongs to."""
        return self._caller(self._tokens.find_by_secret(_hash(secret), TokenKind.API), agent)

    def find_feed_caller(self, secret: str, agent: str) -> Caller | None:
        """Return the caller that a feed address belongs to, by its secret part."""
        return self._caller(self._tokens.find_by_secret(_hash(secret), TokenKind.FEED), agent)

    def find_app_caller(self, login: str, password: str, agent: str) -> Caller | None:
        """Return the caller that an app password belongs to, if the name or address is theirs too."""
        found = self._caller(self._tokens.find_by_secret(_hash(password), TokenKind.APP), agent)
        if found is None or make_name_key(login) not in (
            make_name_key(found.user.name),
            make_name_key(found.user.email),
        ):
            return None
        return found

    def find_reader_caller(self, auth: str, agent: str) -> Caller | None:
        """Return the caller that a Google Reader auth value belongs to."""
        return self._caller(self._tokens.find_by_auth(_hash(auth)), agent)

    def find_fever_caller(self, key: str, agent: str) -> Caller | None:
        """Return the caller of a Fever key, in any case; a change of the user name invalidates the key."""
        return self._caller(self._tokens.find_by_fever(_hash(key.lower())), agent, named=True)

    def _caller(self, token: Token | None, agent: str, *, named: bool = False) -> Caller | None:
        now = clock.now()
        # MongoDB removes expired documents up to a minute late.
        if token is None or (token.expires is not None and token.expires <= now):
            return None
        user = self._users.find(token.user_id)
        if user is None or user.disabled or (named and token.fever_name != make_name_key(user.name)):
            return None
        if token.used is None or now - token.used >= TOUCH_EVERY:
            self._tokens.touch(token.id, now, agent[:AGENT])
        return Caller(token, user)

    def find_by_user(self, user_id: int) -> list[Token]:
        """Return a user's valid tokens, newest first; ``fever`` is False once the user name has changed."""
        now, user = clock.now(), self._users.find(user_id)
        name = make_name_key(user.name) if user else ""
        return [
            dataclasses.replace(t, fever=t.fever and t.fever_name == name)
            for t in self._tokens.find_by_user(user_id)
            if t.expires is None or t.expires > now
        ]

    def is_token_alive(self, user_id: int, token_id: int) -> bool:
        """Return whether a user has this valid token now and isn't disabled."""
        now, mine = clock.now(), self._tokens.find_by_user(user_id)
        alive = any(t.id == token_id and (t.expires is None or t.expires > now) for t in mine)
        return alive and self._users.is_enabled(user_id)

    def remove(self, user_id: int, token_id: int) -> bool:
        """Delete a token; return False if the user has no such token."""
        return self._tokens.remove(user_id, token_id)

    def remove_by_user(self, user_id: int) -> int:
        """Delete all tokens of a user; return how many there were."""
        return self._tokens.remove_by_user(user_id)


def build_reader_auth(password: str) -> str:
    """Return the auth value for an app's login; the password determines it, so only its hash is stored.

    Hexadecimal, because NetNewsWire splits the line at each ``=``, and others expect letters and digits.
    """
    return hashlib.sha256(b"eventr reader|" + password.encode()).hexdigest()


def _fever_keys(user: User, password: str) -> set[str]:
    """Return md5(name:password) for every name that a user may type (Fever API, Authentication)."""
    names = {user.name, user.email, user.name.lower(), user.email.lower()}
    return {hashlib.md5(f"{name}:{password}".encode(), usedforsecurity=False).hexdigest() for name in names}


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
