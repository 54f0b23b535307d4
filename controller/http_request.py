"""HTTP of the controller's only request, ``GET /events``. Pure functions: bytes in, parsed request out."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
from urllib.parse import parse_qs, urlsplit

from app.errors import AuthRequiredError, EventrError, ForbiddenError, InvalidError, NotFoundError
from app.runtime.http_head import parse_request_head
from controller.audience import Place, parse_place

PATH = "/events"
_TEXT_MAX = 1024
_COMMON = (
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nVary: Cookie\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n"
)
#: The header makes nginx pass the stream on without buffering.
OPENING = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    f"X-Accel-Buffering: no\r\n{_COMMON}\r\n"
).encode()
_REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    503: "Service Unavailable",
}


@dataclasses.dataclass(frozen=True, slots=True)
class EventsRequest:
    """A browser's request for the event stream.

    Attributes:
        token: The signed pass.
        after: The position to resume after; None: the pass's position.
        forwarded: The addresses in ``X-Forwarded-For``, the nearest last.
    """

    token: str
    after: Place | None
    forwarded: tuple[str, ...]


def parse(head: bytes) -> EventsRequest:
    """Read a request's head, up to its empty line.

    Raises:
        InvalidError: The request violates HTTP, or isn't one for an event stream.
        NotFoundError: The request is for another path.
        ForbiddenError: A page of another site sent it.
        AuthRequiredError: The request has no pass.
    """
    try:
        request = parse_request_head(head)
    except ValueError:
        raise InvalidError from None
    if not request.target.startswith("/"):
        raise InvalidError
    url = urlsplit(request.target)
    if url.path != PATH:
        raise NotFoundError
    if request.method != "GET":
        raise InvalidError("Use GET to open the event stream.")
    headers = request.fields
    # The pass authorizes the request; browsers also report whether one of our pages sent it.
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise ForbiddenError("This request came from another site.")
    return _wish(url.query, headers)


def _wish(query: str, headers: dict[str, str]) -> EventsRequest:
    asked = parse_qs(query, max_num_fields=8) if len(query) <= 2 * _TEXT_MAX else {}
    token = asked.get("pass", [""])[0]
    if not token or len(token) > _TEXT_MAX:
        raise AuthRequiredError
    last = headers.get("last-event-id") or asked.get("after", [""])[0]
    try:
        after = parse_place(last) if last else None
    except ValueError:
        after = None  # some proxies invent an id; the pass says where to begin
    forwarded = tuple(part.strip() for part in headers.get("x-forwarded-for", "").split(",") if part.strip())
    return EventsRequest(token, after, forwarded)


def build_refusal(error: EventrError) -> bytes:
    """Return the complete answer for an error, in the same shape as all errors."""
    status = error.http_status
    body = json.dumps({"error": error.word, "message": error.message}).encode()
    again = "Retry-After: 30\r\n" if status in (429, 503) else ""
    return (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{again}{_COMMON}\r\n"
    ).encode() + body


def find_client_address(peer: str, forwarded: tuple[str, ...], proxies: int) -> str:
    """Return the client's address; for IPv6 only its first half, which identifies one household.

    Args:
        peer: The other end of the connection; empty for a unix socket.
        forwarded: The addresses in ``X-Forwarded-For``, the nearest last.
        proxies: The number of trusted proxies in front; as many entries of ``forwarded`` are trusted.
    """
    text = forwarded[-proxies] if proxies and len(forwarded) >= proxies else peer
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text[:64]
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped or ipaddress.ip_network((address, 64), strict=False).network_address)
    return str(address)


def format_event(kind: str, data: object, at: str = "") -> bytes:
    """Return one event as it is sent."""
    head = f"id: {at}\n" if at else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
