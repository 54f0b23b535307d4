"""Live events for open pages: their kinds, and the pass that lets a browser listen.

Events are hints ("your counts have changed"), never the truth: a client that misses one asks the web tier.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib

from itsdangerous import BadData, URLSafeTimedSerializer

from app.errors import AuthRequiredError


class EventKind(enum.StrEnum):
    """Kinds of events as browsers receive them."""

    COUNTS = "counts"  # unread counts or stars of this user have changed
    NEW = "new"  # feeds have new entries
    IMPORT = "import"  # an import of this user made progress
    RESET = "reset"  # too many events to list: reload everything
    BEAT = "beat"  # no event; the connection works


#: Only from the web tier to the hub: a user's subscriptions have changed.
FOLLOWS = "follows"
#: The same: a session or token of a user ended, and with it their event stream.
ENDS = "ends"

_SALT = "eventr.events.1"


@dataclasses.dataclass(frozen=True, slots=True)
class EventPass:
    """A user's right to listen, and the position: events after ``at`` are new to them.

    Attributes:
        at: id ``<ms>-<n>`` in the stream of events for people.
    """

    user_id: int
    at: str

    def sign(self, key: str) -> str:
        """Return the signed pass as text for an address; :meth:`read` limits its age."""
        return _serializer(key).dumps([self.user_id, self.at])

    @classmethod
    def read(cls, key: str, text: str, max_age: float) -> EventPass:
        """Return the pass in a text.

        Raises:
            AuthRequiredError: the pass is forged, or older than ``max_age`` seconds.
        """
        try:
            user_id, at = _serializer(key).loads(text, max_age=int(max_age))
        except (BadData, ValueError, TypeError) as e:
            raise AuthRequiredError("This page has expired. Reload it and try again.") from e
        return cls(user_id, at)


def _serializer(key: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(key, salt=_SALT, signer_kwargs={"digest_method": hashlib.sha256})
