"""Rules for user names: no look-alikes of other names, and no names that seem to speak for the server."""

from __future__ import annotations

import re
import unicodedata

from app.errors import InvalidError

_FORM = re.compile(r"\w[\w.-]{0,30}[\w-]")
_NOT_ALLOWED = re.compile(r"[^\w.-]+")
_BETWEEN = re.compile(r"[._-]")
#: The first word of a character's Unicode name, which is its script.
_SCRIPT = re.compile(r"(?:EXTENDED )?([A-Z]*)")
#: Names that seem to speak for the server. Not "admin": many first administrators choose this name.
RESERVED = frozenset(
    {
        "administration",
        "administrator",
        "eventr",
        "moderation",
        "moderator",
        "official",
        "postmaster",
        "security",
        "staff",
        "support",
        "system",
        "webmaster",
    }
)
#: Scripts that are written together, by the first words of their letters' Unicode names.
_TOGETHER = frozenset({"LATIN", "CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "BOPOMOFO", "HANGUL"})


def check(name: str) -> None:
    """Refuse a name that no new account may have.

    Raises:
        InvalidError: the message says what is allowed; field ``name``.
    """
    name = name.strip()
    if not _FORM.fullmatch(name):
        raise InvalidError(
            "Use 2 to 32 letters, digits, dots or dashes. Start with a letter or digit, and don't "
            "end with a dot.",
            field="name",
        )
    if not unicodedata.is_normalized("NFKC", name):
        raise InvalidError("This name contains look-alike characters. Use plain letters.", field="name")
    # Digits too: some digits of other scripts look like an "o" or a dot.
    scripts = {_script(sign) for sign in name if sign.isalpha() or not sign.isascii()}
    if len(scripts) > 1 and not scripts <= _TOGETHER:
        raise InvalidError(
            "Use letters from only one script. Letters from different scripts can look alike.", field="name"
        )
    if _BETWEEN.sub("", name.casefold()) in RESERVED:
        raise InvalidError("This user name is reserved. Choose another one.", field="name")


def suggest_name(wish: str) -> str:
    """Return the nearest allowed form of a wish ("ann-example" for "Ann Example"); empty if none is near."""
    plain = unicodedata.normalize("NFKC", wish).casefold()
    name = _NOT_ALLOWED.sub("-", plain).strip("-.")[:32].rstrip("-.")
    try:
        check(name)
    except InvalidError:
        return ""
    return name


def _script(sign: str) -> str:
    found = _SCRIPT.match(unicodedata.name(sign, ""))
    return found[1] if found else ""
