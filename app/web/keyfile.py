"""The key for signatures (security.md W19). Making and keeping one is the command line's part."""

from __future__ import annotations

from app.config import Settings
from app.errors import SettingsError

MIN_LENGTH = 32
#: Random text of this length has more different characters than this; "aaaa…" and "changeme…" have not.
MIN_DIFFERENT = 10


def secret_key(settings: Settings) -> bytes:
    """Return the key.

    Raises:
        SettingsError: it is missing, too short or too simple to be random.
    """
    key = settings.secret_key
    if len(key) < MIN_LENGTH or len(set(key)) < MIN_DIFFERENT:
        raise SettingsError(
            f"EVENTR_SECRET_KEY must have at least {MIN_LENGTH} random characters.", setting="secret_key"
        )
    return key.encode()
