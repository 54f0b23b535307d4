"""Visibility of shares and people: the single place that decides it, for pages, feeds, chains and search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from app.errors import CellError, ForbiddenError, NotFoundError
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
from app.models.subscriptions.muting import exclude_muted
from app.runtime import identity_map

#: Most blocks that a filter considers.
BLOCKS = 1000
#: A request, also one that was accepted while the subscription couldn't be stored yet.
_ASKED = (RelationshipKind.REQUEST, RelationshipKind.ACCEPTED)


class VisibilityGateway:
    """Decides who may see what, by profile, relationship and audience."""

    def __init__(
        self,
        profiles: ProfileMapper,
        relationships: RelationshipMapper,
        shares: ShareMapper,
        subscriptions: SubscriptionMapper,
    ) -> None:
        self._profiles, self._ties = profiles, relationships
        self._shares, self._subscriptions = shares, subscriptions

    def find_relationships(self, viewer: int | None, profiles: Iterable[Profile]) -> dict[int, Relationship]:
        """Return a viewer's relationships to these people, by user id; None is a stranger."""
        people = {p.user_id: p for p in profiles}
        if viewer is None or not people:
            return dict.fromkeys(people, STRANGER)
        laid = self._ties.find_between(viewer, list(people))
        follows = self._subscriptions.filter_followed(viewer, [p.feed_id for p in people.values()])
        return {
            user_id: Relationship(
                own=user_id == viewer,
                # The subscription may be in a cell where it couldn't be deleted yet.
                follows=profile.feed_id in follows and (viewer, RelationshipKind.ENDED, user_id) not in laid,
                # A public person has no pending requests.
                requested=any((viewer, kind, user_id) in laid for kind in _ASKED)
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

    def find_relationship(self, viewer: int | None, profile: Profile) -> Relationship:
        """Return a viewer's relationship to one person."""
        return self.find_relationships(viewer, [profile])[profile.user_id]

    def reread_relationships(self, viewer: int, profiles: Iterable[Profile]) -> dict[int, Relationship]:
        """Return a viewer's relationships, read again: for a check after a write, as others may write too."""
        with identity_map.bypass():
            return self.find_relationships(viewer, profiles)

    def find_visible_profiles(self, viewer: int | None, shares: Sequence[Share]) -> dict[int, Profile]:
        """Return the sharers' profiles by share id, for the shares that a viewer may see."""
        sharers = {s.user_id for s in shares if s.live}
        if viewer is not None and sharers:
            self.prefetch_people([*sharers, viewer])  # most callers need the viewer's own profile too
        profiles = self._profiles.find_many(list(sharers))
        ties = self.find_relationships(viewer, profiles.values())
        return {
            s.id: by
            for s in shares
            if s.live and (by := profiles.get(s.user_id)) and by.allows_view(s.audience, ties[s.user_id])
        }

    def can_see(self, viewer: int | None, share: Share) -> bool:
        """Return whether a viewer may see one share."""
        return share.id in self.find_visible_profiles(viewer, [share])

    def prefetch_followed(self, viewer: int) -> None:
        """Read a viewer's subscriptions to people in one query, before some of them are looked up."""
        if identity_map.is_active():
            self._subscriptions.find_people(viewer)

    def prefetch_sharers(self, viewer: int, share: Share) -> None:
        """Read the shares of the same entry that a viewer's article pane names, and all their sharers."""
        if identity_map.is_active():
            shares = self.find_followed_shares(viewer, share.of.entry_id)
            self.prefetch_people({s.user_id for s in (share, *shares)} | {viewer})

    def find_followed_shares(self, viewer: int, *origin_ids: int) -> list[Share]:
        """Return the shares of these entries by the viewer and by people whom they follow and don't mute."""
        feeds = [s.feed_id for s in exclude_muted(self._subscriptions.find_people(viewer))]
        return self._shares.find_among(origin_ids, feeds, viewer)

    def prefetch_people(self, user_ids: Iterable[int]) -> None:
        """Read these people in one query, before some of them are looked up."""
        if identity_map.is_active():
            self._profiles.find_many(list(user_ids))

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
        """Return the people with these names who may see a share, by the name as given.

        Also those of whom it isn't known, because their cell isn't responding; so ask again before you tell.
        """
        return {h: face for h, face in self._named(handles).items() if self._may_see(face.user_id, share)}

    def _may_see(self, viewer: int, share: Share) -> bool:
        try:
            return self.can_see(viewer, share)
        except CellError:
            return True

    def find_pages(self, handles: Sequence[str]) -> dict[str, str]:
        """Return the pages that these names lead to; the same for every viewer, to reveal no relationship."""
        return {h: face.handle for h, face in self._named(handles).items() if face.page}

    def _named(self, handles: Sequence[str]) -> dict[str, PersonSummary]:
        known = self._profiles.find_ids_by_name(handles) if handles else {}
        faces = self._profiles.find_summaries(list(set(known.values())))
        found = {h: faces.get(known.get(h.strip().casefold(), 0)) for h in handles}
        return {h: face for h, face in found.items() if face is not None}

    def find_visible_sharers(self, viewer: int | None, share_ids: Collection[int]) -> dict[int, Profile]:
        """Return the sharers' profiles by share id, for the shares that exist and that a viewer may see."""
        return self.find_visible_profiles(viewer, list(self._shares.find_many(list(share_ids)).values()))

    def find_hidden(self, viewer: int | None, share_ids: Collection[int]) -> set[int]:
        """Return which of these shares a viewer may not see."""
        return set(share_ids) - self.find_visible_sharers(viewer, share_ids).keys()

    def find_sharers(self, viewer: int | None, shares: Sequence[Share]) -> dict[int, Sharer]:
        """Return the sharers by share id, for the shares that a viewer may see."""
        found = self.find_visible_profiles(viewer, shares)
        return {s.id: build_sharer(s, found[s.id], html=True) for s in shares if s.id in found}

    def build_filter(self, viewer: int | None) -> VisibilityFilter:
        """Return a query filter for the shares that a viewer may see; it may let some hidden ones through."""
        if viewer is None:
            return VisibilityFilter()
        blocked = {
            *self._ties.find_targets(viewer, RelationshipKind.BLOCK, BLOCKS),
            *self._ties.find_initiators(viewer, RelationshipKind.BLOCK, BLOCKS),
        }
        follows = [s.feed_id for s in self._subscriptions.find_people(viewer)]
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
        profile.avatar,
        share.files,
    )
