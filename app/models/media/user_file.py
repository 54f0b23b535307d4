"""Files: a user's record of a blob. A record without owners is normal; it is deleted after a while."""

from __future__ import annotations

import dataclasses
import datetime as dt

#: The user id of files that belong to the server, such as pictures of starred entries.
SYSTEM = 0
#: Most owners of one file.
OWNERS_MAX = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UserFile:
    """A file of a user.

    Attributes:
        blob: id of its blob.
        name: the client's file name, a text that is never part of a path.
        size: bytes of the original.
        owners: what uses it: ``share:ID``, ``comment:ID``, ``avatar``, ``icon:FEED``, ``entry:ID`` or
            ``import:ID``.
        loose: since when it has no owner.
    """

    id: int
    user_id: int
    blob: bytes
    name: str
    size: int
    owners: tuple[str, ...] = ()
    loose: dt.datetime | None = None
