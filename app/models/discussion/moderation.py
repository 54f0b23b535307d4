"""Reports: what people think should not be here, for administrators."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

from app.models.sharing.sharing import Audience, Profile


class ReportSubject(enum.StrEnum):
    """What a report is about."""

    SHARE = "share"
    PERSON = "person"
    COMMENT = "comment"


class Reason(enum.StrEnum):
    """Why somebody reports."""

    SPAM = "spam"
    ABUSE = "abuse"
    ILLEGAL = "illegal"
    OTHER = "other"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One person's report; it is there until an administrator has decided.

    Attributes:
        user_id: who reports.
        thing: the id of the share, comment or person. whom: who wrote it, or the person himself.
        text: what the reporter says. quote: what the thing said at that moment; its owner may change it.
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
    """What a report is about, as administrators and reporters see it.

    Attributes:
        profile: whose it is.
        title, url, excerpt: of what is shared. note: what the person wrote to it, or of himself.
        audience: for whom it is.
        live: False: he took it back himself.
        share_id, sharer: of a comment, the share that it is said to, and who shares that; 0: it is gone.
    """

    about: ReportSubject
    thing: int
    profile: Profile
    title: str = ""
    url: str = ""
    excerpt: str = ""
    note: str = ""
    audience: Audience = Audience.PUBLIC
    live: bool = True
    share_id: int = 0
    sharer: str = ""

    @property
    def quote(self) -> str:
        """What it says, in one text."""
        return "\n".join(part for part in (self.title, self.note) if part)


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """All open reports about one thing, the last one first; ``names``: of reporters, by account."""

    thing: ReportedItem
    reports: tuple[Report, ...]
    names: dict[int, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Cases:
    """What administrators have to decide; ``more``: there are others behind. ``suspended``: handles."""

    cases: tuple[Case, ...]
    more: bool
    suspended: tuple[Profile, ...]
