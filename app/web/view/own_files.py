"""A user's own files as downloads (security.md H09, U12): nobody else gets them here."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath

from flask import Response

from app.errors import NotFoundError
from app.models.accounts.actor import Actor
from app.models.media.blob import ORIGINAL
from app.models.media.user_file import DRAWN_TYPE
from app.web.context import get_services
from app.web.view.media_reply import PRIVATE, reply_with_file


def reply_with_own_file(actor: Actor, file_id: int) -> Response:
    """Return a file of the actor, always as an attachment; of a picture, its largest size.

    Raises:
        NotFoundError: the actor has no such file.
        MediaStoreError: no store that has it is responding.
    """
    files = get_services().files
    file = files.get(actor, file_id)
    blob, name = files.find_content(actor, file)
    media_type, title = file.get_type(blob), file.name
    if name != ORIGINAL:
        # Drawn anew, so neither the original's type nor the ending of its name applies.
        media_type, title = DRAWN_TYPE, f"{PurePath(title).stem}.webp"
    return reply_with_file(
        partial(files.open, actor, file, name),
        media_type=media_type,
        etag=f"{file.blob.hex()}-{name}",
        cache=PRIVATE,
        size=blob.names[name],
        attachment=title,
    )


def reply_with_preview(actor: Actor, file_id: int) -> Response:
    """Return a small form of a picture of the actor.

    Raises:
        NotFoundError: the actor has no such picture.
        MediaStoreError: no store that has it is responding.
    """
    files = get_services().files
    file = files.get(actor, file_id)
    blob, _ = files.find_content(actor, file)
    if file.preview is None or file.preview not in file.list_names(blob):
        raise NotFoundError
    return reply_with_file(
        partial(files.open, actor, file, file.preview),
        media_type=DRAWN_TYPE,
        etag=f"{file.blob.hex()}-{file.preview}",
        cache=PRIVATE,
        size=blob.names[file.preview],
    )
