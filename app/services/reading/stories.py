"""Stories: how a person wants copies of one article in several feeds to be shown and marked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app import logs
from app.errors import NotFoundError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.grouping import GroupingGateway
from app.gateways.reading.stories import StoryGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.entry import EntryKey
from app.models.reading.story import Story, StoryChoice
from app.runtime import identity_map
from app.services.access import require_permission
from app.services.validation import check_id

log = logs.get(__name__)


class StoryService:
    """Finds copies of entries for their readers, and keeps some apart."""

    def __init__(
        self,
        stories: StoryGateway,
        grouping: GroupingGateway,
        entries: EntryGateway,
        accounts: AccountGateway,
        subscriptions: SubscriptionGateway,
    ) -> None:
        self._stories, self._grouping = stories, grouping
        self._entries, self._accounts = entries, accounts
        self._subscriptions = subscriptions

    def get_choice(self, user_id: int) -> StoryChoice:
        """Return how a user wants copies to be shown and marked."""
        user = self._accounts.find_user(user_id)
        if user is None:
            return StoryChoice()
        mine = user.preferences
        apart, hidden = frozenset(mine.stories_apart), frozenset(mine.stories_hidden)
        return StoryChoice(mine.stories, apart, hidden, mine.stories_since)

    def find_hidden(self, user_id: int) -> frozenset[int]:
        """Return the ids of the stories that a user hides now, even if this request has read them before."""
        with identity_map.bypass():
            return self.get_choice(user_id).hidden

    def find_story(self, entry_id: int, choice: StoryChoice) -> Story | None:
        """Return the story of an entry, also one whose copies the user keeps apart, or None."""
        return self._stories.find_copies([entry_id]).get(entry_id) if choice.is_on else None

    def has_other_feeds(self, actor: Actor, feed_ids: Collection[int]) -> bool:
        """Return whether the actor wants marks of copies, and has other feeds besides these."""
        require_permission(actor, Permission.ENTRY_MARK)
        if not (feed_ids and self.get_choice(actor.user_id).is_on):
            return False
        return any(feed_id not in feed_ids for feed_id in self._subscriptions.find_feed_ids(actor.user_id))

    def find_lasting_id(self, actor: Actor, entry_id: int) -> int:
        """Return the id that the story of an entry has or will have; 0: the actor keeps its copies apart.

        Raises:
            NotFoundError: the actor may not see the entry.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        root, choice = self._entries.get_key(actor.user_id, entry_id), self.get_choice(actor.user_id)
        story = self._stories.find_copies([root.id]).get(root.id)
        story_id = story.id if story else root.id  # a story has the id of its first entry
        return story_id if choice.is_on and story_id not in choice.apart else 0

    def find_copies(self, actor: Actor, keys: Sequence[EntryKey]) -> list[EntryKey]:
        """Return the copies of entries in the actor's other feeds, and the shares of all of them."""
        require_permission(actor, Permission.ENTRY_MARK)
        choice = self.get_choice(actor.user_id)
        if not (keys and choice.is_on):
            return []
        return self._grouping.find_siblings(actor.user_id, keys, choice, is_social=actor.social)

    def find_copy_ids(self, actor: Actor, entry_ids: Sequence[int]) -> list[int]:
        """Return the ids of the copies of entries that the actor may see, but not of these entries.

        Copies in feeds that the actor has left are included: their marks can still be removed.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        choice = self.get_choice(actor.user_id)
        found = self._stories.find(entry_ids, choice)
        copies = dict.fromkeys(m.id for story in found.values() for m in story.members)
        return [i for i in copies if i not in set(entry_ids)]

    def set_apart(self, actor: Actor, entry_id: int, apart: bool) -> None:
        """Show the copies of an entry apart in lists, or in one row again. Only their display changes.

        Raises:
            NotFoundError: the actor may not see the entry, or it has no copies.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        key = self._entries.get_key(actor.user_id, check_id(entry_id, "entry_id"))
        story = self._stories.find_copies([key.id]).get(key.id)
        if story is None:
            raise NotFoundError("This entry has no copies in other feeds.", entry_id=entry_id)
        # In one update, because two tabs may choose at once.
        self._accounts.store_story_apart(actor.user_id, story.id, is_apart=apart)
        log.info("story_set_apart", user_id=actor.user_id, story_id=story.id, apart=apart)
