"""Translations: the gettext catalogs, for pages and for code outside requests; no Flask here.

Messages are in English in templates, modules and scripts. Their translations are the gettext catalogs
below ``web/translations``, read directly: nothing is compiled.
"""

from __future__ import annotations

import functools
import hashlib
import io
import re
from collections.abc import Mapping
from importlib import resources

from babel import Locale
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations

#: BCP 47 codes, and each language's own name.
LANGUAGES: Mapping[str, str] = {"en": "English", "de": "Deutsch", "ru": "Русский", "ar": "العربية"}
#: English with accents and 40 % longer: unchanged text isn't translatable, cut text lacks room.
PSEUDO = "en-XA"
#: The locale of messages and dates; English uses international dates: 14 March, 24 hours.
_LOCALES = {"en": "en_GB", PSEUDO: "en_GB"}
FOLDER = resources.files("app") / "web" / "translations"
_PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%%|\{\w+\}|<[^>]*>|&\w+;")
_ACCENTS = str.maketrans("AEIOUaeiouncsyz", "ÅÉÎÖÛåéîöûñçšýž")


@functools.cache
def get_locale(code: str) -> Locale:
    """Return the locale that gives a language its dates, numbers, plurals and direction."""
    return Locale.parse(_LOCALES.get(code, code))


@functools.cache
def load_translations(code: str) -> NullTranslations:
    """Return a language's translations, for gettext look-ups."""
    found = load_catalogue(code)
    if found is None:
        return NullTranslations()
    compiled = io.BytesIO()
    write_mo(compiled, found)
    compiled.seek(0)
    return Translations(compiled)


def compute_version(code: str) -> str:
    """Return a hash of a language's translations."""
    messages: Mapping[object, str] = getattr(load_translations(code), "_catalog", {})
    return hashlib.sha256(repr(sorted(messages.items(), key=repr)).encode()).hexdigest()[:16]


@functools.cache
def load_catalogue(code: str) -> Catalog | None:
    """Return the catalog of a language; None: messages stay in English."""
    if code == PSEUDO:
        return _pseudo_catalogue()
    path = FOLDER / f"{code}.po"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return read_po(file, locale=code)


def _pseudo_catalogue() -> Catalog | None:
    path = FOLDER / "messages.pot"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        catalogue = read_po(file, locale="en")
    for message in catalogue:
        if message.id:
            forms = message.id if isinstance(message.id, (tuple, list)) else (message.id,)
            strings = tuple(pseudolocalise_text(form) for form in forms)
            message.string = strings if len(strings) > 1 else strings[0]
    return catalogue


def pseudolocalise_text(text: str) -> str:
    """Return a message with accents and 40 % more letters; placeholders and markup stay unchanged."""
    parts, last = [], 0
    for found in _PLACEHOLDER.finditer(text):
        parts += [text[last : found.start()].translate(_ACCENTS), found.group()]
        last = found.end()
    parts.append(text[last:].translate(_ACCENTS))
    more = max(1, len(text) * 2 // 5 - 2)
    tail = " ".join("~" * min(9, more - at) for at in range(0, more, 10))
    return f"[{''.join(parts)}{tail}]"
