"""Public views of shared streams: people's pages, single shares, chains and feeds."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Sequence
from urllib.parse import unquote

from app.errors import NotFoundError
from app.gateways.sharing.chains import ChainGateway
from app.gateways.sharing.pages import SharedGateway
from app.models.accounts.actor import Actor, Permission
from app.models.sharing.hub import Document
from app.models.sharing.pages import (
    ChainView,
    FeedDocument,
    FeedFormat,
    ShareCount,
    SharedItem,
    SharedPart,
)
from app.models.sharing.sharing import Share
from app.services.access import require_permission
from app.services.sharing.following import FollowingService, Person
from app.services.sharing.sharing import CURSOR_MAX
from app.services.validation import check_id, check_text

#: File names at the end of feed addresses.
FILES = {FeedFormat.ATOM: "atom.xml", FeedFormat.JSON: "feed.json"}
TYPES = {
    FeedFormat.ATOM: "application/atom+xml; charset=utf-8",
    FeedFormat.JSON: "application/feed+json; charset=utf-8",
}


@dataclasses.dataclass(frozen=True, slots=True)
class PersonPage:
    """A person's page; ``bio`` is HTML, ``count`` the number of shares visible to the viewer."""

    person: Person
    bio: str
    count: ShareCount
    part: SharedPart


class SharedService:
    """Reads what people share; ``actor`` None is a stranger, and no permission is needed."""

    def __init__(self, shared: SharedGateway, chains: ChainGateway, following: FollowingService) -> None:
        self._shared, self._chains, self._following = shared, chains, following

    def get_person_page(self, actor: Actor | None, handle: str, before: int | None = None) -> PersonPage:
        """Return a page of a person's stream.

        Args:
            handle: the person's name, in any case.
            before: the share after which the page starts; None: the first page.

        Raises:
            NotFoundError: there is no such person, or the viewer may not see their page.
        """
        person = self._following.resolve_person(actor, handle)
        after = None if before is None else check_id(before, "before")
        viewer = actor.user_id if actor else None
        return PersonPage(
            person,
            self._shared.render_bio(person.profile),
            self._shared.count_shares(viewer, person.profile),
            self._shared.list_shares(viewer, person.profile, after),
        )

    def count_reshares(self, actor: Actor, shares: Sequence[Share]) -> dict[int, ShareCount]:
        """Return the number of public re-shares of each share by id."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._shared.count_reshares(shares)

    def get_share(self, actor: Actor | None, handle: str, share_id: int) -> tuple[Person, SharedItem]:
        """Return one share of a person, with its text.

        Raises:
            NotFoundError: the person has no such share, or the viewer may not see it.
        """
        return self._share(actor, handle, share_id)

    def _share(self, actor: Actor | None, handle: str, share_id: int) -> tuple[Person, SharedItem]:
        person = self._following.resolve_person(actor, handle)
        viewer = actor.user_id if actor else None
        return person, self._shared.get_share(viewer, person.profile, check_id(share_id, "share"))

    def get_chain(
        self, actor: Actor | None, handle: str, share_id: int, cursor: str | None = None
    ) -> tuple[Person, ChainView]:
        """Return a page of the tree of all shares of the entry that a share is of.

        Raises:
            NotFoundError: as for :meth:`get_share`.
            InvalidError: the cursor is invalid.
        """
        person, item = self._share(actor, handle, share_id)
        after = None if cursor is None else check_text(cursor, "cursor", limit=CURSOR_MAX)
        page = self._chains.list_chain(actor.user_id if actor else None, item.share.of, after)
        notes = self._shared.render_notes([n.by for n in page.nodes if n.by])
        return person, ChainView(item=item, page=page, notes=notes)

    def build_feed(
        self, handle: str, form: FeedFormat, etags: Collection[str] = (), since: dt.datetime | None = None
    ) -> FeedDocument:
        """Return the feed document of the public part of a stream.

        Args:
            etags: the client's entity tags.
            since: the time of the client's copy, if the client has no tag. The result has no body if the copy
                is current.

        Raises:
            NotFoundError: there is no such person, or their stream isn't public.
        """
        return self._shared.build_feed(
            self._following.resolve_person(None, handle).profile, form, etags, since
        )

    @property
    def hub(self) -> str | None:
        """The address of this server's hub; None: there is no hub."""
        return self._shared.hub

    def find_document(self, topic: str) -> Document | None:
        """Return the public document at the address of one of our feeds, or None if there is none."""
        start, _, end = topic.rpartition("/")
        form = next((f for f, file in FILES.items() if file == end), None)
        if form is None:
            return None
        try:
            # Only by the current name, because a topic has a single address.
            person = self._following.get_person(None, unquote(start.rpartition("@")[2]))
            found = self._shared.build_feed(person.profile, form, (), None)
        except NotFoundError:
            return None
        return Document(found.body or b"", TYPES[form])
