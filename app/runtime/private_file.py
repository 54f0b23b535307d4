"""Files that only this user may read, such as logs."""

from __future__ import annotations

import contextlib
import os
import stat


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file for the user of this process only, as an ``opener`` of :func:`open`; return its descriptor.

    A file that an earlier version created for everyone becomes private, too. A device stays as it is.

    Raises:
        OSError: the file can't be opened.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) and mode & 0o077:
        with contextlib.suppress(PermissionError):  # another user's file
            os.fchmod(descriptor, 0o600)
    return descriptor
