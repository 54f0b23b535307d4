"""Keys that programs come with instead of a person: app passwords of reading apps, tokens of the API."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

from app.models.accounts.actor import Actor, Permission
from app.models.accounts.user import User


class Scope(enum.StrEnum):
    """What a token lets a program do; nothing lets one change the account or what concerns others."""

    READ = "read"
    MARK = "mark"
    SUBSCRIBE = "subscribe"
    SHARE = "share"
    SETTINGS = "settings"


#: What each scope stands for; :class:`app.models.accounts.actor.Actor` holds the union.
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
}


class TokenKind(enum.StrEnum):
    """What a token is typed into."""

    #: A password that a reading app logs in with (Google Reader API, Fever API).
    APP = "app"
    #: A bearer token of the REST API.
    API = "api"


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A key without its secret, which is shown once and stored as a hash (W08).

    Attributes:
        name: what its owner calls it: the app, or the device.
        scopes: of an app password all of them.
        fever: it opens the Fever API too, which sends an MD5 of it and of the name; fever_name: that name as
            it is compared, of when it was made.
        used: last use, at most five minutes behind; agent: the program's own description then.
        expires: None: when it is revoked.
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

    @property
    def permissions(self) -> frozenset[Permission]:
        """All that it lets a program do, if its owner may."""
        return frozenset[Permission]().union(*(SCOPES[scope] for scope in self.scopes))


@dataclasses.dataclass(frozen=True, slots=True)
class Secrets:
    """What is stored of a new token: sha256 of all that it is known by, so that no copy opens anything.

    Attributes:
        secret: of the token itself. auth: of what an app gets for it when it logs in; None: of no app.
        fever: of each form of its Fever key.
    """

    secret: bytes
    auth: bytes | None = None
    fever: tuple[bytes, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """How many requests a user's programs may still send: ``left`` of ``limit`` within ``reset`` seconds."""

    limit: int
    window: int
    left: int
    reset: int


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """A program that has shown its token, and on whose behalf it comes."""

    token: Token
    user: User

    @property
    def actor(self) -> Actor:
        """The user as services see him, with no more rights than the token has."""
        return dataclasses.replace(self.user.actor, synced=True, limits=self.token.permissions)
