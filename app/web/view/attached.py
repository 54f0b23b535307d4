"""Attached pictures and files: the fields of a form that adds them, and their addresses for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from html import escape

from app.models.accounts.actor import Actor
from app.models.media.attachment import Attachment, NewAttachment
from app.web.context import get_services, get_web
from app.web.forms import declare_text

#: Longest description of a file in a form; a setting limits it further.
_LONG = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileFields:
    """Files in their order, and a description of each: ``alt1`` belongs to the first ``file``.

    ``with_files``: the form lists all files, so one that is missing was removed. Without scripts it lists
    none.
    """

    with_files: bool = False
    file: tuple[int, ...] = ()
    alt1: str = declare_text(max=_LONG, default="")
    alt2: str = declare_text(max=_LONG, default="")
    alt3: str = declare_text(max=_LONG, default="")
    alt4: str = declare_text(max=_LONG, default="")
    alt5: str = declare_text(max=_LONG, default="")
    alt6: str = declare_text(max=_LONG, default="")
    alt7: str = declare_text(max=_LONG, default="")
    alt8: str = declare_text(max=_LONG, default="")
    alt9: str = declare_text(max=_LONG, default="")
    alt10: str = declare_text(max=_LONG, default="")

    @property
    def files(self) -> list[NewAttachment]:
        """The files to attach."""
        return [
            NewAttachment(file_id, getattr(self, f"alt{number}", ""))
            for number, file_id in enumerate(self.file, 1)
        ]

    @property
    def changed_files(self) -> list[NewAttachment] | None:
        """The files to attach instead of those before; None: the files stay."""
        return self.files if self.with_files else None


def build_signed_url(actor: Actor, one: Attachment) -> str:
    """Return the address at which this person's programs can load an attached file, without a cookie."""
    web = get_web()
    token = get_services().attachments.sign(actor, one.file_id, web.secret_key.hex())
    return f"{web.base_url}/m/{one.file_id}/{'w1280' if one.is_picture else 'get'}?t={token}"


def render_signed(actor: Actor, files: Iterable[Attachment]) -> str:
    """Return the HTML of attached files for this person's programs."""
    return "".join(f"<p>{_render(build_signed_url(actor, one), one)}</p>" for one in files)


def _render(url: str, one: Attachment) -> str:
    if not one.is_picture:
        return f'<a href="{escape(url)}">{escape(one.name)}</a>'
    size = f'width="{one.width}" height="{one.height}"'
    return f'<img src="{escape(url)}" alt="{escape(one.alt)}" {size}>'
