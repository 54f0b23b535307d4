"""Users and their sessions."""

from __future__ import annotations

import dataclasses
import datetime as dt
from urllib.parse import quote

from app.models.accounts.actor import Actor, Role
from app.models.accounts.preferences import Preferences


def get_avatar_version(blob_id: bytes | None) -> str:
    """Return the part of an avatar's address that changes with the picture; empty without one."""
    return blob_id.hex()[:16] if blob_id else ""


def build_avatar_path(handle: str, version: str, size: str = "a192") -> str:
    """Return the path of an avatar on this server; empty without one."""
    return f"/a/{quote(handle)}/{size}?v={version}" if version else ""


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """Someone with an account; the password hash is separate, in :class:`Credentials`, and is never shown.

    ``social``: they have followed someone at least once; for others, queries for shares are skipped.
    ``synced``: they have created an app password at least once; for others, no data is kept for apps.
    ``confirmed``: an admin, or an invite by one, vouches for the email address, so it can log in.
    ``avatar``: id of the blob of their picture; None: a letter stands for them.
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
    avatar: bytes | None = None
    confirmed: bool = False

    @property
    def avatar_version(self) -> str:
        """The part of the avatar's address that changes with the picture; empty without one."""
        return get_avatar_version(self.avatar)

    @property
    def actor(self) -> Actor:
        """This user as services see them."""
        return Actor(self.id, self.role, self.social, self.synced)


@dataclasses.dataclass(frozen=True, slots=True)
class NewUser:
    """An account to be created; its name and e-mail address are already checked."""

    email: str
    name: str
    password_hash: str


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """A user with the argon2id hash of their password."""

    user: User
    password_hash: str


@dataclasses.dataclass(frozen=True, slots=True)
class Notice:
    """One message for the next page: a sentence, and the token of an undo if there is one."""

    text: str
    undo: str | None = None
    kind: str = "info"


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """A login on one device.

    Attributes:
        key: sha256 of the 256-bit id that only the browser's cookie holds (W01).
        seen: last use, at most five minutes out of date.
        agent: the browser's own description, shortened.
        address: the network it came from (/24 or /64), never the whole address.
        notices: messages for the next page.
        proved: when its password was last entered; None: when the session began (W11).
    """

    key: bytes
    user_id: int
    created: dt.datetime
    seen: dt.datetime
    agent: str = ""
    address: str = ""
    notices: tuple[Notice, ...] = ()
    proved: dt.datetime | None = None
