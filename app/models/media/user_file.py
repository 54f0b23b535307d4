"""Files: a user's record of a blob. A record without owners is normal; it is deleted after a while.

A blob also holds what others have uploaded or drawn with the same bytes. So a file's own purpose decides what
of the blob belongs to it: nobody gets the original of a drawn picture, or learns that someone else has it
(security.md U08, U13).
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from app.models.media.blob import ORIGINAL, Blob, Purpose
from app.models.media.icon import SVG_TYPE
from app.models.media.sizes import SIZES
from app.models.media.sniff import UNKNOWN_TYPE

#: The user id of files that belong to the server, such as pictures of starred entries.
SYSTEM = 0
#: Most owners of one file.
OWNERS_MAX = 20
#: The size of a drawn file that lists of files show.
_PREVIEWS = {Purpose.PICTURE: "t208", Purpose.AVATAR: "a96"}
#: Media type of all drawn sizes.
DRAWN_TYPE = "image/webp"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UserFile:
    """A file of a user.

    Attributes:
        blob: id of its blob.
        purpose: the use for which it was uploaded; a picture or avatar is drawn, all else is the original.
        name: the client's file name, a text that is never part of a path.
        size: bytes of the original.
        owners: what uses it: ``share:ID``, ``comment:ID``, ``avatar``, ``icon:FEED``, ``entry:ID`` or
            ``import:ID``.
        loose: since when it has no owner.
    """

    id: int
    user_id: int
    blob: bytes
    purpose: Purpose
    name: str
    size: int
    owners: tuple[str, ...] = ()
    loose: dt.datetime | None = None

    def list_names(self, blob: Blob) -> frozenset[str]:
        """Return the names of those files of its blob that belong to it."""
        sizes = SIZES.get(self.purpose)
        own = {size.name for size in sizes} if sizes else {ORIGINAL}
        return frozenset(own & blob.names.keys())

    def find_best(self, blob: Blob) -> str | None:
        """Return the name of the original, or of the largest drawn size; None: its blob has neither."""
        return max(self.list_names(blob), key=blob.names.__getitem__, default=None)

    @property
    def preview(self) -> str | None:
        """The size of it that lists of files show; None: nothing of it was drawn."""
        return _PREVIEWS.get(self.purpose)

    def get_type(self, blob: Blob) -> str:
        """Return the media type of the original bytes, which doesn't tell that someone's icon is the same."""
        return UNKNOWN_TYPE if blob.type == SVG_TYPE else blob.type
