"""What people are told while they look at a page: kinds of events, and the pass that lets a browser listen.

Events are hints ("your counts have changed"), never the truth: whoever misses one asks the web tier.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib

from itsdangerous import BadData, URLSafeTimedSerializer

from app.errors import AuthRequiredError


class EventKind(enum.StrEnum):
    """Kinds of events as browsers get them."""

    COUNTS = "counts"  # unread counts or stars of this user have changed
    NEW = "new"  # feeds have new entries
    IMPORT = "import"  # an import of this user has got on
    RESET = "reset"  # more has happened than can be told: ask for everything anew
    BEAT = "beat"  # nothing has happened; the line is well


#: From the web tier to the hub only: which feeds a user follows has changed.
FOLLOWS = "follows"
#: The same way: a session or a token of a user is over, and with it what he listens to.
ENDS = "ends"

_SALT = "eventr.events.1"


@dataclasses.dataclass(frozen=True, slots=True)
class EventPass:
    """Who may listen, and from where on: everything after ``at`` is news to him.

    Attributes:
        at: id ``<ms>-<n>`` in the stream of events for people.
    """

    user_id: int
    at: str

    def sign(self, key: str) -> str:
        """Return it as text for an address; it holds for as long as :meth:`read` says."""
        return _serializer(key).dumps([self.user_id, self.at])

    @classmethod
    def read(cls, key: str, text: str, max_age: float) -> EventPass:
        """Return the pass that a text holds.

        Raises:
            AuthRequiredError: it is forged, or older than ``max_age`` seconds.
        """
        try:
            user_id, at = _serializer(key).loads(text, max_age=int(max_age))
        except (BadData, ValueError, TypeError) as e:
            raise AuthRequiredError("This page has expired. Reload it and try again.") from e
        return cls(user_id, at)


def _serializer(key: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(key, salt=_SALT, signer_kwargs={"digest_method": hashlib.sha256})
