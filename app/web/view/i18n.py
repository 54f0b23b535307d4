"""The page's language: choosing it, its translations, time zone and writing direction.

Sentences are in English in templates, modules and scripts, marked by ``_`` (``t`` in scripts). Their
translations are the gettext catalogs below ``translations``, read directly without compilation.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any, cast

from babel import Locale
from babel.numbers import format_decimal
from babel.support import NullTranslations
from flask import Flask, g, has_request_context, request
from flask_babel import Babel, Domain, gettext
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from app.errors import EventrError, fill_placeholders, get_feed_sentence, get_search_sentence
from app.models.accounts.preferences import list_time_zones
from app.models.sharing.sharing import ShareVisibility
from app.runtime import translations
from app.runtime.translations import FOLDER, LANGUAGES, PSEUDO, pseudolocalise_text
from app.web import problems
from app.web.context import find_user, get_services
from app.web.view.templates import ISOLATE

__all__ = ["FOLDER", "LANGUAGES", "PSEUDO", "pseudolocalise_text"]

COOKIE = "language"
#: The zone of this device, set by ``static/js/zone.js``, such as "Europe/Berlin".
ZONE_COOKIE = "zone"
_SCRIPTS = "static/js/"
#: BCP 47 tags, as feeds contain them.
_TAG = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")
#: Values of errors that are counts; others may be ids and codes, which have no separators.
_LIMITS = ("limit", "most")
#: Letters that are written from right to left, and letters that are written from left to right.
_RTL, _LTR = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]"), re.compile(r"[A-Za-z\u00c0-\u052f]")


class _Words(Domain):  # type: ignore[misc]  # Flask-Babel has no types for its class
    """The catalogs of this package, one per language, read at first use."""

    def get_translations(self) -> NullTranslations:
        return translations.load_translations(get_language() if has_request_context() else "en")

    def gettext(self, text: str, **values: Any) -> str:
        words = str(self.get_translations().ugettext(text))
        return words % _isolate_all(values) if values else words

    def ngettext(self, singular: str, plural: str, num: int, **values: Any) -> str:
        text = str(self.get_translations().ungettext(singular, plural, num))
        return text % {"num": format_integer(num), **_isolate_all(values)}


def install(app: Flask) -> None:
    """Show pages of ``app`` in the reader's language."""
    babel = Babel(app, locale_selector=get_locale, timezone_selector=get_timezone)
    babel.domain_instance = _Words()  # a cached property; the parameter only accepts file names
    app.jinja_env.policies["ext.i18n.trimmed"] = True  # as in babel.cfg
    app.jinja_env.newstyle_gettext = True  # type: ignore[attr-defined]  # set by the i18n extension
    app.jinja_env.globals.update(
        gettext=_isolate_values_of(cast("Callable[..., str]", app.jinja_env.globals["gettext"])),
        ngettext=_format_numbers_of(cast("Callable[..., str]", app.jinja_env.globals["ngettext"])),
        language=get_language,
        direction=get_direction,
        script_words=get_script_words,
        LANGUAGES=LANGUAGES,
    )
    app.jinja_env.filters[ISOLATE] = _isolate_value


def _format_numbers_of(ngettext: Callable[..., str]) -> Callable[..., str]:
    """Return ngettext for templates, with its number written as in the rest of the page."""

    @pass_context
    def translate_plural(context: Context, singular: str, plural: str, num: int, /, **values: Any) -> str:
        return ngettext(
            context, singular, plural, num, **{"num": format_integer(num), **_isolate_all(values)}
        )

    return translate_plural


def _isolate_values_of(gettext: Callable[..., str]) -> Callable[..., str]:
    """Return gettext for templates, with its names isolated."""

    @pass_context
    def translate_text(context: Context, text: str, /, **values: Any) -> str:
        return gettext(context, text, **_isolate_all(values))

    return translate_text


def _isolate_all(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _isolate_value(value) for name, value in values.items()}


def _isolate_value(value: object) -> object:
    return isolate_name(value) if type(value) is str else value


def isolate_name(text: str) -> str:
    """Return a name for use in a sentence, which it doesn't scramble if it runs in the other direction."""
    foreign = _LTR if has_request_context() and get_direction() == "rtl" else _RTL
    return f"\u2068{text}\u2069" if foreign.search(text) else text


def is_mixed(name: str) -> bool:
    """Return whether a name has letters of both directions."""
    return not name.isascii() and bool(_RTL.search(name) and _LTR.search(name))


def render_direction(name: str) -> Markup:
    """Return the attribute of the box that a name is cut in.

    Cut at its side, a name of both directions would lose the beginning of its second part: class ``mix``.
    """
    return Markup(' class="mix"') if is_mixed(name) else Markup(' dir="auto"')


def format_integer(number: int) -> str:
    """Return a whole number with the separators of the page's language."""
    return str(number) if abs(number) < 1000 else format_decimal(number, locale=get_locale())


def get_language() -> str:
    """Return this page's language code: the account's choice, the device's, or the browser's."""
    # A list asks a hundred times; each access to ``g`` costs 1 µs.
    language = g.get("language")
    if language is None:
        g.language = language = _chosen() or request.accept_languages.best_match(list(LANGUAGES), "en")
    return str(language)


def render_lang(code: str | None) -> Markup:
    """Return the ``lang`` attribute for a foreign text, empty if it is in the page's language."""
    if not code or not _TAG.fullmatch(code) or code.lower() == get_language():
        return Markup()
    return Markup(' lang="{}"').format(code)


def describe_lost(link: str | None) -> str:
    """Return the text in place of a shared entry that isn't shown; empty if the entry is shown."""
    if not link:
        return ""
    return str(gettext("private share") if link == ShareVisibility.PRIVATE else gettext("removed share"))


def get_direction() -> str:
    """Return the writing direction of this page, ``ltr`` or ``rtl``."""
    return str(get_locale().text_direction)


def get_locale() -> Locale:
    """Return the locale for this page's dates, numbers and plurals."""
    return translations.get_locale(_get_code())


def get_locale_name() -> str:
    """Return the name of that locale, such as "en_GB"."""
    return _name_locale(_get_code())


def _get_code() -> str:
    return get_language() if has_request_context() else "en"


@functools.cache
def _name_locale(code: str) -> str:
    return str(translations.get_locale(code))


def get_timezone() -> dt.tzinfo:
    """Return the zone for times: the account's choice, the device's zone, else UTC."""
    if not has_request_context():
        return dt.UTC
    zone: dt.tzinfo | None = g.get("timezone")
    if zone is None:
        person = find_user()
        chosen = person.preferences.time_zone if person else ""
        g.timezone = zone = _zone(chosen) or _zone(request.cookies.get(ZONE_COOKIE, "")) or dt.UTC
    return zone


@functools.lru_cache(maxsize=1024)
def _zone(name: str) -> dt.tzinfo | None:
    return zoneinfo.ZoneInfo(name) if name in list_time_zones() else None


def prefers_absolute_times() -> bool:
    """Return whether the reader prefers clock times to "3 hours ago"."""
    person = find_user() if has_request_context() else None
    return person is not None and person.preferences.times == "absolute"


def translate_error(error: EventrError) -> str:
    """Return an error's message in the page's language."""
    values = {
        name: format_integer(value) if name in _LIMITS and isinstance(value, int) else value
        for name, value in error.ids.items()
    }
    return fill_placeholders(gettext(_choose_sentence(error)), values)


def _choose_sentence(error: EventrError) -> str:
    """Return the sentence of an error; "your data" is only for those whose data it is."""
    if not error.others or not has_request_context():
        return error.sentence
    caller, user = g.get("caller"), find_user()
    actor = caller.actor if caller is not None else user.actor if user is not None else None
    is_own = get_services().cell_upkeep.is_own_outage(actor.user_id if actor else None, error)
    return error.sentence if is_own else error.others


def translate_feed_error(word: str) -> str:
    """Return the message for a feed's error code in the page's language."""
    sentence, values = get_feed_sentence(word)
    return fill_placeholders(gettext(sentence), values)


def translate_search_error(word: str) -> str:
    """Return the message for the error code of a search for feeds in the page's language."""
    sentence, values = get_search_sentence(word)
    return fill_placeholders(gettext(sentence), values)


def get_catalogue() -> NullTranslations:
    """Return the catalog of the page's language."""
    return translations.load_translations(get_language())


def get_script_words() -> Mapping[str, Any]:
    """Return the texts of scripts, English → translation (for plurals: all forms); empty for English."""
    return _script_words(get_language())


def is_known_language(code: str | None) -> bool:
    """Return whether a catalog exists for this code."""
    return code in LANGUAGES or code == PSEUDO


def _chosen() -> str | None:
    if problems.is_rest_request():
        return None  # programs send it with each request, and their cookies don't count
    person = find_user()
    for code in (person.preferences.language if person else "", request.cookies.get(COOKIE)):
        if is_known_language(code):
            return str(code)
    return None


@functools.cache
def _script_words(code: str) -> Mapping[str, Any]:
    words: dict[str, Any] = {}
    for message in translations.load_catalogue(code) or ():
        if message.id and message.string and any(name.startswith(_SCRIPTS) for name, _ in message.locations):
            words[message.id if isinstance(message.id, str) else message.id[0]] = message.string
    return words
