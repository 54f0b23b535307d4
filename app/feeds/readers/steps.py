"""What all interfaces share: a reader's steps, and what an answer means."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator, Sequence
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlencode, urlsplit

from app.errors import N_, InvalidError
from app.feeds.archives.values import HALVES, get_dict, replace_halves
from app.models.feeds.fetched import Fetched, FetchRequest, Target
from app.models.imports.archives import SavedEntry
from app.models.imports.opml import SubscriptionList
from app.models.imports.pulls import PageTooLargeError, PassingError, PulledPage

T = TypeVar("T")
#: Requests to send one after the other; each result is sent back in. Returns what they found.
Steps = Generator[FetchRequest, Fetched, T]
Fields = Sequence[tuple[str, str]]

#: Error words of fetches that may succeed later, besides those of HTTP's 5xx.
_PASSING: Final = frozenset(
    {"timeout", "dns_failed", "connect_failed", "unreachable", "cut_off", "empty", "http_408", "http_429"}
)
#: What to do about a login that doesn't open the account.
REFUSED: Final = N_(
    "%(host)s refused this login. Check the name and the password. Some readers want a password of their own "
    "for apps, which you set in their settings."
)
_LOGIN: Final = frozenset({"http_401", "http_403", "http_407"})
_ABSENT: Final = frozenset({"http_400", "http_404", "http_405", "gone", "http_501"})


class ServerReader(Protocol):
    """Reads one account of a server. Errors are raised inside the steps, see :func:`check`."""

    @property
    def stages(self) -> Sequence[str]:
        """The lists of entries to read, after :meth:`connect`."""
        ...

    def connect(self) -> Steps[SubscriptionList]:
        """Log in; return the subscriptions."""
        ...

    def read_page(self, stage: str, cursor: str, size: int) -> Steps[PulledPage]:
        """Return a page of a stage; ``cursor``: as of the page before, empty for the first."""
        ...


def ask(url: str, fields: Fields = (), *, headers: Fields = (), form: Fields | None = None) -> FetchRequest:
    """Return a request for data, a POST if there is a ``form``. It follows no redirect with the login."""
    return FetchRequest(
        f"{url}?{urlencode(fields)}" if fields else url,
        target=Target.DATA,
        headers=tuple(headers),
        form=None if form is None else urlencode(form).encode(),
        reads_reply=form is not None,
        follow=False,
        slow=True,
    )


def check(fetched: Fetched, *, refused: str = REFUSED) -> bytes:
    """Return the body of an answer.

    Args:
        refused: sentence if the login is refused.

    Raises:
        InvalidError: trying again is useless; the sentence says what to do.
        PassingError: the server doesn't answer now.
        PageTooLargeError: the answer exceeds the limit.
    """
    if fetched.error is None and fetched.body is not None:
        return fetched.body
    word = fetched.error.word if fetched.error else "empty"
    host = urlsplit(fetched.request.url).hostname or ""
    if word == "too_large":
        raise PageTooLargeError
    if word in _PASSING or (word.startswith("http_5") and word != "http_501"):
        raise PassingError(word, fetched.retry_after or 0)
    if word in _LOGIN:
        raise InvalidError(refused, host=host)
    if word in _ABSENT:
        raise InvalidError(
            "%(host)s doesn't have this interface at this address. Check the address, and that your reader "
            "lets apps in.",
            host=host,
        )
    if word.startswith("http_3"):
        raise InvalidError(
            "%(host)s sends visitors of this address elsewhere. Enter the address that your browser shows "
            "there.",
            host=host,
        )
    if word == "refused" and fetched.error and fetched.error.detail.startswith("port "):
        raise InvalidError(
            "Eventr may not connect to this port of %(host)s. Ask the administrator of this server to allow "
            "it, or use an address without a port.",
            host=host,
        )
    if word == "refused":
        raise InvalidError(
            "Eventr may not connect to %(host)s, because its address isn't public. Ask the administrator of "
            "this server to allow it.",
            host=host,
        )
    raise InvalidError("Eventr can't read the answer of %(host)s (%(word)s).", host=host, word=word)


def drop_text(entry: SavedEntry) -> SavedEntry:
    """Return an entry without its text."""
    return dataclasses.replace(entry, html="") if entry.html else entry


def read_json(fetched: Fetched) -> Any:
    """Return the JSON of an answer.

    Raises:
        InvalidError: it isn't JSON; and as :func:`check` all others.
    """
    body = check(fetched)
    try:
        text = body.decode(json.detect_encoding(body), "replace")
        found = json.loads(text)
        return replace_halves(found) if HALVES.search(text) else found
    except (ValueError, RecursionError) as e:
        host = urlsplit(fetched.request.url).hostname or ""
        raise InvalidError(
            "%(host)s answers with something else than an interface for apps. Check the address.", host=host
        ) from e


def read_object(fetched: Fetched) -> dict[str, Any]:
    """Return the JSON object of an answer, an empty one if it is another value."""
    return get_dict(read_json(fetched))
