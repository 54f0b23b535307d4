"""Every error that Eventr raises on purpose, as one tree.

    EventrError
    ├── SettingsError             a setting is wrong; says which and what would be right
    ├── StartupError              a process cannot start (port taken, folder read-only, second instance)
    ├── InvalidError              input that does not fit (400)
    ├── AuthRequiredError         nobody is logged in (401)
    ├── ForbiddenError            logged in, but not allowed (403)
    │   └── OldPageError          … by the token of a session before (403)
    ├── NotFoundError             no such thing, or not yours (404)
    ├── ExistsError               it is there already (409)
    ├── ConflictError             somebody else changed it first (409)
    │   ├── ChangedError          … as the If-Match of a program told (412)
    │   └── KeyBusyError          the first request with this Idempotency-Key still runs (409)
    ├── KeyReusedError            another request came with this Idempotency-Key before (422)
    ├── TooLargeError             more than a named limit allows (413)
    ├── RateLimitedError          too often (429)
    ├── StoreError                MongoDB or Redis does not answer (503)
    │   └── DrainingError         a queue takes nothing new for now (503)
    ├── LaterError                a job is to be run again after a time that it names (503)
    ├── UnsentError               a message could not be delivered (503)
    └── FeedError                 a foreign server, page or feed is at fault; ``code`` is the error word
        ├── FetchError            it could not be fetched
        ├── ParseError            it was fetched and cannot be read
        └── SearchError           no feed was found there

A mapper turns driver errors into these (cause chained), a service lets them pass, and one handler
per outside (web, command line, worker) renders them. ``message`` is a sentence for people and never
holds internals; ``ids`` goes to the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

_PLACE = re.compile(r"%\((\w+)\)s")


def N_(sentence: str) -> str:
    """Mark a sentence for translation; it is translated where it is shown."""
    return sentence


def fill_placeholders(sentence: str, values: Mapping[str, Any]) -> str:
    """Return a sentence with its places ``%(name)s`` filled; a place without a value stays."""
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), sentence)


class EventrError(Exception):
    """Root of the tree.

    Args:
        message: one sentence for the person who caused or sees it, saying what to do. A literal, so that
            it can be translated; what changes stands in places, ``%(limit)s``, filled from ``ids``.
        ids: what it is about (``feed_id=…``, ``field=…``), for logs and JSON answers.

    Attributes:
        sentence: the sentence with its places, as translators know it; ``message`` has them filled.
    """

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    default: ClassVar[str] = N_("Something went wrong on our side. Try again in a minute.")

    def __init__(self, message: str | None = None, **ids: Any) -> None:
        self.sentence = message or self.default
        self.message = fill_placeholders(self.sentence, ids)
        self.ids = ids
        super().__init__(self.message)

    @property
    def word(self) -> str:
        """The stable machine word of this error."""
        return self.code


class SettingsError(EventrError):
    code = "settings"
    default = N_("A setting is wrong.")


class StartupError(EventrError):
    code = "startup"
    default = N_("Eventr cannot start.")


class InvalidError(EventrError):
    code = "invalid"
    http_status = 400
    default = N_("That does not look right. Check what you entered and send it again.")


class AuthRequiredError(EventrError):
    code = "auth_required"
    http_status = 401
    default = N_("Log in first.")


class ForbiddenError(EventrError):
    code = "forbidden"
    http_status = 403
    default = N_("You are not allowed to do this.")


class OldPageError(ForbiddenError):
    code = "old_page"
    default = N_("This page is too old. Reload it and try again.")


class NotFoundError(EventrError):
    code = "not_found"
    http_status = 404
    default = N_("There is nothing at this address.")


class ExistsError(EventrError):
    code = "exists"
    http_status = 409
    default = N_("That is there already.")


class ConflictError(EventrError):
    code = "conflict"
    http_status = 409
    default = N_("Somebody else changed this first. Reload and try again.")


class ChangedError(ConflictError):
    code = "changed"
    http_status = 412
    default = N_("This was changed since you read it. Read it again and decide anew.")


class KeyBusyError(ConflictError):
    code = "key_busy"
    default = N_("The first request with this Idempotency-Key is still running. Try again in a moment.")


class KeyReusedError(EventrError):
    code = "key_reused"
    http_status = 422
    default = N_("This Idempotency-Key came with another request before. Take a new one.")


class TooLargeError(EventrError):
    code = "too_large"
    http_status = 413
    default = N_("That is larger than this server accepts.")


class RateLimitedError(EventrError):
    code = "rate_limited"
    http_status = 429
    default = N_("That was too often. Wait a little and try again.")


class StoreError(EventrError):
    code = "store_unavailable"
    http_status = 503
    default = N_("The store does not answer. Nothing was lost; try again in a minute.")


class DrainingError(StoreError):
    code = "draining"
    default = N_("This is being serviced and takes nothing new. Try again in a few minutes.")


class LaterError(EventrError):
    """A job is to be run again; it counts by itself how often.

    Attributes:
        seconds: not sooner than after so many.
    """

    code = "later"
    http_status = 503
    default = N_("This did not work yet. It is tried again by itself.")

    def __init__(self, seconds: float, **ids: Any) -> None:
        super().__init__(None, **ids)
        self.seconds = seconds


class UnsentError(EventrError):
    code = "unsent"
    http_status = 503
    default = N_("The report could not be delivered to any address. The log names the kinds that failed.")


#: Every error word a feed can carry, with the sentence its readers see. ``http_4xx``-like words are
#: made from the status; their sentence is chosen by :func:`feed_message`.
FEED_MESSAGES: dict[str, str] = {
    "invalid_url": N_("This is not a web address that can be fetched."),
    "login_in_url": N_(
        "This address holds a user name or a password. Eventr sends neither, so it is not fetched."
    ),
    "refused": N_("This address cannot be fetched from here."),
    "unreachable": N_(
        "This address could not be reached from here: it is not allowed, accepts no connection, "
        "or takes too long to answer."
    ),
    "dns_failed": N_("The name of this site could not be found. It may be gone, or its DNS is down."),
    "connect_failed": N_("The site did not accept a connection."),
    "tls_failed": N_("The site's certificate is not valid, so its answer cannot be trusted."),
    "https_failed": N_("The site offers no https at this address, or only in a way that is not supported."),
    "timeout": N_("The site took too long to answer."),
    "too_many_redirects": N_("The site redirects too many times."),
    "bad_redirect": N_("The site redirects to an address that cannot be fetched."),
    "bad_response": N_("The site's answer breaks the rules of HTTP."),
    "bad_encoding": N_("The site's answer is compressed in a way that cannot be read, or was cut off."),
    "too_large": N_("The answer is larger than this server reads."),
    "empty": N_("The site answered with an empty page."),
    "not_a_feed": N_("This is not a feed. If it is a page, its feed may be found from its address."),
    "html_page": N_("This is a web page, not a feed. Its feed may be found from its address."),
    "broken_feed": N_("This is a feed, but too broken to be read."),
    "cut_off": N_("The site's answer ended in the middle. What came as a whole is here."),
    "gone": N_("The site says that this feed is gone for good."),
    "crashed": N_("Reading this feed crashed a worker three times, so it is paused."),
    "unreadable": N_("Reading this feed failed on our side. That is noted; it is tried again later."),
    "no_feed_found": N_("No feed was found at this address."),
}


#: What its reader can do about each of them; ``http_…`` words by :func:`feed_fix`.
FEED_FIXES: dict[str, str] = {
    "invalid_url": N_("Change the address below."),
    "login_in_url": N_(
        "Change the address below to one without them; some sites offer one that holds a key."
    ),
    "refused": N_("Change the address below, or ask whoever runs this server to allow it."),
    "unreachable": N_(
        "Open the site in a browser. If it is there, change the address below; else wait, it is tried again."
    ),
    "dns_failed": N_("Look whether the site has moved, and change the address below."),
    "connect_failed": N_("Wait, it is tried again; if that lasts for days, the site may be gone."),
    "tls_failed": N_("Only the site can mend that. Try the address with http:// if you trust the network."),
    "https_failed": N_("Only the site can mend that. Try the address with http:// if you trust the network."),
    "timeout": N_("Wait, it is tried again less often until it answers."),
    "too_many_redirects": N_("Open the address in a browser, and take the one you end at."),
    "bad_redirect": N_("Open the address in a browser, and take the one you end at."),
    "bad_response": N_("Only the site can mend that; tell its owner. It is tried again."),
    "bad_encoding": N_("Only the site can mend that; tell its owner. It is tried again."),
    "too_large": N_("Look for a smaller feed of the site, such as one of a single section."),
    "empty": N_("Wait, it is tried again; if that lasts, look for another feed of the site."),
    "not_a_feed": N_(
        "Add the site's page instead: its feeds are found from there. Then change the address below."
    ),
    "html_page": N_(
        "Add the site's page instead: its feeds are found from there. Then change the address below."
    ),
    "broken_feed": N_("Only the site can mend that; tell its owner. It is tried again."),
    "cut_off": N_(
        "Wait, it is asked for the rest; if that lasts, only the site can mend that: tell its owner."
    ),
    "gone": N_(
        "Change the address below if the site has a new feed, else unsubscribe. What you starred stays."
    ),
    "crashed": N_("Try “Check now” after an update of this server, and tell whoever runs it."),
    "unreadable": N_("Nothing to do. If it lasts for days, tell whoever runs this server."),
    "no_feed_found": N_("Look on the site for a link to its feed, and change the address below."),
}


#: To tell these apart would let a stranger map the network this server stands in (S13).
_UNREACHABLE = frozenset(["refused", "connect_failed", "timeout"])


#: Why an outline of an import came to no feed at all, besides faults of its address.
_WITHOUT_A_FEED = {
    kind.code: kind.default
    for kind in (InvalidError, NotFoundError, ForbiddenError, ConflictError, RateLimitedError)
}
#: With the number behind it: he had as many subscriptions as he may.
NO_ROOM = "no_room_"
#: A search that came to no end: whatever it was, it is not the site's.
SEARCH_FAILED = "search_failed"


def get_public_word(code: str, *, admin: bool = False) -> str:
    """Return the feed error word that a person may see; admins see all of them."""
    return "unreachable" if code in _UNREACHABLE and not admin else code


def get_feed_message(code: str) -> str:
    """Return the sentence for a feed error word, also for ``http_<status>`` words."""
    return fill_placeholders(*get_feed_sentence(code))


def get_feed_sentence(code: str) -> tuple[str, dict[str, str]]:
    """Return the sentence for a feed error word as translators know it, and what fills its places."""
    if code in FEED_MESSAGES:
        return FEED_MESSAGES[code], {}
    if code in _WITHOUT_A_FEED:
        return _WITHOUT_A_FEED[code], {}
    if code.startswith(NO_ROOM):
        sentence = N_("You have %(limit)s subscriptions, and that is the most.")
        return sentence, {"limit": code.removeprefix(NO_ROOM)}
    status = code.removeprefix("http_")
    return _status_sentence(status), {"status": status}


def get_search_message(code: str) -> str:
    """Return the sentence for the error word of a search for feeds."""
    return fill_placeholders(*get_search_sentence(code))


def get_search_sentence(code: str) -> tuple[str, dict[str, str]]:
    """Return the same as :func:`feed_sentence` for a search: only who asked for it tries that again."""
    if code == SEARCH_FAILED:
        return N_("Looking for feeds failed on our side. Try again in a minute."), {}
    status = code.removeprefix("http_")
    if status in ("404", "410"):
        sentence = N_("There is nothing at this address (HTTP %(status)s). Look how it is written.")
        return sentence, {"status": status}
    if status == "429":
        return N_("The site asks for fewer requests (HTTP 429). Try again in a few minutes."), {}
    if status.startswith("5"):
        sentence = N_("The site has a fault of its own (HTTP %(status)s). Try again in a minute.")
        return sentence, {"status": status}
    return get_feed_sentence(code)


def _status_sentence(status: str) -> str:
    match status:
        case "304":
            return N_(
                "The site says that nothing has changed, though it was not asked that (HTTP %(status)s)."
            )
        case "403":
            return N_(
                "The site refuses to give this out (HTTP %(status)s). It may want a login, or keep readers "
                "like this one out."
            )
        case "401" | "407":
            return N_("The site wants a login for this address (HTTP %(status)s).")
        case "404" | "410":
            return N_("There is nothing at this address any more (HTTP %(status)s).")
        case "429":
            return N_("The site asks for fewer requests (HTTP 429); it is polled less often now.")
        case _ if status.startswith("5"):
            return N_("The site has a fault of its own (HTTP %(status)s); it is asked again later.")
        case _:
            return N_("The site answered with HTTP %(status)s.")


def get_feed_fix(code: str) -> str:
    """Return what a reader can do about a feed error word, also for ``http_<status>`` words."""
    if code in FEED_FIXES:
        return FEED_FIXES[code]
    status = code.removeprefix("http_")
    match status:
        case "304":
            return FEED_FIXES["bad_response"]
        case "403":
            return N_(
                "Open the address in a browser. If it is shown there, ask the site's owner to let feed "
                "readers in; else look for a public feed of the site."
            )
        case "401" | "407":
            return N_("Look for a public feed of the site, or for an address that holds a key.")
        case "404" | "410":
            return FEED_FIXES["dns_failed"]
        case "429":
            return N_("Nothing to do: it is asked more slowly by itself.")
        case _ if status.startswith("5"):
            return N_("Wait, it is tried again; if that lasts for days, the site may be gone.")
        case _:
            return N_("Open the address in a browser; if it shows nothing, change the address below.")


class FeedError(EventrError):
    """A foreign server, page or feed is at fault.

    Args:
        code: the error word, a key of :data:`FEED_MESSAGES` or ``http_<status>``.
        detail: what exactly happened, for logs and the feed page; never a body.
    """

    http_status = 422
    format_message = staticmethod(get_feed_message)

    def __init__(self, code: str, detail: str = "", **ids: Any) -> None:
        super().__init__(self.format_message(code), **ids)
        self._word = code
        self.detail = detail

    @property
    def word(self) -> str:
        return self._word


class FetchError(FeedError):
    """A fetch ended without a usable answer."""


class ParseError(FeedError):
    """A body was fetched and cannot be read as what it should be."""


class SearchError(FeedError):
    """A search for feeds ended without one."""

    format_message = staticmethod(get_search_message)
