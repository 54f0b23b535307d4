"""Reports and what they are about. What is read here is for administrators, whoever else may see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.errors import NotFoundError
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.accounts.users import UserMapper
from app.mappers.discussion.abuse_reports import ReportMapper
from app.mappers.discussion.comments import CommentMapper
from app.mappers.feeds.entries import EntryMapper
from app.mappers.sharing.profiles import ProfileMapper
from app.mappers.sharing.shares import ShareMapper
from app.models.accounts.user import User
from app.models.discussion.comments import Comment
from app.models.discussion.moderation import Case, Report, ReportedItem, ReportSubject
from app.models.reading.entry import Entry
from app.models.sharing.sharing import Audience, Profile, Share


class ModerationGateway:
    """Keeps reports, and joins them with what they are about."""

    def __init__(
        self,
        reports: ReportMapper,
        profiles: ProfileMapper,
        shares: ShareMapper,
        comments: CommentMapper,
        entries: EntryMapper,
        users: UserMapper,
        visibility: VisibilityGateway,
    ) -> None:
        self._reports, self._profiles, self._shares = reports, profiles, shares
        self._comments, self._entries, self._users = comments, entries, users
        self._sight = visibility

    def add(self, report: Report) -> None:
        """Store a report.

        Raises:
            ExistsError: this person has reported this, and it is not decided yet.
        """
        self._reports.add(report)

    def close(self, accused_id: int, about: ReportSubject | None = None, thing: int = 0) -> int:
        """Forget the reports about one thing of a person, or about all of his; return how many."""
        return self._reports.close(accused_id, about, thing)

    def get_share(self, share_id: int) -> Share:
        """Return a share, whoever may see it.

        Raises:
            NotFoundError: there is none.
        """
        found = self._shares.find(share_id)
        if found is None:
            raise NotFoundError(share_id=share_id)
        return found

    def get_accused(self, about: ReportSubject, thing: int) -> int:
        """Return whom open reports about something accuse; the thing itself may be gone.

        Raises:
            NotFoundError: there are none.
        """
        found = self._reports.find_accused(about, thing)
        if found is None:
            raise NotFoundError(thing=thing)
        return found

    def get_user(self, user_id: int) -> User:
        """Return an account.

        Raises:
            NotFoundError: there is none.
        """
        found = self._users.find(user_id)
        if found is None:
            raise NotFoundError(user_id=user_id)
        return found

    def get_comment(self, comment_id: int) -> Comment:
        """Return a comment, whoever may see it.

        Raises:
            NotFoundError: there is none, or it was removed.
        """
        found = self._comments.find(comment_id)
        if found is None or found.removed:
            raise NotFoundError(comment_id=comment_id)
        return found

    def list_cases(self, limit: int) -> tuple[list[Case], bool]:
        """Return the open reports by what they are about, the longest waiting first; and if there are more.

        What is gone with its owner's account is not in it.
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
        cases = []
        for (about, thing), found in by_thing.items():
            profile = profiles.get(found[0].accused_id)
            if profile is None:
                continue
            match about:
                case ReportSubject.PERSON:
                    shown = describe_person(profile)
                case ReportSubject.SHARE:
                    shown = self.describe_share(profile, shares.get(thing), thing)
                case ReportSubject.COMMENT:
                    shown = self.describe_comment(profile, said.get(thing), thing)
            cases.append(Case(shown, tuple(reversed(found)), names))
        return cases, len(reports) > limit

    def get_author(self, user_id: int) -> Profile:
        """Return the profile of who wrote something, or what stands for one who shares nothing.

        Raises:
            NotFoundError: the account is gone.
        """
        found = self._authors([user_id], self._users.find_names([user_id])).get(user_id)
        if found is None:
            raise NotFoundError(user_id=user_id)
        return found

    def _authors(self, user_ids: Sequence[int], names: Mapping[int, str]) -> dict[int, Profile]:
        """Return profiles by person; who comments need not have one."""
        none = {
            i: Profile(user_id=i, feed_id=0, private_feed_id=0, handle=names[i], audience=Audience.PRIVATE)
            for i in user_ids
            if i in names
        }
        return {**none, **self._profiles.find_many(user_ids)}

    def describe_comment(
        self, author: Profile, comment: Comment | None, comment_id: int, viewer: int | None = None
    ) -> ReportedItem:
        """Return what a comment says, and where it stands; of one that was removed there is nothing left.

        Args:
            viewer: as for :meth:`shown`.
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
        )

    def describe_share(
        self, profile: Profile, share: Share | None, share_id: int, viewer: int | None = None
    ) -> ReportedItem:
        """Return what a share says; of one that was taken back there is nothing left.

        Args:
            viewer: who is about to report it, and sees no more than anywhere else; None: an administrator.
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
            note=share.note,
            audience=share.audience.narrow_to(profile.audience),
        )

    def _root(self, share: Share, viewer: int | None) -> Entry | None:
        """Return what is shared, None: it is gone, or a post that is not for this viewer."""
        root = self._entries.find(share.of.entry_id, [share.of.feed_id])
        if root is None or root.of is None or viewer is None:
            return root
        return None if self._sight.find_hidden(viewer, [root.id]) else root

    def find_profiles(self, user_ids: Sequence[int]) -> list[Profile]:
        """Return these profiles, in this order."""
        found = self._profiles.find_many(user_ids)
        return [found[u] for u in user_ids if u in found]


def describe_person(profile: Profile) -> ReportedItem:
    """Return what a person says of himself."""
    return ReportedItem(
        about=ReportSubject.PERSON,
        thing=profile.user_id,
        profile=profile,
        title=profile.name,
        note="\n".join((profile.bio, *profile.links)).strip(),
        audience=profile.audience,
    )
