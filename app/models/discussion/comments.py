"""Reactions to shares: likes, comments with replies, and the notifications about them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re
from typing import NamedTuple

from app.models.media.attachment import Attachment
from app.models.sharing.sharing import Share, Sharer, ShareVisibility

#: A user name after an @ that doesn't follow an address or another name.
MENTION = re.compile(r"(?<![\w@/.+-])@(?P<name>\w(?:[\w.-]{0,30}\w))")
#: Most mentions in one text; further names are plain text.
MENTIONS_MAX = 20


def find_mentions(text: str) -> list[str]:
    """Return the names that a text mentions, each once, at most :data:`MENTIONS_MAX`."""
    return list(dict.fromkeys(m["name"] for m in MENTION.finditer(text)))[:MENTIONS_MAX]


class PersonSummary(NamedTuple):
    """A person as others see them; ``handle`` is their user name, ``page`` whether they have a page.

    ``avatar``: the version of their picture, empty without one.
    """

    user_id: int
    handle: str
    name: str
    page: bool = False
    avatar: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment on a share, as stored.

    Attributes:
        of: the root entry of the share.
        user_id: None for a comment that was removed after it got replies.
        parent: the comment that it replies to.
        path: the ids of its ancestors and itself, as far as comments are nested; deeper replies follow
            the last of them in one flat list.
        text: as typed.
        files: pictures and files that the author added, in their order.
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
    files: tuple[Attachment, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class CommentView:
    """A comment as its reader sees it.

    Attributes:
        depth: from 0.
        by: None for a removed comment with replies.
        html: safe to show.
        to: the person it replies to, where the nesting doesn't show it.
        mine: whether the reader may edit it.
        is_removable: whether the reader may remove it.
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
    files: tuple[Attachment, ...] = ()


class CappedCount(NamedTuple):
    """A count up to a limit; ``more``: there are more."""

    number: int = 0
    more: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ShareReactions:
    """The likes and comments of a share; ``liked``: by the viewer."""

    likes: CappedCount = CappedCount()
    comments: CappedCount = CappedCount()
    liked: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CommentThread:
    """A page of comments, in the order of a nested list; ``whole``: it starts with the first comment."""

    comments: tuple[CommentView, ...]
    cursor: str | None
    whole: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class CommentedShare:
    """A commented share, as its reader sees it.

    ``html``: its note, safe to show. ``lost``: why the shared entry isn't shown.
    """

    share: Share
    by: Sharer
    title: str = ""
    url: str = ""
    html: str = ""
    lost: ShareVisibility | None = None


class NotificationKind(enum.StrEnum):
    """The kinds of notifications; each can be switched off (``notify_…`` of the preferences)."""

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
    ENTRIES = "entries"
    SEARCH = "search"
    FOUND = "found"

    @property
    def setting(self) -> str:
        """The name of the preference that switches this kind."""
        return f"notify_{self.value}"

    @property
    def push_setting(self) -> str:
        """The preference that sends this kind to devices; empty for FEED, which stores no notification."""
        return "" if self is NotificationKind.FEED else f"push_{self.value}"

    @property
    def is_about_share(self) -> bool:
        """Whether it is about a share; then only people who can see that share get it."""
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
    """One notification, which combines similar events.

    Attributes:
        subject: id of the share, comment, import, feed, saved search or crawl; 0: the user.
        share_id: the share that decides whether the user may see it; 0 for none.
        last: (user, comment or share) ids of the last few events, newest last.
        count: how many events there were.
        faces: the people whom the user may see, newest first.
        title: of the subject.
        detail: the error word of a feed, or the query of a saved search.
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
        """The id of the last comment or share, 0 if there is none."""
        return self.last[-1][1] if self.last else 0

    @property
    def ref(self) -> str:
        """The row's name in forms: ``like.1234``."""
        return f"{self.kind.value}.{self.subject}"


@dataclasses.dataclass(frozen=True, slots=True)
class NotificationRows:
    """A page of notifications, newest first."""

    notes: tuple[NotificationRow, ...]
    cursor: str | None = None
