"""Bodies that the web server has received before the application runs.

The web server runs the application twice or more for one upload. The first time, the environment has
:data:`WANTED`, and the body is empty: a view that accepts the upload calls the function. A view that doesn't
call it has refused, and its response is sent before a byte of the body is read. Then the environment has
:data:`SPOOLED`, once for each slice of the body. For a form with a file, and for
requests of programs and hubs, ``wsgi.input`` has the whole body instead.
"""

from __future__ import annotations

import dataclasses
from typing import Any

#: Key of a function in the WSGI environment. Its argument is the most bytes of a slice. Its caller's
#: response is dropped, unless the status says that it failed after all (400 or above).
WANTED = "eventr.spool_wanted"
#: Key of a :class:`SpooledBody` in the WSGI environment.
SPOOLED = "eventr.spool"


#: Key of a dictionary in the WSGI environment: what the application leaves for its later runs.
NOTES = "eventr.spool_notes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpooledBody:
    """A slice of a request's body, in a file without a name.

    Only the response to the last slice is sent, unless an earlier one isn't 2xx. Then nothing more is read.

    Attributes:
        descriptor: open file, whose first ``size`` bytes are the slice; the web server closes it.
        start: offset of the slice within the body.
        size: bytes of the slice.
        is_last: whether no other slice follows.
        is_broken: whether the rest of the body didn't arrive; nobody reads the response.
        notes: what a view leaves for the later slices of the same body, such as the id of what it created.
    """

    descriptor: int
    start: int
    size: int
    is_last: bool = True
    is_broken: bool = False
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)
