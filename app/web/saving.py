"""Forms of pages that save each change at once: what of them is written, and which save it is."""

from __future__ import annotations

import dataclasses
from typing import Any

from app.models.accounts.page_save import PageSave
from app.web.forms import declare_text

_WHOLE = "*"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SelfSaving:
    """What the script adds to such a form; without scripts the whole form is saved.

    ``changed``: the names of the changed fields, with spaces between;
    ``page`` and ``turn``: a random name of the page as it was loaded, and the number of the save in it.
    """

    changed: str = declare_text(max=2048, default=_WHOLE)
    page: str = declare_text(max=40, default="")
    turn: int = 0


def take_changes(form: SelfSaving) -> tuple[dict[str, Any], PageSave | None]:
    """Return the values of a form that are to be written, and which save it is (None: without scripts).

    Only what the page changed, so that other pages' changes stay. Whether the save comes after a later one of
    the same page is checked by the write itself.
    """
    own = {field.name for field in dataclasses.fields(SelfSaving)}
    values = {name: value for name, value in dataclasses.asdict(form).items() if name not in own}
    if form.changed != _WHOLE:
        names = form.changed.split()
        values = {name: value for name, value in values.items() if name in names}
    return values, PageSave(form.page, form.turn) if form.page else None
