"""Accounts and invites as administrators see them."""

from __future__ import annotations

import dataclasses
import datetime as dt

from app.models.accounts.user import User


@dataclasses.dataclass(frozen=True, slots=True)
class AccountRow:
    """An account; ``seen`` is the last use of any live session, None without one.

    ``subscriptions`` is None while their cell isn't responding.
    """

    user: User
    seen: dt.datetime | None
    sessions: int
    subscriptions: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class AccountPage:
    """A page of accounts by name; ``next`` is the cursor of the next page, "" at the end."""

    rows: tuple[AccountRow, ...]
    next: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Invite:
    """An invite; ``id`` identifies it without its secret. Until ``used``, it is valid until ``expires``."""

    id: str
    by: str
    created: dt.datetime
    expires: dt.datetime
    used: dt.datetime | None
