"""Who may see what of whom: the one place that decides it, for pages, feeds, chains and search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from app.errors import ForbiddenError, NotFoundError
from app.feeds import typed
from app.mappers.profiles import ProfileMapper, TieMapper
from app.mappers.shares import ShareMapper, Sight
from app.mappers.subscriptions import SubscriptionMapper
from app.models.sharing import STRANGER, Audience, Profile, Share, Sharer, Tie, TieKind
from app.models.talk import Face

#: Blocks that counts take out.
BLOCKS = 1000


class SightGateway:
    """Decides by profile, tie and audience."""

    def __init__(
        self,
        profiles: ProfileMapper,
        ties: TieMapper,
        shares: ShareMapper,
        subscriptions: SubscriptionMapper,
    ) -> None:
        self._profiles, self._ties = profiles, ties
        self._shares, self._subscriptions = shares, subscriptions

    def ties(self, viewer: int | None, profiles: Iterable[Profile]) -> dict[int, Tie]:
        """Return what a viewer (None: a stranger) is to these people, by person."""
        people = {p.user_id: p for p in profiles}
        if viewer is None or not people:
            return dict.fromkeys(people, STRANGER)
        laid = self._ties.between(viewer, list(people))
        mine = self._subscriptions.of_user(viewer, [p.feed_id for p in people.values()])
        follows = {s.feed_id: s for s in mine if s.person}
        return {
            user_id: Tie(
                own=user_id == viewer,
                follows=profile.feed_id in follows,
                requested=(viewer, TieKind.REQUEST, user_id) in laid,
                muted=(viewer, TieKind.MUTE, user_id) in laid,
                blocked=bool({(viewer, TieKind.BLOCK, user_id), (user_id, TieKind.BLOCK, viewer)} & laid),
                blocks=(viewer, TieKind.BLOCK, user_id) in laid,
            )
            for user_id, profile in people.items()
        }

    def barred(self, viewer: int, feed_id: int) -> bool:
        """Return whether a feed is the stream of somebody with whom a block stands between."""
        profile = self.streamer(feed_id)
        return profile is not None and self.tie(viewer, profile).blocked

    def streamer(self, feed_id: int) -> Profile | None:
        """Return whose stream a feed is, None: nobody's."""
        owner = self._profiles.owner(feed_id)
        return self._profiles.get(owner) if owner is not None else None

    def may_follow(self, whom: Profile, tie: Tie) -> bool:
        """Return whether one of this tie follows somebody without asking; False: he has to ask.

        Raises:
            NotFoundError: there is nobody to follow, as far as he may know.
            ForbiddenError: it is himself, or somebody he blocks.
        """
        if tie.own:
            raise ForbiddenError("This is you. What you share is under “My shares”.")
        if whom.hidden or whom.audience is Audience.PRIVATE or (tie.blocked and not tie.blocks):
            raise NotFoundError(user_id=whom.user_id)
        if tie.blocks:
            raise ForbiddenError("You block this person. Unblock first.")
        return tie.follows or whom.audience is Audience.PUBLIC

    def tie(self, viewer: int | None, profile: Profile) -> Tie:
        """Return what a viewer is to one person."""
        return self.ties(viewer, [profile])[profile.user_id]

    def seen(self, viewer: int | None, shares: Sequence[Share]) -> dict[int, Profile]:
        """Return the sharers of those of these shares that a viewer may see, by share."""
        profiles = self._profiles.some(list({s.user_id for s in shares})) if shares else {}
        ties = self.ties(viewer, profiles.values())
        return {
            s.id: profiles[s.user_id]
            for s in shares
            if s.live and s.user_id in profiles and profiles[s.user_id].lets_see(s.audience, ties[s.user_id])
        }

    def sees(self, viewer: int | None, share: Share) -> bool:
        """Return whether a viewer may see one share."""
        return share.id in self.seen(viewer, [share])

    def heard(self, viewer: int | None, user_ids: Iterable[int]) -> dict[int, Face]:
        """Return those of these people whose words a viewer gets, as he sees them.

        Not those who were suspended, whom he mutes, or where one of the two blocks the other.
        """
        faces = self._profiles.faces(list(set(user_ids)))
        if viewer is None or not faces:
            return faces
        shunned = {
            whom if who == viewer else who
            for who, kind, whom in self._ties.between(viewer, list(faces))
            if kind is TieKind.BLOCK or (kind is TieKind.MUTE and who == viewer)
        }
        return {i: face for i, face in faces.items() if i not in shunned}

    def addressed(self, handles: Sequence[str], share: Share) -> dict[str, Face]:
        """Return who is meant by these names and may see a share, by the name as it was given."""
        return {h: face for h, face in self._named(handles).items() if self.sees(face.user_id, share)}

    def pages(self, handles: Sequence[str]) -> dict[str, str]:
        """Return whose pages these names lead to, for everybody the same: it tells of no tie."""
        return {h: face.handle for h, face in self._named(handles).items() if face.page}

    def _named(self, handles: Sequence[str]) -> dict[str, Face]:
        known = self._profiles.known_as(handles) if handles else {}
        faces = self._profiles.faces(list(set(known.values())))
        found = {h: faces.get(known.get(h.strip().casefold(), 0)) for h in handles}
        return {h: face for h, face in found.items() if face is not None}

    def hidden(self, viewer: int | None, share_ids: Sequence[int]) -> set[int]:
        """Return those of these shares that a viewer may not see."""
        if not share_ids:
            return set()
        return set(share_ids) - set(self.seen(viewer, list(self._shares.some(share_ids).values())))

    def feed_of(self, viewer: int, entry_id: int) -> int | None:
        """Return the feed of an entry that somebody shares with this viewer; None: nobody does."""
        share = self._shares.get(entry_id)
        return share.feed_id if share and self.sees(viewer, share) else None

    def sharers(self, viewer: int | None, shares: Sequence[Share]) -> dict[int, Sharer]:
        """Return who shared, as a viewer sees them, by share; what he may not see is left out."""
        found = self.seen(viewer, shares)
        return {s.id: sharer(s, found[s.id], html=True) for s in shares if s.id in found}

    def sight(self, viewer: int | None) -> Sight:
        """Return what shares of a chain a viewer may see, as far as it can be asked of the store."""
        if viewer is None:
            return Sight()
        blocked = {
            *self._ties.by(viewer, TieKind.BLOCK, BLOCKS),
            *self._ties.about(viewer, TieKind.BLOCK, BLOCKS),
        }
        return Sight(viewer, [s.feed_id for s in self._subscriptions.of_people(viewer)], list(blocked))

    def visible(self, viewer: int | None, origin_ids: Sequence[int], feeds: Sequence[int]) -> list[Share]:
        """Return the shares of these entries in these feeds that a viewer may see, the oldest first."""
        found = self._shares.among(origin_ids, feeds) if origin_ids and feeds else []
        seen: Mapping[int, Profile] = self.seen(viewer, found)
        return [s for s in found if s.id in seen]


def sharer(share: Share, profile: Profile, *, html: bool = False) -> Sharer:
    """Return who shared, for those who may see it; ``html``: with the note's links, which takes time."""
    return Sharer(
        share.id,
        profile.feed_id,
        profile.handle,
        profile.name,
        share.note,
        share.at,
        share.edited is not None,
        share.audience,
        typed.html(share.note) if html and share.note else "",
    )
