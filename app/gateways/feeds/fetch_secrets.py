"""Fetch options as stored: sealed, because they contain logins and cookies.

The key derives from ``EVENTR_SECRET_KEY``. The seal names the reader, so a copied document doesn't open.
"""

from __future__ import annotations

import dataclasses
import json

from app import logs
from app.errors import InvalidError
from app.feeds import sealing
from app.feeds.fetch.address_policy import check_headers
from app.models.feeds.fetch_options import FetchOptions

#: Headers that have options of their own.
_FIELDS = {"authorization", "cookie", "user-agent"}

log = logs.get(__name__)


class FetchSecrets:
    """Seals and opens fetch options.

    Args:
        secret_key: empty: nothing can be sealed.
    """

    def __init__(self, secret_key: str) -> None:
        self._key = sealing.derive_key(secret_key)

    def encrypt_options(self, options: FetchOptions, user_id: int) -> bytes:
        """Return the options of a reader, encrypted.

        Raises:
            InvalidError: this server has no key, or a header isn't allowed (S12).
        """
        names = {name.lower() for name, _ in check_headers(options.parse_headers())}
        check_headers(options.build_headers())  # as each fetch does
        if taken := sorted(names & _FIELDS):
            raise InvalidError("Use the field for the header %(header)s.", field="headers", header=taken[0])
        if not self._key:
            raise InvalidError("This server has no key for secrets. Ask its administrator to set one.")
        return sealing.encrypt_text(
            self._key, json.dumps(dataclasses.asdict(options)).encode(), _name(user_id)
        )

    def open(self, sealed: bytes | None, user_id: int | None) -> FetchOptions:
        """Return the options in a seal; none if the key has changed since."""
        if not sealed or user_id is None or not self._key:
            return FetchOptions()
        plain = sealing.open_seal(self._key, sealed, _name(user_id))
        if plain is None:
            log.warning("fetch_options_unreadable", user_id=user_id)
            return FetchOptions()
        return FetchOptions(**json.loads(plain))

    def is_readable(self, sealed: bytes, user_id: int | None) -> bool:
        """Return whether a seal opens: not if the key has changed, or is gone."""
        if user_id is None or not self._key:
            return False
        return sealing.open_seal(self._key, sealed, _name(user_id)) is not None


def _name(user_id: int) -> bytes:
    return b"%d" % user_id
