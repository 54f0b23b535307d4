"""Shares, profiles, relationships, audiences and chains."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import NamedTuple

from app.models.feeds.chain import Chain
from app.models.media.attachment import Attachment


class Audience(enum.StrEnum):
    """The people who may see something, from widest to narrowest."""

    PUBLIC = "public"
    FOLLOWERS = "followers"
    PRIVATE = "private"

    @property
    def width(self) -> int:
        """The width: 0 for no one else, 2 for everyone."""
        return _WIDTHS[self]

    def narrow_to(self, other: Audience) -> Audience:
        """Return the narrower of the two."""
        return self if self.width <= other.width else other


_WIDTHS = {audience: 2 - n for n, audience in enumerate(Audience)}


class Relationship(NamedTuple):
    """The relationship of one person to another.

    Attributes:
        own: both are the same person.
        follows: the person follows the other, with approval if needed.
        requested: the person has requested to follow.
        muted: the person hides the other from the people they follow.
        blocked: either of them blocks the other; blocks: the person blocks the other.
    """

    own: bool = False
    follows: bool = False
    requested: bool = False
    muted: bool = False
    blocked: bool = False
    blocks: bool = False


STRANGER = Relationship()


class RelationshipKind(enum.StrEnum):
    """A stored relationship to another person; following is stored as a subscription.

    The last two are decisions of the other person about that subscription. They hold at once, and are deleted
    when the subscription is as they say: its cell may not be responding when they are made.
    """

    REQUEST = "request"
    MUTE = "mute"
    BLOCK = "block"
    ACCEPTED = "accepted"
    ENDED = "ended"


#: The relationships that stay until someone changes them.
LASTING = (RelationshipKind.REQUEST, RelationshipKind.MUTE, RelationshipKind.BLOCK)


class FollowDecision(NamedTuple):
    """What a person has decided about someone's subscription to them, while it isn't done yet.

    Attributes:
        key: names the decision.
        user_id: the follower, or former follower.
        kind: ACCEPTED or ENDED.
        to: the person who decided.
        settles: for ENDED: until when it stays, as a process may still subscribe because of what it has read
            before.
    """

    key: str
    user_id: int
    kind: RelationshipKind
    to: int
    settles: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A person's page and stream; it is created with their first share, or on request.

    Attributes:
        feed_id: the feed of their shares; private_feed_id: of the shares that only they see. These are
            separate feeds, so that no one can infer private shares from sequence numbers.
        handle: their name at ``/@name``. display: their display name, else the handle.
        audience: of the whole stream; a share may have a narrower one.
        hidden: an administrator has suspended them, or closed their account.
        listed: search engines may show the page.
        open_lists: others see whom they follow and who follows them.
        similar: they are suggested to people who read the same feeds, and vice versa.
        avatar: the version of their picture; empty: a letter stands for them.
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
    avatar: str = ""

    @property
    def name(self) -> str:
        """The name that is shown."""
        return self.display or self.handle

    def has_page(self, relationship: Relationship) -> bool:
        """Return whether the page exists for someone, whatever they may see on it."""
        closed = self.hidden or self.audience is Audience.PRIVATE
        return relationship.own or not (closed or (relationship.blocked and not relationship.blocks))

    @property
    def visible_to(self) -> Audience:
        """The widest audience of the stream right now."""
        return Audience.PRIVATE if self.hidden else self.audience

    def allows_view(self, audience: Audience, relationship: Relationship) -> bool:
        """Return whether someone may see content for this audience."""
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
    """The entry that was shared first, in any feed: the root of its chains. A post is its own root."""

    entry_id: int
    feed_id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One person's share of one entry.

    Attributes:
        id: of the share and of its entry in the sharer's feed. feed_id, seq: that entry's position.
        left: the number it had in the other of its sharer's two feeds, 0 if it was never there.
        path: the shares it came through, from the first share of the root to its source.
        note: as typed. edited: when it was last changed.
        audience: as chosen; the stream's own may be narrower.
        live: it hasn't been removed.
        closed: the audience that it had before its feed became secret; None: it wasn't closed.
        files: pictures and files that the sharer added, in their order.
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
    closed: Audience | None = None
    files: tuple[Attachment, ...] = ()

    @property
    def source(self) -> int | None:
        """The id of its source share; None if the entry itself was shared."""
        return self.path[-1] if self.path else None

    @property
    def is_post(self) -> bool:
        """Whether it is a post, its own root entry."""
        return self.of.entry_id == self.id


@dataclasses.dataclass(frozen=True, slots=True)
class ShareResult:
    """The result of sharing; ``existed``: the user had already shared it, and that share stays unchanged."""

    share: Share
    existed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Sharer:
    """The person who shared an entry, as readers see them.

    ``html``: the note with links, if requested. ``avatar``: the version of their picture, empty without one.
    ``files``: pictures and files that they added to the note.
    """

    share_id: int
    feed_id: int
    handle: str
    name: str
    note: str = ""
    at: dt.datetime | None = None
    edited: bool = False
    audience: Audience = Audience.PUBLIC
    html: str = ""
    avatar: str = ""
    files: tuple[Attachment, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ShareBox:
    """A reader's options for sharing an entry, and how it reached them.

    Attributes:
        mine: the reader's own share of it. html: its note with links.
        via: for a share, the chain back from it; None for removed shares and those the reader may not see.
        audience: of the reader's stream, the upper limit for all their shares.
        widest: the widest audience for which it may be re-shared.
        can_reshare: whether it may be re-shared at all.
        can_post_link: whether only its title and link may be posted: it is from the reader's own copy of a
            feed.
        first: the first share that the reader may see. total: how many there are.
    """

    mine: Share | None
    via: tuple[Sharer | None, ...] = ()
    audience: Audience = Audience.PUBLIC
    widest: Audience = Audience.PUBLIC
    can_reshare: bool = True
    can_post_link: bool = False
    first: Sharer | None = None
    total: int = 0
    html: str = ""

    @property
    def choices(self) -> tuple[Audience, ...]:
        """The audiences for which it may be shared, widest first."""
        most = self.widest.narrow_to(self.audience)
        return tuple(a for a in Audience if a.width <= most.width)


class ShareVisibility(enum.StrEnum):
    """What a viewer may see of a share in a chain."""

    SEEN = "seen"
    PRIVATE = "private"
    REMOVED = "removed"


@dataclasses.dataclass(frozen=True, slots=True)
class ChainNode:
    """A share in its tree. ``by`` is None unless visible; ``depth`` counts from 0, the root's first share."""

    share_id: int
    depth: int
    link: ShareVisibility
    by: Sharer | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ChainPage:
    """A part of the tree of all shares of a root, in the order of a nested list.

    Attributes:
        nodes: each after its source; if a page continues inside a branch, the parents of its
            first nodes are repeated.
        cursor: for the next page, None at the end.
        total: shares that the viewer may see, counted up to ``chain_count_max``; ``more``: there are more.
        remote: the root's chain on other servers before, as they state it: plain names and addresses. Its
            last hop is the feed that is read here. It comes before all nodes.
    """

    origin: Origin
    nodes: tuple[ChainNode, ...]
    cursor: str | None
    total: int
    more: bool = False
    remote: Chain | None = None
