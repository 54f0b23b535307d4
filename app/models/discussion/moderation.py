"""Moderation: reports about shares, people and comments, for administrators."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

from app.models.sharing.pages import ShareCount
from app.models.sharing.sharing import Audience, Profile


class ReportSubject(enum.StrEnum):
    """The kinds of reported things."""

    SHARE = "share"
    PERSON = "person"
    COMMENT = "comment"


class Reason(enum.StrEnum):
    """The reasons for a report."""

    SPAM = "spam"
    ABUSE = "abuse"
    ILLEGAL = "illegal"
    OTHER = "other"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One person's report; it exists until an administrator has decided.

    Attributes:
        user_id: the reporter.
        thing_id: the id of the share, comment or person.
        accused_id: the author, or the reported person.
        text: the reporter's explanation.
        quote: the reported text at that moment; its owner may change it later.
    """

    id: int
    user_id: int
    about: ReportSubject
    thing_id: int
    accused_id: int
    reason: Reason
    text: str
    quote: str
    at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReportedItem:
    """A reported thing, as administrators and reporters see it.

    Attributes:
        profile: of its owner.
        title, url, excerpt, image, entry_id: of the shared entry; the image only of a share.
        note: the owner's note on it, or their own description.
        audience: of the share or stream.
        live: False if the owner removed it.
        share_id, sharer: of a comment, its share and the sharer; 0 if the share is gone.
        at: when it was shared or written; None: it is a person, or gone.
    """

    about: ReportSubject
    thing: int
    profile: Profile
    title: str = ""
    url: str = ""
    excerpt: str = ""
    image: str = ""
    entry_id: int = 0
    note: str = ""
    audience: Audience = Audience.PUBLIC
    live: bool = True
    share_id: int = 0
    sharer: str = ""
    at: dt.datetime | None = None

    @property
    def quote(self) -> str:
        """The reported text, as one text."""
        return "\n".join(part for part in (self.title, self.note) if part)


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """What tells how a reported person uses their account: when they joined, and how much they share."""

    joined: dt.datetime
    shares: ShareCount
    followers: int


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """All open reports about one thing, newest first; ``names``: of reporters, by account."""

    thing: ReportedItem
    reports: tuple[Report, ...]
    names: dict[int, str]
    standing: Standing


@dataclasses.dataclass(frozen=True, slots=True)
class Cases:
    """The open cases; ``more``: there are further ones. ``suspended``: profiles of suspended people."""

    cases: tuple[Case, ...]
    more: bool
    suspended: tuple[Profile, ...]
