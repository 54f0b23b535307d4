"""Tokens for programs: app passwords of reading apps and access tokens of the API."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import NamedTuple

from app.models.accounts.actor import Actor, Permission
from app.models.accounts.user import User


class Scope(enum.StrEnum):
    """What a token permits; no scope permits changes to the account or to other people's data."""

    READ = "read"
    MARK = "mark"
    SUBSCRIBE = "subscribe"
    SHARE = "share"
    SETTINGS = "settings"
    FILES = "files"


#: The permissions of each scope; :class:`app.models.accounts.actor.Actor` holds their union.
SCOPES: dict[Scope, frozenset[Permission]] = {
    Scope.READ: frozenset({Permission.ENTRY_READ, Permission.SUBSCRIPTION_SEE, Permission.FEED_SEE}),
    Scope.MARK: frozenset({Permission.ENTRY_MARK, Permission.TAG_EDIT}),
    Scope.SUBSCRIBE: frozenset(
        {
            Permission.SUBSCRIPTION_EDIT,
            Permission.FOLDER_EDIT,
            Permission.FEED_DISCOVER,
            Permission.FEED_REFRESH,
        }
    ),
    Scope.SHARE: frozenset({Permission.SHARE_EDIT, Permission.REPORT_MAKE}),
    Scope.SETTINGS: frozenset({Permission.PREFERENCE_EDIT}),
    Scope.FILES: frozenset({Permission.FILE_EDIT, Permission.FILE_SEE}),
}


class TokenKind(enum.StrEnum):
    """Where a token is used."""

    #: An app password for a reading app (Google Reader API, Fever API).
    APP = "app"
    #: A bearer token of the REST API.
    API = "api"
    #: The secret part of a feed address: it opens one list and nothing else.
    FEED = "feed"


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret, which is shown once and stored as a hash (W08).

    Attributes:
        name: the owner's name for it: the app, or the device.
        scopes: an app password has all of them.
        fever: whether it also opens the Fever API, whose apps send an MD5 of token and user name.
        fever_name: the normalized user name at creation time, for that MD5.
        stream: of a feed address: the text form of the list that it opens.
        used: last use, at most five minutes out of date.
        agent: the program's own description at that time.
        expires: None: valid until revoked.
    """

    id: int
    user_id: int
    kind: TokenKind
    name: str
    created: dt.datetime
    scopes: tuple[Scope, ...] = tuple(Scope)
    fever: bool = False
    used: dt.datetime | None = None
    expires: dt.datetime | None = None
    agent: str = ""
    fever_name: str = ""
    stream: str = ""

    @property
    def permissions(self) -> frozenset[Permission]:
        """The permissions that its scopes give, as far as its owner has them."""
        return frozenset[Permission]().union(*(SCOPES[scope] for scope in self.scopes))


@dataclasses.dataclass(frozen=True, slots=True)
class Secrets:
    """The stored hashes of a new token: sha256 of each of its secret forms, so that a copy opens nothing.

    Attributes:
        secret: of the token itself.
        auth: of the value that an app gets for it at login; None if it isn't an app password.
        fever: of each form of its Fever key.
    """

    secret: bytes
    auth: bytes | None = None
    fever: tuple[bytes, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """The rate limit of a user's programs: ``left`` of ``limit`` requests for the next ``reset`` seconds."""

    limit: int
    window: int
    left: int
    reset: int


class Attempt(NamedTuple):
    """A counted attempt.

    Attributes:
        wait: seconds to wait, if it is refused; else 0.
        left: attempts left.
        reset: seconds until all are left again.
    """

    wait: int
    left: int = 0
    reset: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """A program that presented its token, and the user it acts for; ``quota`` as of this request."""

    token: Token
    user: User
    quota: Quota | None = None

    @property
    def actor(self) -> Actor:
        """The user as services see them, with only the token's permissions."""
        return dataclasses.replace(self.user.actor, synced=True, limits=self.token.permissions)
