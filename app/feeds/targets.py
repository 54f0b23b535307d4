"""Requests to the services that entries are sent to: one pure function per kind.

A person may enter any address. So it is requested under all rules of the fetcher, redirects aren't followed,
and nothing of a response is stored but its status.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from app.errors import FetchError, InvalidError
from app.feeds.fetch.address_policy import Policy
from app.models.feeds.fetched import Fetched, FetchRequest, Purpose
from app.models.reading.targets import Delivery, NoPageError, SentEntry, TargetKind

#: Longest address and secret, in characters.
ADDRESS_MAX, SECRET_MAX = 2048, 512
#: Most characters of an excerpt and of a title in a message for people.
EXCERPT, TITLE = 500, 250
#: Longest link in it, in bytes of UTF-8: ntfy refuses messages of more than 8 KiB.
LINK_MAX: Final = 2048
_PRIORITY: Final = 5
#: Statuses after which a later attempt may succeed, besides 5xx. A service may be repaired that refuses its
#: token; and one that is asked for entry after entry with it blocks the whole server (ntfy: after 30).
_PASSING: Final = frozenset({401, 403, 408, 425, 429})
Headers = tuple[tuple[str, str], ...]


class _Message(NamedTuple):
    """A message: its address, its JSON, and its headers."""

    url: str
    body: Mapping[str, Any]
    headers: Headers = ()


def _write_webhook(address: str, secret: str, entry: SentEntry, delivery: Delivery) -> _Message:
    event = f"entry.{delivery.occasion}"
    body = {
        "id": delivery.event_id,
        "event": event,
        "at": delivery.at.isoformat(),
        "entry": {
            "id": str(entry.id),
            "title": entry.title,
            "url": entry.url or None,
            "eventr_url": entry.own_url,
            "author": entry.author or None,
            "excerpt": entry.excerpt,
            "feed": entry.feed_title,
            "published": entry.published.isoformat() if entry.published else None,
            "tags": list(entry.tags),
        },
    }
    headers: Headers = (("X-Eventr-Event", event), ("X-Eventr-Delivery", delivery.event_id))
    if secret:
        signature = hmac.new(secret.encode(), _encode(body), hashlib.sha256).hexdigest()
        headers += (("X-Eventr-Signature", f"sha256={signature}"),)
    return _Message(address, body, headers)


def _write_ntfy(address: str, secret: str, entry: SentEntry, delivery: Delivery) -> _Message:
    base, _, topic = address.rstrip("/").rpartition("/")
    body = {
        "topic": topic,
        "title": _get_title(entry),
        "message": _get_text(entry),
        "click": _get_link(entry),
    }
    return _Message(f"{base}/", body, (("Authorization", f"Bearer {secret}"),) if secret else ())


def _write_gotify(address: str, secret: str, entry: SentEntry, delivery: Delivery) -> _Message:
    body = {
        "title": _get_title(entry),
        "message": _get_text(entry),
        "priority": _PRIORITY,
        "extras": {"client::notification": {"click": {"url": _get_link(entry)}}},
    }
    return _Message(_join(address, "message"), body, (("X-Gotify-Key", secret),))


def _write_readeck(address: str, secret: str, entry: SentEntry, delivery: Delivery) -> _Message:
    body = {"url": _get_page(entry), "title": entry.title, "labels": list(entry.tags)}
    return _Message(_join(address, "api/bookmarks"), body, (("Authorization", f"Bearer {secret}"),))


def _write_linkding(address: str, secret: str, entry: SentEntry, delivery: Delivery) -> _Message:
    body = {
        "url": _get_page(entry),
        "title": entry.title,
        "description": entry.excerpt[:EXCERPT],
        # Tags of Linkding have no spaces.
        "tag_names": ["-".join(tag.split()) for tag in entry.tags],
    }
    return _Message(_join(address, "api/bookmarks/"), body, (("Authorization", f"Token {secret}"),))


class Kind(NamedTuple):
    """A kind of targets. ``needs_secret``: it refuses messages without one."""

    write: Callable[[str, str, SentEntry, Delivery], _Message]
    needs_secret: bool = True


KINDS: Final[Mapping[TargetKind, Kind]] = {
    TargetKind.WEBHOOK: Kind(_write_webhook, needs_secret=False),
    TargetKind.NTFY: Kind(_write_ntfy, needs_secret=False),
    TargetKind.GOTIFY: Kind(_write_gotify),
    TargetKind.READECK: Kind(_write_readeck),
    TargetKind.LINKDING: Kind(_write_linkding),
}


def check_address(kind: TargetKind, address: str, policy: Policy) -> str:
    """Return the checked address of a service.

    Raises:
        InvalidError: it isn't a web address, or this server may not send there.
    """
    address = address.strip()
    if address and "://" not in address:
        address = f"https://{address}"
    try:
        if len(address) > ADDRESS_MAX:
            raise FetchError("invalid_url", "too long")
        url = policy.check_url(address).url
    except FetchError as e:
        if e.word == "refused":
            raise InvalidError(
                "This server may not send to this address. Its admin can allow it (EVENTR_SEND_ALLOW).",
                field="address",
            ) from e
        if e.word == "login_in_url":
            raise InvalidError("Enter the address without a user name and password.", field="address") from e
        raise InvalidError(
            "Enter the web address of the service, such as https://example.org/.", field="address"
        ) from e
    if kind is TargetKind.NTFY and not _is_topic(url):
        raise InvalidError("Enter the address of a topic, such as https://ntfy.sh/my-topic.", field="address")
    return url


def is_same_server(one: str, other: str) -> bool:
    """Return whether two checked addresses have the same scheme, host and port."""
    return _get_server(one) == _get_server(other)


def _get_server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def check_secret(kind: TargetKind, secret: str) -> str:
    """Return the checked secret of a service.

    Raises:
        InvalidError: it is missing, too long, or can't be in a header.
    """
    secret = secret.strip()
    if not secret and KINDS[kind].needs_secret:
        raise InvalidError("Enter the access token of the service.", field="secret")
    if len(secret) > SECRET_MAX or not all("!" <= c <= "~" for c in secret):
        raise InvalidError(
            "A secret has at most %(most)s letters, digits and signs, and no spaces.",
            field="secret",
            most=SECRET_MAX,
        )
    return secret


def build_request(
    kind: TargetKind, address: str, secret: str, entry: SentEntry, delivery: Delivery, *, within: float
) -> FetchRequest:
    """Return the request that sends an entry to a service.

    Args:
        within: most seconds until the response.

    Raises:
        NoPageError: the service keeps addresses, and the entry has none.
    """
    message = KINDS[kind].write(address, secret, entry, delivery)
    return FetchRequest(
        message.url,
        headers=(("Content-Type", "application/json"), *message.headers),
        form=_encode(message.body),
        follow=False,
        within=within,
        purpose=Purpose.SEND,
    )


def classify_response(fetched: Fetched | None) -> tuple[str, bool]:
    """Return the error word of a delivery, empty for success, and whether a later attempt may succeed.

    Forbidden, refusing, silent and unknown addresses give the same word. Otherwise, someone could enter
    addresses and names and so map this server's network (S13). Certificates are only read where Eventr may
    send, so an invalid one tells nothing of it.
    """
    if fetched is None or fetched.status == 0:
        word = fetched.error.word if fetched and fetched.error else ""
        return word if word == "tls_failed" else "unreachable", True
    if fetched.error is None:
        return "", False
    status = fetched.status
    return f"http_{status}", status in _PASSING or status >= 500


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _join(address: str, path: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/{path}"


def _is_topic(url: str) -> bool:
    parts = urlsplit(url)
    return len(parts.path.strip("/").split("/")) == 1 and bool(parts.path.strip("/")) and not parts.query


def _get_title(entry: SentEntry) -> str:
    return _shorten(entry.title or entry.feed_title, TITLE)


def _get_text(entry: SentEntry) -> str:
    """Return the text below the title, which must not be empty."""
    named = entry.feed_title if entry.title else ""
    return _shorten(entry.excerpt, EXCERPT) or named or _get_link(entry)


def _get_link(entry: SentEntry) -> str:
    return entry.url if entry.url and len(entry.url.encode()) <= LINK_MAX else entry.own_url


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def _get_page(entry: SentEntry) -> str:
    if not entry.url.startswith(("https://", "http://")):
        raise NoPageError
    return entry.url
