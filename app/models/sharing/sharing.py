"""Shared streams and chains: who shares what with whom, and on whose word."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import NamedTuple

from app.models.feeds.chain import Chain


class Audience(enum.StrEnum):
    """Who may see something, from the widest to the narrowest."""

    PUBLIC = "public"
    FOLLOWERS = "followers"
    PRIVATE = "private"

    @property
    def width(self) -> int:
        """0 for nobody else, 2 for everybody."""
        return _WIDTHS[self]

    def narrow_to(self, other: Audience) -> Audience:
        """Return the narrower of the two."""
        return self if self.width <= other.width else other


_WIDTHS = {audience: 2 - n for n, audience in enumerate(Audience)}


class Relationship(NamedTuple):
    """What one person is to another.

    Attributes:
        own: they are the same person.
        follows: he reads the other's stream, and was let to.
        requested: he has asked to.
        muted: he does not want to see the other among those he follows.
        blocked: one of the two blocks the other, whoever it is; blocks: he does.
    """

    own: bool = False
    follows: bool = False
    requested: bool = False
    muted: bool = False
    blocked: bool = False
    blocks: bool = False


STRANGER = Relationship()


class RelationshipKind(enum.StrEnum):
    """What somebody laid down about another; that he follows is a subscription."""

    REQUEST = "request"
    MUTE = "mute"
    BLOCK = "block"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Somebody's page and stream; it begins with his first share, or when he asks for it.

    Attributes:
        feed_id: the feed of what he shares; closet_id: of what he shares with himself alone. They are two,
            so that nobody can tell from numbers what he keeps.
        handle: his name at ``/@name``. display: what he wants to be called, else the handle.
        audience: of the whole stream; a share may have a narrower one.
        hidden: an administrator has suspended him, or closed his account.
        listed: search engines may show the page.
        open_lists: others see whom he follows and who follows him.
        similar: he is shown to people who read the same, and they to him.
    """

    user_id: int
    feed_id: int
    private_feed_id: int
    handle: str
    display: str = ""
    bio: str = ""
    links: tuple[str, ...] = ()
    audience: Audience = Audience.PUBLIC
    hidden: bool = False
    listed: bool = False
    open_lists: bool = False
    similar: bool = False

    @property
    def name(self) -> str:
        """What he is called."""
        return self.display or self.handle

    def has_page(self, relationship: Relationship) -> bool:
        """Return whether somebody finds the page, whatever is on it for him."""
        closed = self.hidden or self.audience is Audience.PRIVATE
        return relationship.own or not (closed or (relationship.blocked and not relationship.blocks))

    @property
    def visible_to(self) -> Audience:
        """For whom the stream is at most at the moment."""
        return Audience.PRIVATE if self.hidden else self.audience

    def allows_view(self, audience: Audience, relationship: Relationship) -> bool:
        """Return whether somebody may see what is for this audience."""
        if relationship.own:
            return True
        if self.hidden or relationship.blocked:
            return False
        match audience.narrow_to(self.audience):
            case Audience.PUBLIC:
                return True
            case Audience.FOLLOWERS:
                return relationship.follows
            case _:
                return False


class Origin(NamedTuple):
    """The entry that was shared first, of whichever feed: the root of its chains. A post is its own."""

    entry_id: int
    feed_id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One person's sharing of one entry.

    Attributes:
        id: of the share and of its entry in the sharer's feed. feed_id, seq: that entry's place.
        left: the number that it left behind in the other one of its sharer's feeds, 0: it was never there.
        path: the shares it came through, from the root's first to the one it was taken from.
        note: as typed. edited: when it was changed last.
        audience: as chosen; the stream's own may be narrower.
        live: it was not taken back.
    """

    id: int
    of: Origin
    user_id: int
    feed_id: int
    seq: int
    at: dt.datetime
    path: tuple[int, ...] = ()
    note: str = ""
    audience: Audience = Audience.PUBLIC
    edited: dt.datetime | None = None
    live: bool = True
    left: int = 0

    @property
    def source(self) -> int | None:
        """The share that it was taken from, None: from the entry itself."""
        return self.path[-1] if self.path else None

    @property
    def is_post(self) -> bool:
        """Whether there is no other entry than this."""
        return self.of.entry_id == self.id


@dataclasses.dataclass(frozen=True, slots=True)
class ShareResult:
    """The answer to a share; ``existed``: he had shared it already, and that stays as it is."""

    share: Share
    existed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Sharer:
    """Who shared an entry, as its readers see it; ``html``: the note with links, where it was asked for."""

    share_id: int
    feed_id: int
    handle: str
    name: str
    note: str = ""
    at: dt.datetime | None = None
    edited: bool = False
    audience: Audience = Audience.PUBLIC
    html: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ShareBox:
    """What a reader can do with an entry, and how it came to him.

    Attributes:
        mine: his own share of it.
        via: when it is a share, the way back from it; None for whom he may not see, or who took it back.
        audience: of his stream; nothing he shares is seen by more. widest: for whom it may be passed on.
        passable: whether it may be passed on at all.
        first: the first share that he may see. total: how many there are.
    """

    mine: Share | None
    via: tuple[Sharer | None, ...] = ()
    audience: Audience = Audience.PUBLIC
    widest: Audience = Audience.PUBLIC
    can_reshare: bool = True
    first: Sharer | None = None
    total: int = 0

    @property
    def choices(self) -> tuple[Audience, ...]:
        """For whom it may be shared, the widest first."""
        most = self.widest.narrow_to(self.audience)
        return tuple(a for a in Audience if a.width <= most.width)


class ShareVisibility(enum.StrEnum):
    """What a viewer sees of a share in a chain."""

    SEEN = "seen"
    PRIVATE = "private"
    REMOVED = "removed"


@dataclasses.dataclass(frozen=True, slots=True)
class ChainNode:
    """A share in its tree. ``by`` is None unless it is seen; ``depth`` counts from 0, at the root's own."""

    share_id: int
    depth: int
    link: ShareVisibility
    by: Sharer | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ChainPage:
    """A part of the tree of all shares of a root, in the order of a nested list.

    Attributes:
        nodes: each after the one it was taken from; the first ones' own parents come again when a page
            goes on in the midst of a branch.
        cursor: for the next page, None at the end.
        total: shares that the viewer may see, counted up to ``chain_count_max``; ``more``: there are more.
        remote: the way of the root over other servers before, as they say: plain names and addresses, its
            last hop the one whose feed is read here. It comes before all nodes.
    """

    origin: Origin
    nodes: tuple[ChainNode, ...]
    cursor: str | None
    total: int
    more: bool = False
    remote: Chain | None = None
