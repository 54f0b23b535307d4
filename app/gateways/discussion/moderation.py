"""Reports and the things they are about, for administrators, regardless of other visibility rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.errors import NotFoundError
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.accounts.users import UserMapper
from app.mappers.discussion.abuse_reports import ReportMapper
from app.mappers.discussion.comments import CommentMapper
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.sharing.profiles import ProfileMapper
from app.mappers.sharing.shares import ShareMapper
from app.models.accounts.user import User
from app.models.discussion.comments import Comment
from app.models.discussion.moderation import Case, Report, ReportedItem, ReportSubject, Standing
from app.models.reading.entry import Entry
from app.models.sharing.pages import ShareCount
from app.models.sharing.sharing import Audience, Profile, Share

#: Shares of a reported person are counted up to this number.
COUNTED = 1000


class ModerationGateway:
    """Stores reports, and joins them with the reported things."""

    def __init__(
        self,
        *,
        reports: ReportMapper,
        profiles: ProfileMapper,
        shares: ShareMapper,
        comments: CommentMapper,
        entries: EntryMapper,
        users: UserMapper,
        feeds: FeedMapper,
        visibility: VisibilityGateway,
    ) -> None:
        self._reports, self._profiles, self._shares = reports, profiles, shares
        self._comments, self._entries, self._users = comments, entries, users
        self._sight, self._feeds = visibility, feeds

    def add(self, report: Report) -> None:
        """Store a report.

        Raises:
            ExistsError: this person has an open report about this thing.
        """
        self._reports.add(report)

    def close(self, accused_id: int, about: ReportSubject | None = None, thing: int = 0) -> int:
        """Delete the reports about one thing of a person, or about all; return how many there were."""
        return self._reports.close(accused_id, about, thing)

    def get_share(self, share_id: int) -> Share:
        """Return a share, regardless of its audience.

        Raises:
            NotFoundError: there is no such share.
        """
        found = self._shares.find(share_id)
        if found is None:
            raise NotFoundError(share_id=share_id)
        return found

    def get_accused(self, about: ReportSubject, thing: int) -> int:
        """Return the person whom open reports about a thing accuse; the thing itself may be gone.

        Raises:
            NotFoundError: there are no such reports.
        """
        found = self._reports.find_accused(about, thing)
        if found is None:
            raise NotFoundError(thing=thing)
        return found

    def get_user(self, user_id: int) -> User:
        """Return an account.

        Raises:
            NotFoundError: there is no such account.
        """
        found = self._users.find(user_id)
        if found is None:
            raise NotFoundError(user_id=user_id)
        return found

    def get_comment(self, comment_id: int) -> Comment:
        """Return a comment, regardless of its share's audience.

        Raises:
            NotFoundError: there is no such comment, or it was removed.
        """
        found = self._comments.find(comment_id)
        if found is None or found.removed:
            raise NotFoundError(comment_id=comment_id)
        return found

    def list_cases(self, limit: int) -> tuple[list[Case], bool]:
        """Return the open reports, grouped by thing, longest waiting first; and whether there are more.

        Things of deleted accounts are left out.
        """
        reports = self._reports.list_reports(limit + 1)
        by_thing: dict[tuple[ReportSubject, int], list[Report]] = {}
        for report in reports[:limit]:
            by_thing.setdefault((report.about, report.thing_id), []).append(report)
        names = self._users.find_names(list({i for r in reports for i in (r.user_id, r.accused_id)}))
        profiles = self._authors(list({r.accused_id for r in reports}), names)
        shares = self._shares.find_many([thing for about, thing in by_thing if about is ReportSubject.SHARE])
        said = self._comments.find_many(
            [thing for about, thing in by_thing if about is ReportSubject.COMMENT]
        )
        standings = self._find_standings(profiles)
        cases = []
        for (about, thing), found in by_thing.items():
            profile, standing = profiles.get(found[0].accused_id), standings.get(found[0].accused_id)
            if profile is None or standing is None:
                continue
            match about:
                case ReportSubject.PERSON:
                    shown = describe_person(profile)
                case ReportSubject.SHARE:
                    shown = self.describe_share(profile, shares.get(thing), thing)
                case ReportSubject.COMMENT:
                    shown = self.describe_comment(profile, said.get(thing), thing)
            cases.append(Case(shown, tuple(reversed(found)), names, standing))
        return cases, len(reports) > limit

    def _find_standings(self, profiles: Mapping[int, Profile]) -> dict[int, Standing]:
        followers = self._feeds.count_subscribers([one.feed_id for one in profiles.values() if one.feed_id])
        found = {}
        for user_id, joined in self._users.find_creation_times(list(profiles)).items():
            shares = self._shares.count_stream(user_id, list(Audience), COUNTED + 1)
            count = ShareCount(min(shares, COUNTED), shares > COUNTED)
            found[user_id] = Standing(joined, count, followers.get(profiles[user_id].feed_id, 0))
        return found

    def get_author(self, user_id: int) -> Profile:
        """Return the profile of an author, or a stand-in for one who has no profile.

        Raises:
            NotFoundError: the account is gone.
        """
        found = self._authors([user_id], self._users.find_names([user_id])).get(user_id)
        if found is None:
            raise NotFoundError(user_id=user_id)
        return found

    def _authors(self, user_ids: Sequence[int], names: Mapping[int, str]) -> dict[int, Profile]:
        """Return profiles by user id, with stand-ins for people who only comment."""
        none = {
            i: Profile(user_id=i, feed_id=0, private_feed_id=0, handle=names[i], audience=Audience.PRIVATE)
            for i in user_ids
            if i in names
        }
        return {**none, **self._profiles.find_many(user_ids)}

    def describe_comment(
        self, author: Profile, comment: Comment | None, comment_id: int, viewer: int | None = None
    ) -> ReportedItem:
        """Return the text and the place of a reported comment; a removed comment has neither.

        Args:
            viewer: as for :meth:`describe_share`.
        """
        if comment is None or comment.removed:
            return ReportedItem(about=ReportSubject.COMMENT, thing=comment_id, profile=author, live=False)
        share = self._shares.find(comment.share_id)
        sharer = self._profiles.find(share.user_id) if share else None
        root = self._root(share, viewer) if share else None
        return ReportedItem(
            about=ReportSubject.COMMENT,
            thing=comment_id,
            profile=author,
            title=root.title if root else "",
            url=(root.url or "") if root else "",
            note=comment.text,
            audience=share.audience.narrow_to(sharer.audience) if share and sharer else Audience.PRIVATE,
            share_id=share.id if share and share.live else 0,
            sharer=sharer.name if sharer else "",
            at=comment.at,
        )

    def describe_share(
        self, profile: Profile, share: Share | None, share_id: int, viewer: int | None = None
    ) -> ReportedItem:
        """Return the content of a reported share; a removed share has none.

        Args:
            viewer: the person about to report, who sees no more than elsewhere; None: an administrator.
        """
        if share is None or not share.live:
            return ReportedItem(about=ReportSubject.SHARE, thing=share_id, profile=profile, live=False)
        root = self._root(share, viewer)
        return ReportedItem(
            about=ReportSubject.SHARE,
            thing=share_id,
            profile=profile,
            title=root.title if root else "",
            url=(root.url or "") if root else "",
            excerpt=root.excerpt if root and not share.is_post else "",
            image=(root.image or "") if root else "",
            entry_id=root.id if root else 0,
            note=share.note,
            audience=share.audience.narrow_to(profile.audience),
            at=share.at,
        )

    def _root(self, share: Share, viewer: int | None) -> Entry | None:
        """Return the shared entry; None: it's gone, or a post that the viewer may not see."""
        root = self._entries.find(share.of.entry_id, [share.of.feed_id])
        if root is None or root.of is None or viewer is None:
            return root
        return None if self._sight.find_hidden(viewer, [root.id]) else root

    def find_profiles(self, user_ids: Sequence[int]) -> list[Profile]:
        """Return these profiles, in this order."""
        found = self._profiles.find_many(user_ids)
        return [found[u] for u in user_ids if u in found]


def describe_person(profile: Profile) -> ReportedItem:
    """Return the profile text of a reported person."""
    return ReportedItem(
        about=ReportSubject.PERSON,
        thing=profile.user_id,
        profile=profile,
        title=profile.name,
        note="\n".join((profile.bio, *profile.links)).strip(),
        audience=profile.audience,
    )
