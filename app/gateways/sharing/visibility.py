"""Who may see what of whom: the one place that decides it, for pages, feeds, chains and search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from app.errors import ForbiddenError, NotFoundError
from app.feeds.html import linkify
from app.mappers.sharing.profiles import ProfileMapper, TieMapper
from app.mappers.sharing.shares import ShareMapper, Sight
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.discussion.comments import Face
from app.models.sharing.sharing import STRANGER, Audience, Profile, Share, Sharer, Tie, TieKind

#: Blocks that counts take out.
BLOCKS = 1000


class Known:
    """What was read of shares and people for one answer, so that nothing is asked for twice.

    It lives as long as a request: what may be seen is exact each time, in every process.

    Attributes:
        follows: feeds of those whom the viewer follows, None: nobody has looked.
        shares, profiles: None for what there is not. seen: sharers by share, None: not for this viewer.
    """

    def __init__(self, follows: Collection[int] | None = None) -> None:
        self.follows = None if follows is None else frozenset(follows)
        self.shares: dict[int, Share | None] = {}
        self.profiles: dict[int, Profile | None] = {}
        self.ties: dict[int, Tie] = {}
        self.seen: dict[int, Profile | None] = {}


class SightGateway:
    """Decides by profile, tie and audience.

    Where a method takes ``known``, that is what was read before for the same viewer and answer; what it has
    to read itself it adds to that.
    """

    def __init__(
        self,
        profiles: ProfileMapper,
        ties: TieMapper,
        shares: ShareMapper,
        subscriptions: SubscriptionMapper,
    ) -> None:
        self._profiles, self._ties = profiles, ties
        self._shares, self._subscriptions = shares, subscriptions

    def ties(
        self, viewer: int | None, profiles: Iterable[Profile], known: Known | None = None
    ) -> dict[int, Tie]:
        """Return what a viewer (None: a stranger) is to these people, by person."""
        people = {p.user_id: p for p in profiles}
        if viewer is None or not people:
            return dict.fromkeys(people, STRANGER)
        known = known or Known()
        new = {i: p for i, p in people.items() if i not in known.ties}
        if new:
            known.ties.update(self._ties_of(viewer, new, known.follows))
        return {i: known.ties[i] for i in people}

    def _ties_of(
        self, viewer: int, people: dict[int, Profile], follows: Collection[int] | None
    ) -> dict[int, Tie]:
        laid = self._ties.between(viewer, list(people))
        if follows is None:
            mine = self._subscriptions.of_user(viewer, [p.feed_id for p in people.values()])
            follows = {s.feed_id for s in mine if s.person}
        return {
            user_id: Tie(
                own=user_id == viewer,
                follows=profile.feed_id in follows,
                # Of whom nobody has to ask, no answer is to be waited for.
                requested=(viewer, TieKind.REQUEST, user_id) in laid
                and profile.audience is not Audience.PUBLIC,
                muted=(viewer, TieKind.MUTE, user_id) in laid,
                blocked=bool({(viewer, TieKind.BLOCK, user_id), (user_id, TieKind.BLOCK, viewer)} & laid),
                blocks=(viewer, TieKind.BLOCK, user_id) in laid,
            )
            for user_id, profile in people.items()
        }

    def streamers(self, feed_ids: Sequence[int]) -> dict[int, Profile]:
        """Return whose streams these feeds are, by feed; what is nobody's is not in it."""
        owners = self._profiles.owners(feed_ids) if feed_ids else {}
        found = self._profiles.some(list(set(owners.values()))) if owners else {}
        return {f: found[owner] for f, owner in owners.items() if owner in found}

    def open_streams(self, viewer: int, feed_ids: Sequence[int]) -> list[int]:
        """Return those of these feeds that are the stream of somebody whose page a viewer may see."""
        found = {f: p for f, p in self.streamers(feed_ids).items() if p.feed_id == f}
        ties = self.ties(viewer, found.values()) if found else {}
        return [f for f, profile in found.items() if profile.has_page(ties[profile.user_id])]

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

    def tie(self, viewer: int | None, profile: Profile, known: Known | None = None) -> Tie:
        """Return what a viewer is to one person."""
        if known is not None:
            known.profiles[profile.user_id] = profile
        return self.ties(viewer, [profile], known)[profile.user_id]

    def seen(
        self, viewer: int | None, shares: Sequence[Share], known: Known | None = None
    ) -> dict[int, Profile]:
        """Return the sharers of those of these shares that a viewer may see, by share."""
        known = known or Known()
        if new := [s for s in shares if s.id not in known.seen]:
            profiles = self._people({s.user_id for s in new if s.live}, known)
            ties = self.ties(viewer, profiles.values(), known)
            for s in new:
                by = profiles.get(s.user_id) if s.live else None
                known.seen[s.id] = by if by and by.lets_see(s.audience, ties[s.user_id]) else None
        return {s.id: by for s in shares if (by := known.seen[s.id]) is not None}

    def _people(self, user_ids: Collection[int], known: Known) -> dict[int, Profile]:
        if new := [i for i in user_ids if i not in known.profiles]:
            known.profiles.update(dict.fromkeys(new) | self._profiles.some(new))
        return {i: profile for i in user_ids if (profile := known.profiles[i]) is not None}

    def sees(self, viewer: int | None, share: Share, known: Known | None = None) -> bool:
        """Return whether a viewer may see one share."""
        return share.id in self.seen(viewer, [share], known)

    def shares(self, share_ids: Collection[int], known: Known) -> dict[int, Share]:
        """Return those of these shares that there are, taken back or not, by id."""
        if new := [i for i in share_ids if i not in known.shares]:
            known.shares.update(dict.fromkeys(new) | self._shares.some(new))
        return {i: share for i in share_ids if (share := known.shares[i]) is not None}

    def among(self, origin_ids: Collection[int], feeds: Collection[int], known: Known) -> list[Share]:
        """Return the shares of these entries in these feeds, whoever may see them, the oldest first."""
        found = self._shares.among(list(origin_ids), list(feeds)) if origin_ids and feeds else []
        known.shares.update({s.id: s for s in found})
        return found

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

    def hidden(self, viewer: int | None, share_ids: Collection[int], known: Known | None = None) -> set[int]:
        """Return those of these shares that a viewer may not see."""
        known = known or Known()
        return set(share_ids) - set(self.seen(viewer, list(self.shares(share_ids, known).values()), known))

    def feed_of(self, viewer: int, entry_id: int) -> int | None:
        """Return the feed of an entry that somebody shares with this viewer; None: nobody does."""
        share = self._shares.get(entry_id)
        return share.feed_id if share and self.sees(viewer, share) else None

    def sharers(
        self, viewer: int | None, shares: Sequence[Share], known: Known | None = None
    ) -> dict[int, Sharer]:
        """Return who shared, as a viewer sees them, by share; what he may not see is left out."""
        found = self.seen(viewer, shares, known)
        return {s.id: sharer(s, found[s.id], html=True) for s in shares if s.id in found}

    def sight(self, viewer: int | None, known: Known | None = None) -> Sight:
        """Return what shares of a chain a viewer may see, as far as it can be asked of the store."""
        if viewer is None:
            return Sight()
        blocked = {
            *self._ties.by(viewer, TieKind.BLOCK, BLOCKS),
            *self._ties.about(viewer, TieKind.BLOCK, BLOCKS),
        }
        follows = [s.feed_id for s in self._subscriptions.of_people(viewer)]
        if known is not None:
            known.follows = frozenset(follows)
        return Sight(viewer, follows, list(blocked))


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
        linkify.html(share.note) if html and share.note else "",
    )
