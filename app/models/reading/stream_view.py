"""The view of one person on one stream: layout, density, order, filter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from app.errors import InvalidError
from app.models.accounts.preferences import Preferences, check

FIELDS = ("view", "density", "sort", "show")
#: Orders that a stream may have, but not all streams.
SORTS = frozenset({"shortest", "popular", "relevance"})
PANES, LIST, EXPANDED = "panes", "list", "expanded"


@dataclasses.dataclass(frozen=True, slots=True)
class StreamView:
    """The view of one stream; values as in :class:`app.models.accounts.preferences.Preferences`.

    Full texts need a column of their own, so ``expanded`` is a view and a density at once.
    """

    view: str
    density: str
    sort: str
    show: str

    @classmethod
    def resolve(cls, preferences: Preferences, *overrides: Mapping[str, str]) -> StreamView:
        """Merge a person's preferences with overrides, the strongest last."""
        found = merge_settings(preferences, *overrides)
        if EXPANDED not in (found.view, found.density):
            return found
        return dataclasses.replace(found, view=EXPANDED, density=EXPANDED)


def merge_settings(preferences: Preferences, *overrides: Mapping[str, str]) -> StreamView:
    """Return the chosen settings; for full texts, also the density before them."""
    found = StreamView(*(getattr(preferences, name) for name in FIELDS))
    for mapping in overrides:
        fits = {name: value for name, value in mapping.items() if value and _fits(name, value)}
        found = dataclasses.replace(found, **complete_changes(fits, found))
    return found


def complete_changes(changes: Mapping[str, str], before: StreamView) -> dict[str, str]:
    """Return changes with their consequences: one column for full texts, and back again.

    Args:
        changes: field → new value.
        before: the view before the changes.
    """
    found = dict(changes)
    if changes.get("density") == EXPANDED:
        found["view"] = EXPANDED
    elif "density" in changes and before.view == EXPANDED:
        found.setdefault("view", LIST)
    elif changes.get("view") in (PANES, LIST) and before.density == EXPANDED:
        found["density"] = "cozy"
    return found


def check_setting(name: str, value: str) -> str:
    """Return the value of a stream's setting; a stream may also have orders that not all streams have.

    Raises:
        InvalidError: the setting doesn't exist, or the value isn't valid for it.
    """
    if name == "sort" and value in SORTS:
        return value
    return str(check(name, value))


def _fits(name: str, value: str) -> bool:
    try:
        check_setting(name, value)
    except InvalidError:
        return False
    return name in FIELDS
