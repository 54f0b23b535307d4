"""Time zones to choose from, in the page's language, by region."""

from __future__ import annotations

import functools

from babel import Locale
from babel.dates import get_timezone_location
from flask_babel import gettext as _

from app.errors import N_
from app.models.accounts.preferences import list_time_zones

_REGIONS = {
    "Africa": N_("Africa"),
    "America": N_("America"),
    "Antarctica": N_("Antarctica"),
    "Asia": N_("Asia"),
    "Atlantic": N_("Atlantic"),
    "Australia": N_("Australia"),
    "Europe": N_("Europe"),
    "Indian": N_("Indian Ocean"),
    "Pacific": N_("Pacific"),
}


def list_by_region(locale: Locale) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Return the regions with their zones: (IANA name, name of the city)."""
    return [(_(_REGIONS[region]), cities) for region, cities in _cities(str(locale))]


@functools.cache
def _cities(locale: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    found: dict[str, list[tuple[str, str]]] = {region: [] for region in _REGIONS}
    for name in list_time_zones():
        region, _slash, city = name.partition("/")
        if region in found and city:
            found[region].append((name, get_timezone_location(name, locale, return_city=True)))
    return tuple((region, tuple(sorted(rows, key=lambda row: row[1]))) for region, rows in found.items())
