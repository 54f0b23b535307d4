"""The key for signatures (security.md W19). Making and keeping one is the command line's part."""

from __future__ import annotations

import itertools

from app.config import Settings
from app.errors import SettingsError

MIN_LENGTH = 32
#: Random text of this length has more different characters than this; "aaaa…" and "changeme…" have not.
MIN_DIFFERENT = 10
#: What stands in keys that were copied from a manual or thought up.
WORDS = ("changeme", "change-me", "change_me", "secret", "password", "example", "eventr")


def get_secret_key(settings: Settings) -> bytes:
    """Return the key.

    Raises:
        SettingsError: it is missing, too short or too simple to be random.
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
    # Moved by one of its parts, a text of equal parts fits on itself; the last of them may be cut.
    return any(key.startswith(key[n:]) for n in range(1, len(key) // 2 + 1))


def _counts(key: str) -> bool:
    # Of random letters one pair in thirty are neighbours; of "0123…", "abcd…" and "zyxw…" nearly all.
    steps = [abs(ord(b) - ord(a)) == 1 for a, b in itertools.pairwise(key)]
    return sum(steps) > len(steps) // 2
