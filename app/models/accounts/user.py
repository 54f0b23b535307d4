"""People and their sessions."""

from __future__ import annotations

import dataclasses
import datetime as dt

from app.models.accounts.actor import Actor, Role
from app.models.accounts.preferences import Preferences


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """Someone with an account; the password hash is apart, in :class:`Credentials`, and cannot be shown.

    ``social``: he has followed somebody once; who has not is spared the looks for what others share.
    ``synced``: he has made a password for an app once; for who has not nothing is kept for such apps.
    """

    id: int
    email: str
    name: str
    role: Role
    created: dt.datetime
    disabled: bool = False
    preferences: Preferences = dataclasses.field(default_factory=Preferences)
    social: bool = False
    synced: bool = False

    @property
    def actor(self) -> Actor:
        """This user as services see him."""
        return Actor(self.id, self.role, self.social, self.synced)


@dataclasses.dataclass(frozen=True, slots=True)
class NewUser:
    """An account about to be made; names and addresses are checked already."""

    email: str
    name: str
    password_hash: str


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """A user together with the argon2id hash of his password."""

    user: User
    password_hash: str


@dataclasses.dataclass(frozen=True, slots=True)
class Notice:
    """One message for the next page: a sentence, and the token of an undo when there is one."""

    text: str
    undo: str | None = None
    kind: str = "info"


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """A login on one device.

    Attributes:
        key: sha256 of the 256-bit id that only the browser's cookie holds (W01).
        seen: last use, at most five minutes behind.
        agent: the browser's own description, shortened.
        address: the network it came from (/24 or /64), never the whole address.
        notices: messages waiting for the next page.
        proved: when its password was last entered; None: when it began (W11).
    """

    key: bytes
    user_id: int
    created: dt.datetime
    seen: dt.datetime
    agent: str = ""
    address: str = ""
    notices: tuple[Notice, ...] = ()
    proved: dt.datetime | None = None
