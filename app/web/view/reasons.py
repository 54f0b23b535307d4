"""Reasons for feed errors, which their messages leave out: from technical details, in the page's language."""

from __future__ import annotations

import re

from flask_babel import gettext

from app.errors import N_
from app.web.view.present import format_number, format_size

#: Details of refused addresses, see :mod:`app.feeds.fetch.address_policy`.
_NOT_PUBLIC = re.compile(r"([0-9a-f.:]+) isn't public\Z")
_PORT = re.compile(r"(?:invalid port|port) ([0-9]+)(?: isn't allowed)?\Z")
_LOCAL_NAME = re.compile(r"([a-z0-9.-]+) is a local name\Z")
_LENGTH = re.compile(r"longer than ([0-9]+) characters\Z")
_NO_HOST = N_("It has no valid host name.")
_ADDRESS_REASONS = {
    "isn't http:// or https://": N_("It doesn't begin with http:// or https://."),
    "contains spaces, control characters or a backslash": N_(
        "It contains spaces, control characters or a backslash."
    ),
    "contains a percent escape before the path": _NO_HOST,
    "is this server's own address": N_(
        "This is the server's own address. To follow someone, use the address of their page, such as /@name."
    ),
    "has no valid host": _NO_HOST,
    "has an invalid IPv6 address": _NO_HOST,
    "has a host that IDNA doesn't allow": _NO_HOST,
    "has a host that isn't a DNS name": _NO_HOST,
    "has a numeric host that isn't an IPv4 address": _NO_HOST,
}
#: Details of large responses, see :mod:`app.feeds.fetch`.
_SIZE = re.compile(r"(?:more than )?([0-9]+)(?: bytes(?: sent| after decompression)?)?\Z")
_ANNOUNCED = re.compile(r"([0-9]+) bytes announced\Z")


def describe_reason(word: str, detail: str) -> str:
    """Return what the message for a feed's error code leaves out, from the error's detail; empty: nothing."""
    if word in ("refused", "bad_redirect", "invalid_url"):
        return _describe_address(detail)
    if word in ("too_large", "read_in_part") and (found := _SIZE.match(detail)):
        return str(gettext("The limit is %(size)s.", size=format_size(int(found[1]))))
    if word == "too_large" and (found := _ANNOUNCED.match(detail)):
        return str(gettext("The response has %(size)s.", size=format_size(int(found[1]))))
    return ""


def _describe_address(detail: str) -> str:
    if found := _NOT_PUBLIC.search(detail):
        return str(gettext("%(address)s isn't a public address.", address=found[1]))
    if found := _PORT.search(detail):
        return str(gettext("Port %(port)s isn't allowed.", port=found[1]))
    if found := _LOCAL_NAME.search(detail):
        return str(gettext("%(host)s is a name of a local network.", host=found[1]))
    if found := _LENGTH.search(detail):
        return str(gettext("It's longer than %(most)s characters.", most=format_number(int(found[1]))))
    fault = _ADDRESS_REASONS.get(detail.rpartition(": ")[2])
    return str(gettext(fault)) if fault else ""
