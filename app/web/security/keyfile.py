"""The key for signatures (security.md W19). A command creates and stores keys."""

from __future__ import annotations

import itertools

from app.config import Settings
from app.errors import SettingsError

MIN_LENGTH = 32
#: Random text of MIN_LENGTH has more distinct characters than this; "aaaa…" and "changeme…" don't.
MIN_DIFFERENT = 10
#: Parts of keys that were copied from a manual or made up.
WORDS = ("changeme", "change-me", "change_me", "secret", "password", "example", "eventr")


def get_secret_key(settings: Settings) -> bytes:
    """Return the key.

    Raises:
        SettingsError: The key is missing, too short, or too simple to be random.
    """
    key = settings.secret_key
    if len(key) < MIN_LENGTH or len(set(key)) < MIN_DIFFERENT or _thought_up(key):
        raise SettingsError(
            (
                f"EVENTR_SECRET_KEY must have at least {MIN_LENGTH} random characters, without "
                "words, sequences or repetitions. To create a key, run: python3 -c 'import "
                "secrets; print(secrets.token_urlsafe(48))'"
            ),
            setting="secret_key",
        )
    return key.encode()


def _thought_up(key: str) -> bool:
    folded = key.casefold()
    return any(word in folded for word in WORDS) or _repeats(folded) or _counts(folded)


def _repeats(key: str) -> bool:
    # A text that consists of equal parts matches itself when shifted by one part, even if the last is cut.
    return any(key.startswith(key[n:]) for n in range(1, len(key) // 2 + 1))


def _counts(key: str) -> bool:
    # In random letters, one pair in thirty is adjacent; in "0123…", "abcd…" and "zyxw…" nearly all are.
    steps = [abs(ord(b) - ord(a)) == 1 for a, b in itertools.pairwise(key)]
    return sum(steps) > len(steps) // 2
