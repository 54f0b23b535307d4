"""Visibility of shares and people: the single place that decides it, for pages, feeds, chains and search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from app.errors import ForbiddenError, NotFoundError
from app.feeds.html import linkify
from app.mappers.sharing.profiles import ProfileMapper, RelationshipMapper
from app.mappers.sharing.shares import ShareMapper, VisibilityFilter
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.discussion.comments import PersonSummary
from app.models.sharing.sharing import (
    STRANGER,
    Audience,
    Profile,
    Relationship,
    RelationshipKind,
    Share,
    Sharer,
)

#: Most blocks that a filter considers.
BLOCKS = 1000


class RequestCache:
    """Shares and people read for one response, so that nothing is read twice.

    The cache lives as long as a request, so that visibility is always exact, in every process.

    Attributes:
        follows: feeds of the people whom the viewer follows; None: not read yet.
        shares, profiles: by id; None for a missing one.
        seen: profiles of sharers by share id; None: the viewer may not see the share.
    """

    def __init__(self, follows: Collection[int] | None = None) -> None:
        self.follows = None if follows is None else frozenset(follows)
        self.shares: dict[int, Share | None] = {}
        self.profiles: dict[int, Profile | None] = {}
        self.ties: dict[int, Relationship] = {}
        self.seen: dict[int, Profile | None] = {}


class VisibilityGateway:
    """Decides who may see what, by profile, relationship and audience.

    The argument ``cache`` holds data read earlier for the same viewer and response; methods add what they
    read.
    """

    def __init__(
        self,
        profiles: ProfileMapper,
        relationships: RelationshipMapper,
        shares: ShareMapper,
        subscriptions: SubscriptionMapper,
    ) -> None:
        self._profiles, self._ties = profiles, relationships
        self._shares, self._subscriptions = shares, subscriptions

    def find_relationships(
        self, viewer: int | None, profiles: Iterable[Profile], cache: RequestCache | None = None
    ) -> dict[int, Relationship]:
        """Return a viewer's relationships to these people, by user id; None is a stranger."""
        people = {p.user_id: p for p in profiles}
        if viewer is None or not people:
            return dict.fromkeys(people, STRANGER)
        cache = cache or RequestCache()
        new = {i: p for i, p in people.items() if i not in cache.ties}
        if new:
            cache.ties.update(self._ties_of(viewer, new, cache.follows))
        return {i: cache.ties[i] for i in people}

    def _ties_of(
        self, viewer: int, people: dict[int, Profile], follows: Collection[int] | None
    ) -> dict[int, Relationship]:
        laid = self._ties.find_between(viewer, list(people))
        if follows is None:
            mine = self._subscriptions.find_by_user(viewer, [p.feed_id for p in people.values()])
            follows = {s.feed_id for s in mine if s.person}
        return {
            user_id: Relationship(
                own=user_id == viewer,
                follows=profile.feed_id in follows,
                # A public person has no pending requests.
                requested=(viewer, RelationshipKind.REQUEST, user_id) in laid
                and profile.audience is not Audience.PUBLIC,
                muted=(viewer, RelationshipKind.MUTE, user_id) in laid,
                blocked=bool(
                    {(viewer, RelationshipKind.BLOCK, user_id), (user_id, RelationshipKind.BLOCK, viewer)}
                    & laid
                ),
                blocks=(viewer, RelationshipKind.BLOCK, user_id) in laid,
            )
            for user_id, profile in people.items()
        }

    def find_streamers(self, feed_ids: Sequence[int]) -> dict[int, Profile]:
        """Return the profiles whose streams these feeds are, by feed; other feeds are left out."""
        owners = self._profiles.find_owners(feed_ids) if feed_ids else {}
        found = self._profiles.find_many(list(set(owners.values()))) if owners else {}
        return {f: found[owner] for f, owner in owners.items() if owner in found}

    def filter_open_streams(self, viewer: int, feed_ids: Sequence[int]) -> list[int]:
        """Return which of these feeds are streams of people whose page a viewer may see."""
        found = {f: p for f, p in self.find_streamers(feed_ids).items() if p.feed_id == f}
        ties = self.find_relationships(viewer, found.values()) if found else {}
        return [f for f, profile in found.items() if profile.has_page(ties[profile.user_id])]

    def can_follow_directly(self, target: Profile, relationship: Relationship) -> bool:
        """Return whether a person with this relationship can follow without a request.

        Raises:
            NotFoundError: the target is hidden or private, or blocks the person.
            ForbiddenError: the target is the person themselves, or blocked by them.
        """
        if relationship.own:
            raise ForbiddenError("This is you. Your shares are under “My shares”.")
        if (
            target.hidden
            or target.audience is Audience.PRIVATE
            or (relationship.blocked and not relationship.blocks)
        ):
            raise NotFoundError(user_id=target.user_id)
        if relationship.blocks:
            raise ForbiddenError("You've blocked this person. Unblock them first.")
        return relationship.follows or target.audience is Audience.PUBLIC

    def find_relationship(
        self, viewer: int | None, profile: Profile, cache: RequestCache | None = None
    ) -> Relationship:
        """Return a viewer's relationship to one person."""
        if cache is not None:
            cache.profiles[profile.user_id] = profile
        return self.find_relationships(viewer, [profile], cache)[profile.user_id]

    def find_visible_profiles(
        self, viewer: int | None, shares: Sequence[Share], cache: RequestCache | None = None
    ) -> dict[int, Profile]:
        """Return the sharers' profiles by share id, for the shares that a viewer may see."""
        cache = cache or RequestCache()
        if new := [s for s in shares if s.id not in cache.seen]:
            profiles = self._people({s.user_id for s in new if s.live}, cache)
            ties = self.find_relationships(viewer, profiles.values(), cache)
            for s in new:
                by = profiles.get(s.user_id) if s.live else None
                cache.seen[s.id] = by if by and by.allows_view(s.audience, ties[s.user_id]) else None
        return {s.id: by for s in shares if (by := cache.seen[s.id]) is not None}

    def _people(self, user_ids: Collection[int], known: RequestCache) -> dict[int, Profile]:
        if new := [i for i in user_ids if i not in known.profiles]:
            known.profiles.update(dict.fromkeys(new) | self._profiles.find_many(new))
        return {i: profile for i in user_ids if (profile := known.profiles[i]) is not None}

    def can_see(self, viewer: int | None, share: Share, cache: RequestCache | None = None) -> bool:
        """Return whether a viewer may see one share."""
        return share.id in self.find_visible_profiles(viewer, [share], cache)

    def find_shares(self, share_ids: Collection[int], cache: RequestCache) -> dict[int, Share]:
        """Return the shares that exist, removed ones included, by id."""
        if new := [i for i in share_ids if i not in cache.shares]:
            cache.shares.update(dict.fromkeys(new) | self._shares.find_many(new))
        return {i: share for i in share_ids if (share := cache.shares[i]) is not None}

    def find_shares_among(
        self, origin_ids: Collection[int], feeds: Collection[int], cache: RequestCache
    ) -> list[Share]:
        """Return the shares of these entries in these feeds, regardless of audience, oldest first."""
        found = self._shares.find_among(list(origin_ids), list(feeds)) if origin_ids and feeds else []
        cache.shares.update({s.id: s for s in found})
        return found

    def find_unmuted_people(self, viewer: int | None, user_ids: Iterable[int]) -> dict[int, PersonSummary]:
        """Return the people whose texts a viewer sees, by user id.

        Suspended people, people whom the viewer mutes, and blocks in either direction are left out.
        """
        faces = self._profiles.find_summaries(list(set(user_ids)))
        if viewer is None or not faces:
            return faces
        shunned = {
            whom if who == viewer else who
            for who, kind, whom in self._ties.find_between(viewer, list(faces))
            if kind is RelationshipKind.BLOCK or (kind is RelationshipKind.MUTE and who == viewer)
        }
        return {i: face for i, face in faces.items() if i not in shunned}

    def find_mentioned(self, handles: Sequence[str], share: Share) -> dict[str, PersonSummary]:
        """Return the people with these names who may see a share, by the name as given."""
        return {h: face for h, face in self._named(handles).items() if self.can_see(face.user_id, share)}

    def find_pages(self, handles: Sequence[str]) -> dict[str, str]:
        """Return the pages that these names lead to; the same for every viewer, to reveal no relationship."""
        return {h: face.handle for h, face in self._named(handles).items() if face.page}

    def _named(self, handles: Sequence[str]) -> dict[str, PersonSummary]:
        known = self._profiles.find_ids_by_name(handles) if handles else {}
        faces = self._profiles.find_summaries(list(set(known.values())))
        found = {h: faces.get(known.get(h.strip().casefold(), 0)) for h in handles}
        return {h: face for h, face in found.items() if face is not None}

    def find_hidden(
        self, viewer: int | None, share_ids: Collection[int], cache: RequestCache | None = None
    ) -> set[int]:
        """Return which of these shares a viewer may not see."""
        cache = cache or RequestCache()
        return set(share_ids) - set(
            self.find_visible_profiles(viewer, list(self.find_shares(share_ids, cache).values()), cache)
        )

    def find_shared_feed(self, viewer: int, entry_id: int) -> int | None:
        """Return the feed of a share that this viewer may see, or None."""
        share = self._shares.find(entry_id)
        return share.feed_id if share and self.can_see(viewer, share) else None

    def find_sharers(
        self, viewer: int | None, shares: Sequence[Share], cache: RequestCache | None = None
    ) -> dict[int, Sharer]:
        """Return the sharers by share id, for the shares that a viewer may see."""
        found = self.find_visible_profiles(viewer, shares, cache)
        return {s.id: build_sharer(s, found[s.id], html=True) for s in shares if s.id in found}

    def build_filter(self, viewer: int | None, cache: RequestCache | None = None) -> VisibilityFilter:
        """Return a query filter for the shares that a viewer may see; it may let some hidden ones through."""
        if viewer is None:
            return VisibilityFilter()
        blocked = {
            *self._ties.find_targets(viewer, RelationshipKind.BLOCK, BLOCKS),
            *self._ties.find_initiators(viewer, RelationshipKind.BLOCK, BLOCKS),
        }
        follows = [s.feed_id for s in self._subscriptions.find_people(viewer)]
        if cache is not None:
            cache.follows = frozenset(follows)
        return VisibilityFilter(viewer, follows, list(blocked))


def build_sharer(share: Share, profile: Profile, *, html: bool = False) -> Sharer:
    """Return the sharer of a visible share; ``html``: render the note, which takes time."""
    return Sharer(
        share.id,
        profile.feed_id,
        profile.handle,
        profile.name,
        share.note,
        share.at,
        share.edited is not None,
        share.audience,
        linkify.render_html(share.note) if html and share.note else "",
    )
