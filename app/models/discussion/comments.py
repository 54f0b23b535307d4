"""What people say to a share: likes, comments with replies, and what is told of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re
from typing import NamedTuple

from app.models.sharing.sharing import Share, Sharer, ShareVisibility

#: A name after an @ that no address and no other name goes before; names are those of accounts.
MENTION = re.compile(r"(?<![\w@/.+-])@(?P<name>\w(?:[\w.-]{0,30}\w))")
#: Names in one text that mean somebody; more are words.
MENTIONS_MAX = 20


def find_mentions(text: str) -> list[str]:
    """Return the names that a text mentions, each once, at most :data:`MENTIONS_MAX`."""
    return list(dict.fromkeys(m["name"] for m in MENTION.finditer(text)))[:MENTIONS_MAX]


class PersonSummary(NamedTuple):
    """Whom others see beside his words: ``handle`` is his account's name; ``page``: there is one to go to."""

    user_id: int
    handle: str
    name: str
    page: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """What somebody says to a share, as it is stored.

    Attributes:
        of: the entry that is shared. user_id: None: of one that was removed, and was answered before.
        parent: the comment that it answers. path: those above it and itself, as far as they are shown nested;
            deeper ones stand below the last of them, one after the other.
        text: as typed.
    """

    id: int
    share_id: int
    of: int
    user_id: int | None
    at: dt.datetime
    path: tuple[int, ...]
    parent: int | None = None
    text: str = ""
    edited: dt.datetime | None = None
    removed: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CommentView:
    """A comment as its reader sees it.

    Attributes:
        depth: from 0. by: None: it was removed, and has answers. html: safe to show.
        to: whom it answers, where its place does not tell.
        mine: he may change it; ``his``: he may remove it.
    """

    id: int
    depth: int
    by: PersonSummary | None
    at: dt.datetime | None = None
    html: str = ""
    text: str = ""
    to: str = ""
    edited: bool = False
    mine: bool = False
    is_removable: bool = False


class CappedCount(NamedTuple):
    """How many, counted up to a limit; ``more``: there are more."""

    number: int = 0
    more: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ShareReactions:
    """How a share is received; ``liked``: by who looks."""

    likes: CappedCount = CappedCount()
    comments: CappedCount = CappedCount()
    liked: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CommentThread:
    """A page of comments, in the order of a nested list; ``whole``: it begins with the first one."""

    comments: tuple[CommentView, ...]
    cursor: str | None
    whole: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class CommentedShare:
    """A share that is talked of, as its reader sees it.

    ``html``: its note, safe to show. ``lost``: why nothing is shown of what it shares.
    """

    share: Share
    by: Sharer
    title: str = ""
    url: str = ""
    html: str = ""
    lost: ShareVisibility | None = None


class NotificationKind(enum.StrEnum):
    """What people are told of; each can be switched off (``notify_…`` of the preferences)."""

    FOLLOWER = "follower"
    REQUEST = "request"
    RESHARE = "reshare"
    LIKE = "like"
    COMMENT = "comment"
    REPLY = "reply"
    MENTION = "mention"
    IMPORT = "import"
    EXPORT = "export"
    FEED = "feed"

    @property
    def setting(self) -> str:
        """The preference that switches it."""
        return f"notify_{self.value}"

    @property
    def push_setting(self) -> str:
        """The preference that lets devices ring for it; empty: none ever does, as no row is written."""
        return "" if self is NotificationKind.FEED else f"push_{self.value}"

    @property
    def is_about_share(self) -> bool:
        """Whether it is about a share, and so for those alone who see that."""
        return self in _OF_SHARE


_OF_SHARE = (
    NotificationKind.RESHARE,
    NotificationKind.LIKE,
    NotificationKind.COMMENT,
    NotificationKind.REPLY,
    NotificationKind.MENTION,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRow:
    """One row of what somebody is told; what is alike comes together in it.

    Attributes:
        subject: share, comment, import or feed; 0: himself.
        share_id: by which it is decided whether he may see it, 0: it is about none.
        last: (who, which comment or share), the last few, the newest last. count: how many there were.
        faces: the people whom he sees, the newest first.
        title: of what it is about, ``detail``: the word of a feed's error.
    """

    user_id: int
    kind: NotificationKind
    subject: int
    at: dt.datetime
    share_id: int = 0
    last: tuple[tuple[int, int], ...] = ()
    count: int = 1
    read: bool = False
    place: str = ""
    faces: tuple[PersonSummary, ...] = ()
    title: str = ""
    detail: str = ""

    @property
    def target(self) -> int:
        """The comment or share that came last, 0: none."""
        return self.last[-1][1] if self.last else 0

    @property
    def ref(self) -> str:
        """The row's name in forms: ``like.1234``."""
        return f"{self.kind.value}.{self.subject}"


@dataclasses.dataclass(frozen=True, slots=True)
class NotificationRows:
    """A page of notes, the newest first."""

    notes: tuple[NotificationRow, ...]
    cursor: str | None = None
