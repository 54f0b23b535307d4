"""Reports and what they are about. What is read here is for administrators, whoever else may see it."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import NotFoundError
from app.mappers.entries import EntryMapper
from app.mappers.profiles import ProfileMapper
from app.mappers.reports import ReportMapper
from app.mappers.shares import ShareMapper
from app.mappers.users import UserMapper
from app.models.moderation import About, Case, Report, Reported
from app.models.sharing import Profile, Share


class ModerationGateway:
    """Keeps reports, and joins them with what they are about."""

    def __init__(
        self,
        reports: ReportMapper,
        profiles: ProfileMapper,
        shares: ShareMapper,
        entries: EntryMapper,
        users: UserMapper,
    ) -> None:
        self._reports, self._profiles, self._shares = reports, profiles, shares
        self._entries, self._users = entries, users

    def add(self, report: Report) -> None:
        """Store a report.

        Raises:
            ExistsError: this person has reported this, and it is not decided yet.
        """
        self._reports.add(report)

    def close(self, whom: int, about: About | None = None, thing: int = 0) -> int:
        """Forget the reports about one thing of a person, or about all of his; return how many."""
        return self._reports.close(whom, about, thing)

    def share(self, share_id: int) -> Share:
        """Return a share, whoever may see it.

        Raises:
            NotFoundError: there is none.
        """
        found = self._shares.get(share_id)
        if found is None:
            raise NotFoundError(share_id=share_id)
        return found

    def cases(self, limit: int) -> tuple[list[Case], bool]:
        """Return the open reports by what they are about, the longest waiting first; and if there are more.

        What is gone with its owner's account is not in it.
        """
        reports = self._reports.all(limit + 1)
        by_thing: dict[tuple[About, int], list[Report]] = {}
        for report in reports[:limit]:
            by_thing.setdefault((report.about, report.thing), []).append(report)
        profiles = self._profiles.some(list({r.whom for r in reports}))
        shares = self._shares.some([thing for about, thing in by_thing if about is About.SHARE])
        names = self._users.names(list({r.user_id for r in reports}))
        cases = []
        for (about, thing), found in by_thing.items():
            profile = profiles.get(found[0].whom)
            if profile is not None:
                is_person = about is About.PERSON
                shown = person(profile) if is_person else self.shown(profile, shares.get(thing), thing)
                cases.append(Case(shown, tuple(reversed(found)), names))
        return cases, len(reports) > limit

    def shown(self, profile: Profile, share: Share | None, share_id: int) -> Reported:
        """Return what a share says; of one that was taken back there is nothing left."""
        if share is None or not share.live:
            return Reported(about=About.SHARE, thing=share_id, profile=profile, live=False)
        root = self._entries.find(share.of.entry_id, [share.of.feed_id])
        return Reported(
            about=About.SHARE,
            thing=share_id,
            profile=profile,
            title=root.title if root else "",
            url=(root.url or "") if root else "",
            excerpt=root.excerpt if root and not share.is_post else "",
            note=share.note,
            audience=share.audience,
        )

    def suspended(self, user_ids: Sequence[int]) -> list[Profile]:
        """Return these profiles, in this order."""
        found = self._profiles.some(user_ids)
        return [found[u] for u in user_ids if u in found]


def person(profile: Profile) -> Reported:
    """Return what a person says of himself."""
    return Reported(
        about=About.PERSON,
        thing=profile.user_id,
        profile=profile,
        title=profile.name,
        note="\n".join((profile.bio, *profile.links)).strip(),
        audience=profile.audience,
    )
