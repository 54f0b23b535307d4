"""What the tree beside every page shows: feeds, folders, tags and saved searches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from app.models.reading.stream import Tree
from app.models.reading.tag import SavedSearch, Tag
from app.web.context import get_services, get_user


@dataclasses.dataclass(frozen=True, slots=True)
class Sidebar:
    """The content of ``parts/side.html``."""

    tree: Tree
    tags: Sequence[Tag]
    searches: Sequence[SavedSearch]

    @property
    def has_feeds(self) -> bool:
        return has_feeds(self.tree)


def load_sidebar() -> Sidebar:
    """Return the sidebar of the person who is logged in, for a page whose view hasn't read it."""
    actor, services = get_user().actor, get_services()
    services.page_frame.prefetch_stream(actor)
    return Sidebar(
        services.reading.get_tree(actor), services.tags.list_tags(actor), services.tags.list_searches(actor)
    )


def has_feeds(tree: Tree) -> bool:
    """Return whether the user has any subscription."""
    return bool(tree.feeds or any(f.feeds or f.folders for f in tree.folders))
