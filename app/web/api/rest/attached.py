"""Pictures and files of shares and comments, as the API shows and accepts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.media.attachment import Attachment, NewAttachment
from app.web.api.rest.shapes import FILE, Body, Id, Shape
from app.web.api.rest.table import add_example
from app.web.view.attached import build_signed_url

Alt = Annotated[str, Meta(max_length=10_000, description="Description for people who can't see it.")]


class NewFile(Body, frozen=True):
    """One of your uploaded files to add."""

    file_id: Id
    alt: Alt = ""


class AttachedFile(Shape, frozen=True):
    """A picture or file that someone added. `url` works for a day, without a login.

    `width`, `height` and `color` are null for files that aren't pictures. A picture is sent as WebP.
    """

    file_id: Id
    name: str
    type: str
    size: int
    alt: str
    url: str
    width: int | None
    height: int | None
    color: str | None


add_example(NewFile(file_id=FILE, alt="A cat asleep on a book"))
ATTACHED = add_example(
    AttachedFile(
        file_id=FILE,
        name="cat.jpg",
        type="image/jpeg",
        size=184_320,
        alt="A cat asleep on a book",
        url=f"https://reader.example.org/m/{FILE}/w1280?t=WzEsMl0.aR",
        width=1200,
        height=800,
        color="#8a6f52",
    )
)


def read_files(given: Sequence[NewFile]) -> list[NewAttachment]:
    """Return the files of a request."""
    return [NewAttachment(one.file_id, one.alt) for one in given]


def build_files(actor: Actor, files: Sequence[Attachment]) -> tuple[AttachedFile, ...]:
    """Return attachments with addresses that this person's programs can open."""
    return tuple(_shape(actor, one) for one in files)


def _shape(actor: Actor, one: Attachment) -> AttachedFile:
    return AttachedFile(
        file_id=one.file_id,
        name=one.name,
        type=one.type,
        size=one.size,
        alt=one.alt,
        url=build_signed_url(actor, one),
        width=one.width or None,
        height=one.height or None,
        color=one.color or None,
    )
