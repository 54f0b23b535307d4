"""Error types: every error that Eventr raises on purpose, as one tree.

 EventrError
 ├── SettingsError             a setting is invalid; names it and the valid values
 ├── StartupError              a process can't start (port in use, folder read-only, second instance)
 ├── InvalidError              invalid input (400)
 ├── AuthRequiredError         not logged in (401)
 ├── ForbiddenError            logged in, but not allowed (403)
 │   └── OldPageError          … because the token belongs to an earlier session (403)
 ├── NotFoundError             doesn't exist, or belongs to someone else (404)
 ├── ExistsError               already exists (409)
 ├── ConflictError             someone else changed it first (409)
 │   ├── ChangedError          … as a program's If-Match shows (412)
 │   ├── KeyBusyError          the first request with this Idempotency-Key is still running (409)
 │   └── OffsetError           an upload continues at another byte (409)
 ├── GoneError                 an upload was deleted, or has expired (410)
 ├── ChecksumError             a part of an upload arrived damaged (460)
 ├── UploadVersionError        an upload uses another version of the protocol (412)
 ├── QuotaError                a user's storage is full (507)
 ├── KeyReusedError            a different request used this Idempotency-Key before (422)
 ├── TooLargeError             exceeds a named limit (413)
 ├── RateLimitedError          too often (429)
 ├── StoreError                MongoDB or Redis isn't responding (503)
 │   ├── NoSpaceError          a disk is almost full, so nothing big is stored (503)
 │   ├── CellError             the replica set that holds a person's data isn't responding (503)
 │   │   └── CellMismatchError   … because its address leads to another cell's database (503)
 │   ├── MovingError           a person's data is being moved to another one, so they can only read (503)
 │   ├── MediaStoreError       a store of pictures and files isn't responding (503)
 │   ├── DrainingError         a queue currently accepts no new jobs (503)
 │   └── SearchUnavailableError  the search index can't be read or written (503)
 │       └── SearchUnsupportedError  the search engine isn't installed (503)
 ├── LaterError                a job must run again after a given time (503)
 ├── UnsentError               a message couldn't be delivered (503)
 ├── PicturesUnsupportedError  the package that draws pictures isn't installed (503)
 ├── PictureError              a file can't be drawn as a picture; ``word`` says why (422)
 └── FeedError                 a foreign server, page or feed is at fault; ``code`` is the error word
     ├── FetchError            the fetch failed
     ├── ParseError            the document was fetched but can't be parsed
     └── SearchError           no feed was found there

A mapper turns driver errors into these (with the cause chained), and services let them pass. One handler
per interface (web, command line, worker) renders them. ``message`` is a sentence for people and never
contains internals; ``ids`` goes to the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

#: The ids of errors that are logged, with numbers as values. All others may quote what someone sent, such as
#: the secret address of a feed.
LOGGED_NUMBERS = frozenset(
    (
        *(
            "comment_id",
            "device_id",
            "entry_id",
            "export_id",
            "feed_id",
            "folder_id",
            "import_id",
            "share_id",
        ),
        *("share_id", "tag_id", "token_id", "user_id"),
        *("count", "given", "limit", "mb", "minutes", "most", "retry_after"),
    )
)
#: The ids of errors that are logged, with words from our own code as values.
LOGGED_WORDS = frozenset({"action", "field", "permission", "scope"})
_WORD = re.compile(r"[a-z_:.-]{1,40}")
_PLACE = re.compile(r"%\((\w+)\)s")


def N_(sentence: str) -> str:
    """Mark a sentence for translation; the code that shows it translates it."""
    return sentence


def fill_placeholders(sentence: str, values: Mapping[str, Any]) -> str:
    """Return a sentence with its placeholders ``%(name)s`` filled; one without a value stays."""
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), sentence)


class EventrError(Exception):
    """Root of the tree.

    Args:
        message: one sentence for the person who sees it, saying what to do. It must be a literal, so that
            it can be translated; variable parts are placeholders, ``%(limit)s``, filled from ``ids``.
        ids: the subject of the error (``feed_id=…``, ``field=…``), for logs and JSON responses.

    Attributes:
        sentence: the sentence with its placeholders, for translators; ``message`` has them filled.
    """

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    default: ClassVar[str] = N_("Something went wrong on our side. Try again in a minute.")
    #: The sentence for people whose own data isn't concerned; empty: the same one.
    others: ClassVar[str] = ""

    def __init__(self, message: str | None = None, **ids: Any) -> None:
        self.sentence = message or self.default
        self.message = fill_placeholders(self.sentence, ids)
        self.ids = ids
        super().__init__(self.message)

    @property
    def word(self) -> str:
        """The stable machine word of this error."""
        return self.code

    @property
    def logged_ids(self) -> dict[str, Any]:
        """The ids that logs may contain (V14): known numbers, and words of our own."""
        return {
            name: value
            for name, value in self.ids.items()
            if (name in LOGGED_NUMBERS and isinstance(value, int))
            or (name in LOGGED_WORDS and _WORD.fullmatch(str(value)))
        }


class SettingsError(EventrError):
    code = "settings"
    default = N_("A setting is invalid.")


class StartupError(EventrError):
    code = "startup"
    default = N_("Eventr can't start.")


class InvalidError(EventrError):
    code = "invalid"
    http_status = 400
    default = N_("Something doesn't look right. Check what you entered and try again.")


class AuthRequiredError(EventrError):
    code = "auth_required"
    http_status = 401
    default = N_("Log in first.")


class ForbiddenError(EventrError):
    code = "forbidden"
    http_status = 403
    default = N_("You don't have permission to do this.")


class OldPageError(ForbiddenError):
    code = "old_page"
    default = N_("This page has expired. Reload it and try again.")


class NotFoundError(EventrError):
    code = "not_found"
    http_status = 404
    default = N_("This doesn't exist, or you don't have access to it.")


class ExistsError(EventrError):
    code = "exists"
    http_status = 409
    default = N_("This already exists.")


class ConflictError(EventrError):
    code = "conflict"
    http_status = 409
    default = N_("Someone else changed this first. Reload the page and try again.")


class ChangedError(ConflictError):
    code = "changed"
    http_status = 412
    default = N_("This has changed since you loaded it. Reload it and try again.")


class StaleSaveError(ConflictError):
    """A later save of the same open page came first; it has all that this one has."""

    code = "stale_save"


class KeyBusyError(ConflictError):
    code = "key_busy"
    default = N_("The first request with this Idempotency-Key is still running. Try again in a moment.")


class OffsetError(ConflictError):
    """A part doesn't begin where the upload ends; ``offset`` in ``ids`` says where it ends."""

    code = "upload_offset"
    default = N_("The upload continues at another byte. Ask for its offset and continue there.")


class GoneError(EventrError):
    code = "upload_gone"
    http_status = 410
    default = N_("This upload was deleted or has expired. Upload the file again.")


class ChecksumError(EventrError):
    """The status is the one that tus 1.0 defines for its extension "checksum"."""

    code = "upload_checksum"
    http_status = 460
    default = N_("This part of the file was damaged on its way. Send it again.")


class UploadVersionError(EventrError):
    code = "upload_version"
    http_status = 412
    default = N_("This server supports tus 1.0: send the header Tus-Resumable: 1.0.0.")


class QuotaError(EventrError):
    code = "quota_exceeded"
    http_status = 507
    default = N_("Your storage is full. Delete files that you don't need, and try again.")


class KeyReusedError(EventrError):
    code = "key_reused"
    http_status = 422
    default = N_("This Idempotency-Key was already used for a different request. Use a new one.")


class TooLargeError(EventrError):
    code = "too_large"
    http_status = 413
    default = N_("The request is larger than this server accepts.")


class RateLimitedError(EventrError):
    code = "rate_limited"
    http_status = 429
    default = N_("You're doing this too often. Try again in a moment.")


class StoreError(EventrError):
    code = "store_unavailable"
    http_status = 503
    default = N_("The database isn't responding. Nothing was lost. Try again in a minute.")


class NoSpaceError(StoreError):
    code = "no_space"
    default = N_(
        "The server's disk is almost full, so Eventr fetches and imports nothing. Reading still works. Try "
        "again later, or tell the administrator."
    )


class CellError(StoreError):
    code = "cell_unavailable"
    default = N_(
        "The server that stores your data isn't responding. Nothing was lost. Try again in a minute."
    )
    others = N_("The server that stores someone else's data isn't responding. Try again in a minute.")


class CellMismatchError(CellError):
    code = "cell_mismatch"
    default = N_("The address of a cell leads to another cell's database. Correct EVENTR_CELLS.")
    others = ""


class MovingError(StoreError):
    code = "moving"
    #: Seconds after which writes may be possible again, for ``Retry-After``.
    RETRY_SECONDS: ClassVar[int] = 5
    default = N_(
        "Your account is moving to another server. You can read; changes are possible again in a few seconds."
    )
    others = N_("Someone else's account is moving to another server. Try again in a few seconds.")


class MediaStoreError(StoreError):
    code = "media_store"
    default = N_("The storage for pictures and files isn't responding. Try again in a minute.")


class DrainingError(StoreError):
    code = "draining"
    default = N_("The server is under maintenance and can't start new jobs. Try again in a few minutes.")


class SearchUnavailableError(StoreError):
    code = "search_unavailable"
    default = N_("Search isn't available right now. Everything else works. Try again in a few minutes.")


class SearchUnsupportedError(SearchUnavailableError):
    code = "search_unsupported"
    default = N_(
        "Search isn't available because the server lacks the package tantivy. Everything else works. "
        "The administrator can install it with “pip install tantivy”."
    )


class LaterError(EventrError):
    """A job must run again; the job itself counts its attempts.

    Attributes:
        seconds: the shortest wait before the next attempt.
    """

    code = "later"
    http_status = 503
    default = N_("This didn't work yet. Eventr will retry automatically.")

    def __init__(self, seconds: float, **ids: Any) -> None:
        super().__init__(None, **ids)
        self.seconds = seconds


class UnsentError(EventrError):
    code = "unsent"
    http_status = 503
    default = N_(
        "Eventr couldn't deliver the report to any address. The log shows which types of address failed."
    )


class PicturesUnsupportedError(EventrError):
    code = "pictures_unsupported"
    http_status = 503
    default = N_(
        "Pictures aren't available because the server lacks the package pillow. Everything else works. "
        "The administrator can install it with “pip install pillow”."
    )


#: Every error word of a picture that can't be drawn, with its sentence.
PICTURE_MESSAGES: dict[str, str] = {
    "not_a_picture": N_(
        "This isn't a picture that Eventr can show. Choose a JPEG, PNG, GIF, WebP or AVIF file."
    ),
    "broken_picture": N_(
        "This picture is damaged or incomplete. Save it again in another program and retry."
    ),
    "too_many_pixels": N_("This picture has too many pixels for this server. Scale it down and retry."),
    "crashed": N_(
        "Reading this picture took too long, or crashed a worker. Eventr won't retry automatically."
    ),
}


class PictureError(EventrError):
    """A file can't be drawn as a picture.

    Args:
        code: the error word, a key of :data:`PICTURE_MESSAGES`.
    """

    code = "picture"
    http_status = 422

    def __init__(self, code: str, **ids: Any) -> None:
        super().__init__(PICTURE_MESSAGES[code], **ids)
        self._word = code

    @property
    def word(self) -> str:
        return self._word


#: Cutting the address at the space would subscribe to another one.
SPACE_IN_ADDRESS = N_(
    "This address contains a space. Copy the address from your browser's address bar, or remove the text "
    "after it."
)

#: Every error word of a feed, with the sentence for its readers. ``http_<status>`` words come
#: from the status; :func:`get_feed_message` chooses their sentence.
FEED_MESSAGES: dict[str, str] = {
    "invalid_url": N_("Eventr can't fetch this kind of address."),
    "login_in_url": N_(
        "This address contains a user name or password. Eventr doesn't send either, so it "
        "can't fetch the feed."
    ),
    "login_unreadable": N_(
        "Eventr can't read the stored login of this feed, because this server's key has changed."
    ),
    "refused": N_("This server isn't allowed to fetch this address."),
    "unreachable": N_(
        "Eventr couldn't reach this address. It may be blocked, refuse connections or take "
        "too long to respond."
    ),
    "dns_failed": N_(
        "Eventr couldn't find this site's domain name. The site may be gone, or its DNS may be down."
    ),
    "connect_failed": N_("The site refused the connection."),
    "tls_failed": N_("The site's certificate isn't valid, so its response can't be trusted."),
    "https_failed": N_("The site doesn't support HTTPS at this address, or only in a form Eventr can't use."),
    "timeout": N_("The site took too long to respond."),
    "too_many_redirects": N_("The site redirects too many times."),
    "bad_redirect": N_(
        "The site redirects to an address that Eventr doesn't fetch, such as one in a private network."
    ),
    "bad_response": N_("The site sent an invalid HTTP response."),
    "bad_encoding": N_("The site's response was cut off or is compressed in a form Eventr can't read."),
    "too_large": N_("The site's response is larger than this server accepts."),
    "read_in_part": N_(
        "This feed is larger than this server reads. Eventr keeps the entries before the limit, "
        "usually the newest."
    ),
    "empty": N_("The site sent an empty response."),
    "not_a_feed": N_("This isn't a feed. If it's a web page, Eventr may be able to find its feed."),
    "html_page": N_("This is a web page, not a feed. Eventr may be able to find its feed."),
    "broken_feed": N_("This feed has too many errors to be read."),
    "cut_off": N_("The site's response was cut off. Eventr kept the complete entries."),
    "gone": N_("The site says this feed has been permanently removed."),
    "crashed": N_("Reading this feed crashed a worker three times, so the feed is paused."),
    "unreadable": N_(
        "Something went wrong on our side while reading this feed. The error is logged, and "
        "Eventr will retry later."
    ),
    "no_feed_found": N_("No feed was found at this address."),
    "no_list_found": N_("The page has no list that could be a feed."),
    "recipe_broken": N_("The page has changed, and its entries aren't where they were."),
    "consent_page": N_(
        "The site asks for consent to cookies before it shows this page, so Eventr can't read a feed there."
    ),
}


#: The remedy for each error word; :func:`get_feed_fix` handles ``http_…`` words.
FEED_FIXES: dict[str, str] = {
    "invalid_url": N_("Change the address below."),
    "login_in_url": N_(
        "Change the address below to one without a user name and password, and enter them under “Login and "
        "fetching”."
    ),
    "login_unreadable": N_("Enter the login again under “Login and fetching”."),
    "refused": N_("Change the address below, or ask the server's admin to allow it."),
    "unreachable": N_(
        "Open the site in a browser. If it works there, change the address below. Otherwise, "
        "wait for Eventr to retry."
    ),
    "dns_failed": N_("Check whether the site has moved, then change the address below."),
    "connect_failed": N_("Nothing to do yet. If this goes on for days, the site may be gone or have moved."),
    "tls_failed": N_(
        "Only the site's owner can fix this. If you trust the network, try the address with http://."
    ),
    "https_failed": N_(
        "Only the site's owner can fix this. If you trust the network, try the address with http://."
    ),
    "timeout": N_("Wait for Eventr to retry. It checks the feed less often until the site responds."),
    "too_many_redirects": N_("Open the address in a browser and use the address you end up at."),
    "bad_redirect": N_("Open the address in a browser and use the address you end up at."),
    "bad_response": N_("Only the site's owner can fix this, so contact them. Eventr will keep trying."),
    "bad_encoding": N_("Only the site's owner can fix this, so contact them. Eventr will keep trying."),
    "too_large": N_("Look for a smaller feed on the site, such as one for a single section."),
    "read_in_part": N_(
        "Nothing to do if the newest entries arrive. Otherwise, look for a smaller feed on the site."
    ),
    "empty": N_("Wait for Eventr to retry. If this goes on, look for another feed on the site."),
    "not_a_feed": N_("Add the page itself so that Eventr can find its feeds. Then change the address below."),
    "html_page": N_("Add the page itself so that Eventr can find its feeds. Then change the address below."),
    "broken_feed": N_("Only the site's owner can fix this, so contact them. Eventr will keep trying."),
    "cut_off": N_(
        "Wait for Eventr to retry. If this goes on, contact the site's owner, because only they can fix it."
    ),
    "gone": N_(
        "Change the address below if the site has a new feed. Otherwise, unsubscribe. Starred entries stay."
    ),
    "crashed": N_("Contact the server's admin. After the server is updated, try “Check now”."),
    "unreadable": N_("Nothing to do. If this goes on for days, contact the server's admin."),
    "no_feed_found": N_("Look for a feed link on the site, then change the address below."),
    "no_list_found": N_("Enter the address of a page that lists entries, or selectors for its entries."),
    "recipe_broken": N_("Choose “Repair”, and select the list again."),
    "consent_page": N_("Open the site in a browser, look for a feed link, and use the address of that link."),
}


#: Distinguishing these would let a stranger map this server's network (S13).
_UNREACHABLE = frozenset(["refused", "connect_failed", "timeout"])


#: Why an outline of an import led to no feed, other than faults of its address.
_WITHOUT_A_FEED = {
    kind.code: kind.default
    for kind in (InvalidError, NotFoundError, ForbiddenError, ConflictError, RateLimitedError)
}
#: A prefix, followed by the limit: the user has reached the limit of subscriptions.
NO_ROOM = "no_room_"
#: A search that ended abnormally; the site isn't at fault.
SEARCH_FAILED = "search_failed"


def get_public_word(code: str, *, admin: bool = False) -> str:
    """Return the feed error word that a person may see; admins see all of them."""
    return "unreachable" if code in _UNREACHABLE and not admin else code


def write_refusal(error: EventrError) -> str:
    """Return the sentence of an error with the values of its placeholders, to be stored."""
    values = {name: error.ids[name] for name in _PLACE.findall(error.sentence) if name in error.ids}
    return f"{error.sentence}\n{json.dumps(values)}" if values else error.sentence


def read_refusal(code: str, detail: str) -> EventrError | None:
    """Return the error of an outline that Eventr itself refused, from its stored detail; else None."""
    if code not in _WITHOUT_A_FEED or not detail:
        return None
    sentence, _, values = detail.partition("\n")
    return InvalidError(sentence, **(json.loads(values) if values else {}))


def get_feed_message(code: str) -> str:
    """Return the sentence for a feed error word, including ``http_<status>`` words."""
    return fill_placeholders(*get_feed_sentence(code))


def get_feed_sentence(code: str) -> tuple[str, dict[str, str]]:
    """Return the untranslated sentence for a feed error word, and the values of its placeholders."""
    if code in FEED_MESSAGES:
        return FEED_MESSAGES[code], {}
    if code in _WITHOUT_A_FEED:
        return _WITHOUT_A_FEED[code], {}
    if code.startswith(NO_ROOM):
        sentence = N_("You can have at most %(limit)s subscriptions.")
        return sentence, {"limit": code.removeprefix(NO_ROOM)}
    status = code.removeprefix("http_")
    return _status_sentence(status), {"status": status}


#: Why the page of an entry can't be read, by the word of the error; see :func:`get_page_message`.
PAGE_MESSAGES: dict[str, str] = {
    "robots": N_("The site doesn't let programs fetch this page. Choose “Full text” to fetch it yourself."),
    "no_store": N_("The site doesn't want copies of this page. Choose “Full text” to fetch it yourself."),
    "nothing_more": N_("The page has no more text than the feed."),
    "busy": N_("The site is limiting requests. Try again in a few minutes."),
    "unreadable": N_("Eventr can't read this page. Open it at its site."),
    "gone": N_("The page doesn't exist anymore."),
    "walled": N_("The site doesn't let Eventr read this page. It may require a login."),
    "unreachable": N_("The site doesn't respond. Try again in an hour."),
}
_PAGE_WORDS = {
    **dict.fromkeys(("http_404", "http_410"), "gone"),
    **dict.fromkeys(("http_401", "http_402", "http_403", "http_407", "http_451", "refused"), "walled"),
    **dict.fromkeys(("connect_failed", "timeout", "dns_failed", "unreachable"), "unreachable"),
    **dict.fromkeys(("http_429", "http_503"), "busy"),
}


def get_page_message(code: str) -> str:
    """Return the sentence for an error word of an entry's page, including ``http_<status>`` words."""
    word = _PAGE_WORDS.get(code, code)
    return PAGE_MESSAGES.get(
        word, PAGE_MESSAGES["unreachable" if word.startswith("http_5") else "unreadable"]
    )


def get_search_message(code: str) -> str:
    """Return the sentence for the error word of a search for feeds."""
    return fill_placeholders(*get_search_sentence(code))


def get_search_sentence(code: str) -> tuple[str, dict[str, str]]:
    """Return the same as :func:`get_feed_sentence` for a search, which isn't retried automatically."""
    if code == SEARCH_FAILED:
        return N_("Something went wrong on our side while looking for feeds. Try again in a minute."), {}
    status = code.removeprefix("http_")
    if status in ("404", "410"):
        sentence = N_("The site has nothing at this address (HTTP %(status)s). Check the spelling.")
        return sentence, {"status": status}
    if status == "429":
        return N_("The site is limiting requests (HTTP 429). Try again in a few minutes."), {}
    if status.startswith("5"):
        sentence = N_("The site has an internal error (HTTP %(status)s). Try again in a minute.")
        return sentence, {"status": status}
    return get_feed_sentence(code)


def _status_sentence(status: str) -> str:
    match status:
        case "304":
            return N_("The site sent an unexpected “Not modified” response (HTTP %(status)s).")
        case "403":
            return N_(
                "The site denied access (HTTP %(status)s). It may require a login or block feed readers."
            )
        case "401" | "407":
            return N_("The site requires a login for this address (HTTP %(status)s).")
        case "404" | "410":
            return N_("The site has nothing at this address anymore (HTTP %(status)s).")
        case "429":
            return N_("The site is limiting requests (HTTP 429), so Eventr checks it less often now.")
        case _ if status.startswith("5"):
            return N_("The site has an internal error (HTTP %(status)s).")
        case _:
            return N_("The site responded with HTTP %(status)s.")


def get_feed_fix(code: str) -> str:
    """Return what a reader can do about a feed error word, including ``http_<status>`` words."""
    if code in FEED_FIXES:
        return FEED_FIXES[code]
    status = code.removeprefix("http_")
    match status:
        case "304":
            return FEED_FIXES["bad_response"]
        case "403":
            return N_(
                "Open the address in a browser. If it works there without a login, try another user agent "
                "under “Login and fetching”. Otherwise, enter your login there, or look for a public feed."
            )
        case "401" | "407":
            return N_("Enter your login for the site under “Login and fetching”, or look for a public feed.")
        case "404" | "410":
            return FEED_FIXES["dns_failed"]
        case "429":
            return N_("Nothing to do. Eventr is already checking this feed less often.")
        case _ if status.startswith("5"):
            return FEED_FIXES["connect_failed"]
        case _:
            return N_("Open the address in a browser. If it doesn't work there, change the address below.")


class FeedError(EventrError):
    """A foreign server, page or feed is at fault.

    Args:
        code: the error word, a key of :data:`FEED_MESSAGES` or ``http_<status>``.
        detail: what exactly happened, for logs and the feed page; never part of a body.
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
    """A fetch ended without a usable response."""


class ParseError(FeedError):
    """A body was fetched but can't be parsed as the expected format."""


class SearchError(FeedError):
    """A search for feeds ended without finding one."""

    format_message = staticmethod(get_search_message)
